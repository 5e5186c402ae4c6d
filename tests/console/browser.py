"""A real browser: Debian's Chromium, found or installed, driven by Playwright.

Where neither can be, the tests that need it are skipped by name.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import pytest
from playwright.async_api import Page, async_playwright

INSTALL_SECONDS = 400
WIDE, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}


@cache
def chromium() -> str | None:
    """Its program; as root it is installed where apt can bring it."""
    if found := shutil.which("chromium"):
        return found
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        return None
    quiet = {"DEBIAN_FRONTEND": "noninteractive", **os.environ}
    for words in (["update"], ["install", "-y", "--no-install-recommends", "chromium"]):
        subprocess.run(
            [apt, "-q", "-o", "DPkg::Lock::Timeout=300", *words],
            env=quiet,
            capture_output=True,
            timeout=INSTALL_SECONDS,
        )
    return shutil.which("chromium")


@asynccontextmanager
async def browsing(
    *,
    size: dict[str, int] = WIDE,
    dark: bool = False,
    script: bool = True,
    expected: str | None = None,
) -> AsyncIterator[Page]:
    """A page of a fresh browser; what it complains of fails the test, but for the `expected`."""
    program = await asyncio.to_thread(chromium)
    if program is None:
        pytest.skip("there is no Chromium, and no apt that could bring it")
    complaints: list[str] = []
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        context: Any = await browser.new_context(
            viewport=size,
            color_scheme="dark" if dark else "light",
            java_script_enabled=script,
            timezone_id="Asia/Tokyo",
        )
        page: Page = await context.new_page()
        page.set_default_timeout(20_000)
        page.on(
            "console", lambda said: complaints.append(said.text) if said.type == "error" else None
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        yield page
        await browser.close()
    assert not [text for text in complaints if expected is None or expected not in text]


if __name__ == "__main__":  # before the tests: apt may take longer than one of them has
    chromium()
