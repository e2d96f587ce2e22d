"""Handlers in processes. One that dies fails its job as a crash and is replaced."""

from __future__ import annotations

import asyncio
import importlib
import json
import multiprocessing
import signal
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

from ..codec import decode, dumps
from ..errors import Failure, JobError, Permanent, Snooze, chain, failure_of


@dataclass(frozen=True)
class Ended:
    """How a handler ended: with a value, or with an exception."""

    value: Any = None
    error: BaseException | None = None


class Processes:
    """A pool of processes that is made again when one of them died."""

    def __init__(self, size: int | None) -> None:
        self._size = size
        self._pool: ProcessPoolExecutor | None = None

    async def run(self, module: str, name: str, payload: Any) -> Ended:
        """Runs a handler by its name."""
        if self._pool is None:
            # Not forked: other threads may hold locks at that moment.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self._size, mp_context=context, initializer=ignore_signals)
        pool = self._pool
        try:
            answer = await asyncio.get_running_loop().run_in_executor(pool, run_by_name, module, name, payload)
        except BrokenProcessPool:
            if self._pool is pool:
                self._pool = None
            return Ended(error=JobError("a process of the pool died", category="system", code="panic"))
        if "snooze_ms" in answer:
            return Ended(error=Snooze(answer["snooze_ms"] / 1000))
        if "failure" in answer:
            error = JobError()
            error.failure = Failure.of_record(answer["failure"])
            return Ended(error=error)
        return Ended(answer["value"])

    def kill(self) -> None:
        """Ends all processes at once."""
        if self._pool is not None:
            processes = list((self._pool._processes or {}).values())
            self._pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.kill()


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
        try:
            value = decode(payload, job.payload_kind)
        except (TypeError, ValueError, KeyError) as error:
            raise Permanent(f"the payload cannot be read as this type: {error}", "payload_unreadable") from None
        result = job.call(value, None)
        try:
            return {"value": json.loads(dumps(result))}
        except (TypeError, ValueError) as error:
            raise Permanent(f"the result cannot be written as JSON: {error}", "result_unwritable") from None
    except BaseException as error:
        snooze = next((one for one in chain(error) if isinstance(one, Snooze)), None)
        if snooze is not None:
            return {"snooze_ms": snooze.delay_ms}
        if isinstance(error, (SystemExit, KeyboardInterrupt)):
            return {"failure": Failure("system", f"the handler ended with {error!r}", "panic").record()}
        return {"failure": failure_of(error, {**job.app.errors, **job.errors}).record()}
