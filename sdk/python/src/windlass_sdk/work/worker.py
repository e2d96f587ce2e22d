"""Workers: claim jobs, run their handlers, report how they ended."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..app import Windlass
from ..duration import Duration, millis
from ..errors import ApiError, Failure, Unreachable, describe
from ..net.http_sync import SyncHttp
from ..net.wire import CALL_SECONDS, RETRIED, pauses
from ..tracing import attempt_span, end_attempt
from .attempt import Attempt, Settings
from .backend import ServerBackend, Writes
from .completer import Completer, Report, instead
from .heartbeat import Heartbeats, reason_of
from .processes import Processes
from .registration import Registration
from .running import Running

log = logging.getLogger("windlass")

#: How long a claim waits for jobs, in seconds.
CLAIM_WAIT_SECONDS = 20.0
#: Most jobs of one claim.
CLAIM_MAX = 1_000
#: How long a worker that stops tries to report its outcomes, in seconds.
REPORT_SECONDS = 10.0
#: Pause after a claim that was answered at once without jobs, as by a paused queue, in seconds.
EMPTY_SECONDS = 0.25


class Worker:
    """Runs the jobs of an application until it is stopped.

    It runs ``concurrency`` jobs at once and claims no more than it can start. ``drain`` is how long running jobs may
    continue after it was asked to stop, ``grace`` how long a handler may clean up. With ``lenient_steps`` jobs continue though
    the code does not match what they saved. ``queues`` are all unless given. ``processes`` is the number of processes for
    handlers that need one. Without ``schedules`` it does not create the application's schedules on the server.
    """

    def __init__(
        self, app: Windlass, *, concurrency: int = 10, queues: Sequence[str] | None = None, name: str | None = None,
        version: str | None = None, drain: Duration = 30, grace: Duration = 5, lenient_steps: bool = False,
        processes: int | None = None, schedules: bool = True,
    ) -> None:
        if concurrency < 1:
            raise ValueError("concurrency is at least 1")
        self.app, self.drain = app, millis(drain) / 1000
        #: Empty for all: jobs may be submitted with another queue than that of their type.
        self.queues = list(queues or ())
        body: dict[str, Any] = {
            "name": name or f"{socket.gethostname()}:{os.getpid()}", "queues": self.queues,
            "types": sorted(app.jobs), "concurrency": concurrency,
        }
        http = SyncHttp(app.address, app.clock)
        self._running = Running()
        self._registration = Registration(
            http, {**body, "version": version} if version else body, lambda: self._running.interrupt_all("lost"),
            lambda: self._ping(self._stopping.set),
        )
        threads = ThreadPoolExecutor(concurrency, "windlass-job")
        pool = Processes(processes)
        self.settings = Settings(millis(grace) / 1000, not lenient_steps, app.errors, threads, pool)
        self._heartbeats = Heartbeats(http, self._registration, self._running, self.settings.grace, self._ping)
        self._has_schedules = schedules
        self._loop: asyncio.AbstractEventLoop | None = None
        self._slots = concurrency
        self._slot_freed = asyncio.Event()
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        #: Whether handlers still ran when the worker had stopped: threads that ignore ``cx.cancelled``.
        self.has_leftovers = False

    def stop(self) -> None:
        """Stops: no more claims, running jobs may end; a second call stops them, too."""
        (self._hurry if self._stopping.is_set() else self._stopping).set()

    def run_sync(self) -> None:
        """Runs until SIGTERM or SIGINT."""
        asyncio.run(self.run())

    async def run(self, *, handle_signals: bool = True) -> None:
        """Runs until ``stop``, or a signal."""
        if not self.app.jobs:
            raise ValueError("there are no handlers")
        for job in self.app.jobs.values():
            # Annotations that cannot be read are found now, not by the first job.
            job.payload_kind
        self._loop = asyncio.get_running_loop()
        if handle_signals and threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._loop.add_signal_handler(number, self.stop)
        if not await self._register():
            return
        self._writes = Writes(self.app.api())
        completer = Completer(self.app.api(), lambda: self._registration.id)
        completing = asyncio.create_task(completer.run())
        self._heartbeats.start()
        types = ", ".join(sorted(self.app.jobs))
        log.info("worker %s runs %s from %s", self._registration.id, types, ", ".join(self.queues) or "all queues")
        try:
            await self._fetch(completer)
        finally:
            await self._shut_down(completer, completing)
        if self._registration.failure is not None:
            raise self._registration.failure

    def _ping(self, ran: Callable[[], None]) -> None:
        if self._loop is not None and not self._loop.is_closed():
            try:
                self._loop.call_soon_threadsafe(ran)
            except RuntimeError:
                # It was closed meanwhile.
                pass

    async def _register(self) -> bool:
        """Registers, also if the server is not there yet; false if it was stopped meanwhile."""
        for pause in pauses():
            try:
                # A program whose schedules are refused does not become a worker.
                await self._sync_schedules()
                await asyncio.to_thread(self._registration.register)
                return True
            except (Unreachable, ApiError) as error:
                if isinstance(error, ApiError) and error.status not in RETRIED:
                    raise
                log.warning("cannot register yet: %s", error)
            await self._pause(pause)
            if self._stopping.is_set():
                return False
        return False

    async def _sync_schedules(self) -> None:
        if not self._has_schedules or not self.app.declared_schedules:
            return
        try:
            await self.app.sync_schedules()
        except ApiError as error:
            if error.status != 403:
                raise
            log.warning("the worker's key may not change schedules; run app.sync_schedules() where you deploy: %s", error)

    async def _pause(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._stopping.wait(), seconds)
        except asyncio.TimeoutError:
            pass

    async def _fetch(self, completer: Completer) -> None:
        stopping = asyncio.create_task(self._stopping.wait())
        waits = pauses()
        while not self._stopping.is_set():
            free = await self._free_slots(stopping)
            if not free:
                continue
            began = time.monotonic()
            claim = asyncio.create_task(self._claim(min(free, CLAIM_MAX)))
            await asyncio.wait({claim, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not claim.done():
                # The connection is closed, and the server releases what it was about to send.
                claim.cancel()
                break
            jobs = claim.result()
            if jobs is None:
                await self._pause(next(waits))
                continue
            waits = pauses()
            for job in jobs:
                self._start(job, completer)
            if not jobs and time.monotonic() - began < 1.0:
                await self._pause(EMPTY_SECONDS)
        stopping.cancel()

    async def _free_slots(self, stopping: asyncio.Task[Any]) -> int:
        while not self._slots and not self._stopping.is_set():
            self._slot_freed.clear()
            freed = asyncio.create_task(self._slot_freed.wait())
            await asyncio.wait({freed, stopping}, return_when=asyncio.FIRST_COMPLETED)
            freed.cancel()
        # Quick handlers end together: one claim fills all their slots.
        free = -1
        while free != self._slots:
            free = self._slots
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        return 0 if self._stopping.is_set() else free

    async def _claim(self, limit: int) -> list[dict[str, Any]] | None:
        """Claims jobs; None if the claim has to be repeated after a pause."""
        worker = self._registration.id
        body = {"worker_id": worker, "limit": limit, "wait": f"{round(CLAIM_WAIT_SECONDS)}s"}
        limit_seconds = CLAIM_WAIT_SECONDS + CALL_SECONDS
        try:
            answer = await self.app.api().call("POST", "/claims", body, timeout=limit_seconds)
        except Unreachable as error:
            log.warning("cannot claim jobs, will retry: %s", error)
            return None
        except ApiError as error:
            if error.status == 404:
                await asyncio.to_thread(self._registration.register_again, worker)
                return None
            if error.status not in RETRIED and error.status < 500:
                raise
            log.warning("cannot claim jobs, will retry: %s", error)
            return None
        jobs: list[dict[str, Any]] = answer["jobs"]
        return jobs

    def _start(self, job: dict[str, Any], completer: Completer) -> None:
        self._slots -= 1
        task = asyncio.create_task(self._run(job, completer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, job: dict[str, Any], completer: Completer) -> None:
        try:
            definition = self.app.jobs.get(job["type"])
            if definition is None:
                completer.add(released(job["id"], job["fence"]))
                return
            running = self._running
            backend = ServerBackend(
                self.app.api(), self._writes, self._registration.id, job,
                lambda directive: running.interrupt(job["id"], job["fence"], reason_of(directive)),
            )
            attempt = Attempt(job, definition, backend, self.settings)
            backend.calls = attempt.calls
            running.add(attempt)
            outcome: str | None = None
            try:
                with attempt_span(job, self.app.clock.now_ms()) as current:
                    outcome = await attempt.run()
                    end_attempt(current, outcome)
            finally:
                is_ours = running.remove(attempt)
            if is_ours and outcome is not None:
                completer.add(Report(job["id"], job["fence"], outcome))
            await attempt.finished()
            await completer.room()
        except Exception as error:
            # Without an outcome the job would run again only when its lease has expired, and perhaps forever.
            log.exception("job %s: the worker failed", job["id"])
            completer.add(instead(Report(job["id"], job["fence"], ""), Failure("system", describe(error), "panic")))
        finally:
            self._slots += 1
            self._slot_freed.set()

    async def _shut_down(self, completer: Completer, completing: asyncio.Task[None]) -> None:
        """Drains, interrupts, gives back, reports, deregisters; every stage has a limit."""
        hurry = asyncio.create_task(self._hurry.wait())
        until = time.monotonic() + self.drain
        while self._tasks and not hurry.done() and (left := until - time.monotonic()) > 0:
            await asyncio.wait({*self._tasks, hurry}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        if self._tasks:
            self._running.interrupt_all("released")
            await asyncio.wait(self._tasks, timeout=self.settings.grace)
        given_back = self._running.take_all()
        for attempt in given_back:
            completer.add(released(attempt.cx.id, attempt.cx.fence))
        completer.close()
        await asyncio.wait({completing}, timeout=REPORT_SECONDS)
        completing.cancel()
        self._heartbeats.stop()
        await self._deregister()
        if isinstance(self.settings.threads, ThreadPoolExecutor):
            self.settings.threads.shutdown(wait=False, cancel_futures=True)
        if self.settings.processes is not None:
            self.settings.processes.kill()
        self.has_leftovers = bool(self._tasks)
        log.info("worker stopped, %d jobs released", len(given_back))

    async def _deregister(self) -> None:
        worker = await asyncio.to_thread(self._registration.close)
        try:
            if worker:
                await self.app.api().call("DELETE", f"/workers/{worker}", timeout=REPORT_SECONDS)
        except (ApiError, Unreachable) as error:
            log.warning("cannot deregister; leases will expire: %s", error)
        await self.app.close()


def released(id: str, fence: int) -> Report:
    """The outcome of a job that is given back."""
    return Report(id, fence, f'{{"id":"{id}","fence":{fence},"outcome":"released"}}')
