"""The context of ``def`` handlers, which run in a thread. Its calls wait for the worker's event loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import random as _random
import threading
import uuid as _uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, ParamSpec, TypeVar, overload

from .calls import Calls, Stopped
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


class SyncCx(BaseContext):
    """A running job, for handlers that block: the same calls as ``Cx``, without ``await``."""

    def __init__(self, job: Mapping[str, Any], calls: Calls, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(job, calls)
        self._loop = loop
        self._thread: int | None = None

    def _is_main(self) -> bool:
        return self._thread is None or threading.get_ident() == self._thread

    def _ask(self, call: Coroutine[Any, Any, T]) -> T:
        asked = asyncio.run_coroutine_threadsafe(self._until_exit(call), self._loop)
        try:
            return asked.result()
        except (concurrent.futures.CancelledError, asyncio.CancelledError):
            raise Stopped from None

    async def _until_exit(self, call: Coroutine[Any, Any, T]) -> T:
        """A call that parks never returns; the thread must be freed."""
        task = asyncio.ensure_future(call)
        waited: set[asyncio.Future[Any]] = {task, self._calls.exit}
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
        return await task

    def step(self, name: str, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs ``work`` once per job, in this thread; see ``Cx.step``."""
        check_work(work)
        if is_async(work):
            raise TypeError("a step of a `def` handler cannot be `async`; write the handler as `async def`")
        read, branch = reader(work, None), BRANCH.get()
        call, is_saved, value = self._ask(self._calls.enter_step(name, branch, self._is_main()))
        if is_saved:
            found: T = self._calls.read_saved(call, value, read)
            return found
        token = BRANCH.set(Branch.within(call.key))
        try:
            with step_span(name):
                value = work(*args, **kwargs)
        except (KeyboardInterrupt, SystemExit) as error:
            BRANCH.reset(token)
            raise self._ask(self._calls.step_failed(call, panic_of(error))) from error
        except Exception as error:
            BRANCH.reset(token)
            raise self._ask(self._calls.step_failed(call, error)) from error
        except BaseException:
            BRANCH.reset(token)
            self._loop.call_soon_threadsafe(self._calls.end, call)
            raise
        BRANCH.reset(token)
        done: T = self._ask(self._calls.step_done(call, value, read))
        return done

    def sleep(self, duration: Duration, *, name: str = "") -> None:
        """Sleeps without holding a slot; see ``Cx.sleep``."""
        self._ask(self._calls.sleep(name, millis(duration), BRANCH.get(), self._is_main()))

    @overload
    def wait_signal(self, name: str, kind: type[T], *, timeout: Duration | None = None) -> T | None: ...

    @overload
    def wait_signal(self, name: str, kind: None = None, *, timeout: Duration | None = None) -> Any: ...

    def wait_signal(self, name: str, kind: Any = None, *, timeout: Duration | None = None) -> Any:
        """Waits for a signal without holding a slot; see ``Cx.wait_signal``."""
        timeout_ms = None if timeout is None else millis(timeout)
        waiting = self._calls.wait_signal(name, timeout_ms, BRANCH.get(), self._is_main())
        return read_signal(self._ask(waiting), name, kind)

    def spawn(
        self, children: Sequence[Child[T]], *, strategy: Strategy = "collect_all", name: str = ""
    ) -> Children[T]:
        """Spawns children and waits for their group; see ``Cx.spawn``."""
        jobs = [child.submission for child in children]
        spawning = self._calls.children(name, strategy_body(strategy), jobs, BRANCH.get(), self._is_main())
        return results_of(self._ask(spawning), [child.kind for child in children])

    @overload
    def gather(self, first: Child[A], /) -> tuple[A]: ...

    @overload
    def gather(self, first: Child[A], second: Child[B], /) -> tuple[A, B]: ...

    @overload
    def gather(self, *children: Child[T]) -> tuple[T, ...]: ...

    def gather(self, *children: Child[Any]) -> tuple[Any, ...]:
        """Spawns children and returns all their results; see ``Cx.gather``."""
        return tuple(self.spawn(children, strategy="fail_fast").all())

    def start(self, child: Child[Any]) -> str:
        """Starts a child without waiting for it; see ``Cx.start``."""

        def work() -> str:
            return self._ask(self._calls.start(BRANCH.get().step_key, child.submission))

        return self.step(f"start {child.submission['type']}", work)

    def wait_any(
        self, names: Sequence[str], kind: Any = None, *, timeout: Duration | None = None
    ) -> tuple[str, Any] | None:
        """Waits for the first of several signals; see ``Cx.wait_any``."""
        timeout_ms = None if timeout is None else millis(timeout)
        found = self._ask(self._calls.wait_any(names, timeout_ms, BRANCH.get()))
        return None if found is None else (found[0], read_signal(found[1], found[0], kind))

    def checkpoint(self, value: Any) -> None:
        """Saves a value, replacing the previous one."""
        self._ask(self._calls.checkpoint(value))

    def progress(self, percent: float, message: str = "") -> None:
        """Sets the job's progress, from 0 to 100."""
        self._ask(self._note(progress_item(percent, message)))

    def log(self, *lines: str) -> None:
        """Writes lines to the job's log."""
        for item in log_items(lines):
            self._ask(self._note(item))

    def stream(self, chunk: Any) -> None:
        """Adds a chunk to the job's partial output; see ``Cx.stream``."""
        self._ask(self._calls.backend.add_output(chunk_text(chunk)))

    async def _note(self, item: Mapping[str, Any]) -> None:
        await self._calls.backend.note(item)

    def now(self) -> datetime:
        """The time, the same in every attempt."""
        return datetime.fromtimestamp(self.step("now", self._calls.backend.now_ms) / 1000, timezone.utc)

    def random(self) -> float:
        """A random number from 0 to 1, the same in every attempt."""
        return self.step("random", _random.random)

    def uuid(self) -> _uuid.UUID:
        """A random UUID, the same in every attempt."""
        return _uuid.UUID(self.step("uuid", lambda: str(_uuid.uuid4())))
