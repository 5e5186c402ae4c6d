"""The promises of Django's interface of tasks, one test each, with a worker of this backend's.

Run by `manage.py test`, on the database that Django makes for tests.
"""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import psycopg
from asgiref.sync import async_to_sync
from django.db import connection, transaction
from django.test import TransactionTestCase
from django.utils import timezone
from django_tasks import TaskResultStatus, default_task_backend, task_backends
from django_tasks.exceptions import InvalidTaskError, TaskResultDoesNotExist, TaskResultMismatch
from django_tasks.signals import task_enqueued, task_finished, task_started

from mainspring.errors import InvalidSetting
from mainspring_django import app
from shop import tasks
from shop.models import Order

worker = ExitStack()


def setUpModule() -> None:
    """A worker beside all tests, in a thread."""
    began, stop = threading.Event(), threading.Event()

    async def working() -> None:
        async with app, app.worker(concurrency=1, poll=0.05):
            began.set()
            await asyncio.to_thread(stop.wait)

    thread = worker.enter_context(ThreadPoolExecutor(1)).submit(asyncio.run, working())
    worker.callback(stop.set)
    assert began.wait(60), thread.result()


def tearDownModule() -> None:
    worker.close()


def until(holds, result):
    """Wait for what the worker makes of it."""
    deadline = time.monotonic() + 60
    while not holds(result):
        assert time.monotonic() < deadline, f"still {result.status}"
        time.sleep(0.005)
        result.refresh()
    return result


def ended(result):
    return until(lambda result: result.is_finished, result)


