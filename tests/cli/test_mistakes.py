"""The mistakes that a newcomer made in a day, by their number: each has a text that says what to do.

Those that other tests show already are named in `ELSEWHERE`; the others are here.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from mainspring import InvalidArguments, Mainspring
from mainspring.db.connect.hosts import to_try
from mainspring.db.connect.tries import _unreachable
from mainspring.errors import InvalidKind, InvalidSetting, InvalidTask, InvalidUrl, SchemaError

TESTS = Path(__file__).parent.parent
APP = "from mainspring import Mainspring\napp = Mainspring('postgresql:///x')\n"
MISTAKES = 56
ELSEWHERE = {
    1: ("cli/test_errors.py", "test_no_application_is_named"),
    2: ("cli/test_errors.py", "test_an_application_that_cannot_be_had"),
    3: ("cli/test_errors.py", "test_an_application_that_cannot_be_had"),
    4: ("cli/test_errors.py", "test_an_application_that_cannot_be_had"),
    5: ("cli/test_first_hour.py", "test_a_file_is_not_a_module"),
    6: ("cli/test_errors.py", "test_an_application_that_cannot_be_had"),
    10: ("cli/test_errors.py", "test_a_database_that_is_not_there"),
    14: ("cli/test_errors.py", "test_a_database_without_schema"),
    16: ("cli/test_errors.py", "test_no_database_is_named"),
    17: ("embedded/test_embedded.py", "test_a_directory_that_may_not_be_written_is_named"),
    19: ("cli/test_first_hour.py", "test_while_everything_is_imported"),
    20: ("cli/test_first_hour.py", "test_while_a_worker_process_is_imported"),
    21: ("tasks/declare/test_signature.py", "test_mistyped_arguments_are_refused_and_shown"),
    22: ("tasks/declare/test_first_mistakes.py", "test_an_argument_without_a_zone_is_refused"),
    23: ("tasks/declare/test_signature.py", "test_a_number_that_json_does_not_have_is_refused"),
    24: ("tasks/declare/test_signature.py", "test_too_large_a_payload_is_refused_with_its_size"),
    26: ("tasks/declare/test_signature.py", "test_bad_keys_and_groups_are_refused"),
    29: ("tasks/declare/test_first_mistakes.py", "test_a_bad_row_of_many_is_named_by_its_number"),
    30: ("cli/test_errors.py", "test_each_wrong_order_has_its_line_and_code"),
    31: ("db/test_on.py", "test_near_misses_say_what_was_meant"),
    32: ("db/test_on.py", "test_another_database_is_refused"),
    33: ("db/test_on.py", "test_a_sync_verb_says_which_to_use"),
    35: ("tasks/declare/test_signature.py", "test_parameters_without_a_name_are_refused"),
    36: ("tasks/declare/test_signature.py", "test_a_class_that_no_json_becomes_is_refused"),
    38: ("tasks/declare/test_declared.py", "test_a_task_s_slips_are_named"),
    39: ("tasks/declare/test_first_mistakes.py", "test_one_of_the_wrong_type_says_what_it_wants"),
    40: ("tasks/declare/test_first_mistakes.py", "test_a_cron_line_calls_without_arguments"),
    42: ("tasks/declare/test_signature.py", "test_a_name_can_be_declared_once"),
    43: ("crash/test_mixed_codes.py", "test_two_services_that_share_a_task_leave_nothing_standing"),
    44: ("crash/test_mixed_codes.py", "test_two_services_that_share_a_task_leave_nothing_standing"),
    45: ("tasks/enqueue/test_results.py", "test_a_task_that_has_not_ended_in_time_is_a_timeout"),
    46: ("kernel/lease/test_heart.py", "test_a_run_that_keeps_the_loop_is_named_by_its_line"),
    47: ("tasks/run/test_context.py", "test_a_second_transaction_is_refused"),
    48: ("entities/test_kinds.py", "test_a_table_that_cannot_carry_the_kind_is_refused_by_mig"),
    50: ("tasks/declare/test_first_mistakes.py", "test_a_stage_with_a_misspelt_method"),
    51: ("entities/declare/test_bad_stages.py", "test_a_column_that_nobody_can_write_is_refused"),
    52: ("reactive/declare/test_params.py", "test_a_value_that_goes_back_is_refused"),
    55: ("cli/test_rights.py", "test_a_role_that_may_not_look_is_told_which_right_it_lacks"),
    56: ("processes/declare/test_process.py", "test_the_process_of_an_id_is_answered_or_refused"),
}


def test_each_mistake_has_a_test():
    """Whoever drops one here has to say where it went."""
    here = {int(n) for n in re.findall(r"def test_(\d\d)_", Path(__file__).read_text())}

    assert here | ELSEWHERE.keys() == set(range(1, MISTAKES + 1))
    for place, name in ELSEWHERE.values():
        assert f"def {name}" in (TESTS / place).read_text(), (place, name)


class TestCommands:
    def test_07_modules_that_import_each_other(self, cli, module):
        module("around", "from about import thing\n")
        module("about", f"import around\n{APP}thing = 1\n")

        answer = cli("worker", "about:app")

        assert answer.code == 2
        assert "module 'about' cannot be imported: ImportError: cannot import name" in answer.err
        assert answer.err.count("\n") == 1

    @pytest.mark.parametrize(
        ("words", "told"),
        [
            (("statsu",), "Did you mean 'status'?"),
            (("status", "--waych"), "(Possible options: --watch)"),
        ],
    )
    def test_08_a_command_or_an_option_with_a_slip(self, cli, words, told):
        answer = cli(*words)

        assert answer.code == 2
        assert told in " ".join(answer.err.split())

    @pytest.mark.parametrize(
        ("option", "value", "told"),
        [
            ("--concurrency", "0", "concurrency must be 1 to 10000, got 0"),
            ("--lease", "0", "lease must be 0.2 to 3600, got 0"),
            ("--log-level", "verbose", "'verbose'"),
        ],
    )
    def test_09_a_number_out_of_range(self, cli, module, option, value, told):
        module("place", APP)

        answer = cli("worker", "place:app", option, value)

        assert answer.code == 2
        assert told in answer.err

    def test_11_a_wrong_password_or_user(self, cli, database_url):
        """Its server is up, so it is not said to be down."""
        stranger = database_url.replace("postgres@", "nobody_known@")
        [host] = to_try(database_url)
        refused = asyncpg.InvalidPasswordError('password authentication failed for user "ann"')

        answer = cli("status", "--url", stranger)
        error = _unreachable(database_url, [(host, refused)])

        assert answer.code == 3
        for text in (answer.err, str(error)):
            assert "the server is up: see the user and the password of the address" in text
            assert "is the server up" not in text

    def test_12_a_database_that_does_not_exist(self, cli, database_url):
        answer = cli("status", "--url", re.sub(r"mainspring_test\w+", "shop", database_url))

        assert answer.code == 3
        assert 'database "shop" does not exist; the server is up' in answer.err
        assert "make the database (createdb shop) and run mainspring migrate" in answer.err

    @pytest.mark.parametrize("driver", ["asyncpg", "psycopg", "psycopg2"])
    def test_13_an_address_as_sqlalchemy_writes_it(self, driver):
        with pytest.raises(InvalidUrl, match=rf"'postgresql\+{driver}://'.*leave out the driver"):
            Mainspring(f"postgresql+{driver}://ann:secret@h/x")

    async def test_15_a_program_that_migrates_its_new_database(self, mainspring_server):
        with mainspring_server.database(migrated=False) as url:
            app = Mainspring(url)
            with pytest.raises(SchemaError, match=r"await app.migrate\(\) before async with app"):
                await app.__aenter__()

            await app.migrate()
            async with app:
                pass

    def test_18_odd_places_and_environments(self, tmp_path):
        place = tmp_path / "täg lich's app"
        place.mkdir()
        (place / "shop.py").write_text(f"{APP}\n@app.task\ndef sell(n: int) -> None: ...\n")

        done = subprocess.run(
            [sys.executable, "-O", "-m", "mainspring.cli.main", "check", "shop:app"],
            cwd=place,
            env={"LANG": "C", "PATH": "", "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
            capture_output=True,
            text=True,
        )

        assert (done.returncode, done.stderr) == (0, "")

    def test_53_arguments_that_nobody_checks_yet(self, cli, module, database_url):
        module("shop", f"{APP}\n@app.task\ndef send(to: str) -> None: ...\n")
        where = ("--url", database_url)
        cli("migrate", "shop:app", *where)

        unchecked = cli("tasks", "enqueue", "send", '{"to": 1}', *where)
        checked = cli("tasks", "enqueue", "send", '{"to": 1}', "--app", "shop:app", *where)

        assert "its arguments are checked when it runs (--app: now)" in unchecked.out
        assert checked.code == 2
        assert "Expected `str`, got `int`" in checked.err


class TestCalls:
    def test_25_a_value_of_five_thousand_levels(self, app: Mainspring):
        @app.task
        def keep(value: list[Any]) -> None: ...

        deep: list[Any] = []
        for _ in range(5000):
            deep = [deep]

        with pytest.raises(InvalidArguments, match="nested too deeply, or contains itself; store"):
            keep.enqueue_sync(deep)

    @pytest.mark.parametrize(
        ("option", "told"),
        [
            ("countdown", "write delay="),
            ("eta", "write at="),
            ("expires", "write expires_at="),
            ("queueing_lock", "write key="),
            ("max_retries", r"write @app.task\(retry=RetryPolicy"),
            ("prioritty", "did you mean 'priority'"),
        ],
    )
    def test_27_options_of_other_libraries(self, note: Any, option, told):
        with pytest.raises(InvalidSetting, match=f"task 'note' has no option {option!r}.*{told}"):
            note.options(**{option: 3})

    @pytest.mark.parametrize(
        ("verb", "told"),
        [
            ("delay", r"write await note.enqueue\(...\) \(in plain code: enqueue_sync\)"),
            ("apply_async", r"await note.options\(delay=..., at=..., priority=...\)"),
            ("defer", r"write note.enqueue_sync\(...\)"),
            ("send", r"write note.enqueue_sync\(...\)"),
        ],
    )
    def test_28_verbs_of_other_libraries(self, note: Any, verb, told):
        with pytest.raises(AttributeError, match=rf"task 'note' has no {verb}\(\): .*{told}"):
            getattr(note, verb)("x")
        with pytest.raises(AttributeError, match="a task has no 'nothing'"):
            _ = note.nothing

    async def test_34_a_call_that_is_not_awaited(self, note: Any):
        """Python says it itself, at the line that forgot it."""
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            note.enqueue("x")

        assert [str(one.message) for one in said] == ["coroutine 'Task.enqueue' was never awaited"]
        assert said[0].filename == __file__

    @pytest.fixture
    def note(self, app: Mainspring) -> Any:
        @app.task
        async def note(text: str) -> None: ...

        return note


class TestDeclarations:
    @pytest.fixture
    def app(self) -> Mainspring:
        return Mainspring("postgresql:///x")

    def test_37_a_class_as_a_task(self, app: Mainspring):
        class Send:
            def __init__(self, to: str) -> None: ...

        with pytest.raises(InvalidTask, match=r"task 'Send' is a class.*write a function"):
            app.task(Send)

    @pytest.mark.parametrize("name", ["mainspring", "mainspring.operation"])
    def test_41_a_name_of_the_engine_s_own(self, app: Mainspring, name: str):
        def work() -> None: ...

        told = f"{name!r} is reserved: names of the engine's own begin so; choose another"
        for declare in (app.task(name=name), app.process(name=name)):
            with pytest.raises(InvalidTask, match=told):
                declare(work)
        with pytest.raises(InvalidKind, match=told):
            app.entities(name, table="place")
        with pytest.raises(InvalidKind, match=told):
            app.documents(name)

    def test_49_a_table_s_name_that_sql_would_not_read(self, app: Mainspring):
        with pytest.raises(InvalidKind, match="no name of a table as SQL writes it; put what is"):
            app.entities("order", table="order lines")
        app.entities("line", table='public."order lines"')
        app.entities("lines", table='"order lines"')

    def test_49_nor_one_with_capitals(self, database_url):
        app = Mainspring(database_url)
        app.entities("order", table="OrderLines")

        with pytest.raises(InvalidKind) as refused:
            app.migrate_sync()
        assert str(refused.value).endswith("""needs its quotes: table='public."OrderLines"'""")

    def test_54_an_upcast_for_a_plain_call(self, app: Mainspring):
        @app.task
        def pay(order: int, currency: str) -> None: ...

        @app.upcast(pay, version=1)
        def _(old: dict[str, Any]) -> dict[str, Any]:
            return {**old, "currency": "EUR"}

        with pytest.raises(InvalidArguments, match="plain call has no version: give what is new a"):
            pay.signature.decode('{"order": 1}')
