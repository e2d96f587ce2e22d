"""The attempts that run now, for the event loop and for the heartbeats' thread."""

from __future__ import annotations

import logging
import math
import threading

from ..durable.context import Reason
from ..net.wire import boot_seconds
from .attempt import Attempt

log = logging.getLogger("windlass")

#: A lease that is shorter is not sure to be extended by a heartbeat that waits for directives, in seconds.
SHORT_SECONDS = 15.0


class Running:
    """The running attempts, by job."""

    def __init__(self) -> None:
        #: Set while jobs run.
        self.has_jobs = threading.Event()
        #: Set while some have short leases.
        self.has_short = threading.Event()
        #: Set when one with a short lease starts.
        self.short_added = threading.Event()
        self._lock = threading.Lock()
        self._attempts: dict[str, Attempt] = {}
        #: When they were added, in ``boot_seconds``.
        self._since: dict[str, float] = {}

    def add(self, attempt: Attempt) -> None:
        """Adds an attempt. One of the same job that still runs has lost its lease."""
        with self._lock:
            earlier = self._attempts.get(attempt.cx.id)
            self._attempts[attempt.cx.id], self._since[attempt.cx.id] = attempt, boot_seconds()
            if attempt.lease < SHORT_SECONDS:
                self.has_short.set()
                self.short_added.set()
        self.has_jobs.set()
        if earlier is not None:
            earlier.interrupt("lost")

    def remove(self, attempt: Attempt) -> bool:
        """Removes an attempt; false if another one has taken its place, or it was given back."""
        with self._lock:
            if self._attempts.get(attempt.cx.id) is not attempt:
                return False
            del self._attempts[attempt.cx.id], self._since[attempt.cx.id]
            if not self._attempts:
                self.has_jobs.clear()
        return True

    def take_all(self) -> list[Attempt]:
        """Removes and returns all."""
        with self._lock:
            taken, self._attempts, self._since = list(self._attempts.values()), {}, {}
        return taken

    def snapshot(self) -> list[tuple[str, int]]:
        """The jobs and their fences."""
        with self._lock:
            return [(id, attempt.cx.fence) for id, attempt in self._attempts.items()]

    def shortest_lease(self) -> float:
        """How long the shortest lease lasts, in seconds."""
        with self._lock:
            return min((one.lease for one in self._attempts.values()), default=math.inf)

    def short_leases(self) -> tuple[list[tuple[str, int]], float]:
        """The jobs with short leases and their fences, and how long the shortest lasts, in seconds."""
        with self._lock:
            short = {id: one for id, one in self._attempts.items() if one.lease < SHORT_SECONDS}
            if not short:
                self.has_short.clear()
        return [(id, one.cx.fence) for id, one in short.items()], min((one.lease for one in short.values()), default=0.0)

    def interrupt(self, id: str, fence: int, reason: Reason) -> None:
        """Asks a handler to stop, unless another attempt of the job runs meanwhile."""
        with self._lock:
            attempt = self._attempts.get(id)
        if attempt is not None and attempt.cx.fence == fence:
            log.info("job %s: asked to stop: %s", id, reason)
            attempt.interrupt(reason)

    def interrupt_all(self, reason: Reason, age: float = 0.0) -> None:
        """Asks all handlers to stop that have run for this long, in seconds."""
        with self._lock:
            until = boot_seconds() - age
            attempts = [attempt for id, attempt in self._attempts.items() if self._since[id] <= until]
        for attempt in attempts:
            attempt.interrupt(reason)
