"""When a job parks: once every call of its handler waits for something outside of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .history import is_within
from .order import Call, Order

#: How long other work beside a wait may take before the job parks, in seconds: enough to start or end its calls.
BESIDE_SECONDS = 0.25


@dataclass(eq=False)
class Waiter:
    """A call that waits for a moment, a signal or to spawn children."""

    call: Call
    #: What wakes the job, as the API takes it; None for a group.
    park: dict[str, Any] | None
    #: The end of a sleep, in milliseconds.
    until: int | None
    future: asyncio.Future[list[dict[str, Any]] | None]
    is_main: bool


class Waiting:
    """The waiting calls of one attempt."""

    def __init__(
        self, order: Order, now_ms: Callable[[], int], park: Callable[[dict[str, Any]], None],
    ) -> None:
        self._order, self._now_ms, self._park = order, now_ms, park
        self._waiters: list[Waiter] = []
        self._timer: asyncio.TimerHandle | None = None
        self._storing = 0

    @contextlib.contextmanager
    def storing(self) -> Iterator[None]:
        """Around every request to the server: how long it takes must not decide what the job parks on."""
        self._storing += 1
        self.consider()
        try:
            yield
        finally:
            self._storing -= 1
            if not self._storing:
                self.consider()

    async def wait(
        self, call: Call, park: dict[str, Any] | None, until: int | None, is_main: bool
    ) -> list[dict[str, Any]] | None:
        """Waits. A sleep returns if it ends while a step runs beside it; a group returns when it may be spawned, with
        what else wakes the job, or None if another group is spawned beside it and parks the job. Otherwise the job parks and the handler is stopped here."""
        loop = asyncio.get_running_loop()
        waiter = Waiter(call, park, until, loop.create_future(), is_main)
        self._waiters.append(waiter)
        self.consider()
        try:
            return await waiter.future
        finally:
            self._waiters.remove(waiter)
            self.consider()

    def parks_at_once(self, call: Call, is_main: bool) -> bool:
        """Whether the job parks as soon as this call waits, because it is the only one."""
        around = sum(is_within(call.key, key) for key in self._order.working)
        is_only = len(self._order.active) == 1 + around and around == len(self._order.working)
        return is_main and is_only and not self._waiters and not self._storing and not self._order.is_stopping

    def consider(self) -> None:
        """Decides what to do, after a call started to wait or ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._waiters or self._order.is_stopping or self._storing:
            return
        loop = asyncio.get_running_loop()
        if any(not self._waits_in(key) for key in self._order.working):
            ends = [waiter.until for waiter in self._waiters if waiter.until is not None]
            if ends:
                delay = max(0, min(ends) - self._now_ms()) / 1000
                self._timer = loop.call_later(delay, self._end_sleeps, min(ends))
        elif len(self._waiters) == 1 and self._waiters[0].is_main and len(self._order.active) == self._around():
            self._decide()
        else:
            self._timer = loop.call_later(BESIDE_SECONDS, self._decide)

    def _around(self) -> int:
        """The single waiting call and the steps around it."""
        return 1 + sum(is_within(self._waiters[0].call.key, key) for key in self._order.working)

    def _waits_in(self, key: str) -> bool:
        return any(is_within(waiter.call.key, key) for waiter in self._waiters)

    def _end_sleeps(self, until: int) -> None:
        for waiter in self._waiters:
            if waiter.until is not None and waiter.until <= until and not waiter.future.done():
                waiter.future.set_result([])

    def _decide(self) -> None:
        self._timer = None
        parks = [waiter.park for waiter in self._waiters if waiter.park is not None]
        spawning = [waiter for waiter in self._waiters if waiter.park is None and not waiter.future.done()]
        if spawning:
            # The last of several groups parks, on all of them.
            spawning[0].future.set_result(parks if len(spawning) == 1 else None)
        elif parks:
            self._park(parks[0] if len(parks) == 1 else {"any": parks})
