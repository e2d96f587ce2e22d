"""Heartbeats, in a thread of their own: a handler that blocks the event loop keeps its lease."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .context import Reason
from .errors import ApiError, Unreachable
from .http_sync import SyncHttp

if TYPE_CHECKING:
    from .worker import Worker

log = logging.getLogger("windlass")

#: How long a heartbeat waits for a directive, in seconds. Jobs that start meanwhile are in the next one.
WAIT_SECONDS = 2.0
#: A server considers a worker that is silent for this long dead, in seconds.
SILENCE_SECONDS = 30.0
#: Most jobs in one request.
JOBS_MAX = 1_000
#: The event loop is reported if it did not run for so long, in seconds.
BLOCKED_SECONDS = 10.0

_REASONS: Mapping[str, Reason] = {"suspend": "suspend", "cancel": "cancel", "timeout": "timeout", "lost": "lost"}


class Heartbeats(threading.Thread):
    """Sends heartbeats until it is stopped."""

    def __init__(self, worker: Worker, every: float) -> None:
        super().__init__(name="windlass-heartbeats", daemon=True)
        self._worker, self._every = worker, every
        self._http = SyncHttp(worker.app.address, worker.app.clock)
        self._over = threading.Event()
        self._answered = time.monotonic()
        self._loop_ran = time.monotonic()
        self._is_blocked_reported = False

    def stop(self) -> None:
        """Ends the thread after its current request."""
        self._over.set()

    def run(self) -> None:
        """Sends heartbeats."""
        while not self._over.is_set():
            began = time.monotonic()
            has_jobs = self._beat()
            self._watch_loop()
            if not has_jobs:
                # Without jobs there is nothing to be told; the server only needs to hear from the worker.
                self._worker.has_jobs.wait(min(self._every, 5.0))
            rest = 0.02 if time.monotonic() - began > 0.5 else 0.2
            self._over.wait(rest)
        self._http.close()

    def _beat(self) -> bool:
        running = self._worker.snapshot()
        silence = SILENCE_SECONDS - max(5.0, min(self._worker.settings.grace, 10.0))
        try:
            for start in range(0, max(1, len(running)), JOBS_MAX):
                self._send(running[start:start + JOBS_MAX], is_last=start + JOBS_MAX >= len(running))
            self._answered = time.monotonic()
        except ApiError as error:
            if error.status == 404:
                self._worker.register_again(self._http)
            else:
                log.warning("heartbeat refused: %s", error)
        except Unreachable as error:
            log.warning("heartbeat failed: %s", error)
            if time.monotonic() - self._answered > silence:
                self._worker.interrupt_all("unreachable")
        return bool(running)

    def _send(self, running: list[tuple[str, int]], is_last: bool) -> None:
        jobs = [{"id": id, "fence": fence} for id, fence in running]
        body: dict[str, Any] = {"worker_id": self._worker.id, "jobs": jobs}
        if jobs and is_last and not self._over.is_set():
            body["wait"] = f"{round(WAIT_SECONDS * 1000)}ms"
        answer = self._http.call("POST", "/heartbeats", body, timeout=10.0)
        fences = dict(running)
        for shown in answer["jobs"]:
            if shown["directive"] != "continue":
                # A directive of a newer server is not a reason to continue.
                reason = _REASONS.get(shown["directive"], "lost")
                self._worker.interrupt(shown["id"], fences[shown["id"]], reason)
        if answer["worker"]["mode"] == "aggressive":
            self._worker.interrupt_all("released")

    def _watch_loop(self) -> None:
        """Reports an event loop that a handler blocks."""
        self._worker.ping(self._ran)
        blocked = time.monotonic() - self._loop_ran
        if blocked > BLOCKED_SECONDS and not self._is_blocked_reported:
            self._is_blocked_reported = True
            log.warning("a handler has blocked the event loop for %ds: use `def`, or a step that is not async", blocked)

    def _ran(self) -> None:
        self._loop_ran, self._is_blocked_reported = time.monotonic(), False
