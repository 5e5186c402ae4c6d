"""Errors a user meets: one clear line on standard error, and an exit code that means something."""

from __future__ import annotations

import pytest

from mainspring import Mainspring
from mainspring.errors import InvalidUrl


def complaint(answer) -> str:
    assert answer.out == ""
    assert answer.err.count("\n") == 1
    assert "Traceback" not in answer.err
    return answer.err


def test_help_documents_the_exit_codes(cli):
    answer = cli("--help")

    assert answer.code == 0
    assert "3 the database is not available" in " ".join(answer.out.split())


@pytest.mark.parametrize(
    "group", [("tokens",), ("sources",), ("sources", "rejects"), ("entities",)]
)
def test_help_says_whole_what_each_command_of_a_group_is_for(cli, group, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    answer = cli(*group, "--help")

    assert "Commands:" in answer.out
    assert "..." not in answer.out.partition("Commands:")[2]


def test_an_unknown_command_is_wrong_usage(cli):
    assert cli("wrok").code == 2


def test_no_database_is_named(cli):
    answer = cli("status")

    assert answer.code == 2
    assert "no database is named: give --url" in complaint(answer)


def test_a_database_that_is_not_there(cli):
    answer = cli("status", "--url", "postgresql://nobody:secret@127.0.0.1:1/x")

    assert answer.code == 3
    assert "cannot connect to PostgreSQL at 127.0.0.1:1, database x" in complaint(answer)
    assert "secret" not in answer.err


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("host=127.0.0.1 port=1 password=s3cret", 3),
        ("postgresql://127.0.0.1:1/x?password=s3cret&user=b", 3),
        ("postgresql://bob:s3cret@[::1/x", 2),
        ("mysql://bob:s3cret@h/x", 2),
        ("postgresql://bob:s3cret@h:abc/x", 2),
        ("postgresql://bob:s3cret@h:99999/x", 2),
        ("pasword=s3cret", 2),
    ],
)
def test_a_password_is_never_shown(cli, url, code):
    answer = cli("status", "--url", url)

    assert answer.code == code
    assert "database address" in answer.err or "cannot connect" in answer.err
    assert "s3cret" not in answer.err + answer.out


def test_a_database_without_schema(cli, mainspring_server):
    with mainspring_server.database(migrated=False) as url:
        answer = cli("status", "--url", url)

    assert answer.code == 1
    assert "run mainspring migrate" in complaint(answer)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("nowhere:app", "there is no module 'nowhere'"),
        ("place:ap", "module 'place' has no 'ap'; did you mean 'app'?"),
        ("place:number", "'place:number' is a int, not a Mainspring"),
        (":app", "write the application as module:name, got ':app'"),
        (
            "broken:app",
            "module 'broken' cannot be imported: ZeroDivisionError: division by zero at",
        ),
        ("lacking:app", "module 'lacking' cannot be imported: ModuleNotFoundError"),
        (
            "bare:app",
            "module 'bare' cannot be imported: reading records of Kafka is not installed "
            "(confluent_kafka is missing); install it with: pip install 'mainspring[kafka]' at",
        ),
    ],
)
def test_an_application_that_cannot_be_had(cli, module, place, message):
    module(
        "place",
        "from mainspring import Mainspring\napp = Mainspring('postgresql:///x')\nnumber = 1",
    )
    module("broken", "1 / 0")
    module("lacking", "import not_installed_anywhere")
    module(
        "bare",
        "from importlib import import_module\n"
        "from mainspring.errors import MissingExtra\n"
        "raise MissingExtra('reading records of Kafka', 'confluent_kafka', 'kafka')",
    )

    answer = cli("worker", place)

    assert answer.code == 2
    assert message in complaint(answer)


@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [
        ("--lease", "0.01", "lease must be 0.2 to 3600, got 0.01"),
        ("--history-days", "0", "history_days must be 1 to 36500, got 0"),
    ],
)
def test_a_setting_out_of_range_is_refused_before_anything_starts(
    cli, module, setting, value, words
):
    module("place", "from mainspring import Mainspring\napp = Mainspring('postgresql:///x')")

    answer = cli("worker", "place:app", setting, value)

    assert answer.code == 2
    assert words in complaint(answer)


@pytest.mark.parametrize("command", [("worker",), ("dev",), ("check",), ("reactive", "apply")])
def test_no_application_is_named(cli, command):
    answer = cli(*command)

    assert answer.code == 2
    assert (
        "no application is named: write it as module:name, or set MAINSPRING_APP=module:name"
        in complaint(answer)
    )


def test_a_database_address_that_is_no_text():
    with pytest.raises(InvalidUrl, match="address must be a text such as postgresql"):
        Mainspring(5)


def test_an_unknown_queue_names_the_nearest(cli, database_url, visits):
    answer = cli("queues", "pause", "rin", "--url", database_url)

    assert answer.code == 4
    assert "no queue is named 'rin'; did you mean 'ring'?" in complaint(answer)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("parked", "restart"), 2, "name which ones"),
        (("history", "--since", "yesterday"), 2, "--since must be a time with its zone"),
        (("history", "--since", "2026-01-01T00:00"), 2, "--since must be a time with its zone"),
        (("history", "--outcome", "fine"), 2, "outcome must be one of"),
        (("queues", "limit", "ring"), 2, "name a limit"),
        (("queues", "limit", "ring", "--concurrency", "0"), 2, "pause the queue"),
        (("tasks", "enqueue", "ring", "[1]"), 2, "must be a JSON object"),
        (("history", "--queue", "rng"), 4, "no queue is named 'rng'; did you mean 'ring'?"),
        (("put-back", "--queue", "rng"), 4, "no queue is named 'rng'; did you mean 'ring'?"),
        (("tasks", "list", "-q", "rng"), 4, "no queue is named 'rng'; did you mean 'ring'?"),
        (("parked", "list", "-q", "rng"), 4, "no queue is named 'rng'; did you mean 'ring'?"),
        (("parked", "groups", "-q", "rng"), 4, "no queue is named 'rng'; did you mean 'ring'?"),
        (("parked", "delete", "-q", "rng"), 4, "no queue is named 'rng'; did you mean 'ring'?"),
        (("parked", "restart", "-q", "rng"), 4, "no queue is named 'rng'; did you mean 'ring'?"),
        (("tasks", "enqueue", "rng"), 4, "did you mean 'ring'"),
        (("tasks", "show", "none"), 4, "no task 'none' is live or in history"),
        (("tasks", "cancel", "ring", "none"), 4, "has no visit 'none'"),
        (("operations", "show", "7"), 4, "there is no operation 7"),
        (("recurring", "pause", "x"), 4, "no schedule is named 'x'"),
    ],
)
def test_each_wrong_order_has_its_line_and_code(
    cli, visits, database_url, arguments, code, message
):
    answer = cli(*arguments, "--url", database_url)

    assert answer.code == code
    assert message in complaint(answer)
