"""Sends what several jobs write at the same time in one request: each job has its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from ..errors import ApiError

#: Most items in one request.
ITEMS_MAX = 1_000
#: Characters of one request, unless a single item has more.
CHARS_MAX = 1 << 20
#: Requests under way at once; what comes meanwhile shares the next one.
REQUESTS_MAX = 2

#: An item, and where its answer goes.
_Waiting = tuple[str, str, "asyncio.Future[dict[str, Any]]"]


class Batch:
    """Collects items of jobs. ``send`` gets the worker's id and the items as JSON, and returns the answers in their order."""

    def __init__(self, send: Callable[[str, str], Awaitable[list[dict[str, Any]]]]) -> None:
        self._send = send
        self._queue: list[_Waiting] = []
        self._under_way: set[asyncio.Task[None]] = set()
        self._is_scheduled = False

    async def add(self, worker: str, item: str) -> dict[str, Any]:
        """Sends an item and returns its answer. Raises ``ApiError`` or ``Unreachable``."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[dict[str, Any]] = loop.create_future()
        self._queue.append((worker, item, answer))
        self._schedule(loop)
        return await answer

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._is_scheduled and self._queue and len(self._under_way) < REQUESTS_MAX:
            self._is_scheduled = True
            # What is written in the same turn goes together.
            loop.call_soon(self._begin, loop)

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_scheduled = False
        task = loop.create_task(self._ask(self._take()))
        self._under_way.add(task)
        task.add_done_callback(lambda task: self._ended(task, loop))
        self._schedule(loop)

    def _ended(self, task: asyncio.Task[None], loop: asyncio.AbstractEventLoop) -> None:
        self._under_way.discard(task)
        self._schedule(loop)

    def _take(self) -> list[_Waiting]:
        worker, size, count = self._queue[0][0], 0, 0
        for one in self._queue[:ITEMS_MAX]:
            size += len(one[1])
            if count and (size > CHARS_MAX or one[0] != worker):
                break
            count += 1
        taken, self._queue = self._queue[:count], self._queue[count:]
        return taken

    async def _ask(self, items: list[_Waiting]) -> None:
        # Those whose attempt ended meanwhile want no answer, but may still write.
        try:
            answers = await self._send(items[0][0], ",".join(item for _, item, _ in items))
            for (_, _, waiting), answer in zip(items, answers, strict=True):
                if not waiting.done():
                    waiting.set_result(answer)
        except BaseException as error:
            # One of them may be the reason, and the others must not fail with it.
            if len(items) > 1 and isinstance(error, ApiError) and error.status in (400, 413, 422):
                middle = len(items) // 2
                await self._ask(items[:middle])
                return await self._ask(items[middle:])
            for _, _, waiting in items:
                if not waiting.done():
                    waiting.set_exception(error) if isinstance(error, Exception) else waiting.cancel()
            if not isinstance(error, Exception):
                raise
