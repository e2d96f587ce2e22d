"""The test kit: months in milliseconds, and workers that die between two steps."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from conftest import APPS, until
from dev_app import chain, flaky, remind, remind_sync

from windlass_sdk.testing import DevServer, DevWorker


class Kit:
    def __init__(self, dev: DevServer, effects: Path) -> None:
        self.dev, self.effects = dev, effects

    def worker(self) -> DevWorker:
        return self.dev.worker("dev_app:app", folder=APPS, environment={"EFFECTS": str(self.effects)})

    def submit(self, job: Any, payload: Any) -> str:
        return str(self.dev.app.submit_sync(job.type, payload, **job.options).id)

    def lines(self) -> list[str]:
        return self.effects.read_text().splitlines() if self.effects.exists() else []

    def state(self, id: str) -> str:
        return str(self.dev.job(id)["state"])

    def waits(self, id: str) -> None:
        until(f"job {id} waits", lambda: self.state(id) == "waiting")


@pytest.fixture
def kit(windlass_dev: DevServer, tmp_path: Path) -> Kit:
    return Kit(windlass_dev, tmp_path / "effects")


def test_a_job_sleeps_for_a_month_at_once(kit: Kit) -> None:
    kit.worker()
    began, id = kit.dev.now(), kit.submit(remind, 30)
    kit.waits(id)
    assert kit.dev.advance("29d") and kit.state(id) == "waiting"
    assert kit.dev.advance("1d") and kit.state(id) == "completed"
    assert kit.dev.job(id)["result"] == ["first", "second"] and kit.lines() == ["first", "second"]
    assert kit.dev.now() - began == timedelta(days=30)


def test_waits_one_after_the_other_end_within_one_advance(kit: Kit) -> None:
    kit.worker()
    id = kit.submit(remind_sync, 20)
    kit.waits(id)
    kit.dev.advance("41d")
    assert kit.dev.job(id)["result"] == "not paid"


def test_a_worker_that_dies_between_two_steps_loses_nothing(kit: Kit) -> None:
    worker = kit.worker()
    kit.dev.crash(after_step="first")
    id = kit.submit(remind, 1)
    until("the worker crashed", lambda: kit.dev.job(id)["crashes"] == 1)
    worker.kill()
    assert kit.lines() == ["first"]
    kit.worker()
    kit.dev.advance("2d")
    assert kit.state(id) == "completed" and kit.lines() == ["first", "second"]


def test_retries_are_due_in_virtual_time(kit: Kit) -> None:
    kit.worker()
    id = kit.submit(flaky, None)
    until("it failed", lambda: kit.state(id) == "retrying")
    assert kit.dev.advance("3h")
    assert (kit.state(id), kit.dev.job(id)["result"]) == ("completed", 2)


def test_follow_ups_are_submitted_with_the_completion(kit: Kit) -> None:
    kit.worker()
    kit.submit(chain, 3)
    until("all have run", lambda: len(kit.lines()) == 3)
    assert kit.dev.settle()
    jobs = kit.dev.app.http.call("GET", "/jobs?type=chain")["jobs"]
    assert (len(jobs), {job["state"] for job in jobs}) == (3, {"completed"})
    assert kit.lines() == ["link 3", "link 2", "link 1"]


def test_a_reset_deletes_everything(kit: Kit) -> None:
    kit.worker()
    id = kit.submit(remind, 30)
    kit.waits(id)
    kit.dev.reset()
    assert kit.dev.app.http.call("GET", "/jobs")["jobs"] == []
