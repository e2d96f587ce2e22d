"""Durable jobs in a push target, for functions that live only for one request. The server sends what earlier calls saved. A
call does one new step, or those that run side by side, and answers with what they returned; the server saves it and calls
again, and the handler runs from its top to the next step."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from .codec import dumps
from .durable.calls import NewGroup, Spawned, park_body
from .durable.history import is_within
from .errors import Permanent
from .work.inline import InlineBackend
from .work.attempt import Attempt, Settings
from .work.backend import saved_steps

#: The content type of a push to a durable target: the job as a claim has it.
CLAIM_TYPE = "application/vnd.windlass.claim+json"
#: The content type of an answer that is an outcome of the worker protocol.
OUTCOME_TYPE = "application/vnd.windlass.outcome+json"
#: How often it is asked whether steps beside a saved one still run, in seconds.
LOOK_SECONDS = 0.005
#: Chunks of output and log lines in one answer; what is more is left out.
ITEMS_MAX = 1_000
#: Bytes of output in one answer.
OUTPUT_BYTES_MAX = 1 << 20


class PushBackend(InlineBackend):
    """Collects what a handler writes, for the answer."""

    def __init__(self, claimed: Mapping[str, Any], now_ms: int) -> None:
        super().__init__({}, claimed.get("groups") or (), None)
        self._began_ms, self._clock_ms = now_ms, super().now_ms()
        self.request: dict[str, Any] | None = None
        self.chunks: list[str] = []

    def now_ms(self) -> int:
        """The store's time."""
        return self._began_ms + super().now_ms() - self._clock_ms

    async def save(self, records: Sequence[tuple[str, Any]]) -> None:
        """Ends the call when no other step runs: the handler continues in the next one, after the server has saved this."""
        await super().save(records)
        assert self.calls is not None, "it is set before the handler runs"
        while any(self._runs(key) for key in self.calls.order.working):
            await asyncio.sleep(LOOK_SECONDS)
        self.calls.park({"until": self.now_ms()})
        await asyncio.get_running_loop().create_future()

    def _runs(self, key: str) -> bool:
        # A step around a saved one waits for it, and runs again.
        return key not in self.saved and not any(is_within(saved, key) for saved in self.saved)

    async def group(self, key: str) -> Mapping[str, Any] | None:
        """A group that came with the push."""
        found = await super().group(key)
        if found is not None and found.get("next_cursor"):
            raise Permanent("the results of the children do not fit into one push", "child_results_too_large")
        return found

    async def spawn(self, group: NewGroup, records: Sequence[tuple[str, Any]]) -> Spawned:
        """Children that the server spawns; it parks the job on them."""
        if group.beside is None:
            raise Permanent("a pushed job cannot start children that it does not wait for at once", "not_allowed")
        await super().save(records)
        self.request = {"name": group.name, "strategy": group.strategy, "jobs": list(group.jobs)}
        if group.beside:
            self.request["beside"] = [park_body(one, self.now_ms()) for one in group.beside]
        return Spawned(True)

    async def stream(self, offset: int, chunks: Sequence[str]) -> None:
        """Keeps the output for the answer."""
        self.chunks[offset:] = chunks


async def run_pushed(job: Any, claimed: Mapping[str, Any], now_ms: int) -> str:
    """Runs a pushed job until its next step is done. Returns the answer: an outcome as JSON."""
    backend = PushBackend(claimed, now_ms)
    attempt = Attempt(claimed, job, backend, Settings(errors=job.app.errors))
    backend.calls = attempt.calls
    text = await attempt.run()
    found: dict[str, Any] = json.loads(text) if text else {"outcome": "parked" if backend.request else "released"}
    own = {one["step"]: one["value"] for one in found.get("checkpoints", [])}
    if checkpoints := {**backend.saved, **own}:
        found["checkpoints"] = saved_steps(checkpoints.items())
    if backend.request is not None:
        found["children"] = backend.request
    if logs := [line for note in backend.notes for line in note.get("logs", ())][:ITEMS_MAX]:
        found["logs"] = logs
    if progress := [note["progress"] for note in backend.notes if "progress" in note]:
        found["progress"] = progress[-1]
    rest = found.pop("stream", {"offset": len(backend.chunks), "chunks": []})
    backend.chunks[rest["offset"]:] = [dumps(chunk) for chunk in rest["chunks"]]
    if chunks := _fitting(backend.chunks):
        found["stream"] = {"offset": 0, "chunks": [json.loads(chunk) for chunk in chunks]}
    return dumps({**found, "id": claimed["id"], "fence": claimed["fence"]})


def _fitting(chunks: Sequence[str]) -> list[str]:
    found, size = [], 0
    for chunk in chunks[:ITEMS_MAX]:
        size += len(chunk.encode())
        if size > OUTPUT_BYTES_MAX:
            break
        found.append(chunk)
    return found
