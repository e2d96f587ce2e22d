"""Heartbeats, in a thread of their own: a handler that blocks the event loop keeps its lease."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from ..durable.context import Reason
from ..errors import ApiError, Unreachable
from ..net.http_sync import SyncHttp
from .registration import HEARTBEAT_SECONDS, Registration
from .running import Running

log = logging.getLogger("windlass")

#: How long a heartbeat waits for a directive, in seconds. Jobs that start meanwhile are in the next one.
WAIT_SECONDS = 2.0
#: Longest wait for the answer to a heartbeat, in seconds.
ANSWER_SECONDS = 10.0
#: Shortest and longest pause between heartbeats of running jobs, in seconds.
PAUSES = (0.2, 2.0)
#: Handlers of a worker that is silent for this long have stopped, in seconds: a server considers it dead after 30 s of its
#: own time, which may run faster by a tenth.
SILENCE_SECONDS = 26.0
#: Most jobs in one request.
JOBS_MAX = 1_000
#: The event loop is reported if it did not run for so long, in seconds.
BLOCKED_SECONDS = 10.0

_REASONS: Mapping[str, Reason] = {"suspend": "suspend", "cancel": "cancel", "timeout": "timeout", "lost": "lost"}


def reason_of(directive: str) -> Reason:
    """Why to stop. A directive of a newer server is not a reason to continue."""
    return _REASONS.get(directive, "lost")


class Heartbeats(threading.Thread):
    """Sends heartbeats until it is stopped. ``ping`` calls a function on the event loop."""

    def __init__(
        self, http: SyncHttp, registration: Registration, running: Running, grace: float,
        ping: Callable[[Callable[[], None]], None],
    ) -> None:
        super().__init__(name="windlass-heartbeats", daemon=True)
        self._http, self._registration, self._running, self._ping = http, registration, running, ping
        self._silence = SILENCE_SECONDS - max(5.0, min(grace, 10.0))
        self._over = threading.Event()
        self._answered = time.monotonic()
        #: When the event loop was asked to answer, if it has not.
        self._pinged: float | None = None
        self._is_blocked_reported = False
        self._pause = PAUSES[0]

    def stop(self) -> None:
        """Ends the thread after its current request."""
        self._over.set()
        self._running.has_jobs.set()
        self._running.has_short.set()

    def run(self) -> None:
        """Sends heartbeats."""
        threading.Thread(target=self._keep_short, name="windlass-leases", daemon=True).start()
        while not self._over.is_set():
            jobs = self._running.snapshot()
            self._beat(jobs)
            self._watch_loop()
            if not jobs:
                # Without jobs there is nothing to be told; the server only needs to hear from the worker.
                self._running.has_jobs.wait(HEARTBEAT_SECONDS / 2)
            self._over.wait(self._pause)
        self._http.close()

    def _beat(self, running: list[tuple[str, int]]) -> None:
        worker, asked = self._registration.id, time.monotonic()
        try:
            for start in range(0, max(1, len(running)), JOBS_MAX):
                self._send(worker, running[start:start + JOBS_MAX], is_last=start + JOBS_MAX >= len(running))
            self._answered, self._pause = asked, PAUSES[0]
            return
        except ApiError as error:
            if error.status == 404:
                return self._registration.register_again(worker)
            log.warning("heartbeat refused: %s", error)
        except Unreachable as error:
            log.warning("heartbeat failed: %s", error)
        except Exception:
            # Whatever it is, the leases depend on the next one.
            log.exception("heartbeat failed")
        self._pause = min(self._pause * 2, PAUSES[1])
        if time.monotonic() - self._answered >= self._silence:
            self._running.interrupt_all("unreachable")

    def _keep_short(self) -> None:
        """Extends short leases after a third of their length, so that a heartbeat that gets lost ends none."""
        while not self._over.is_set():
            self._running.has_short.wait()
            jobs, lease = self._running.short_leases()
            try:
                for start in range(0, len(jobs), JOBS_MAX):
                    self._send(self._registration.id, jobs[start:start + JOBS_MAX], is_last=False)
            except (ApiError, Unreachable) as error:
                # The other thread does what has to be done about it.
                log.debug("heartbeat for short leases failed: %s", error)
            self._over.wait(max(lease / 3, PAUSES[0]))
        self._http.close()

    def _send(self, worker: str, running: list[tuple[str, int]], is_last: bool) -> None:
        jobs = [{"id": id, "fence": fence} for id, fence in running]
        body: dict[str, Any] = {"worker_id": worker, "jobs": jobs}
        # A request must not outlast the time after which handlers have to stop.
        left = self._answered + self._silence - time.monotonic()
        if jobs and is_last and left > ANSWER_SECONDS and not self._over.is_set():
            body["wait"] = f"{round(WAIT_SECONDS * 1000)}ms"
        answer = self._http.call("POST", "/heartbeats", body, timeout=min(ANSWER_SECONDS, max(1.0, left)))
        for (id, fence), shown in zip(running, answer["jobs"]):
            if shown["directive"] != "continue":
                self._running.interrupt(id, fence, reason_of(shown["directive"]))
        if answer["worker"]["mode"] == "aggressive":
            self._running.interrupt_all("released")

    def _watch_loop(self) -> None:
        """Reports an event loop that a handler blocks."""
        now = time.monotonic()
        if self._pinged is None:
            self._pinged = now
            self._ping(self._ran)
            return
        blocked = now - self._pinged
        if blocked > BLOCKED_SECONDS and not self._is_blocked_reported:
            self._is_blocked_reported = True
            log.warning("a handler has blocked the event loop for %ds: use `def`, or a step that is not async", blocked)

    def _ran(self) -> None:
        self._pinged, self._is_blocked_reported = None, False
