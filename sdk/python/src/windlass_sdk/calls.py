"""Durable calls of one attempt: steps, sleeps, waits and groups, saved and replayed as the worker protocol says."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from datetime import datetime, timezone
from typing import Any, Protocol, TypeVar

from .codec import plain
from .duration import moment_millis, moment_text
from .errors import (
    Category, Failure, JobError, Permanent, Snooze, StepFailed, StepsChanged, StepSnoozed, chain, failure_of,
)
from .history import CHECKPOINT, Places, Record, is_step_name
from .order import Call, Order
from .waiting import Waiting

log = logging.getLogger("windlass")
T = TypeVar("T")

#: How far the end of a sleep that counts down to a moment may differ in a later attempt.
SLEEP_END_TOLERANCE_MS = 60_000
#: How long a call that comes early waits for those before it while others run, in seconds.
TURN_SECONDS = 1.0
#: How long a call that was dropped waits to be dropped again, besides twice the time it took, in seconds.
DROPPED_SECONDS = 10.0


class Backend(Protocol):
    """Where an attempt writes: a server, or a test."""

    def now_ms(self) -> int:
        """The store's time."""

    async def save(self, records: Sequence[tuple[str, Any]]) -> None:
        """Saves checkpoints, in this order."""

    async def group(self, key: str) -> Mapping[str, Any] | None:
        """A group of children: ``decided``, ``total`` and ``children``."""

    async def spawn(self, key: str, strategy: Any, jobs: Sequence[Any], beside: Sequence[Any]) -> bool:
        """Spawns a group and parks the job; false if the group was decided already, and the job still runs."""

    async def note(self, item: Mapping[str, Any]) -> None:
        """Sends progress or log lines."""


class Stopped(BaseException):
    """Ends the handler of an attempt that parked or lost its job. Handlers must not catch it."""


