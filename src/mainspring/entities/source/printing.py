"""How rows are printed as JSON: the same in every session, so that texts can be compared."""

from __future__ import annotations

from collections.abc import Mapping

PRINTING: Mapping[str, str] = {
    "timezone": "UTC",
    "datestyle": "ISO, YMD",
    "intervalstyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
}
LOCAL_PRINTING = "; ".join(f"set local {name} = '{value}'" for name, value in PRINTING.items())
