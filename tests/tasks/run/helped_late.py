"""A function whose result takes long to be written, when its event loop has gone."""

from __future__ import annotations

import time
from pathlib import Path

from pydantic import BaseModel, field_serializer


class Report(BaseModel):
    mark: str

    @field_serializer("mark")
    def slow(self, mark: str) -> str:
        try:
            Path(mark).touch()  # from here on it may be told to end
            time.sleep(60)
        finally:
            Path(mark).write_text("cleaned up")
        return mark


async def encodes_late(mark: str) -> Report:
    return Report(mark=mark)
