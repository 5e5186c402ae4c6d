"""The look of the report: the names and colours of the systems, and the style sheet, light and dark."""

from __future__ import annotations

# A system has one colour everywhere, in every report: of its bars, its lines and its name.
# Peers are muted, so that the one the page is about stands out. (title, light, dark)
LOOKS: dict[str, tuple[str, str, str]] = {
    "mainspring": ("Mainspring", "#d3382c", "#ff6f61"),
    "bare": ("bare loop", "#8b9198", "#7d848c"),
    "pgqueuer": ("PgQueuer", "#c98a1b", "#d9a441"),
    "procrastinate": ("Procrastinate", "#5f8f3e", "#86b562"),
    "chancy": ("chancy", "#2c8f86", "#4fb5ab"),
    "awa": ("awa", "#3b7fb8", "#62a5dc"),
    "graphile": ("Graphile", "#5a63c0", "#8a93ea"),
    "dbos": ("DBOS", "#8b58b5", "#b487dc"),
    "absurd": ("absurd", "#b1538f", "#d985b9"),
    "oban": ("Oban", "#8a6a4f", "#b8967a"),
    "celery": ("Celery", "#6c8a2a", "#a3c05a"),
    "dramatiq": ("Dramatiq", "#4d6f87", "#7ea3bd"),
}


def title(system: str) -> str:
    return LOOKS[system][0] if system in LOOKS else system


def colours() -> str:
    """A variable for each system, and the classes that use it."""
    light = "".join(f"--{name}:{tint};" for name, (_, tint, _) in LOOKS.items())
    dark = "".join(f"--{name}:{tint};" for name, (_, _, tint) in LOOKS.items())
    classes = "".join(f".{name}{{--tint:var(--{name})}}" for name in LOOKS)
    return (
        f":root{{{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}"
        f".row,.line,.end,.chip{{--tint:var(--bare)}}{classes}"
    )


