"""Handlers in processes. One that dies fails its job as a crash and is replaced."""

from __future__ import annotations

import asyncio
import importlib
import json
import multiprocessing
import os
import signal
import typing
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

from ..codec import decode, dumps
from ..errors import Failure, JobError, Permanent, Snooze, failure_of, snooze_of


@dataclass(frozen=True)
class Ended:
    """How a handler ended: with a value, or with an exception."""

    value: Any = None
    error: BaseException | None = None


class Processes:
    """Processes for one handler at a time each. One that died is made again. Each has an executor of its own: the
    death of a process breaks all handlers of its executor."""

    def __init__(self, size: int | None) -> None:
        self._pools: set[ProcessPoolExecutor] = set()
        #: Last in, first out: a process that was used before is taken before a new one is started.
        self._free: asyncio.LifoQueue[ProcessPoolExecutor | None] = asyncio.LifoQueue()
        for _ in range(size or os.cpu_count() or 1):
            self._free.put_nowait(None)

    async def run(self, module: str, name: str, payload: Any) -> Ended:
        """Runs a handler by its name."""
        kept: ProcessPoolExecutor | None = await self._free.get()
        try:
            if kept is None:
                kept = self._start()
            answer = await asyncio.get_running_loop().run_in_executor(kept, run_by_name, module, name, payload)
        except BrokenProcessPool:
            if kept is not None:
                self._pools.discard(kept)
                kept = None
            return Ended(error=JobError("the process of the handler died", category="system", code="panic"))
        finally:
            self._free.put_nowait(kept)
        if "snooze_ms" in answer:
            return Ended(error=Snooze(answer["snooze_ms"] / 1000))
        if "failure" in answer:
            error = JobError()
            error.failure = Failure.of_record(answer["failure"])
            return Ended(error=error)
        return Ended(answer["value"])

    def _start(self) -> ProcessPoolExecutor:
        # Not forked: other threads may hold locks at that moment.
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(1, mp_context=context, initializer=ignore_signals)
        self._pools.add(pool)
        return pool

    def kill(self) -> None:
        """Ends all processes at once."""
        for pool in self._pools:
            processes = list((pool._processes or {}).values())
            pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.kill()


def read_payload(raw: Any, kind: Any) -> Any:
    """A payload as its handler takes it; one that is not JSON is handed over as bytes.

    Raises ``Permanent``.
    """
    if isinstance(raw, bytes):
        if kind in (None, Any, object, bytes) or bytes in typing.get_args(kind):
            return raw
        raise Permanent("the payload is not JSON; its handler takes no bytes", "payload_unreadable")
    try:
        return decode(raw, kind)
    except Exception as error:
        raise Permanent(f"the payload cannot be read as this type: {error}", "payload_unreadable") from error


def ignore_signals() -> None:
    """A signal for the whole group is the worker's to handle."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def run_by_name(module: str, name: str, payload: Any) -> dict[str, Any]:
    """Runs a handler in a process of the pool. Errors are sent back as plain data: exceptions of any class may not
    survive the way."""
    job: Any = importlib.import_module(module)
    for part in name.split("."):
        job = getattr(job, part)
    try:
        result = job.call(read_payload(payload, job.payload_kind), None)
        try:
            return {"value": json.loads(dumps(result))}
        except Exception as error:
            raise Permanent(f"the result cannot be written as JSON: {error}", "result_unwritable") from None
    except BaseException as error:
        snooze = snooze_of(error)
        if snooze is not None:
            return {"snooze_ms": snooze.delay_ms}
        if isinstance(error, (SystemExit, KeyboardInterrupt)):
            return {"failure": Failure("system", f"the handler ended with {error!r}", "panic").record()}
        return {"failure": failure_of(error, {**job.app.errors, **job.errors}).record()}
