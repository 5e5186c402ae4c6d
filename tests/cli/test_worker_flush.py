"""T13: what a worker process holds back - the reports of a failure - is sent before it ends."""

from __future__ import annotations

import subprocess
import sys

APP = """
    import atexit
    import pathlib
    from mainspring import Mainspring, RetryPolicy

    app = Mainspring()
    reports = []

    @app.hooks.failure
    def report(failed):
        reports.append(repr(failed.error))

    @app.hooks.worker_stop
    def stopped():
        reports.append("stopped")

    @atexit.register
    def flush():
        if reports:  # the supervisor, which imports this too, has none
            pathlib.Path("sent").write_text(" ".join(reports))

    @app.task(retry=RetryPolicy(attempts=1))
    async def fail(n: int):
        raise ValueError(n)
"""


def test_a_worker_process_flushes_its_reports_before_it_ends(
    module, spawn, cli, tmp_path, database_url
):
    module("shop", APP)
    given = ("fail", '{"n": 7}', "--app", "shop:app", "--url", database_url)
    assert cli("tasks", "enqueue", *given).code == 0
    process = spawn("worker", "shop:app", "--drain")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert (tmp_path / "sent").read_text() == "ValueError(7) stopped"


def test_what_hangs_at_the_end_of_a_process_keeps_it_for_a_bounded_time():
    program = (
        "import atexit, threading\n"
        "from mainspring.cli import child\n"
        "atexit.register(threading.Event().wait)\n"
        "child._ATEXIT_SECONDS = 0.05\n"
        "child._leave(3)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode == 3