class Calls:
    """The calls of one attempt, on its event loop."""

    def __init__(
        self, saved: Mapping[str, Any], backend: Backend, *, is_strict: bool = True,
        mapping: Mapping[type[BaseException], Category] | None = None, threads: Executor | None = None,
    ) -> None:
        #: Where blocking work runs; None for the loop's own threads.
        self.threads = threads
        self.saved = dict(saved)
        self.backend, self.is_strict, self.mapping = backend, is_strict, mapping
        self.order = Order(saved)
        self.waiting = Waiting(self.order, backend.now_ms, self.park)
        #: How the attempt ended before its handler: what it parks on; None if nothing is to be reported.
        self.exit: asyncio.Future[Mapping[str, Any] | None] = asyncio.get_running_loop().create_future()
        self.changed: StepsChanged | None = None
        self._moved = asyncio.Event()

    def park(self, park: Mapping[str, Any]) -> None:
        """The job parks on this."""
        if not self.exit.done():
            self.exit.set_result(park)

    def leave(self) -> None:
        """Nothing is to be reported any more."""
        if not self.exit.done():
            self.exit.set_result(None)

    async def begin(self, name: str, branch: str, is_main: bool) -> Call:
        """Starts a call when it may continue."""
        if self.exit.done():
            raise Stopped
        if self.changed is not None:
            raise self.changed
        call = self.order.call(name, branch)
        self._progress()
        try:
            if not is_main:
                # Calls beside it are made first, so that it is known that they are.
                await asyncio.sleep(0)
            if call.is_left_out:
                await self._wait_dropped(call)
            if self.is_strict and not self.order.is_turn(call):
                await self._wait_turn(call, is_main)
        except BaseException:
            call.has_ended = True
            self.end(call)
            raise
        return call

    async def _wait_dropped(self, call: Call) -> None:
        while call.is_left_out:
            dropped = self.order.known.left_out[call.key]
            await asyncio.sleep(DROPPED_SECONDS + dropped.ran_ms / 500)
            log.warning("`%s` was dropped in an earlier attempt and is not dropped now: it runs", call.key)
            self.order.next_key(call)
            first = dropped.places.first
            if not call.is_left_out and call.saved is None and first is not None:
                call.first = first
                self.order.known.require_nothing_after(first)

    async def _wait_turn(self, call: Call, is_main: bool) -> None:
        while not (is_main and len(self.order.active) == 1):
            if call.saved is not None:
                return
            try:
                self._moved.clear()
                await asyncio.wait_for(self._moved.wait(), TURN_SECONDS)
            except asyncio.TimeoutError:
                if len(self.order.active) == 1:
                    break
                log.warning("the order of steps differs from earlier attempts; they run in the new order")
                self.order.is_unknown = True
            if self.order.is_turn(call):
                return
        missing = self.order.known.first_missing()
        place, key = missing or (0, "another call")
        self.changed = StepsChanged(
            f"the code was changed: `{call.key}` is called where an earlier attempt saved `{key}` as call {place}; "
            "let jobs that started before finish first, or use lenient_steps"
        )
        raise self.changed

    def _progress(self) -> None:
        self._moved.set()
        self.waiting.consider()

    def end(self, call: Call) -> None:
        """Ends a call."""
        self.order.end(call)
        if not self.exit.done():
            self._progress()

    async def save_after(self, call: Call, key: str | None = None, record: Any = None) -> None:
        """Saves what must precede the call, then the record."""
        before = self.order.saved_before(call)
        records = before + ([] if key is None else [(key, record)])
        if not records:
            return
        await self.backend.save(records)
        self.saved.update(records)
        self.order.mark_saved([key for key, _ in before])

    # Steps

    async def enter_step(self, name: str, branch: str, is_main: bool) -> tuple[Call, bool, Any]:
        """Starts a step. Returns it, whether it is saved, and its saved value. Raises its saved error."""
        if not is_step_name(name):
            raise Permanent(f"a step cannot be named `{name}`", "step_name")
        call = await self.begin(name, branch, is_main)
        if call.saved is None:
            self.order.working.add(call.key)
            return call, False, None
        record = self.saved[call.key]
        call.has_ended = True
        try:
            failure = record.get("failure")
            if failure is not None:
                self._raise_saved(call, record, Failure.of_record(failure))
            return call, True, record.get("value")
        finally:
            self.end(call)

    def _raise_saved(self, call: Call, record: Record, failure: Failure) -> None:
        if "snooze_ms" in record:
            snooze = StepSnoozed(record["snooze_ms"], call.key)
            self.order.returns(call, snooze, Places.of(record))
            raise snooze
        error = StepFailed(failure, call.key)
        if failure.category != "permanent":
            self.order.returns(call, error, Places.of(record))
        raise error

    def read_saved(self, call: Call, value: Any, read: Callable[[Any], T]) -> T:
        """A saved value as the code expects it."""
        try:
            return read(value)
        except (TypeError, ValueError, KeyError) as error:
            self.changed = StepsChanged(
                f"the saved value of step `{call.key}` cannot be read as the type the code expects: {error}"
            )
            raise self.changed from error

    async def step_done(self, call: Call, value: Any, read: Callable[[Any], T]) -> T:
        """Saves a step's value, and returns it as read back."""
        try:
            try:
                json = plain(value)
                found = read(json)
            except (TypeError, ValueError, KeyError) as error:
                message = f"the step's value cannot be read back from its JSON: {error}"
                raise await self._save_failure(call, Failure("permanent", message, "step_unwritable")) from None
            await self._save_step(call, {"value": json})
            return found
        finally:
            self.end(call)

    async def step_failed(self, call: Call, error: BaseException) -> BaseException:
        """Ends a step with an exception. Returns the one that the handler gets."""
        try:
            snooze = next((one for one in chain(error) if isinstance(one, Snooze)), None)
            if snooze is not None:
                found = StepSnoozed(snooze.delay_ms, call.key)
                self.order.fail(call, found, error)
                return found
            failure = failure_of(error, self.mapping)
            if failure.category == "permanent":
                return await self._save_failure(call, failure)
            failed = StepFailed(failure, call.key)
            self.order.fail(call, failed, error)
            return failed
        finally:
            self.end(call)

    async def _save_failure(self, call: Call, failure: Failure) -> StepFailed:
        await self._save_step(call, {"failure": failure.record()})
        return StepFailed(failure, call.key)

    async def _save_step(self, call: Call, result: Record) -> None:
        try:
            await self.save_after(call, call.key, {**self.order.record(call), **result})
        except JobError as error:
            failed = StepFailed(error.failure, call.key)
            self.order.fail(call, failed, None)
            raise failed from error
        call.has_ended = True

    # Sleeping and waiting

    async def sleep(self, name: str, length_ms: int, branch: str, is_main: bool) -> None:
        """Sleeps without a slot."""
        call = await self.begin(f"sleep:{name}", branch, is_main)
        try:
            while call.saved is not None and not name and self.is_strict:
                record = self.saved[call.key]
                if self._is_same_sleep(length_ms, record):
                    break
                if record.get("at") is not None or call.is_nested:
                    self.changed = StepsChanged(
                        f"the code was changed: sleep `{call.key}` lasts {length_ms}ms, and lasted "
                        f"{record['lasts_ms']}ms in an earlier attempt; give a sleep whose length varies a name"
                    )
                    raise self.changed
                self.order.next_key(call)
            if call.saved is None:
                until = self.backend.now_ms() + length_ms
                record = {**self.order.record(call), "until": until, "lasts_ms": length_ms}
                await self.save_after(call, call.key, record)
            else:
                record = self.saved[call.key]
            self.order.goes_on(call, record)
            until = record.get("until", 0)
            if until > self.backend.now_ms():
                await self.waiting.wait(call, {"until": until}, until, is_main)
            call.has_ended = True
        finally:
            self.end(call)

    def _is_same_sleep(self, length_ms: int, record: Record) -> bool:
        if "lasts_ms" not in record or "until" not in record:
            return True
        end = self.backend.now_ms() + length_ms
        return length_ms in (0, record["lasts_ms"]) or abs(end - record["until"]) <= SLEEP_END_TOLERANCE_MS

    async def wait_signal(self, name: str, timeout_ms: int | None, branch: str, is_main: bool) -> Record:
        """Waits for a signal without a slot. Returns the record: ``signal`` or ``timeout``."""
        call = await self.begin(f"signal:{name}", branch, is_main)
        try:
            if call.saved is None:
                until = None
                if timeout_ms is not None:
                    until = await self._deadline(call, timeout_ms)
                await self.save_after(call)
                park: dict[str, Any] = {"signal": name, "step": call.key, "deadline": until}
                await self.waiting.wait(call, park, None, is_main)
            call.has_ended = True
            found: Record = self.saved[call.key]
            return found
        finally:
            self.end(call)

    async def _deadline(self, call: Call, timeout_ms: int) -> int:
        key = f"deadline:{call.key}"
        if key in self.saved:
            return int(self.saved[key].get("until", 0))
        until = self.backend.now_ms() + timeout_ms
        await self.save_after(call, key, {"until": until})
        return until

    # Children

    async def children(
        self, name: str, strategy: Any, jobs: Sequence[Mapping[str, Any]], branch: str, is_main: bool
    ) -> Mapping[str, Any]:
        """Spawns a group, and returns it once it is decided."""
        call = await self.begin(f"children:{name}", branch, is_main)
        shape = {"strategy": strategy, "count": len(jobs), "types": sorted({job["type"] for job in jobs})}
        try:
            if call.saved is not None:
                self._check_shape(call, name, shape)
                group = await self.backend.group(call.key)
                if group is not None and group.get("decided"):
                    call.has_ended = True
                    return group
            else:
                await self.save_after(call, call.key, {**self.order.record(call), "group": shape})
            self.order.goes_on(call, {**self.order.record(call), "group": shape})
            beside = await self.waiting.wait(call, None, None, is_main)
            if records := self.order.beside_each_other():
                await self.backend.save(records)
            if await self.backend.spawn(call.key, strategy, jobs, beside):
                call.has_ended = True
                self.leave()
                raise Stopped
            call.has_ended = True
            return await self.backend.group(call.key) or {}
        finally:
            self.end(call)

    def _check_shape(self, call: Call, name: str, shape: Record) -> None:
        saved = self.saved[call.key].get("group")
        if not name and self.is_strict and saved is not None and saved != shape:
            self.changed = StepsChanged(
                f"the code was changed: group `{call.key}` is {shape}, and was {saved} in an earlier attempt; give a "
                "group that varies a name"
            )
            raise self.changed

    async def checkpoint(self, value: Any) -> None:
        """Saves a checkpoint, replacing the previous one."""
        if self.exit.done():
            raise Stopped
        read = plain(value)
        await self.backend.save([(CHECKPOINT, read)])
        self.saved[CHECKPOINT] = read


def park_body(park: Mapping[str, Any], now_ms: int) -> dict[str, Any]:
    """What a job parks on, as the API takes it: waits for signals have the time that is left."""
    if "any" in park:
        return {"any": [park_body(one, now_ms) for one in park["any"]]}
    if "signal" in park:
        body = {"signal": park["signal"], "step": park["step"]}
        if park["deadline"] is not None:
            body["timeout"] = f"{max(0, park['deadline'] - now_ms)}ms"
        return body
    return {"until": moment_text(datetime.fromtimestamp(park["until"] / 1000, timezone.utc))}


def deadline_seconds(deadline: str | None, now_ms: int) -> float | None:
    """Seconds until a moment of the API."""
    return None if deadline is None else max(0.0, (moment_millis(deadline) - now_ms) / 1000)
