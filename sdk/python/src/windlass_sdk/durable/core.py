"""The start and the end of durable calls: their turn, and what must be saved before them."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Protocol

from ..errors import Category, StepsChanged
from .history import Branch
from .order import Call, Order
from .output import Output
from .waiting import Waiting

log = logging.getLogger("windlass")

#: How long a call that comes early waits for those before it while others run, in seconds.
TURN_SECONDS = 1.0
#: How long calls that come early wait if nothing but such calls is under way, in seconds: then the code was changed.
TURN_BESIDE_SECONDS = 10.0
#: How long a call that was dropped waits to be dropped again, besides twice the time it took, in seconds.
DROPPED_SECONDS = 10.0


@dataclass(frozen=True)
class NewGroup:
    """A group of children to spawn."""

    name: str
    strategy: Any
    jobs: Sequence[Mapping[str, Any]]
    #: What else wakes the parent, as the API takes it; None if the parent does not park.
    beside: Sequence[Mapping[str, Any]] | None


@dataclass(frozen=True)
class Spawned:
    """A group that was spawned."""

    #: False if the job still runs: it does not park on the group, or the group was decided already.
    is_parked: bool
    #: The ids of the children.
    ids: Sequence[str] = ()


class Backend(Protocol):
    """Where an attempt writes: a server, or a test."""

    def now_ms(self) -> int:
        """The store's time."""

    async def save(self, records: Sequence[tuple[str, Any]]) -> None:
        """Saves checkpoints, all or none."""

    async def group(self, key: str) -> Mapping[str, Any] | None:
        """A group of children: ``decided``, ``total`` and ``children``."""

    async def spawn(self, group: NewGroup, records: Sequence[tuple[str, Any]]) -> Spawned:
        """Spawns a group, saves checkpoints and parks the job."""

    async def note(self, item: Mapping[str, Any]) -> None:
        """Sends progress or log lines."""

    async def stream(self, offset: int, chunks: Sequence[str]) -> None:
        """Adds to the job's output; ``offset`` chunks of this attempt came before, and each is JSON."""


class Stopped(BaseException):
    """Ends the handler of an attempt that parked or lost its job. Handlers must not catch it."""


class Counted:
    """A backend whose requests are counted while they are under way."""

    def __init__(self, backend: Backend, waiting: Waiting) -> None:
        self._backend, self._waiting = backend, waiting
        self.output = Output(backend.stream)

    def now_ms(self) -> int:
        """The store's time."""
        return self._backend.now_ms()

    async def save(self, records: Sequence[tuple[str, Any]]) -> None:
        """Saves checkpoints, all or none."""
        with self._waiting.storing():
            # What a step has written comes before its record: a later attempt does not write it again.
            await self.output.flush()
            await self._backend.save(records)

    async def group(self, key: str) -> Mapping[str, Any] | None:
        """A group of children."""
        with self._waiting.storing():
            return await self._backend.group(key)

    async def spawn(self, group: NewGroup, records: Sequence[tuple[str, Any]]) -> Spawned:
        """Spawns a group, saves checkpoints and parks the job."""
        with self._waiting.storing():
            await self.output.flush()
            return await self._backend.spawn(group, records)

    async def note(self, item: Mapping[str, Any]) -> None:
        """Sends progress or log lines."""
        with self._waiting.storing():
            await self._backend.note(item)

    async def stream(self, offset: int, chunks: Sequence[str]) -> None:
        """Adds to the job's output."""
        await self._backend.stream(offset, chunks)

    async def add_output(self, chunk: str) -> None:
        """Adds a chunk, which is JSON, to what is written to the job's output soon."""
        with self._waiting.storing():
            await self.output.add(chunk)