class Case(TransactionTestCase):
    def tearDown(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute("delete from mainspring.visit")

    def calls(self) -> int:
        with connection.cursor() as cursor:
            return cursor.execute("select count(*) from mainspring.visit").fetchone()[0]


class Enqueueing(Case):
    def test_a_result_is_ready_at_once(self):
        result = tasks.mail.enqueue("ann", words=("a", "b"))
        self.assertEqual(result.status, TaskResultStatus.READY)
        self.assertEqual((result.args, result.kwargs), (["ann"], {"words": ["a", "b"]}))
        self.assertFalse(result.is_finished)
        self.assertEqual((result.attempts, result.errors, result.started_at), (0, [], None))
        self.assertLess(timezone.now() - result.enqueued_at, timedelta(minutes=1))
        self.assertEqual((result.task, result.backend), (tasks.mail, "default"))
        self.assertLessEqual(len(result.id), 64)
        with transaction.atomic():
            result = tasks.mail.enqueue("ann")
            self.assertEqual(tasks.mail.get_result(result.id), result)
        with self.assertRaisesMessage(ValueError, "Task has not finished yet"):
            result.return_value

    def test_it_is_part_of_the_transaction_that_is_open(self):
        with transaction.atomic():
            Order.objects.create(number=1)
            kept = tasks.pay.enqueue(1)
            try:
                with transaction.atomic():
                    tasks.pay.enqueue(2)
                    raise LookupError
            except LookupError:
                pass
            with psycopg.connect(app.database_sync().url) as other:
                found = other.execute("select count(*) from mainspring.visit").fetchone()
                self.assertEqual(found, (0,))
            self.assertEqual(tasks.pay.get_result(kept.id).status, TaskResultStatus.READY)
        self.assertEqual(self.calls(), 1)

    def test_what_is_rolled_back_was_never_there(self):
        with self.assertRaises(LookupError), transaction.atomic():
            gone = tasks.pay.enqueue(1)
            raise LookupError
        self.assertEqual(self.calls(), 0)
        with self.assertRaises(TaskResultDoesNotExist):
            tasks.pay.get_result(gone.id)

    def test_async_code_enqueues_in_the_same_transaction(self):
        with transaction.atomic():
            async_to_sync(tasks.apay.aenqueue)(1)
            transaction.set_rollback(True)
        self.assertEqual(self.calls(), 0)

    def test_arguments_that_json_cannot_say_are_refused(self):
        for bad in (object(), {1, 2}, datetime.now(UTC)):
            with self.assertRaises(TypeError):
                tasks.mail.enqueue(bad)
        self.assertEqual(self.calls(), 0)

    def test_an_unknown_queue_is_refused(self):
        with self.assertRaisesMessage(InvalidTaskError, "Queue 'other' is not valid for backend."):
            tasks.pay.using(queue_name="other")

    def test_without_queues_any_name_is_one(self):
        result = tasks.mail.using(backend="any", queue_name="x").enqueue("ann")
        ended(result)
        self.assertEqual(result.return_value["to"], "ann")
        self.assertEqual(task_backends["any"].get_result(result.id).task.queue_name, "x")

    def test_a_failed_block_is_said_to_be_one(self):
        with transaction.atomic():
            try:
                with transaction.atomic(savepoint=False):
                    raise LookupError
            except LookupError:
                pass
            with self.assertRaisesMessage(InvalidSetting, "in a transaction that has failed"):
                tasks.pay.enqueue(1)
            transaction.set_rollback(True)


class Running(Case):
    def test_a_sync_and_an_async_task_change_rows(self):
        Order.objects.create(number=1)
        Order.objects.create(number=2)
        one, two = tasks.pay.enqueue(1), tasks.apay.enqueue(number=2)
        for result, number in ((one, 1), (two, 2)):
            ended(result)
            self.assertEqual(result.status, TaskResultStatus.SUCCESSFUL)
            self.assertEqual(result.return_value, f"paid {number}")
            self.assertEqual((result.attempts, len(result.worker_ids)), (1, 1))
            self.assertLessEqual(result.enqueued_at, result.started_at)
            self.assertEqual(result.last_attempted_at, result.started_at)
            self.assertLessEqual(result.started_at, result.finished_at)
        self.assertEqual(Order.objects.filter(paid=True).count(), 2)

    def test_async_code_reads_results(self):
        result = ended(tasks.mail.enqueue("ann"))
        found = async_to_sync(tasks.mail.aget_result)(result.id)
        self.assertEqual(found.return_value, {"to": "ann", "words": None})
        async_to_sync(found.arefresh)()
        self.assertTrue(found.is_finished)

    def test_one_that_fails_is_tried_again_and_knows_its_attempt(self):
        result = tasks.fail_once.using(queue_name="soon").enqueue(7)
        ended(result)
        self.assertEqual(result.return_value, f"{result.id} 2 7")
        self.assertEqual(result.attempts, 2)
        (error,) = result.errors
        self.assertIs(error.exception_class, LookupError)
        self.assertIn("the first time", error.traceback)
        self.assertIn("tasks.py", error.traceback)

    def test_one_that_waits_for_its_next_try_is_ready_with_its_error(self):
        result = until(lambda result: result.errors, tasks.fail.enqueue())
        self.assertEqual(result.status, TaskResultStatus.READY)
        self.assertEqual((result.attempts, len(result.errors)), (1, 1))
        self.assertIsNone(result.finished_at)

    def test_one_that_is_given_up_has_failed(self):
        results = [
            task.using(queue_name="once").enqueue() for task in (tasks.fail, tasks.unsayable)
        ]
        for result, kind in zip(results, (ValueError, TypeError), strict=True):
            ended(result)
            self.assertEqual(result.status, TaskResultStatus.FAILED)
            self.assertIs(result.errors[0].exception_class, kind)
            self.assertIsNotNone(result.finished_at)
            with self.assertRaisesMessage(ValueError, "Task failed"):
                result.return_value

    def test_one_for_later_waits(self):
        at = timezone.now() + timedelta(hours=1)
        result = tasks.mail.using(run_after=at).enqueue("ann")
        ended(tasks.key.enqueue())
        found = tasks.mail.get_result(result.id)
        self.assertEqual(found.status, TaskResultStatus.READY)
        self.assertEqual(found.task.run_after, at)

    def test_the_more_urgent_goes_first_and_keeps_its_priority(self):
        """Of Mainspring's ten priorities each has one of ten parts."""
        given = (-100, -99, -50, -1, 0, 1, 25, 26, 60, 100)
        later = timezone.now() + timedelta(hours=1)
        calls = [tasks.key.using(priority=one, run_after=later).enqueue() for one in given]
        with connection.cursor() as cursor:
            cursor.execute("select id::text, priority from mainspring.visit")
            found = dict(cursor.fetchall())
        self.assertEqual([found[call.id] for call in calls], [0, 0, 2, 4, 5, 6, 6, 7, 8, 9])
        self.assertEqual(tasks.key.get_result(calls[8].id).task.priority, 60)

    def test_signals_tell_of_the_enqueue_the_start_and_the_end(self):
        heard = []

        def hear(sender, task_result, signal, **_):
            heard.append((names[signal], str(task_result.status), task_result.id))

        names = {task_enqueued: "enqueued", task_started: "started", task_finished: "finished"}
        for signal in names:
            signal.connect(hear)
        try:
            good, bad = (task.using(queue_name="once") for task in (tasks.key, tasks.fail))
            with transaction.atomic():
                good = good.enqueue()
            ended(good)
            with transaction.atomic():
                bad = bad.enqueue()
            ended(bad)
        finally:
            for signal in names:
                signal.disconnect(hear)
        self.assertEqual(heard, [
            ("enqueued", "READY", good.id), ("started", "RUNNING", good.id),
            ("finished", "SUCCESSFUL", good.id),
            ("enqueued", "READY", bad.id), ("started", "RUNNING", bad.id),
            ("finished", "FAILED", bad.id),
        ])  # fmt: skip

    def test_the_run_itself_is_known_inside(self):
        result = tasks.key.enqueue()
        ended(result)
        self.assertEqual(result.return_value, result.id)
        with self.assertRaisesMessage(RuntimeError, "no task runs here"):
            tasks.key.call()

    def test_tasks_of_mainspring_s_own_are_in_the_same_application(self):
        order = Order.objects.create(number=5)
        with transaction.atomic():
            handle = tasks.own.options(on="default").enqueue_sync(5)
        self.assertEqual(handle.result_sync(timeout=60), order.pk)


class Results(Case):
    def test_what_nobody_enqueued_is_no_result(self):
        own = tasks.own.options(on="default").enqueue_sync(5)
        for id in ("", "x", "0" * 32, own.id):
            with self.assertRaises(TaskResultDoesNotExist):
                default_task_backend.get_result(id)

    def test_another_task_s_result_is_refused(self):
        result = tasks.mail.enqueue("ann")
        with self.assertRaises(TaskResultMismatch):
            tasks.pay.get_result(result.id)

    def test_a_backend_has_results_of_its_own(self):
        result = tasks.pay.using(backend="any", queue_name="x").enqueue(1)
        with self.assertRaises(TaskResultDoesNotExist):
            task_backends["default"].get_result(result.id)
        self.assertEqual(task_backends["any"].get_result(result.id).backend, "any")


class Connections(Case):
    def test_none_outlives_its_task(self):
        """CONN_MAX_AGE is 0."""
        result = tasks.backend.enqueue()
        ended(result)
        with connection.cursor() as cursor:
            cursor.execute("select count(*) from pg_stat_activity where pid = %s",
                           [result.return_value[0]])  # fmt: skip
            self.assertEqual(cursor.fetchone(), (0,))

    def test_what_a_task_left_open_is_rolled_back(self):
        tasks.leave_open.enqueue()
        Order.objects.create(number=1)
        result = tasks.pay.enqueue(1)
        ended(result)
        self.assertEqual(result.return_value, "paid 1")
        self.assertEqual(Order.objects.filter(number=-1).count(), 0)
        self.assertEqual(Order.objects.filter(paid=True).count(), 1)
