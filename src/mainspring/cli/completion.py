"""`mainspring completion`: a script that completes commands and options in a shell.

It holds all words itself: a key in the shell starts no Python, and no application is imported. It is
made anew after an upgrade.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from mainspring.cli import show


class Shell(StrEnum):
    """The shells that there is a script for."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


class Word(NamedTuple):
    """What may stand in a place, and what it is for."""

    text: str
    help: str


Words = Mapping[str, Sequence[Word]]  # by the commands before them: "", "tasks", "tasks list"


def completion(
    shell: Annotated[Shell, typer.Argument(help="Of this shell.")],
) -> None:
    """Print the script that completes commands and options in a shell.

    bash: mainspring completion bash > ~/.local/share/bash-completion/completions/mainspring;
    zsh: mainspring completion zsh > a directory of $fpath, as _mainspring;
    fish: mainspring completion fish > ~/.config/fish/completions/mainspring.fish.
    """
    show.write(script(shell))


def script(shell: Shell) -> str:
    """The script of a shell."""
    return _SCRIPTS[shell](words())


def words() -> dict[str, list[Word]]:
    """All words of the command line, by the commands that stand before them."""
    from mainspring.cli.commands import COMMANDS, load

    found = {"": [Word(name, place.help) for name, place in COMMANDS.items()]}
    for name in COMMANDS:
        found |= _below(name, load(name))
    return found


def _below(path: str, command: object) -> Iterator[tuple[str, list[Word]]]:
    """The words after a command, and after those in it."""
    assert isinstance(command, TyperCommand | TyperGroup), f"{path} is no command"
    options = [p for p in command.params if isinstance(p, TyperOption) and not p.hidden]
    found = [
        Word(text, option.help or "")
        for option in options
        for text in (*option.opts, *option.secondary_opts)
        if text.startswith("--")
    ]
    inner = command.commands if isinstance(command, TyperGroup) else {}
    found += [Word(name, each.get_short_help_str(200)) for name, each in inner.items()]
    yield path, [*found, Word("--help", "Show what it does.")]
    for name, each in inner.items():
        yield from _below(f"{path} {name}", each)


def _bash(found: Words) -> str:
    cases = "\n".join(
        f'    "{path}") words="{" ".join(word.text for word in listed)}" ;;'
        for path, listed in found.items()
    )
    return _BASH.format(known=_known(found), cases=cases)


def _zsh(found: Words) -> str:
    cases = []
    for path, listed in found.items():
        told = "\n".join(f"      {_quoted(f'{_escaped(w.text)}:{w.help}')}" for w in listed)
        cases.append(f'    "{path}") words=(\n{told}\n    ) ;;')
    return _ZSH.format(known=_known(found), cases="\n".join(cases))


def _fish(found: Words) -> str:
    lines = []
    for path, listed in found.items():
        at = f"test (__mainspring_at) = {_quoted(path)}"
        for word in listed:
            kind = f"-l {word.text[2:]}" if word.text.startswith("--") else f"-f -a {word.text}"
            lines.append(f'complete -c mainspring -n "{at}" {kind} -d {_quoted(word.help)}')
    return _FISH.format(known=_known(found), lines="\n".join(lines))


def _known(found: Words) -> str:
    return " ".join(_quoted(path) for path in found if path)


def _quoted(text: str) -> str:
    """As a word of any of the shells: none of our texts needs its quote."""
    return "'" + text.replace("'", "\N{RIGHT SINGLE QUOTATION MARK}").replace("\\", "/") + "'"


def _escaped(text: str) -> str:
    return text.replace(":", "\\:")


_BASH = """\
# Completion of mainspring for bash.
_mainspring() {{
  local at="" word next words current="${{COMP_WORDS[COMP_CWORD]}}"
  local -a known=({known})
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    next="${{at:+$at }}$word"
    for one in "${{known[@]}}"; do
      if [ "$one" = "$next" ]; then at="$next"; break; fi
    done
  done
  case "$at" in
{cases}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _mainspring mainspring"""

_ZSH = """\
#compdef mainspring
_mainspring() {{
  local at="" word next
  local -a known=({known}) words_before=("${{(@)words[2,CURRENT-1]}}")
  for word in $words_before; do
    next="${{at:+$at }}$word"
    if (( ${{known[(Ie)$next]}} )); then at="$next"; fi
  done
  _mainspring_words "$at"
}}
_mainspring_words() {{
  local -a words
  case "$1" in
{cases}
  esac
  _describe 'mainspring' words
}}
if [ "$funcstack[1]" = "_mainspring" ]; then _mainspring "$@"; else compdef _mainspring mainspring; fi"""

_FISH = """\
# Completion of mainspring for fish.
function __mainspring_at
  set -l at ''
  for word in (commandline -opc)[2..-1]
    set -l next (string trim "$at $word")
    if contains -- $next {known}
      set at $next
    end
  end
  echo "$at"
end
{lines}"""

_SCRIPTS: Mapping[Shell, Callable[[Words], str]] = {
    Shell.bash: _bash,
    Shell.zsh: _zsh,
    Shell.fish: _fish,
}