STYLE = """
:root { color-scheme:light dark; --paper:#faf8f4; --card:#ffffff; --ink:#1d2127; --soft:#646b74;
  --rule:#e6e2d9; --good:#2f7d4f; --bad:#b3261e; --shade:0 1px 2px #0000000d, 0 6px 24px #0000000a }
@media (prefers-color-scheme:dark) { :root { --paper:#121417; --card:#1a1d21; --ink:#e9e7e2;
  --soft:#9aa1a9; --rule:#2b3036; --good:#6cc08b; --bad:#ff8a80; --shade:none } }
* { box-sizing:border-box }
html { scroll-behavior:smooth }
body { margin:0 auto; padding:clamp(1.5rem,4vw,4rem) clamp(1rem,4vw,2.5rem) 5rem; max-width:1240px;
  background:var(--paper); color:var(--ink); font:16px/1.55 system-ui,-apple-system,"Segoe UI",sans-serif }
h1 { font-size:clamp(2rem,5vw,3.2rem); line-height:1.08; letter-spacing:-.03em; margin:0 0 .6rem }
h1 em { font-style:normal; color:var(--mainspring) }
h2 { font-size:1.55rem; letter-spacing:-.015em; margin:3.5rem 0 1rem }
h3 { font-size:1.05rem; margin:0 }
p { margin:.2rem 0 1rem; max-width:72ch } .soft { color:var(--soft); font-size:.9rem }
a { color:inherit }
nav { display:flex; flex-wrap:wrap; gap:.4rem 1.2rem; margin:1.5rem 0 0; font-size:.92rem }
nav a { text-decoration-color:var(--rule); text-underline-offset:.3em }
.tiles { display:grid; grid-template-columns:repeat(auto-fit,minmax(150px,1fr)); gap:.8rem;
  margin:2rem 0 0 }
.tiles div { background:var(--card); box-shadow:var(--shade); border:1px solid var(--rule);
  border-radius:12px; padding:1rem 1.1rem; font-size:.88rem; line-height:1.35; color:var(--soft) }
.tiles b { display:block; font-size:2.1rem; line-height:1.1; letter-spacing:-.02em; margin-bottom:.25rem;
  font-variant-numeric:tabular-nums; color:var(--mainspring) }
.cards { display:grid; grid-template-columns:repeat(auto-fit,minmax(min(100%,500px),1fr)); gap:1.1rem }
section { background:var(--card); box-shadow:var(--shade); border:1px solid var(--rule); border-radius:14px;
  padding:1.2rem 1.3rem 1.3rem; min-width:0 }
section.broad { grid-column:1/-1 }
section > .soft { margin:.1rem 0 .9rem }
section > .missing { margin:.8rem 0 0; font-size:.8rem }
.row { display:grid; grid-template-columns:7.6rem minmax(4rem,1fr) 7.2rem 6.2rem; gap:0 .7rem;
  align-items:center; font-size:.86rem; line-height:1.9rem; font-variant-numeric:tabular-nums }
.row .who { text-align:right; white-space:nowrap; overflow:hidden; text-overflow:ellipsis }
.row .value { white-space:nowrap } .row .value small { color:var(--soft) }
.row .ratio { color:var(--soft); font-size:.78rem; white-space:nowrap }
.track { position:relative; height:1.05rem }
.track i { position:absolute; inset:0 auto 0 0; border-radius:2px 5px 5px 2px; min-width:2px;
  background:var(--tint); opacity:.62 }
.track u { position:absolute; top:50%; height:0; border-top:1.5px solid var(--ink); opacity:.5 }
.track u::before, .track u::after { content:""; position:absolute; top:-4px; height:7px;
  border-left:1.5px solid var(--ink) }
.track u::before { left:0 } .track u::after { right:0 }
.track s { position:absolute; top:-.45rem; bottom:-.45rem; border-left:1.5px dashed var(--soft) }
.row.mainspring .who, .row.mainspring .value { font-weight:650 } .row.mainspring .who { color:var(--tint) }
.row.mainspring .track i { opacity:1 } .row.bare .track i { opacity:.45 }
@media (max-width:560px) { .row { grid-template-columns:6rem minmax(3rem,1fr) 6.4rem; line-height:1.6rem }
  .row .ratio { grid-column:2/-1; margin:-.35rem 0 .2rem } .row .ratio:empty { display:none } }
.scroll { overflow-x:auto }
svg { display:block; width:100%; min-width:480px; height:auto; overflow:visible }
svg text { font-size:12.5px; fill:var(--soft) } svg .end { fill:var(--tint); font-size:12.5px }
svg .end.mainspring { font-weight:700 }
.grid { stroke:var(--rule) } .axis { stroke:var(--soft); opacity:.6; fill:none }
.mark { stroke:var(--soft); stroke-dasharray:3 4; opacity:.7 }
.line { fill:none; stroke:var(--tint); stroke-width:1.8; stroke-linejoin:round; opacity:.85;
  transition:opacity .15s }
.line.mainspring { stroke-width:3.4; opacity:1 } .line.bare { stroke-dasharray:5 4 }
svg:hover .line { opacity:.25 } svg .line:hover { opacity:1; stroke-width:3.4 }
.chips { display:flex; flex-wrap:wrap; gap:.15rem .9rem; margin:0 0 .5rem; font-size:.8rem;
  color:var(--soft) }
.chip::before { content:""; display:inline-block; width:1.1em; height:.28em; border-radius:1em;
  margin-right:.4em; vertical-align:.2em; background:var(--tint) }
.chip.mainspring { color:var(--ink); font-weight:650 }
table { border-collapse:collapse; width:100%; font-size:.84rem }
th, td { text-align:left; padding:.34rem .6rem; border-bottom:1px solid var(--rule) }
th { color:var(--soft); font-weight:500 }
.targets td:nth-child(3) { text-align:right; font-variant-numeric:tabular-nums; white-space:nowrap }
.targets tr.kept td:last-child { white-space:nowrap; color:var(--good) }
.targets tr.kept td:last-child::before { content:"✓ " }
.targets tr.missed td { color:var(--bad) } .targets tr.missed td:last-child::before { content:"✗ " }
details { margin-top:3rem } summary { cursor:pointer; font-size:1.2rem; font-weight:650 }
.all td:nth-child(n+3):nth-child(-n+7):not(:nth-child(4)) { text-align:right;
  font-variant-numeric:tabular-nums; white-space:nowrap }
tr.mainspring td { font-weight:600 } tr.lost td { color:var(--soft) }
footer { margin-top:3rem; color:var(--soft); font-size:.85rem }
@media print { section { break-inside:avoid; box-shadow:none } details { display:none } }
"""
