"""Schedules: declared beside handlers, created by workers, managed by name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

import pytest
from conftest import APPS, Server, WorkerProcess
from scheduled_app import app as declared

from windlass_sdk import ApiError, Schedule, Windlass, Worker
from windlass_sdk.testing import DevServer


def test_a_worker_creates_the_schedules_of_its_program(windlass_dev: DevServer) -> None:
    windlass_dev.worker("scheduled_app:app", folder=APPS)
    app = windlass_dev.app
    # They are there before the worker is.
    assert len(app.schedules.list_sync()) == 2
    assert windlass_dev.advance("3h")
    jobs = app.http.call("GET", "/jobs?owner=schedule:hourly")["jobs"]
    assert len(jobs) == 3
    for job in jobs:
        assert (job["state"], job["queue"], job["tags"]) == ("completed", "slow", {"by": "test"})
    assert app.http.call("GET", f"/jobs/{jobs[0]['id']}/result")["result"] == "report of sales"
    nightly = app.schedules.get_sync("nightly")
    assert (nightly.cron, nightly.timezone, nightly.missed, nightly.type) == ("30 2 * * *", "Europe/Berlin", "skip", "report")


def test_another_start_changes_nothing_and_keeps_a_pause(windlass_dev: DevServer) -> None:
    windlass_dev.worker("scheduled_app:app", folder=APPS).stop()
    app = windlass_dev.app
    before = app.schedules.pause_sync("hourly", "counting")
    assert before.is_paused and before.shown["paused"]["reason"] == "counting"
    windlass_dev.worker("scheduled_app:app", folder=APPS)
    after = app.schedules.get_sync("hourly")
    assert after.shown["updated_at"] == before.shown["updated_at"] and after.is_paused
    app.schedules.delete_sync("nightly")
    windlass_dev.worker("scheduled_app:app", "--no-schedules", folder=APPS)
    assert [one.name for one in app.schedules.list_sync()] == ["hourly"]


def test_a_key_that_may_not_change_schedules_works_without(server: Server, start: Callable[..., WorkerProcess]) -> None:
    admin = Windlass(server.url, key=server.post("/keys", {"name": "boss", "role": "admin"})["secret"])
    key = admin.http.call("POST", "/keys", {"name": "worker", "role": "worker"})["secret"]
    server.app = admin
    worker = start(app="scheduled_app:app", key=key)
    assert admin.submit_sync("report", "x").result_sync("30s") == "report of x"
    assert "app.sync_schedules()" in worker.log.read_text()
    assert admin.schedules.list_sync() == []


def test_a_worker_whose_schedule_is_refused_does_not_start(server: Server) -> None:
    app = Windlass(server.url)
    app.schedule("bad", cron="61 * * * *")(app.job("empty")(_nothing))
    with pytest.raises(ApiError, match="cron"):
        Worker(app).run_sync()
    assert [one for one in server.get("/workers")["workers"] if one["name"] != "callbacks"] == []


def test_schedules_are_managed_by_name(server: Server) -> None:
    async def use() -> None:
        app = Windlass(server.url)
        soon = datetime.now(timezone.utc).replace(microsecond=0) + timedelta(days=1)
        await app.schedules.put("once", "report", "a", at=soon, queue="q")
        again = await app.schedules.put("once", "report", "a", at=soon, queue="q")
        assert (again.at, again.next_runs, again.shown["changed"]) == (soon, [soon], False)
        changed = await app.schedules.put("once", "report", "b", every=timedelta(minutes=5))
        assert (changed.every, changed.at, changed.shown["job"]["payload"]) == ("5m", None, "b")
        assert (await app.schedules.pause("once", expires="2h")).is_paused
        handle = await app.schedules.trigger("once")
        assert (await handle.show())["type"] == "report"
        assert not (await app.schedules.resume("once")).is_paused
        await app.schedules.delete("once")
        assert await app.schedules.list() == []
        assert [one.name for one in await app.schedules.list(deleted=True)] == ["once"]
        with pytest.raises(ApiError, match="no schedule"):
            await app.schedules.get("once")
        assert (await app.schedules.restore("once")).last_job == handle.id
        with pytest.raises(ApiError) as refused:
            await app.schedules.put("bad", "report", cron="61 * * * *")
        assert refused.value.status == 422
        await app.close()

    asyncio.run(use())


def test_without_a_loop_it_is_the_same(server: Server) -> None:
    schedules = Windlass(server.url).schedules
    made: Schedule = schedules.put_sync("daily", "report", cron="@daily")
    assert (made.name, schedules.get_sync("daily").overlap) == ("daily", "allow")
    assert schedules.trigger_sync("daily").id == schedules.get_sync("daily").last_job
    assert schedules.pause_sync("daily").is_paused and not schedules.resume_sync("daily").is_paused
    schedules.delete_sync("daily")
    assert schedules.restore_sync("daily").submitted == 1
    app = Windlass(server.url)
    app.schedule("nightly", cron="30 2 * * *")(app.job("empty")(_nothing))
    assert [one.type for one in app.sync_schedules_sync()] == ["empty"]


def _nothing() -> None:
    """Never run here."""


def test_declarations_are_checked_where_they_stand() -> None:
    app = Windlass()

    @app.job("a")
    async def a(number: int) -> None:
        """Never run here."""

    with pytest.raises(ValueError, match="one of cron, every and at, and has none"):
        a.schedule("x", 1)
    with pytest.raises(ValueError, match="has cron, every"):
        a.schedule("x", 1, cron="@daily", every="1h")
    with pytest.raises(TypeError, match="no option 'crn'"):
        a.schedule("x", 1, every="1h", crn="@daily")  # type: ignore[call-arg]
    a.schedule("x", 1, every="1h")
    with pytest.raises(ValueError, match="'x' already"):
        a.schedule("x", 2, every="1h")
    with pytest.raises(TypeError, match="above @app.job"):
        app.schedule("y", every="1h")(len)  # type: ignore[type-var]
    assert app.declared_schedules == {"x": {"every": "3600000ms", "job": {"type": "a", "payload": 1}}}
    assert set(declared.declared_schedules) == {"hourly", "nightly"}
