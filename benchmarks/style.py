"""The look of the report: colours and its style sheet, light and dark."""

from __future__ import annotations

PALETTE = ("#b86e00", "#2f7d4f", "#9a3b6b", "#3a6ea5", "#7a5cc0", "#4f8a8b", "#a0522d", "#66752a")

STYLE = """
:root { --paper:#fbfaf7; --ink:#1f2328; --soft:#6a6f76; --rule:#e3e0d8; --ours:#c8372d;
  --bare:#9aa0a6; --peer:#8fa6bd }
@media (prefers-color-scheme: dark) { :root { --paper:#16181b; --ink:#e6e4df; --soft:#9a9fa6;
  --rule:#2c3036; --ours:#ff6b5e; --bare:#6b7178; --peer:#5c7691 } }
* { box-sizing:border-box }
body { margin:0 auto; padding:3rem 1.25rem 5rem; max-width:860px; background:var(--paper);
  color:var(--ink); font:16px/1.55 system-ui, sans-serif }
h1 { font-size:2rem; letter-spacing:-.02em; margin:0 0 .25rem }
h2 { font-size:1.15rem; margin:3rem 0 .1rem }
p { margin:.2rem 0 1rem } .soft { color:var(--soft); font-size:.92rem }
.tiles { display:grid; grid-template-columns:repeat(auto-fit,minmax(140px,1fr)); gap:.75rem;
  margin:2rem 0 }
.tiles div { border-top:3px solid var(--ours); padding:.6rem .1rem; font-size:.9rem }
.tiles b { display:block; font-size:1.7rem;
  font-variant-numeric:tabular-nums; color:var(--ours) }
svg { width:100%; height:auto; overflow:visible } svg text { font-size:13px; fill:var(--ink) }
svg text.value, svg text.tick { fill:var(--soft); font-size:12px }
svg text.mainspring { fill:var(--ours); font-weight:600 }
.bar { fill:var(--peer) } .bar.mainspring { fill:var(--ours) } .bar.bare { fill:var(--bare) }
.mark { stroke:var(--soft); stroke-dasharray:3 3; opacity:.7 }
.whisker { stroke:var(--ink); fill:none; opacity:.55 } .grid { stroke:var(--rule) }
.line { fill:none; stroke-width:2; stroke-linejoin:round }
.line.mainspring { stroke:var(--ours); stroke-width:3 } .line.bare { stroke:var(--bare) }
.targets td:nth-child(3) { text-align:right; font-variant-numeric:tabular-nums }
.targets tr.missed td { color:var(--ours) } .targets tr.kept td:last-child::before { content:"✓ " }
.targets tr.missed td:last-child::before { content:"✗ " }
table { border-collapse:collapse; width:100%; font-size:.82rem; margin-top:1rem }
th, td { text-align:left; padding:.3rem .5rem; border-bottom:1px solid var(--rule) }
.wide td:nth-child(n+3):nth-child(-n+7):not(:nth-child(4)) { text-align:right;
  font-variant-numeric:tabular-nums; white-space:nowrap }
tr.mainspring td { font-weight:600 } tr.lost td { color:var(--soft) } .wide { overflow-x:auto }
"""
