"""What a site does with its tasks: ``python -m django_site.client over_http`` or ``in_transactions``."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from datetime import datetime, timedelta, timezone
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "django_site.settings")
django.setup()

from django.core.checks import run_checks  # noqa: E402
from django.db import connection, transaction  # noqa: E402
from django_site import orders, tasks  # noqa: E402

from windlass_sdk.django.api import InvalidTask, TaskResultDoesNotExist, task_backends, task_enqueued  # noqa: E402


def finished(result: Any) -> Any:
    """The result, once it is finished."""
    end = time.monotonic() + 30
    while not result.is_finished:
        assert time.monotonic() < end, result
        time.sleep(0.01)
        result.refresh()
    return result


def refused(kind: Any, call: Any) -> str:
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind}")


def over_http() -> None:
    enqueued: list[str] = []
    # Receivers are kept by weak references.
    receiver = lambda sender, task_result, **_: enqueued.append(task_result.id)  # noqa: E731
    task_enqueued.connect(receiver)
    result = tasks.add.enqueue(1, b=2)
    assert (result.args, result.kwargs, result.is_finished) == ([1], {"b": 2}, False) and enqueued == [result.id]
    assert result.enqueued_at is not None and result.attempts == 0
    done = finished(result)
    assert (done.return_value, done.attempts, done.errors) == (3, 1, []) and done.finished_at >= done.started_at
    assert tasks.add.get_result(result.id).args == [1]
    declined()
    refusals(result)
    asyncio.run(asynchronously(enqueued))
    # A job of another program is no result.
    app = task_backends["default"].app
    other = app.submit_sync("some.job")
    assert "no task" in refused(TaskResultDoesNotExist, lambda: tasks.add.get_result(other.id))
    assert task_backends["own"].app.jobs["double"].type == "double"


def declined() -> None:
    second = finished(tasks.attempts.enqueue(2))
    assert second.return_value == [2, second.id] and second.attempts == 2
    assert [one.exception_class for one in second.errors] == [tasks.Declined]
    assert "card 4711" in second.errors[0].traceback and "in attempts" in second.errors[0].traceback
    never = finished(tasks.attempts.enqueue(9))
    assert (never.status, len(never.errors), never.attempts) == ("FAILED", 2, 2)
    assert refused(ValueError, lambda: never.return_value) == "Task failed"
    permanent = finished(tasks.declines.enqueue("permanent"))
    assert permanent.attempts == 1 and permanent.errors[0].exception_class.__name__ == "JobError"


def refusals(result: Any) -> None:
    assert "Queue" in refused(InvalidTask, lambda: tasks.add.using(queue_name="none"))
    assert "aware" in refused(InvalidTask, lambda: tasks.add.using(run_after=datetime(2030, 1, 1)))
    refused(TypeError, lambda: tasks.add.enqueue(datetime.now()))
    refused(TaskResultDoesNotExist, lambda: tasks.add.get_result("no-id"))
    refused(TaskResultDoesNotExist, lambda: tasks.add.get_result("01a1f073-5b8d-4a0a-86d9-4a66d7f3db16"))
    refused(Exception, lambda: tasks.greet.get_result(result.id))


async def asynchronously(enqueued: list[str]) -> None:
    soon = datetime.now(timezone.utc).replace(microsecond=0) + timedelta(hours=1)
    result = await tasks.greet.aenqueue("Ann")
    later = await tasks.greet.using(run_after=soon, priority=-100, queue_name="default").aenqueue("Bob")
    assert enqueued[-2:] == [result.id, later.id]
    end = time.monotonic() + 30
    while not result.is_finished:
        assert time.monotonic() < end, result
        await asyncio.sleep(0.01)
        await result.arefresh()
    assert result.return_value == {"hello": "Ann"}
    app = task_backends["default"].app
    jobs = [await app.handle(one.id).show() for one in (result, later)]
    assert [(job["type"], job["queue"], job["priority"]) for job in jobs] == [
        ("django_site.tasks.greet", "mail", 100), ("django_site.tasks.greet", "default", 0),
    ]
    assert datetime.fromisoformat(jobs[1]["run_at"].replace("Z", "+00:00")) == soon
    assert not (await tasks.greet.aget_result(later.id)).is_finished
    await app.close()


def in_transactions() -> None:
    assert run_checks() == []
    with transaction.atomic():
        kept = orders.confirm.enqueue(7)
        refused(TaskResultDoesNotExist, lambda: orders.confirm.get_result(kept.id))
    try:
        with transaction.atomic():
            gone = orders.confirm.enqueue(8)
            raise KeyError
    except KeyError:
        pass

    async def within() -> Any:
        return await orders.confirm.aenqueue(9)

    also = asyncio.run(within())
    for result, order in ((kept, 7), (also, 9)):
        end = time.monotonic() + 30
        while True:
            try:
                found = orders.confirm.get_result(result.id)
                break
            except TaskResultDoesNotExist:
                assert time.monotonic() < end
                time.sleep(0.01)
        assert finished(found).return_value == f"order {order} is confirmed"
    refused(TaskResultDoesNotExist, lambda: orders.confirm.get_result(gone.id))
    connection.close()


if __name__ == "__main__":
    {"over_http": over_http, "in_transactions": in_transactions}[sys.argv[1]]()
