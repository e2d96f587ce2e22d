"""A small HTTP/1.1 client for asyncio: keep-alive connections, one request at a time on each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from ..errors import Unreachable
from .wire import CONNECT_SECONDS, IDLE_SECONDS, Address, Answer

#: Idle connections that are kept.
IDLE_MAX = 32
_LINE_MAX = 1 << 16


class Connection:
    """One connection to the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.used = False
        self.idle_since = 0.0

    async def exchange(self, head: bytes, body: bytes) -> tuple[Answer, bool]:
        """Sends a request and reads its answer; and whether the connection can be used again."""
        status, headers = await self.begin(head + body)
        return Answer(status, headers, await self.body(headers, status)), headers.get("connection") != "close"

    async def begin(self, request: bytes) -> tuple[int, Mapping[str, str]]:
        """Sends a request and reads the head of its answer."""
        self.writer.write(request)
        await self.writer.drain()
        line = await self.reader.readline()
        if not line.startswith(b"HTTP/1.1 "):
            raise ConnectionResetError("the connection was closed" if not line else f"not HTTP: {line[:40]!r}")
        return int(line[9:12]), await self._headers()

    async def _headers(self) -> Mapping[str, str]:
        found: dict[str, str] = {}
        while line := (await self.reader.readline()).strip():
            name, _, value = line.partition(b":")
            found[name.decode("latin-1").lower()] = value.strip().decode("latin-1")
        return found

    async def body(self, headers: Mapping[str, str], status: int) -> bytes:
        """Reads the rest of an answer."""
        if headers.get("transfer-encoding", "").lower() == "chunked":
            parts = []
            while size := int((await self.reader.readline()).split(b";")[0] or b"0", 16):
                parts.append(await self.reader.readexactly(size))
                await self.reader.readexactly(2)
            await self._headers()
            return b"".join(parts)
        length = int(headers.get("content-length", 0))
        return await self.reader.readexactly(length) if length and status != 304 else b""


class AsyncHttp:
    """A pool of connections of one event loop."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._idle: list[Connection] = []
        self._head = "".join(f"{name}: {value}\r\n" for name, value in address.headers().items())

    async def send(
        self, method: str, path: str, body: bytes, timeout: float, more: Mapping[str, str] | None = None,
        may_repeat: bool = True,
    ) -> Answer:
        """Sends a request. A kept connection that the server has closed meanwhile is replaced, if it may be repeated.

        Raises ``Unreachable`` if there is no answer in time.
        """
        head = self.head(method, path, {**(more or {}), "Content-Length": str(len(body))})
        while True:
            try:
                connection = self._take() or await self.connect()
            except (OSError, asyncio.TimeoutError) as error:
                raise Unreachable(f"{self.address!r} cannot be reached: {error or 'timeout'}", was_sent=False) from error
            was_used = connection.used
            try:
                answer, is_kept = await asyncio.wait_for(connection.exchange(head, body), timeout)
            except (OSError, EOFError, ValueError, asyncio.TimeoutError) as error:
                connection.writer.close()
                # A server closes idle connections; the request was then not read.
                if was_used and may_repeat and isinstance(error, ConnectionError):
                    continue
                raise Unreachable(f"{self.address!r} did not answer: {error or 'timeout'}") from error
            except BaseException:
                # Cancelled: the answer on this connection is not needed any more.
                connection.writer.close()
                raise
            self._keep(connection, is_kept)
            return answer

    def _take(self) -> Connection | None:
        now = time.monotonic()
        while self._idle:
            connection = self._idle.pop()
            if now - connection.idle_since < IDLE_SECONDS and not connection.reader.at_eof():
                return connection
            connection.writer.close()
        return None

    def _keep(self, connection: Connection, is_kept: bool) -> None:
        if is_kept and len(self._idle) < IDLE_MAX:
            connection.used, connection.idle_since = True, time.monotonic()
            self._idle.append(connection)
        else:
            connection.writer.close()

    def head(self, method: str, path: str, more: Mapping[str, str]) -> bytes:
        """The head of a request."""
        extra = "".join(f"{name}: {value}\r\n" for name, value in more.items())
        return f"{method} {self.address.prefix}{path} HTTP/1.1\r\n{self._head}{extra}\r\n".encode("latin-1")

    async def connect(self) -> Connection:
        """A new connection."""
        address = self.address
        opening = asyncio.open_connection(address.host, address.port, ssl=address.tls, limit=_LINE_MAX)
        return Connection(*await asyncio.wait_for(opening, CONNECT_SECONDS))

    async def close(self) -> None:
        """Closes idle connections."""
        while self._idle:
            writer = self._idle.pop().writer
            writer.close()
            try:
                await writer.wait_closed()
            except OSError:
                pass
