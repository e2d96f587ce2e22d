"""Partial output of an attempt: chunks are written together after a moment, before the next checkpoint, or with the
outcome. Each write says how many chunks came before it, so that one whose answer was lost can be repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ..codec import dumps
from ..errors import JobError, Permanent

#: Bytes of one chunk, as JSON.
CHUNK_BYTES_MAX = 64 << 10
#: Most chunks in one request, and most that wait to be written.
CHUNKS_MAX = 1_000
#: Bytes of the chunks in one request, and of those that wait.
REQUEST_BYTES_MAX = 1 << 20
#: Shortest time between two writes, in seconds.
WRITE_EVERY = 0.05

Write = Callable[[int, Sequence[str]], Awaitable[None]]


class Output:
    """The output of one attempt, on its event loop."""

    def __init__(self, write: Write) -> None:
        self._write = write
        #: How many chunks are known to be written.
        self._offset = 0
        self._chunks: list[str] = []
        self._bytes = 0
        self._writing = asyncio.Lock()
        self._freed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._error: BaseException | None = None
        self._is_closed = False

    async def add(self, chunk: str) -> None:
        """Adds a chunk, which is JSON; waits while too much waits to be written."""
        size = len(chunk.encode())
        while True:
            if self._error is not None:
                raise self._error
            if len(self._chunks) < CHUNKS_MAX and self._bytes + size <= REQUEST_BYTES_MAX:
                break
            self._freed.clear()
            await self._freed.wait()
        self._chunks.append(chunk)
        self._bytes += size
        if self._task is None and not self._is_closed:
            self._task = asyncio.create_task(self._run())

    async def flush(self) -> None:
        """Writes what waits."""
        async with self._writing:
            while self._chunks and not self._is_closed:
                chunks = list(self._chunks)
                await self._write(self._offset, chunks)
                self._offset += len(chunks)
                del self._chunks[:len(chunks)]
                self._bytes -= sum(len(chunk.encode()) for chunk in chunks)
                self._freed.set()

    async def _run(self) -> None:
        try:
            while self._chunks:
                try:
                    await self.flush()
                except JobError as error:
                    if isinstance(error, Permanent):
                        raise
                await asyncio.sleep(WRITE_EVERY)
        except BaseException as error:
            # The next chunk gets to know of it.
            self._error = error
            self._chunks.clear()
            self._bytes = 0
        finally:
            self._task = None
            self._freed.set()

    def close(self) -> str | None:
        """The attempt is over. Returns what was not written, for its outcome."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
        if not self._chunks:
            return None
        return f'{{"offset":{self._offset},"chunks":[{",".join(self._chunks)}]}}'


def chunk_text(chunk: Any) -> str:
    """A chunk as JSON.

    Raises ``Permanent`` if it cannot be written, or is too large.
    """
    try:
        text = dumps(chunk)
    except (TypeError, ValueError) as error:
        raise Permanent(f"the chunk cannot be written as JSON: {error}", "not_allowed") from error
    if (size := len(text.encode())) > CHUNK_BYTES_MAX:
        raise Permanent(f"the chunk has {size} bytes as JSON, the limit is {CHUNK_BYTES_MAX}", "not_allowed")
    return text
