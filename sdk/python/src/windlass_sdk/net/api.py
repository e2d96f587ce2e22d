"""Requests of asyncio programs, repeated where that is safe and may help."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from ..codec import dumps
from ..errors import Unreachable
from .http_async import AsyncHttp
from .wire import CALL_SECONDS, NOT_DONE, RETRIED, Address, StoreClock, pauses


class Api:
    """The server's API for one event loop."""

    def __init__(self, address: Address, clock: StoreClock | None = None) -> None:
        self.http = AsyncHttp(address)
        self.clock = clock or StoreClock()

    async def call(
        self, method: str, path: str, body: Any = None, *, timeout: float = CALL_SECONDS, patience: float = 0.0,
        headers: Mapping[str, str] | None = None, may_repeat: bool = True,
    ) -> Any:
        """Sends a request, again for up to ``patience`` seconds if a repeat may help, and returns the answer's JSON.
        Without ``may_repeat`` it is repeated only if the server certainly did not do it.

        Raises ``ApiError`` or ``Unreachable``.
        """
        data = body if isinstance(body, bytes) else b"" if body is None else dumps(body).encode()
        until, waits = time.monotonic() + patience, pauses()
        while True:
            sent = self.clock.taken
            try:
                answer = await self.http.send(method, path, data, timeout, headers, may_repeat)
            except Unreachable as error:
                if time.monotonic() >= until or (error.was_sent and not may_repeat):
                    raise
                await asyncio.sleep(next(waits))
                continue
            self.clock.learn(answer.headers, sent)
            if answer.status not in (RETRIED if may_repeat else NOT_DONE) or time.monotonic() >= until:
                return answer.json()
            await asyncio.sleep(min(answer.retry_after() or next(waits), 5.0))

    async def close(self) -> None:
        """Closes idle connections."""
        await self.http.close()
