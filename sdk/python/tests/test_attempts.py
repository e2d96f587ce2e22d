"""Attempts: how they end, what they park on, and when their slots are free."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from conftest import until
from jobs_app import process_fails
from pydantic import BaseModel, Field

from windlass_sdk import Cx, Permanent, Snooze, StepFailed, SyncCx, Windlass
from windlass_sdk import codec
from windlass_sdk.durable import core, waiting
from windlass_sdk.durable.children import results_of
from windlass_sdk.duration import moment_text
from windlass_sdk.inline import InlineBackend
from windlass_sdk.work.attempt import Attempt, Settings
from windlass_sdk.work.processes import Ended, Processes, run_by_name

PATIENCE = 10.0


def attempt_of(job: Any, settings: Settings, **fields: Any) -> Attempt:
    claimed = {
        "id": "j", "fence": 1, "attempt": 1, "failures": 0, "max_attempts": 3, "type": job.type, "queue": "default",
        "tenant": "default", "payload": None, "checkpoints": [], **fields,
    }
    return Attempt(claimed, job, InlineBackend({}, (), None), settings)


async def ended(attempt: Attempt, interrupt: Callable[[], None] = lambda: None) -> dict[str, Any] | None:
    """The outcome, once nothing of the handler runs any more."""
    running = asyncio.create_task(attempt.run())
    await asyncio.sleep(0)
    interrupt()
    outcome = await asyncio.wait_for(running, PATIENCE)
    await asyncio.wait_for(attempt.finished(), PATIENCE)
    return None if outcome is None else dict(json.loads(outcome))


def sleeps_when_stopped() -> Any:
    @Windlass().job("sleeps")
    def sleeps(_: None, cx: SyncCx) -> None:
        assert cx._stop.wait(PATIENCE)
        cx.sleep("1h")

    return sleeps


@pytest.mark.parametrize(("reason", "outcome"), [("cancel", None), ("released", "released")])
def test_a_thread_that_sleeps_when_it_is_told_to_stop_frees_its_slot(reason: Any, outcome: str | None) -> None:
    async def use() -> None:
        with ThreadPoolExecutor(1) as threads:
            attempt = attempt_of(sleeps_when_stopped(), Settings(grace=0.05, threads=threads))
            found = await ended(attempt, lambda: attempt.interrupt(reason))
            assert (found and found["outcome"]) == outcome

    asyncio.run(use())


def test_a_thread_that_sleeps_after_its_timeout_frees_its_slot() -> None:
    async def use() -> None:
        with ThreadPoolExecutor(1) as threads:
            deadline = moment_text(datetime.now(timezone.utc))
            attempt = attempt_of(sleeps_when_stopped(), Settings(grace=0.05, threads=threads), deadline=deadline)
            found = await ended(attempt)
            assert found is not None and found["error"]["category"] == "timeout"

    asyncio.run(use())


def test_a_slot_is_not_free_while_the_thread_of_a_step_runs() -> None:
    going, go = threading.Event(), threading.Event()

    def blocks() -> None:
        going.set()
        go.wait(PATIENCE)

    @Windlass().job("blocks")
    async def job(_: None, cx: Cx) -> None:
        await cx.step("blocks", blocks)

    async def use() -> None:
        with ThreadPoolExecutor(1) as threads:
            attempt = attempt_of(job, Settings(grace=0.05, threads=threads))
            running = asyncio.create_task(attempt.run())
            await asyncio.to_thread(going.wait, PATIENCE)
            attempt.interrupt("cancel")
            await running
            finished = asyncio.create_task(attempt.finished())
            await asyncio.wait({finished}, timeout=0.02)
            assert not finished.done()
            go.set()
            await asyncio.wait_for(finished, PATIENCE)

    asyncio.run(use())


def test_a_job_does_not_park_while_a_save_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    save = InlineBackend.save

    async def slow(self: InlineBackend, records: Sequence[tuple[str, Any]]) -> None:
        await asyncio.sleep(0.1)
        await save(self, records)

    monkeypatch.setattr(InlineBackend, "save", slow)
    monkeypatch.setattr(waiting, "BESIDE_SECONDS", 0.01)

    @Windlass().job("beside")
    async def beside(_: None, cx: Cx) -> None:
        await asyncio.gather(cx.wait_signal("go"), cx.sleep("1h"))

    parked = beside.run_inline(None).park
    assert [sorted(one)[0] for one in parked["any"]] == ["signal", "until"]


def test_an_error_raised_while_a_snooze_is_handled_counts() -> None:
    @Windlass().job("decides")
    async def decides(inside: bool, cx: Cx) -> None:
        async def work() -> None:
            try:
                raise Snooze("1h")
            except Snooze:
                raise Permanent("enough", "enough")

        await (cx.step("work", work) if inside else work())

    @Windlass().job("wraps")
    async def wraps(_: None) -> None:
        raise RuntimeError("later") from Snooze("1h")

    for inside in (False, True):
        assert decides.run_inline(inside).error["code"] == "enough"
    assert wraps.run_inline(None).park == {"for": "3600000ms"}
    with pytest.raises(StepFailed):
        raise StepFailed(Permanent(OSError("down")).failure, "key")
    assert Permanent(OSError("down")).failure.message == "down"


def test_a_step_that_exits_fails_as_a_crash() -> None:
    def leave() -> None:
        raise SystemExit(3)

    async def leave_async() -> None:
        raise SystemExit(3)

    @Windlass().job("beside")
    async def beside(_: None, cx: Cx) -> None:
        await asyncio.gather(cx.step("a", leave_async), cx.step("b", lambda: 1))

    @Windlass().job("blocking")
    def blocking(_: None, cx: SyncCx) -> None:
        cx.step("a", leave)

    for job in (beside, blocking):
        error = job.run_inline(None).error
        assert (error["category"], error["code"]) == ("system", "panic")


def test_new_calls_side_by_side_are_changed_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "TURN_SECONDS", 0.01)
    monkeypatch.setattr(core, "TURN_BESIDE_SECONDS", 0.03)
    ran: list[str] = []

    @Windlass().job("changed")
    async def changed(_: None, cx: Cx) -> None:
        await asyncio.gather(cx.step("new", ran.append, "new"), cx.step("newer", ran.append, "newer"))

    assert changed.run_inline(None, saved={"old": 1}).error["code"] == "steps_changed"
    assert ran == []


class Aliased(BaseModel):
    from_: str = Field(alias="from")


class Breaks(BaseModel):
    secret: str

    def model_post_init(self, _: Any) -> None:
        raise AttributeError(self.secret)


@pytest.mark.parametrize("has_pydantic", [True, False])
def test_errors_do_not_show_values(monkeypatch: pytest.MonkeyPatch, has_pydantic: bool) -> None:
    monkeypatch.setattr(codec, "_PYDANTIC", has_pydantic)
    for kind in (int, list[int], Breaks, dict[str, int], bytes if not has_pydantic else float):
        payload = {"secret": "hunter2"} if kind is Breaks else "hunter2"

        async def handler(_: Any) -> None:
            raise NotImplementedError

        handler.__annotations__["_"] = kind
        error = Windlass().job("reads")(handler).run_inline(payload).error
        assert error["code"] == "payload_unreadable" and "hunter2" not in json.dumps(error), kind


def test_models_are_written_as_they_are_read() -> None:
    value = Aliased.model_validate({"from": "Ann"})
    assert codec.decode(codec.plain(value), Aliased) == value


def test_bytes_reach_handlers_in_processes() -> None:
    given: list[Any] = []

    class Noted:
        async def run(self, module: str, name: str, payload: Any) -> Ended:
            given.append(payload)
            return Ended(1)

    @Windlass().job("bytes", executor="process")
    def takes(data: bytes) -> int:
        raise NotImplementedError

    async def use() -> None:
        settings = Settings(processes=Noted())  # type: ignore[arg-type]
        encoded = base64.b64encode(b"\xff").decode()
        await ended(attempt_of(takes, settings, payload_base64=encoded))

    asyncio.run(use())
    assert given == [b"\xff"]
    assert run_by_name(*process_fails.location, b"\xff")["failure"]["code"] == "payload_unreadable"


def test_a_process_that_dies_does_not_take_others_with_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    effects = tmp_path / "effects"
    monkeypatch.setenv("EFFECTS", str(effects))
    processes, location = Processes(2), process_fails.location

    async def use() -> None:
        waits = asyncio.create_task(processes.run(*location, f"waits {tmp_path / 'go'}"))
        await asyncio.to_thread(until, "it waits", effects.exists)
        died = await processes.run(*location, "dies")
        assert died.error is not None
        (tmp_path / "go").touch()
        assert (await waits).value == "waited"
        assert (await processes.run(*location, "again")).value == "again"

    try:
        asyncio.run(use())
    finally:
        processes.kill()


def test_a_group_has_as_many_results_as_were_spawned() -> None:
    children = [{"index": index, "state": "completed", "result": index} for index in range(3)]
    group = {"decided": "well", "total": 4, "children": children}
    found = results_of(group, [int, int]).results
    assert list(found[:3]) == [0, 1, 2] and found[3].state == "deleted"


def test_costs_are_booked_in_whole_cents() -> None:
    @Windlass().job("costs")
    async def costs(parts: int, cx: Cx) -> None:
        for _ in range(parts):
            cx.cost(0.5)
        with pytest.raises(ValueError):
            cx.cost(-1)

    async def use(parts: int) -> Any:
        return (await ended(attempt_of(costs, Settings(), payload=parts)) or {}).get("cost_cents")

    assert [asyncio.run(use(parts)) for parts in (0, 3, 4)] == [None, 2, 2]
