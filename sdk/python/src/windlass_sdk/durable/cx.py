"""The context of ``async def`` handlers."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import random as _random
import uuid as _uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Generic, Literal, ParamSpec, TypeVar, overload

from .calls import Calls, Stopped, drop
from .children import Child, Children, Strategy, results_of, strategy_body
from .context import BRANCH, BaseContext, check_work, is_async, log_items, panic_of, progress_item, read_signal, reader
from .history import Branch
from .output import chunk_text
from ..duration import Duration, millis
from ..tracing import step_span

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


@dataclass(frozen=True)
class First(Generic[A, B]):
    """The winner of a race."""

    side: Literal["left", "right"]
    #: The value of the left side, if it won.
    left: A | None
    #: The value of the right side, if it won.
    right: B | None


class Cx(BaseContext):
    """A running job: steps, sleeps, signals, children, checkpoints, progress, logs and output."""

    def __init__(self, job: Mapping[str, Any], calls: Calls, main: asyncio.Task[Any] | None = None) -> None:
        super().__init__(job, calls)
        self._main = main

    def _is_main(self) -> bool:
        return self._main is None or asyncio.current_task() is self._main

    @overload
    async def step(
        self, name: str, work: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...

    @overload
    async def step(self, name: str, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...

    async def step(self, name: str, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Runs ``work`` once per job: its result is saved before it is returned, and later attempts get it.

        A function that is not ``async`` runs in a thread. The value is read back from its JSON, as the annotation of
        the function's result says. An exception arrives as ``StepFailed``; one that fails the attempt runs the step
        again, one that the handler catches is remembered once a later call is saved.
        """
        check_work(work)
        read = reader(work, None)
        branch = BRANCH.get()
        call, is_saved, value = await self._calls.enter_step(name, branch, self._is_main())
        if is_saved:
            return self._calls.read_saved(call, value, read)
        token = BRANCH.set(Branch.within(call.key))
        try:
            with step_span(name):
                if is_async(work):
                    value = await work(*args, **kwargs)
                else:
                    running = functools.partial(contextvars.copy_context().run, work, *args, **kwargs)
                    value = await self._calls.in_thread(running)
                    if asyncio.iscoroutine(value) or isinstance(value, asyncio.Future):
                        value = await value
        except (KeyboardInterrupt, SystemExit) as error:
            # In a task of the handler it would end the event loop, and with it the worker.
            BRANCH.reset(token)
            raise await self._calls.step_failed(call, panic_of(error)) from error
        except (asyncio.CancelledError, Stopped, GeneratorExit):
            BRANCH.reset(token)
            self._calls.end(call)
            raise
        except BaseException as error:
            BRANCH.reset(token)
            raise await self._calls.step_failed(call, error) from error
        BRANCH.reset(token)
        return await self._calls.step_done(call, value, read)

    async def sleep(self, duration: Duration, *, name: str = "") -> None:
        """Sleeps without holding a slot. The end is fixed on the first run. Give a sleep whose length varies between
        attempts a name."""
        await self._calls.sleep(name, millis(duration), BRANCH.get(), self._is_main())

    @overload
    async def wait_signal(self, name: str, kind: type[T], *, timeout: Duration | None = None) -> T | None: ...

    @overload
    async def wait_signal(self, name: str, kind: None = None, *, timeout: Duration | None = None) -> Any: ...

    async def wait_signal(self, name: str, kind: Any = None, *, timeout: Duration | None = None) -> Any:
        """Waits for a signal without holding a slot; None if ``timeout`` passes. A signal sent earlier is found."""
        timeout_ms = None if timeout is None else millis(timeout)
        record = await self._calls.wait_signal(name, timeout_ms, BRANCH.get(), self._is_main())
        return read_signal(record, name, kind)

    async def spawn(
        self, children: Sequence[Child[T]], *, strategy: Strategy = "collect_all", name: str = ""
    ) -> Children[T]:
        """Spawns children and waits, without a slot, until their group is decided. Give a group that varies between
        attempts a name."""
        jobs = [child.submission for child in children]
        group = await self._calls.children(name, strategy_body(strategy), jobs, BRANCH.get(), self._is_main())
        return results_of(group, [child.kind for child in children])

    @overload
    async def gather(self, first: Child[A], /) -> tuple[A]: ...

    @overload
    async def gather(self, first: Child[A], second: Child[B], /) -> tuple[A, B]: ...

    @overload
    async def gather(self, first: Child[A], second: Child[B], third: Child[C], /) -> tuple[A, B, C]: ...

    @overload
    async def gather(self, *children: Child[T]) -> tuple[T, ...]: ...

    async def gather(self, *children: Child[Any]) -> tuple[Any, ...]:
        """Spawns children and returns all their results; raises ``ChildFailed`` as soon as one fails."""
        return tuple((await self.spawn(children, strategy="fail_fast")).all())

    async def start(self, child: Child[Any]) -> str:
        """Starts a child without waiting for it, once across all attempts; returns its id. It is cancelled with this job.
        A step named ``start TYPE``."""

        async def work() -> str:
            return await self._calls.start(BRANCH.get().step_key, child.submission)

        return await self.step(f"start {child.submission['type']}", work)

    async def wait_any(
        self, names: Sequence[str], kind: Any = None, *, timeout: Duration | None = None
    ) -> tuple[str, Any] | None:
        """Waits for the first of several signals, and returns its name and value; None if ``timeout`` passes. If several
        have arrived already, the first in ``names`` is taken."""
        timeout_ms = None if timeout is None else millis(timeout)
        found = await self._calls.wait_any(names, timeout_ms, BRANCH.get())
        return None if found is None else (found[0], read_signal(found[1], found[0], kind))

    async def race(self, left: Coroutine[Any, Any, A], right: Coroutine[Any, Any, B]) -> First[A, B]:
        """Runs both until one is done, and drops the other, in the same way in every attempt; if both are done, the left
        one wins. Use it instead of ``asyncio.wait``, whose first one a replay cannot know::

            first = await cx.race(cx.wait_signal("paid"), cx.sleep("3d"))
        """

        async def on(side: Branch, work: Coroutine[Any, Any, T]) -> T:
            BRANCH.set(side)
            return await work

        sides = self._calls.order.race(BRANCH.get())
        tasks: tuple[asyncio.Task[A], asyncio.Task[B]] = (
            asyncio.ensure_future(on(sides[0], left)), asyncio.ensure_future(on(sides[1], right)),
        )
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if tasks[0].done():
                return First("left", tasks[0].result(), None)
            return First("right", None, tasks[1].result())
        finally:
            await drop(tasks)

    async def checkpoint(self, value: Any) -> None:
        """Saves a value, replacing the previous one: for work without steps."""
        await self._calls.checkpoint(value)

    async def progress(self, percent: float, message: str = "") -> None:
        """Sets the job's progress, from 0 to 100."""
        await self._calls.backend.note(progress_item(percent, message))

    async def log(self, *lines: str) -> None:
        """Writes lines to the job's log."""
        for item in log_items(lines):
            await self._calls.backend.note(item)

    async def stream(self, chunk: Any) -> None:
        """Adds a chunk to the job's partial output, for readers that follow it live: a token of a language model, a part
        of a report. It is any value that JSON can have, at most 64 KiB. Chunks are written together; after a failure the
        next attempt starts the output over, without what saved steps wrote."""
        await self._calls.backend.add_output(chunk_text(chunk))

    async def now(self) -> datetime:
        """The time, the same in every attempt."""
        return datetime.fromtimestamp(await self.step("now", self._now_ms) / 1000, timezone.utc)

    async def _now_ms(self) -> int:
        return self._calls.backend.now_ms()

    async def random(self) -> float:
        """A random number from 0 to 1, the same in every attempt."""

        async def draw() -> float:
            return _random.random()

        return await self.step("random", draw)

    async def uuid(self) -> _uuid.UUID:
        """A random UUID, the same in every attempt."""

        async def draw() -> str:
            return str(_uuid.uuid4())

        return _uuid.UUID(await self.step("uuid", draw))
