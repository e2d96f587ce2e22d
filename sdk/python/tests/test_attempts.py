"""Attempts: how they end, what they park on, and when their slots are free."""

from __future__ import annotations

import asyncio
import base64
import enum
import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from conftest import until
from jobs_app import process_fails
from pydantic import BaseModel, Field

from windlass_sdk import Cx, JobError, Permanent, Snooze, StepFailed, SyncCx, Windlass
from windlass_sdk import codec
from windlass_sdk.durable import core, waiting
from windlass_sdk.durable.children import results_of
from windlass_sdk.duration import moment_text
from windlass_sdk.work.inline import InlineBackend
from windlass_sdk.schemas import type_settings
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
def test_a_thread_that_sleeps_when_it_is_asked_to_stop_frees_its_slot(reason: Any, outcome: str | None) -> None:
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


def test_the_first_of_a_race_is_the_same_in_every_attempt() -> None:
    app = Windlass()

    @app.job("race")
    async def racing(_: None, cx: Cx) -> list[Any]:
        first = await cx.race(cx.wait_signal("paid"), cx.sleep("3d"))
        return [first.side, first.left, await cx.step("after", lambda: 1)]

    parked = racing.run_inline(None, now_ms=0)
    assert parked.park["any"][0] == {"signal": "paid", "step": "signal:paid#l1"}
    paid = racing.run_inline(None, saved={**parked.saved, "signal:paid#l1": {"signal": 5}}, now_ms=0)
    assert paid.result == ["left", 5, 1]
    # The sleep is over by now; the winner is the one of before.
    assert paid.saved["sleep:#r1"]["left_out"]
    late = racing.run_inline(None, saved=dict(paid.saved), now_ms=10**12)
    assert late.result == paid.result
    slept = racing.run_inline(None, saved=dict(parked.saved), now_ms=10**12)
    assert slept.result == ["right", None, 1]


def test_the_first_of_several_signals_is_received() -> None:
    app = Windlass()

    async def receive(cx: Cx) -> Any:
        return await cx.wait_any(["paid", "cancelled"], timeout="1h")

    @app.job("any")
    async def waiting(_: None, cx: Cx) -> Any:
        return await receive(cx)

    @app.job("any_sync")
    def waiting_sync(_: None, cx: SyncCx) -> Any:
        return cx.wait_any(["paid", "cancelled"], timeout="1h")

    for job in (waiting, waiting_sync):
        parked = job.run_inline(None, now_ms=0)
        assert [one["signal"] for one in parked.park["any"]] == ["paid", "cancelled"]
        cancelled = job.run_inline(None, saved={**parked.saved, "signal:cancelled": {"signal": 1}}, now_ms=0)
        assert cancelled.result == ["cancelled", 1]
        late = job.run_inline(None, saved={**parked.saved, "signal:paid": {"timeout": True}}, now_ms=0)
        assert (late.outcome, late.result) == ("completed", None)


def test_a_child_that_is_not_waited_for_is_a_step() -> None:
    app = Windlass()

    @app.job("mail")
    async def mail(to: str) -> None: ...

    @app.job("starts")
    async def starts(_: None, cx: Cx) -> list[str]:
        return [await cx.start(mail.child("ada")), await cx.start(mail.child("bob"))]

    @app.job("starts_sync")
    def starts_sync(_: None, cx: SyncCx) -> list[str]:
        return [cx.start(mail.child("ada")), cx.start(mail.child("bob"))]

    for job in (starts, starts_sync):
        done = job.run_inline(None)
        assert done.result == ["start mail/0", "start mail#2/0"]
        assert [one["jobs"][0]["payload"] for one in done.started] == ["ada", "bob"]
        again = job.run_inline(None, saved=dict(done.saved))
        assert (again.result, again.started) == (done.result, [])


class SchemaOrder(BaseModel):
    id: int
    lines: list[str] = Field(default_factory=list)


def test_the_schemas_of_a_type_are_those_of_its_annotations() -> None:
    app = Windlass()

    @app.job("order")
    async def order(o: SchemaOrder) -> int:
        return o.id

    @app.job("anything")
    async def anything(value: Any) -> None: ...

    settings = type_settings(order)
    assert settings["payload_schema"]["required"] == ["id"] and settings["result_schema"] == {"type": "integer"}
    assert type_settings(anything) == {"payload_schema": None, "result_schema": None}


