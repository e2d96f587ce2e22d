"""Attempts without a server, for tests: what a handler does with what earlier attempts saved."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .attempt import Attempt, Settings
from ..durable.calls import Calls, NewGroup, Spawned
from ..codec import payload_fields, plain
from ..errors import JobFailed


@dataclass
class Inline:
    """What an attempt did."""

    #: ``completed``, ``failed``, ``parked`` or ``spawned``.
    outcome: str
    #: The handler's result, as JSON.
    result: Any = None
    #: The error of a failed attempt: ``category``, ``code``, ``message``.
    error: Mapping[str, Any] = field(default_factory=dict)
    #: What a parked attempt waits for.
    park: Mapping[str, Any] = field(default_factory=dict)
    #: The group that the attempt spawned.
    spawned: Mapping[str, Any] = field(default_factory=dict)
    #: Groups and children that the attempt spawned without parking.
    started: Sequence[Mapping[str, Any]] = ()
    #: Every checkpoint that was written, in order.
    saves: Sequence[tuple[str, Any]] = ()
    #: All checkpoints after the attempt: pass them as ``saved`` to run the next one.
    saved: Mapping[str, Any] = field(default_factory=dict)
    #: Progress and log lines.
    notes: Sequence[Mapping[str, Any]] = ()
    #: Jobs that are submitted with the completion.
    follow_ups: Sequence[Mapping[str, Any]] = ()
    #: The partial output of the attempt, chunk by chunk.
    output: Sequence[Any] = ()

    def value(self) -> Any:
        """The result; raises ``JobFailed`` if the attempt did not complete."""
        if self.outcome != "completed":
            raise JobFailed("inline", self.outcome, self.error or {"message": str(self.park or self.spawned)})
        return self.result


class InlineBackend:
    """Keeps everything in memory."""

    def __init__(self, saved: dict[str, Any], groups: Sequence[Mapping[str, Any]], now_ms: int | None) -> None:
        self.saved, self._groups, self._now = saved, groups, now_ms
        self.saves: list[tuple[str, Any]] = []
        self.notes: list[Mapping[str, Any]] = []
        self.spawned: dict[str, Any] = {}
        self.started: list[Mapping[str, Any]] = []
        self.output: list[Any] = []
        self.calls: Calls | None = None

    def now_ms(self) -> int:
        """The time, which stands still if the test gave one."""
        return time.time_ns() // 1_000_000 if self._now is None else self._now

    async def save(self, records: Sequence[tuple[str, Any]]) -> None:
        """Saves checkpoints."""
        await asyncio.sleep(0)
        self.saves.extend((key, plain(value)) for key, value in records)
        self.saved.update((key, plain(value)) for key, value in records)

    async def group(self, key: str) -> Mapping[str, Any] | None:
        """The group that the test gave."""
        return next((group for group in self._groups if group["name"] == key), None)

    async def spawn(self, group: NewGroup, records: Sequence[tuple[str, Any]]) -> Spawned:
        """Notes what was spawned."""
        await self.save(records)
        spawned = {"name": group.name, "strategy": group.strategy, "jobs": [plain(job) for job in group.jobs]}
        if group.beside is None:
            self.started.append(spawned)
            return Spawned(False, [f"{group.name}/{index}" for index in range(len(group.jobs))])
        self.spawned = spawned
        return Spawned(True)

    async def note(self, item: Mapping[str, Any]) -> None:
        """Notes progress and log lines."""
        self.notes.append(item)

    async def stream(self, offset: int, chunks: Sequence[str]) -> None:
        """Keeps the output."""
        self.output[offset:] = [json.loads(chunk) for chunk in chunks]


async def run_inline_async(
    job: Any, payload: Any, *, saved: Mapping[str, Any] | None = None, attempt: int = 1,
    groups: Sequence[Mapping[str, Any]] = (), now_ms: int | None = None, lenient_steps: bool = False,
    claimed: Mapping[str, Any] | None = None,
) -> Inline:
    """Runs one attempt. ``saved`` are checkpoints of earlier attempts: records of the worker protocol, or the plain
    values of steps. ``groups`` are decided groups of children. ``claimed`` are fields of the
    job as a claim has them, such as ``id``, ``queue`` and ``tenant``."""
    records = {key: _record(key, value, place) for place, (key, value) in enumerate((saved or {}).items())}
    backend = InlineBackend(dict(records), groups, now_ms)
    fields = {
        "id": "01900000-0000-4000-8000-000000000000", "fence": 1, "attempt": attempt, "failures": attempt - 1,
        "max_attempts": max(attempt, 3), "type": job.type, "queue": "default", "tenant": "default",
        **payload_fields(payload), "checkpoints": [{"step": key, "value": one} for key, one in records.items()],
        **(claimed or {}),
    }
    settings = Settings(is_strict=not lenient_steps, errors=job.app.errors)
    running = Attempt(fields, job, backend, settings)
    text = await running.run()
    outcome: dict[str, Any] = json.loads(text) if text else {"outcome": "spawned"}
    await backend.save([(one["step"], one["value"]) for one in outcome.get("checkpoints", [])])
    if rest := outcome.get("stream"):
        backend.output[rest["offset"]:] = rest["chunks"]
    return Inline(
        outcome["outcome"], outcome.get("result"), outcome.get("error", {}), outcome.get("park", {}),
        backend.spawned, backend.started, backend.saves, backend.saved, backend.notes, outcome.get("submit", ()),
        backend.output,
    )


def run_inline(job: Any, payload: Any, **options: Any) -> Inline:
    """As ``run_inline_async``, for tests without an event loop."""
    return asyncio.run(run_inline_async(job, payload, **options))


_FIELDS = {"at", "from", "value", "failure", "until", "group", "open", "left_out", "signal", "timeout"}


def _record(key: str, value: Any, place: int) -> Any:
    """A record as it is, or a plain value of a step or signal as a record."""
    if key == "checkpoint" or (isinstance(value, dict) and value and set(value) & _FIELDS):
        return value
    return {"signal": value} if key.startswith("signal:") else {"at": place, "value": value}
