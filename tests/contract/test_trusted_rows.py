"""X3: whatever rows a trusted role inserts, a pool of two workers goes on, and the doctor names them."""

from __future__ import annotations

from mainspring import Mainspring
from mainspring.db.schema import rights
from mainspring.testing import wait_until
from roles import roles
from visits import Visits, queue
from workers import Gauge, working

ROW = {
    "shard": "1",
    "id": "gen_random_uuid()",
    "version": "(random() * 1e15)::bigint",
    "payload": "'{}'",
    "due_at": "now()",
}
SOUND = "'00000000-0000-7000-8000-00000000000a'"  # the id of a visit that is as it should be
# What can never be run, with what the doctor says of it.
STUCK = {
    "shard below": ({"shard": "-1"}, "outside the shards"),
    "shard above": ({"shard": "70000"}, "outside the shards"),
    "shard between": ({"shard": "5000"}, "outside the shards"),
    "shard of another route": ({"grp": "'g'", "shard": "3"}, "not its route's"),
    "priority below": ({"priority": "-5"}, "can never be read"),
    "priority above": ({"priority": "99"}, "can never be read"),
    "due before all": ({"due_at": "'-infinity'"}, "can never be read"),
    "due 4000 BC": ({"due_at": "'4000-01-01 BC'"}, "can never be read"),
    "due never": ({"due_at": "'infinity'"}, "can never be read"),
    "due too late": ({"due_at": "'20000-01-01'"}, "can never be read"),
}
# What is run like any other, for good or ill.
RUN = {
    "list": {"payload": "'[1, 2]'"},
    "text": {"payload": "'\"text\"'"},
    "nothing": {"payload": "'null'"},
    "number": {"payload": "'1e400'"},
    "made later": {"created_at": "'infinity'"},
    "expires never": {"expires_at": "'infinity'"},
    "version below": {"version": "-9223372036854775808"},
    "id of another": {"id": SOUND},
}


def insert(key: str, columns: dict[str, str]) -> str:
    row = {**ROW, **columns}
    names = ", ".join(row)
    return (
        f"insert into mainspring.visit (key, queue, {names}) values ('{key}', 'ring',"
        f" {', '.join(row.values())})"
    )


async def test_no_row_of_a_trusted_role_stops_another(visits: Visits, database_url: str) -> None:
    """X3: attacks 44 to 46, and all else that the columns' types let through."""
    ring = queue(handler=Gauge(seconds=0))
    visits.register(ring)
    owners = "select count(distinct worker_id) from mainspring.lease"
    # The group that lies in another's shard may run: its owner there knows no better.
    stuck = [key for key in STUCK if key != "shard of another route"]
    left = "select array_agg(key order by key) from mainspring.visit"
    with roles(database_url) as cast:
        cast.make("trusted", rights.enqueue("{role}", trusted=True))
        visits.query("update mainspring.queue set paused_at = now()")
        with cast.session("trusted") as trusted:
            for key, (columns, _) in STUCK.items():
                trusted.execute(insert(key, columns).encode())
            for key, columns in RUN.items():
                trusted.execute(insert(key, columns).encode())
            trusted.execute(insert("sound", {"id": SOUND}).encode())

        async with Mainspring(database_url) as app:
            texts = [f.text for f in await app.operator.doctor() if f.name == "violations"]
            for key, (_, rule) in STUCK.items():
                assert any(rule in text and text.endswith(f"ring {key}") for text in texts), key
            assert not any(text.endswith(f"ring {key}") for text in texts for key in RUN)

            async with working(database_url, ring), working(database_url, ring):
                await wait_until(lambda: visits.value(owners) == 2, 20)
                await app.operator.resume("ring")
                visits.offer(*(f"key {n:03}" for n in range(100)))
                await wait_until(lambda: visits.value(left) == sorted(stuck), 30)
        visits.query("delete from mainspring.visit")