class CallCore:
    """What all calls of one attempt have in common: their start, their turn, what is saved before them."""

    def __init__(
        self, saved: Mapping[str, Any], backend: Backend, *, is_strict: bool = True,
        mapping: Mapping[type[BaseException], Category] | None = None, threads: Executor | None = None,
        expires_at: str | None = None,
    ) -> None:
        #: When the job's lifetime ends, as the API writes it; None if the server does not say.
        self.expires_at = expires_at
        #: Where blocking work runs; None for the loop's own threads.
        self.threads = threads
        self.saved = dict(saved)
        #: Records that are written together with the outcome or a group, in one commit.
        self.deferred: dict[str, Any] = {}
        self.is_strict, self.mapping = is_strict, mapping
        self.order = Order(saved)
        self.waiting = Waiting(self.order, backend.now_ms, self.park)
        self.backend = Counted(backend, self.waiting)
        #: How the attempt ended before its handler: what it parks on; None if nothing is to be reported.
        self.exit: asyncio.Future[Mapping[str, Any] | None] = asyncio.get_running_loop().create_future()
        self.changed: StepsChanged | None = None
        self._moved = asyncio.Event()
        #: Tasks of the handler that are in a call.
        self._tasks: dict[Call, asyncio.Task[Any]] = {}
        #: Calls that wait for those before them.
        self._early: set[Call] = set()
        self._threads: set[concurrent.futures.Future[Any]] = set()

    def park(self, park: Mapping[str, Any]) -> None:
        """The job parks on this."""
        if not self.exit.done():
            self.exit.set_result(park)

    def leave(self) -> None:
        """Nothing is to be reported any more."""
        if not self.exit.done():
            self.exit.set_result(None)

    def close(self) -> None:
        """The handler has ended: tasks that it left in a call must not run beside the next attempt."""
        self.leave()
        for task in set(self._tasks.values()):
            task.cancel()

    async def in_thread(self, work: Callable[[], Any]) -> Any:
        """Runs blocking work of a step. A thread cannot be stopped: it may continue after its step was cancelled."""

        def run() -> Any:
            try:
                return work()
            except StopIteration as error:
                # No future can have it: it would not be noticed.
                raise RuntimeError("the step raised StopIteration") from error

        if self.threads is None:
            return await asyncio.get_running_loop().run_in_executor(None, run)
        running = self.threads.submit(run)
        self._threads.add(running)
        running.add_done_callback(self._threads.discard)
        return await asyncio.wrap_future(running)

    def busy_threads(self) -> set[asyncio.Future[Any]]:
        """Blocking work that still runs."""
        found = {asyncio.wrap_future(one) for one in list(self._threads)}
        for one in found:
            # Its result is not used.
            one.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        return found

    async def begin(self, name: str, branch: Branch, is_main: bool) -> Call:
        """Starts a call when it may continue."""
        if self.exit.get_loop() is not asyncio.get_running_loop():
            raise RuntimeError("calls of a context belong to the event loop of its worker: make the handler `def` for calls in threads")
        if self.exit.done():
            raise Stopped
        if self.changed is not None:
            raise self.changed
        call = self.order.call(name, branch)
        task = asyncio.current_task()
        if task is not None and not is_main:
            self._tasks[call] = task
        self._progress()
        try:
            if not is_main:
                # Calls beside it are made first, so that it is known that they are.
                await asyncio.sleep(0)
            if call.is_left_out:
                await self._wait_dropped(call)
            if self.is_strict and not self.order.is_turn(call):
                self._early.add(call)
                try:
                    await self._wait_turn(call, is_main)
                finally:
                    self._early.discard(call)
        except BaseException:
            call.has_ended = True
            self.end(call)
            raise
        return call

    async def _wait_dropped(self, call: Call) -> None:
        while call.is_left_out:
            dropped = self.order.known.left_out[call.key]
            await asyncio.sleep(DROPPED_SECONDS + dropped.ran_ms / 500)
            log.warning("`%s` was dropped in an earlier attempt and is not dropped now: it runs", call.key)
            self.order.next_key(call)
            first = dropped.places.first
            if not call.is_left_out and call.saved is None and first is not None:
                call.first = first
                self.order.known.require_nothing_after(first)

    async def _wait_turn(self, call: Call, is_main: bool) -> None:
        until = time.monotonic() + TURN_BESIDE_SECONDS
        while not (is_main and len(self.order.active) == 1):
            if call.saved is not None:
                return
            try:
                self._moved.clear()
                await asyncio.wait_for(self._moved.wait(), TURN_SECONDS)
            except asyncio.TimeoutError:
                if self.order.active - self._early:
                    log.warning("the order of steps differs from earlier attempts; they run in the new order")
                    self.order.is_unknown = True
                elif len(self.order.active) == 1 or time.monotonic() >= until:
                    break
            if self.order.is_turn(call):
                return
        missing = self.order.known.first_missing()
        place, key = missing or (0, "another call")
        self.changed = StepsChanged(
            f"the code was changed: `{call.key}` is called where an earlier attempt saved `{key}` as call {place}; "
            "let jobs that started before finish first, or use lenient_steps"
        )
        raise self.changed

    def _progress(self) -> None:
        self._moved.set()
        self.waiting.consider()

    def end(self, call: Call) -> None:
        """Ends a call."""
        self._tasks.pop(call, None)
        self.order.end(call)
        if not self.exit.done():
            self._progress()

    async def save_after(
        self, call: Call, key: str | None = None, record: Any = None, *, is_parking: bool = False
    ) -> None:
        """Saves what must precede the call, then the record: with what parks the job, if that comes at once."""
        before = self.order.saved_before(call)
        records = before + ([] if key is None else [(key, record)])
        if not records:
            return
        if is_parking:
            self.deferred.update(records)
        else:
            await self.backend.save(records)
        self.saved.update(records)
        self.order.mark_saved([key for key, _ in before])
