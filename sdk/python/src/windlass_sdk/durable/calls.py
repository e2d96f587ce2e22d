"""Durable calls of one attempt: steps, sleeps, waits and groups, saved and replayed as the worker protocol says."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from ..codec import plain
from ..duration import moment_millis, moment_text
from ..errors import Permanent, StepsChanged
from .core import Backend, NewGroup, Spawned, Stopped
from .history import CHECKPOINT, Branch, Record
from .order import Call
from .steps import StepCalls

__all__ = ["Backend", "Calls", "NewGroup", "Spawned", "Stopped", "deadline_seconds", "park_body"]

#: How far the end of a sleep that counts down to a moment may differ in a later attempt.
SLEEP_END_TOLERANCE_MS = 60_000
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
#: The last moment that the API can name.
_LAST_MS = 253_402_300_799_999


class Calls(StepCalls):
    """The calls of one attempt, on its event loop."""

    async def sleep(self, name: str, length_ms: int, branch: Branch, is_main: bool) -> None:
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
                until = self._end_of(length_ms)
                record = {**self.order.record(call), "until": until, "lasts_ms": length_ms}
                is_parking = length_ms > 0 and self.waiting.parks_at_once(call, is_main)
                await self.save_after(call, call.key, record, is_parking=is_parking)
            else:
                record = self.saved[call.key]
            self.order.continues(call, record)
            until = record.get("until", 0)
            if until > self.backend.now_ms() or call.key in self.deferred:
                await self.waiting.wait(call, {"until": until}, until, is_main)
            call.has_ended = True
        finally:
            self.end(call)

    def _end_of(self, length_ms: int) -> int:
        """The end of a sleep or timeout that begins now."""
        until = self.backend.now_ms() + length_ms
        if until > _LAST_MS:
            raise Permanent(f"sleep: ends after the year 9999: it lasts {length_ms}ms", "not_allowed")
        if self.expires_at is not None and until >= moment_millis(self.expires_at):
            raise Permanent(
                f"{length_ms}ms from now is after the end of the job's lifetime ({self.expires_at}): set a longer "
                "`lifetime` for the job, its type or its queue", "lifetime_too_short"
            )
        return until

    def _is_same_sleep(self, length_ms: int, record: Record) -> bool:
        if "lasts_ms" not in record or "until" not in record:
            return True
        end = self.backend.now_ms() + length_ms
        return length_ms in (0, record["lasts_ms"]) or abs(end - record["until"]) <= SLEEP_END_TOLERANCE_MS

    async def wait_signal(self, name: str, timeout_ms: int | None, branch: Branch, is_main: bool) -> Record:
        """Waits for a signal without a slot. Returns the record: ``signal`` or ``timeout``."""
        call = await self.begin(f"signal:{name}", branch, is_main)
        try:
            if call.saved is None:
                until = None
                if timeout_ms is not None:
                    until = await self._deadline(call, timeout_ms, is_main)
                await self.save_after(call, is_parking=self.waiting.parks_at_once(call, is_main))
                park: dict[str, Any] = {"signal": name, "step": call.key, "deadline": until}
                await self.waiting.wait(call, park, None, is_main)
            call.has_ended = True
            found: Record = self.saved[call.key]
            return found
        finally:
            self.end(call)

    async def _deadline(self, call: Call, timeout_ms: int, is_main: bool) -> int:
        key = f"deadline:{call.key}"
        if key in self.saved:
            return int(self.saved[key].get("until", 0))
        until = self._end_of(timeout_ms)
        is_parking = self.waiting.parks_at_once(call, is_main)
        await self.save_after(call, key, {"until": until}, is_parking=is_parking)
        return until

    async def children(
        self, name: str, strategy: Any, jobs: Sequence[Mapping[str, Any]], branch: Branch, is_main: bool
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
                record = {**self.order.record(call), "group": shape}
                is_parking = self.waiting.parks_at_once(call, is_main)
                await self.save_after(call, call.key, record, is_parking=is_parking)
            self.order.continues(call, {**self.order.record(call), "group": shape})
            beside = await self.waiting.wait(call, None, None, is_main)
            records = {**self.deferred, **dict(self.order.beside_each_other())}
            group_of = NewGroup(call.key, strategy, jobs, beside)
            is_parked = (await self.backend.spawn(group_of, list(records.items()))).is_parked
            self.deferred.clear()
            if beside is None:
                await self.waiting.wait(call, {"group": call.key}, None, is_main)
            if is_parked:
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

    async def start(self, key: str, job: Mapping[str, Any]) -> str:
        """Spawns a child that is not waited for, as the work of the step with this key; returns its id."""
        ids = (await self.backend.spawn(NewGroup(key, "collect_all", [job], None), [])).ids
        if not ids:
            raise Permanent("the child was deleted before its id was saved", "child_deleted")
        return ids[0]

    async def wait_any(
        self, names: Sequence[str], timeout_ms: int | None, branch: Branch
    ) -> tuple[str, Record] | None:
        """Waits for the first of several signals, and returns its name and record; None after the timeout."""
        if not names:
            raise Permanent("no signal names were given", "not_allowed")
        waits = [asyncio.ensure_future(self.wait_signal(name, timeout_ms, branch, False)) for name in names]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            name, first = next((name, wait) for name, wait in zip(names, waits) if wait.done())
            record = first.result()
            return None if record.get("timeout") else (name, record)
        finally:
            await drop(waits)

    async def checkpoint(self, value: Any) -> None:
        """Saves a checkpoint, replacing the previous one."""
        if self.exit.done():
            raise Stopped
        try:
            read = plain(value)
        except (TypeError, ValueError) as error:
            raise Permanent(f"the checkpoint cannot be written as JSON: {error}", "not_allowed") from error
        await self.backend.save([(CHECKPOINT, read)])
        self.saved[CHECKPOINT] = read


async def drop(tasks: Sequence[asyncio.Future[Any]]) -> None:
    """Ends what the handler does not wait for any more."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def park_body(park: Mapping[str, Any], now_ms: int) -> dict[str, Any]:
    """What a job parks on, as the API takes it: waits for signals have the time that is left."""
    if "any" in park:
        return {"any": [park_body(one, now_ms) for one in park["any"]]}
    if "group" in park:
        return dict(park)
    if "signal" in park:
        body = {"signal": park["signal"], "step": park["step"]}
        if park["deadline"] is not None:
            body["timeout"] = f"{max(0, park['deadline'] - now_ms)}ms"
        return body
    return {"until": moment_text(_EPOCH + timedelta(milliseconds=park["until"]))}


def deadline_seconds(deadline: str | None, now_ms: int) -> float | None:
    """Seconds until a moment of the API."""
    return None if deadline is None else max(0.0, (moment_millis(deadline) - now_ms) / 1000)
