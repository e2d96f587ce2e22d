"""Heartbeats, in threads of their own: a handler that blocks the event loop keeps its lease."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from ..durable.context import Reason
from ..errors import ApiError, Unreachable
from ..net.http_sync import SyncHttp
from ..net.wire import boot_seconds
from .attempt import CUT_OFF_GRACE_SECONDS
from .registration import HEARTBEAT_SECONDS, Registration
from .running import SHORT_SECONDS, Running

log = logging.getLogger("windlass")

#: How long a heartbeat waits for a directive, in seconds. Jobs that start meanwhile are in the next one.
WAIT_SECONDS = 2.0
#: Least and most of a third of the shortest lease, in seconds: for so long an answer may take, apart from its wait.
ANSWER_SECONDS = (1.0, 8.0)
#: Shortest and longest pause between heartbeats of running jobs, in seconds.
PAUSES = (0.2, 2.0)
#: Handlers of a worker that is silent for this long have stopped, in seconds: a server considers it dead after 30 s of its
#: own time, which may run faster by a tenth.
SILENCE_SECONDS = 26.0
#: Longest time between two looks at the silence, in seconds: the machine may have been suspended meanwhile.
LOOK_SECONDS = 0.5
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
        self._silence = SILENCE_SECONDS - max(5.0, min(grace, CUT_OFF_GRACE_SECONDS))
        self._over = threading.Event()
        #: When the last heartbeat was sent that was answered, in ``boot_seconds``.
        self._answered = boot_seconds()
        #: When the event loop was asked to answer, if it has not.
        self._pinged: float | None = None
        self._is_blocked_reported = False
        self._pause = PAUSES[0]

    def stop(self) -> None:
        """Ends the threads after their current requests."""
        self._over.set()
        self._running.has_jobs.set()
        self._running.has_short.set()
        self._running.short_added.set()

    def run(self) -> None:
        """Sends heartbeats."""
        self._answered = boot_seconds()
        threading.Thread(target=self._keep_short, name="windlass-leases", daemon=True).start()
        threading.Thread(target=self._watch_silence, name="windlass-silence", daemon=True).start()
        while not self._over.is_set():
            jobs = self._running.snapshot()
            self._beat(jobs)
            self._watch_loop()
            if not jobs:
                # Without jobs there are no directives; the server only needs to see the worker.
                self._running.has_jobs.wait(HEARTBEAT_SECONDS / 2)
            self._over.wait(self._pause)
        self._http.close()

    def _beat(self, running: list[tuple[str, int]]) -> None:
        worker, asked = self._registration.id, boot_seconds()
        # The other thread keeps those that are shorter.
        lease = max(self._running.shortest_lease(), SHORT_SECONDS)
        try:
            for start in range(0, max(1, len(running)), JOBS_MAX):
                self._send(worker, running[start:start + JOBS_MAX], lease, may_wait=start + JOBS_MAX >= len(running))
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

    def _watch_silence(self) -> None:
        """Asks handlers to stop when the worker was silent for too long. It makes no requests, which may take any time."""
        is_silent = False
        while not self._over.is_set():
            if not self._running.has_jobs.wait(HEARTBEAT_SECONDS / 2):
                continue
            left = self._left()
            if left <= 0:
                if not is_silent:
                    log.warning("no heartbeat was answered for %ds: handlers are asked to stop", self._silence - left)
                # The server knew the worker when it gave it the others.
                self._running.interrupt_all("unreachable", self._silence)
            is_silent = left <= 0
            self._over.wait(LOOK_SECONDS if is_silent else min(LOOK_SECONDS, left))

    def _left(self) -> float:
        """How long until handlers are asked to stop unless a heartbeat is answered, in seconds."""
        return self._answered + self._silence - boot_seconds()

    def _keep_short(self) -> None:
        """Extends short leases after a third of their length, so that a heartbeat that gets lost ends none."""
        while not self._over.is_set():
            self._running.has_short.wait()
            jobs, lease = self._running.short_leases()
            began = time.monotonic()
            try:
                for start in range(0, len(jobs), JOBS_MAX):
                    self._send(self._registration.id, jobs[start:start + JOBS_MAX], lease, may_wait=False)
            except (ApiError, Unreachable) as error:
                # The other thread does what has to be done about it.
                log.debug("heartbeat for short leases failed: %s", error)
            except Exception:
                log.exception("heartbeat for short leases failed")
            self._pause_short(began)
        self._http.close()

    def _pause_short(self, began: float) -> None:
        """Returns a third of the shortest lease after the last heartbeat, also of a lease that starts meanwhile."""
        while not self._over.is_set():
            self._running.short_added.clear()
            _, lease = self._running.short_leases()
            left = began + max(lease / 3, PAUSES[0]) - time.monotonic()
            if left <= 0 or not self._running.short_added.wait(left):
                return

    def _send(
        self, worker: str, running: list[tuple[str, int]], lease: float, may_wait: bool, may_repeat: bool = True
    ) -> None:
        jobs = [{"id": id, "fence": fence} for id, fence in running]
        body: dict[str, Any] = {"worker_id": worker, "jobs": jobs}
        limit, left = min(max(lease / 3, ANSWER_SECONDS[0]), ANSWER_SECONDS[1]), self._left()
        if jobs and may_wait and left > WAIT_SECONDS + limit and not self._over.is_set():
            body["wait"] = f"{round(WAIT_SECONDS * 1000)}ms"
            limit += WAIT_SECONDS
        # It must not outlast the time after which handlers have to stop. Later a slow answer is better than none.
        if left > 0:
            limit = min(limit, max(ANSWER_SECONDS[0], left))
        try:
            answer = self._http.call("POST", "/heartbeats", body, timeout=limit)
        except Unreachable as error:
            if not may_repeat or not isinstance(error.__cause__, TimeoutError):
                raise
            # The connection may have died, not the server; the next one is new.
            log.warning("a heartbeat was not answered, sending it again: %s", error)
            return self._send(worker, running, lease, may_wait=False, may_repeat=False)
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