def test_output_is_kept_in_order_and_too_much_of_it_waits() -> None:
    @Windlass().job("writes")
    async def writes(_: None, cx: Cx) -> None:
        for number in range(2_500):
            await cx.stream(number)
        with pytest.raises(Permanent, match="the limit is 65536"):
            await cx.stream("x" * 65_535)
        for write in (cx.stream, cx.checkpoint):
            with pytest.raises(Permanent, match="cannot be written as JSON"):
                await write(float("nan"))

    async def use() -> list[Any]:
        attempt = attempt_of(writes, Settings())
        outcome = await ended(attempt)
        assert outcome is not None and outcome["outcome"] == "completed"
        backend = attempt.calls.backend._backend
        assert isinstance(backend, InlineBackend)
        rest = outcome["stream"]
        assert len(rest["chunks"]) <= 1_000
        return [*backend.output[:rest["offset"]], *rest["chunks"]]

    assert asyncio.run(use()) == list(range(2_500))


def test_output_that_cannot_be_sent_for_now_is_sent_with_the_outcome() -> None:
    @Windlass().job("writes")
    async def writes(_: None, cx: Cx) -> None:
        await cx.stream("a")
        await asyncio.sleep(0.01)
        await cx.stream("b")

    async def use() -> None:
        attempt = attempt_of(writes, Settings())

        async def away(offset: int, chunks: Sequence[str]) -> None:
            raise JobError("the server is away", code="not_written")

        attempt.calls.backend.output._write = away
        outcome = await ended(attempt)
        assert outcome is not None and outcome["stream"] == {"offset": 0, "chunks": ["a", "b"]}

    asyncio.run(use())


class Colour(enum.Enum):
    RED = "red"
    TWO = 2


@pytest.mark.parametrize("has_pydantic", [True, False])
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (timedelta(seconds=90, microseconds=5), timedelta), (timedelta(seconds=-90), timedelta),
        ({1: "a"}, dict[int, str]), ({1.5: 1}, dict[float, int]), ({True: 1}, dict[bool, int]),
        ({"red": 1}, dict[str, int]), (2**200, int), (Decimal("1.10"), Decimal),
        (datetime(2030, 1, 1, tzinfo=timezone(timedelta(hours=5))), datetime),
    ],
)
def test_values_are_read_back_as_they_were(
    value: Any, kind: Any, has_pydantic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codec, "_PYDANTIC", has_pydantic)
    found = codec.decode(codec.plain(value), kind)
    assert found == value and type(found) is type(value)


def test_keys_of_objects_are_read_by_their_annotation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "_PYDANTIC", False)
    assert codec.decode({"red": 1, "2": 2}, dict[Colour, int]) == {Colour.RED: 1, Colour.TWO: 2}
    assert codec.decode({"7": 1, "x": 2}, dict[int | str, int]) == {7: 1, "x": 2}
    with pytest.raises(codec.Unreadable):
        codec.decode({"x": 1}, dict[int, int])


def generator() -> Any:
    yield 1


async def async_generator() -> Any:
    yield 1


def test_generators_are_no_handlers() -> None:
    for function in (generator, async_generator):
        with pytest.raises(TypeError, match="is a generator"):
            Windlass().job("a")(function)


def stops() -> None:
    raise StopIteration(3)


async def a_far_sleep(cx: Cx) -> None:
    await cx.sleep("100000000d")


async def a_name_that_is_no_text(cx: Cx) -> None:
    await cx.step("\ud800", stops)


async def another_loop(cx: Cx) -> None:
    await asyncio.to_thread(lambda: asyncio.run(cx.step("a", stops)))


@pytest.mark.parametrize(
    ("handler", "code", "message"),
    [
        (lambda cx: cx.step("a", stops), "RuntimeError", "the step raised StopIteration"),
        (lambda cx: cx.step("a", generator), "step_work", "the function of a step is a generator"),
        (lambda cx: cx.step("a", async_generator), "step_work", "the function of a step is a generator"),
        (a_far_sleep, "not_allowed", "sleep: ends after the year 9999"),
        (a_name_that_is_no_text, "step_name", "step: is no Unicode text"),
        (another_loop, "RuntimeError", "calls of a context belong to the event loop of its worker"),
    ],
)
def test_what_no_handler_can_do_fails_the_attempt(handler: Any, code: str, message: str) -> None:
    app = Windlass()

    @app.job("does")
    async def does(_: None, cx: Cx) -> None:
        await handler(cx)

    async def use() -> None:
        outcome = await ended(attempt_of(does, Settings()))
        assert outcome is not None and outcome["outcome"] == "failed"
        assert outcome["error"]["code"] == code and outcome["error"]["message"].startswith(message)

    asyncio.run(use())
