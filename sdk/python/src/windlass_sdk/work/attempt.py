"""One attempt: runs a handler and turns its end into an outcome."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import contextvars
import logging
import math
import threading
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..durable.calls import Backend, Calls, Stopped, deadline_seconds, park_body
from ..codec import dumps
from ..durable.context import Reason, cost_of, follow_ups_of, tell_to_stop
from ..durable.cx import Cx
from ..durable.cx_sync import SyncCx
from ..errors import Category, Failure, WindlassError, failure_of, snooze_of
from .backend import saved_steps
from .processes import Ended, Processes, read_payload

if TYPE_CHECKING:
    from ..job import Job

log = logging.getLogger("windlass")

#: Longest grace period of handlers whose worker is cut off, in seconds; the silence before they are stopped allows for it.
CUT_OFF_GRACE_SECONDS = 10.0


@dataclass(frozen=True)
class Settings:
    """How a worker runs its handlers."""

    grace: float = 5.0
    is_strict: bool = True
    errors: Mapping[type[BaseException], Category] | None = None
    threads: Executor | None = None
    processes: Processes | None = None


class Attempt:
    """A running attempt. ``interrupt`` may be called from any thread."""

    def __init__(self, claimed: Mapping[str, Any], job: Job[Any, Any], backend: Backend, settings: Settings) -> None:
        self.claimed, self.job, self.settings = claimed, job, settings
        self.loop = asyncio.get_running_loop()
        saved = {one["step"]: one["value"] for one in claimed["checkpoints"]}
        errors = {**(settings.errors or {}), **job.errors}
        self.calls = Calls(
            saved, backend, is_strict=settings.is_strict, mapping=errors, threads=settings.threads,
            expires_at=claimed.get("expires_at"),
        )
        self.cx: Cx | SyncCx
        self.cx = Cx(claimed, self.calls) if job.is_async else SyncCx(claimed, self.calls, self.loop)
        lease = deadline_seconds(claimed.get("lease_expires_at"), backend.now_ms())
        #: How long its lease lasts without a heartbeat, in seconds.
        self.lease = math.inf if lease is None else lease
        self._thread: asyncio.Future[Any] | None = None
        self._task: asyncio.Task[Ended] | None = None
        self._is_cut_off = False
        self._given_up: asyncio.Future[None] = self.loop.create_future()

    def interrupt(self, reason: Reason) -> None:
        """Asks the handler to stop; it is abandoned after the grace period. If its worker is cut off, that is shorter,
        also for a handler that was asked before."""
        is_first, grace = tell_to_stop(self.cx, reason), self.settings.grace
        if reason == "unreachable":
            if self._is_cut_off:
                return
            self._is_cut_off, grace = True, min(grace, CUT_OFF_GRACE_SECONDS)
        elif not is_first:
            return
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
            self.loop.call_soon_threadsafe(self._interrupted, is_first, grace)

    async def finished(self) -> None:
        """Returns when nothing of the handler runs any more: its slot is not free before. A thread cannot be stopped;
        a task that does not end in its grace period is left alone."""
        if self._thread is not None and not self._thread.done():
            await asyncio.wait({self._thread})
        elif self._task is not None and not self._task.done():
            await asyncio.wait({self._task}, timeout=self.settings.grace)
        if threads := self.calls.busy_threads():
            await asyncio.wait(threads)

    def _interrupted(self, is_first: bool, grace: float) -> None:
        if is_first and self._task is not None and self.job.is_async:
            self._task.cancel()
        self.loop.call_later(grace, self._give_up)

    def _give_up(self) -> None:
        if not self._given_up.done():
            self._given_up.set_result(None)

    async def run(self) -> str | None:
        """Runs the handler. Returns the outcome as JSON, or None if there is nothing to report."""
        try:
            return await self._run()
        finally:
            self.calls.backend.output.close()

    async def _run(self) -> str | None:
        limit = deadline_seconds(self.claimed.get("deadline"), self.calls.backend.now_ms())
        self._task = task = self.loop.create_task(self._handle())
        if isinstance(self.cx, Cx):
            self.cx._main = task
        if self.cx.cancelled:
            task.cancel()
        waited: set[asyncio.Future[Any]] = {task, self.calls.exit, self._given_up}
        await asyncio.wait(waited, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        if self.calls.exit.done():
            return await self._leave(task, self.calls.exit.result())
        if task.done():
            self.calls.close()
            # One that was cancelled before it began has no result.
            return await self._outcome(Ended(error=asyncio.CancelledError()) if task.cancelled() else task.result())
        if self._given_up.done():
            log.warning("job %s: the handler did not stop in time and is abandoned", self.cx.id)
            task.cancel()
            # A thread that waits in a call, or makes one from now on, must not keep its slot.
            self.calls.close()
            return self._item("released") if self.cx.reason == "released" else None
        tell_to_stop(self.cx, "timeout")
        task.cancel()
        self.calls.close()
        return self._report(Failure("timeout", f"ran longer than {limit:.3f}s"))

    async def _handle(self) -> Ended:
        try:
            payload = read_payload(self._raw(), self.job.payload_kind)
            if self.job.is_async:
                return Ended(await self.job.call(payload, self.cx))
            return Ended(await self._blocking(payload))
        except asyncio.CancelledError as error:
            return Ended(error=error)
        except BaseException as error:
            return Ended(error=error)

    async def _blocking(self, payload: Any) -> Any:
        if self.job.executor == "process":
            assert self.settings.processes is not None, "a handler for processes needs a worker"
            self._thread = asyncio.ensure_future(self.settings.processes.run(*self.job.location, self._raw()))
        else:
            running = contextvars.copy_context().run
            self._thread = self.loop.run_in_executor(self.settings.threads, running, self._in_thread, payload)
        ended: Ended = await asyncio.shield(self._thread)
        if ended.error is not None:
            raise ended.error
        return ended.value

    def _in_thread(self, payload: Any) -> Ended:
        if isinstance(self.cx, SyncCx):
            self.cx._thread = threading.get_ident()
        try:
            return Ended(self.job.call(payload, self.cx))
        except BaseException as error:
            return Ended(error=error)

    def _raw(self) -> Any:
        """The payload: plain JSON, or bytes if it is none."""
        encoded = self.claimed.get("payload_base64")
        return self.claimed.get("payload") if encoded is None else base64.b64decode(encoded)

    async def _leave(self, task: asyncio.Task[Ended], park: Mapping[str, Any] | None) -> str | None:
        outcome = None
        if park is not None:
            self.calls.deferred.update(self.calls.order.beside_each_other())
            body = park_body(park, self.calls.backend.now_ms())
            outcome = self._item("parked", f'"park":{dumps(body)}')
        tell_to_stop(self.cx, "released")
        if self.job.is_async:
            task.cancel()
        await asyncio.wait({task}, timeout=self.settings.grace)
        return outcome

    async def _outcome(self, ended: Ended) -> str | None:
        error = ended.error
        if self.calls.changed is not None:
            return self._report(self.calls.changed.failure)
        if error is None:
            return self._completed(ended.value)
        if isinstance(error, Stopped):
            return None
        if self.cx.cancelled and isinstance(error, asyncio.CancelledError):
            return self._item("released") if self.cx.reason != "lost" else None
        # The steps whose errors failed the attempt run again in the next one.
        self.calls.deferred.update(self.calls.order.reopened_by(error))
        snooze = snooze_of(error)
        if snooze is not None:
            return self._item("parked", f'"park":{{"for":"{snooze.delay_ms}ms"}}')
        if isinstance(error, (SystemExit, KeyboardInterrupt)):
            return self._report(Failure("system", f"the handler ended with {error!r}", "panic"))
        failure = failure_of(error, self.calls.mapping)
        if self.cx.cancelled and failure.category == "temporary":
            return self._item("released")
        log.warning(
            "job %s (%s) failed in attempt %d: %s", self.cx.id, self.cx.type, self.cx.attempt, failure.message,
            exc_info=None if isinstance(error, WindlassError) else error,
        )
        return self._report(failure)

    def _completed(self, value: Any) -> str:
        try:
            result = dumps(value)
        except Exception as error:
            message = f"the result cannot be written as JSON: {error}"
            return self._report(Failure("permanent", message, "result_unwritable"))
        fields = [] if result == "null" else [f'"result":{result}']
        if follow_ups := follow_ups_of(self.cx):
            fields.append(f'"submit":{dumps(follow_ups)}')
        return self._item("completed", ",".join(fields))

    def _report(self, failure: Failure) -> str:
        return self._item("failed", f'"error":{dumps(failure.body())}')

    def _item(self, outcome: str, more: str = "") -> str:
        cost = f',"cost_cents":{cost_of(self.cx)}' if cost_of(self.cx) else ""
        rest = f",{more}" if more else ""
        if self.calls.deferred:
            rest += f',"checkpoints":{dumps(saved_steps(self.calls.deferred.items()))}'
        if output := self.calls.backend.output.close():
            rest += f',"stream":{output}'
        return f'{{"id":"{self.cx.id}","fence":{self.cx.fence},"outcome":"{outcome}"{cost}{rest}}}'
