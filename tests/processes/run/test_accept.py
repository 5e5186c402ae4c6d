"""Results of overtaken runs: the first that comes is taken while the task is unfinished."""

from __future__ import annotations

from process_scene import Scene
from walk import Walk, decided

from mainspring.processes.record.decision import Decision

_OVERTAKE = """
update mainspring.visit set pass = 77, holder = gen_random_uuid(), started_at = now(), held_until = now()
where queue = 'order'
"""


async def test_the_first_result_is_taken_even_of_an_overtaken_run_and_the_next_is_dropped(
    scene: Scene,
) -> None:
    """P4: accept="first": another run holds the task by now; the late result counts, the repeat's not."""
    process = await scene.start("order")
    [(root,)] = scene.query("select id::text from mainspring.task")
    late = decided(scene, root, Decision(result="1"))
    repeat = decided(scene, root, Decision(result="2"))
    scene.query(_OVERTAKE)

    Walk(scene, [late]).finish()
    dropped = Walk(scene, [repeat])
    dropped.finish()

    assert dropped.commit.verdicts == ["gone"]
    assert (scene.state(process), scene.result(process)) == ("finished", 1)
