"""Schemathesis asks what the description allows and forbids: no fault of ours, answers that conform."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from http_caller import caller_of
from served_process import Served

CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,"
    "response_headers_conformance,response_schema_conformance"
)


@pytest.mark.timeout(400)
def test_schemathesis_finds_no_fault(served: Served) -> None:
    served.start_http()
    token = caller_of(served).token
    ran = subprocess.run(
        [
            str(Path(sys.executable).with_name("schemathesis")),
            *("run", f"http://{served.http_address}/openapi.json"),
            *("--header", f"Authorization: Bearer {token}"),
            *("--checks", CHECKS, "--phases", "examples,coverage,fuzzing"),
            *("--max-examples", "10", "--seed", "7", "--mode", "all"),
            *("--exclude-path", "/openapi.json", "--no-color", "--workers", "1"),
        ],
        capture_output=True,
        text=True,
        timeout=390,
        cwd=served.folder,
    )
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
    asked = re.search(r"(\d+) generated, \1 passed", ran.stdout)
    assert asked is not None, ran.stdout[-2000:]
    assert int(asked[1]) > 500
