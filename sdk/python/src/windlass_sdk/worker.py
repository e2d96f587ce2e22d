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
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

from .app import Windlass
from .attempt import Attempt, Settings
from .backend import ServerBackend
from .completer import Completer, Report
from .context import Reason
from .duration import Duration, millis
from .errors import ApiError, Unreachable
from .heartbeat import Heartbeats
from .http_sync import SyncHttp
from .tracing import end_span, span
from .wire import CALL_SECONDS, RETRIED, pauses

log = logging.getLogger("windlass")

#: How long a claim waits for jobs, in seconds.
CLAIM_WAIT_SECONDS = 20.0
#: Most jobs of one claim.
CLAIM_MAX = 1_000
#: How long a worker that stops tries to report its outcomes, in seconds.
REPORT_SECONDS = 10.0


class Worker:
    """Runs the jobs of an application until it is stopped.

    It runs ``concurrency`` jobs at once and claims no more than it can start. ``drain`` is how long running jobs may go
    on after it was told to stop, ``grace`` how long a handler may clean up. With ``lenient_steps`` jobs continue though
    the code does not match what they saved.
    """

    def __init__(
        self, app: Windlass, *, concurrency: int = 10, queues: Sequence[str] | None = None, name: str | None = None,
        version: str | None = None, drain: Duration = 30, grace: Duration = 5, lenient_steps: bool = False,
        processes: int | None = None,
    ) -> None:
        if concurrency < 1:
            raise ValueError("concurrency is at least 1")
        self.app, self.concurrency, self.drain = app, concurrency, millis(drain) / 1000
        found = {str(job.options.get("queue", "default")) for job in app.jobs.values()}
        self.queues = list(queues) if queues is not None else sorted(found)
        self.name, self.version = name or f"{socket.gethostname()}:{os.getpid()}", version
        needs_processes = any(job.executor == "process" for job in app.jobs.values())
        pool: Executor | None = ProcessPoolExecutor(processes) if needs_processes else None
        threads = ThreadPoolExecutor(concurrency, "windlass-job")
        self.settings = Settings(millis(grace) / 1000, not lenient_steps, app.errors, threads, pool)
        self.id = ""
        self.has_jobs = threading.Event()
        self._lock = threading.Lock()
        self._running: dict[str, Attempt] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._slots = concurrency
        self._slot_freed = asyncio.Event()
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    # Called by the heartbeats' thread

    def snapshot(self) -> list[tuple[str, int]]:
        """The running jobs and their fences."""
        with self._lock:
            return [(id, attempt.cx.fence) for id, attempt in self._running.items()]

    def interrupt(self, id: str, fence: int, reason: Reason) -> None:
        """Tells a handler to stop, unless another attempt runs meanwhile."""
        with self._lock:
            attempt = self._running.get(id)
        if attempt is not None and attempt.cx.fence == fence:
            log.info("job %s: told to stop: %s", id, reason)
            attempt.interrupt(reason)

    def interrupt_all(self, reason: Reason) -> None:
        """Tells all handlers to stop."""
        with self._lock:
            attempts = list(self._running.values())
        for attempt in attempts:
            attempt.interrupt(reason)

    def ping(self, ran: Callable[[], None]) -> None:
        """Calls back from the event loop."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(ran)

    def register_again(self, http: SyncHttp) -> None:
        """The server has forgotten the worker: its jobs are lost."""
        log.warning("the server does not know this worker any more; registering again")
        self.interrupt_all("lost")
        try:
            self.id = http.call("POST", "/workers", self._body())["worker_id"]
        except (ApiError, Unreachable) as error:
            log.warning("cannot register again: %s", error)

    # The event loop

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
        self._loop = asyncio.get_running_loop()
        if handle_signals and threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._loop.add_signal_handler(number, self.stop)
        api = self.app.api()
        registered = await self._register()
        if registered is None:
            return
        heartbeats = Heartbeats(self, registered)
        completer = Completer(api, lambda: self.id)
        completing = asyncio.create_task(completer.run())
        heartbeats.start()
        log.info("worker %s runs %s from %s", self.id, ", ".join(sorted(self.app.jobs)), ", ".join(self.queues))
        try:
            await self._fetch(completer)
        finally:
            await self._shut_down(completer, completing, heartbeats)

    def _body(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "name": self.name, "queues": self.queues, "types": sorted(self.app.jobs), "concurrency": self.concurrency,
        }
        return {**body, "version": self.version} if self.version else body

    async def _register(self) -> float | None:
        """Registers, also if the server is not there yet. Returns the interval of heartbeats."""
        for pause in pauses():
            if self._stopping.is_set():
                return None
            try:
                answer = await self.app.api().call("POST", "/workers", self._body())
            except (Unreachable, ApiError) as error:
                if isinstance(error, ApiError) and error.status not in RETRIED:
                    raise
                log.warning("cannot register yet: %s", error)
                await self._pause(pause)
                continue
            self.id = answer["worker_id"]
            return 10.0
        return None

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
                await self._pause(0.25)
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
        body = {"worker_id": self.id, "limit": limit, "wait": f"{round(CLAIM_WAIT_SECONDS)}s"}
        try:
            answer = await self.app.api().call(
                "POST", "/claims", body, timeout=CLAIM_WAIT_SECONDS + CALL_SECONDS
            )
        except Unreachable as error:
            log.warning("cannot claim jobs, will retry: %s", error)
            return None
        except ApiError as error:
            if error.status == 404:
                self.interrupt_all("lost")
                await self._register()
                return []
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
        attempt: Attempt | None = None
        try:
            definition = self.app.jobs.get(job["type"])
            if definition is None:
                outcome: str | None = f'{{"id":"{job["id"]}","fence":{job["fence"]},"outcome":"released"}}'
            else:
                backend = ServerBackend(self.app.api(), self.id, job, self._told(job))
                attempt = Attempt(job, definition, backend, self.settings)
                backend.calls = attempt.calls
                with self._lock:
                    self._running[job["id"]] = attempt
                self.has_jobs.set()
                with span(job) as current:
                    outcome = await attempt.run()
                    end_span(current, outcome)
            if self._forget(job["id"], attempt) and outcome is not None:
                completer.add(Report(job["id"], job["fence"], outcome))
            if attempt is not None and attempt.thread is not None and not attempt.thread.done():
                # A thread cannot be stopped: its slot is not free before it ends.
                await asyncio.wait({attempt.thread})
        except Exception:
            log.exception("job %s: the worker failed; the job runs again when its lease has expired", job["id"])
            self._forget(job["id"], attempt)
        finally:
            self._slots += 1
            self._slot_freed.set()

    def _told(self, job: dict[str, Any]) -> Callable[[str], None]:
        reasons: dict[str, Reason] = {"suspend": "suspend", "cancel": "cancel", "timeout": "timeout"}
        return lambda directive: self.interrupt(job["id"], job["fence"], reasons.get(directive, "lost"))

    def _forget(self, id: str, attempt: Attempt | None) -> bool:
        with self._lock:
            if attempt is not None and self._running.get(id) is not attempt:
                return False
            self._running.pop(id, None)
            if not self._running:
                self.has_jobs.clear()
        return True

    async def _shut_down(
        self, completer: Completer, completing: asyncio.Task[None], heartbeats: Heartbeats
    ) -> None:
        hurry = asyncio.create_task(self._hurry.wait())
        until = time.monotonic() + self.drain
        while self._tasks and not hurry.done() and (left := until - time.monotonic()) > 0:
            await asyncio.wait({*self._tasks, hurry}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        if self._tasks:
            self.interrupt_all("released")
            await asyncio.wait(self._tasks, timeout=self.settings.grace)
        with self._lock:
            left_over, self._running = list(self._running.values()), {}
        for attempt in left_over:
            id, fence = attempt.cx.id, attempt.cx.fence
            completer.add(Report(id, fence, f'{{"id":"{id}","fence":{fence},"outcome":"released"}}'))
        completer.close()
        await asyncio.wait({completing}, timeout=REPORT_SECONDS)
        completing.cancel()
        heartbeats.stop()
        self.has_jobs.set()
        try:
            await self.app.api().call("DELETE", f"/workers/{self.id}", timeout=REPORT_SECONDS)
        except (ApiError, Unreachable) as error:
            log.warning("cannot deregister; leases will expire: %s", error)
        await self.app.close()
        for pool in (self.settings.threads, self.settings.processes):
            if pool is not None:
                pool.shutdown(wait=False, cancel_futures=True)
        log.info("worker stopped, %d jobs given back", len(left_over))
