"""`mainspring rights`: the grants of each role as SQL that can be applied as it is printed."""

from __future__ import annotations

import psycopg
import pytest

from mainspring.db.schema import rights
from roles import Roles, roles


@pytest.fixture
def cast(database_url: str):
    with roles(database_url) as found:
        yield found


@pytest.mark.parametrize(
    "arguments",
    [
        ("enqueue",),
        ("enqueue", "--queue", "it's \\ closed", "--offers", "--trusted"),
        ("params", "--rewinds"),
        ("worker",),
        ("operator",),
    ],
)
def test_what_is_printed_can_be_applied_twice(cli, cast: Roles, arguments: tuple[str, ...]) -> None:
    """X4: nothing is changed by the command itself."""
    role = cast.make("odd")
    command, *options = arguments
    printed = cli("rights", command, role, *options)
    assert printed.code == 0, printed.err
    assert not cast.value(f"select has_schema_privilege('{role}', 'mainspring', 'usage')")

    cast.run(printed.out)
    cast.run(printed.out)

    assert cast.value(f"select has_schema_privilege('{role}', 'mainspring', 'usage')")
    if "--queue" in arguments:
        assert cast.value("select queue from mainspring.entry") == "it's \\ closed"


def test_the_owner_and_its_migrator_make_a_schema_that_is_the_owners(
    cli, mainspring_server
) -> None:
    """X6: a role without login owns everything, a login migrates as it."""
    with (
        mainspring_server.database(migrated=False) as url,
        psycopg.connect(url, autocommit=True) as connection,
    ):
        name = connection.info.dbname
        owner, login = f"owner_{name}", f"migrator_{name}"
        printed = cli("rights", "owner", owner, "--database", name, "--migrator", login)
        connection.execute(printed.out.encode())
        try:
            done = cli("migrate", "--url", url.replace("postgres@", f"{login}@", 1))
            assert done.code == 0, done.err
            owners = connection.execute(
                "select distinct relowner::regrole::text from pg_class"
                " where relnamespace = 'mainspring'::regnamespace"
            ).fetchall()
            assert owners == [(owner,)]
        finally:
            connection.execute(f"drop owned by {owner}, {login} cascade".encode())
            connection.execute(f"drop role {login}, {owner}".encode())


def test_a_role_name_that_no_role_can_have_is_refused(cli) -> None:
    refused = cli("rights", "worker", "x" * 64)

    assert refused.code != 0
    assert "must have 1 to 63 bytes" in refused.err


@pytest.mark.parametrize(
    "command",
    [
        *("status", "metrics", "queues list", "queues pause greet", "tasks list", "history"),
        *("parked list", "parked groups", "operations list", "recurring list", "why greet"),
        *("processes list", "processes why x", "processes counters", "processes changes"),
        *("entities list", "reactive list", "params list", "params show a.b"),
    ],
)
def test_a_role_that_may_not_look_is_told_which_right_it_lacks_and_who_prints_it(
    cli, cast: Roles, command: str
) -> None:
    """X4: never a bare word of the server's."""
    cast.make("web", rights.enqueue("{role}"))

    refused = cli(*command.split(), "--url", cast.address("web"))

    assert refused.code == 1, refused.err
    assert "may not" in refused.err
    assert "permission denied for" in refused.err
    assert "mainspring rights operator ROLE" in refused.err
