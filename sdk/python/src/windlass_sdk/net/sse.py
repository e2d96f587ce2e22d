"""Server-sent events, read line by line from an answer that continues."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass

from ..errors import Unreachable
from .http_async import AsyncHttp, Connection
from .http_sync import SyncHttp
from .wire import CONNECT_SECONDS, Answer

#: The server shows that it is alive every 15 s; after this time without a sign of it the connection is broken.
SILENCE_SECONDS = 45.0
_HEADERS = {"Accept": "text/event-stream"}


@dataclass(frozen=True)
class ServerEvent:
    """One event."""

    name: str
    data: str
    id: str | None = None


#: A comment, by which a server shows that it is alive.
ALIVE = ServerEvent("", "")


class Parser:
    """Makes events of lines."""

    def __init__(self) -> None:
        self._id: str | None = None
        self._name = "message"
        self._data: list[str] = []

    def feed(self, line: str) -> ServerEvent | None:
        """Takes a line without its end; returns the event that it ends."""
        if not line:
            found = ServerEvent(self._name, "\n".join(self._data), self._id) if self._data else None
            self.__init__()  # type: ignore[misc]
            return found
        if line.startswith(":"):
            return ALIVE
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "id":
            self._id = value
        elif name == "event":
            self._name = value
        elif name == "data":
            self._data.append(value)
        return None


class AsyncEvents:
    """An open stream of events on an event loop."""

    def __init__(self, connection: Connection, is_chunked: bool) -> None:
        self._connection, self._is_chunked = connection, is_chunked

    @staticmethod
    async def open(client: AsyncHttp, path: str) -> AsyncEvents:
        """Asks for a stream. Raises ``ApiError`` or ``Unreachable``."""
        try:
            connection = await client.connect()
        except (OSError, asyncio.TimeoutError) as error:
            raise Unreachable(f"{client.address!r} cannot be reached: {error or 'timeout'}", was_sent=False) from error
        try:
            head = client.head("GET", path, {**_HEADERS, "Content-Length": "0"})
            status, headers = await asyncio.wait_for(connection.begin(head), CONNECT_SECONDS)
            if status != 200:
                Answer(status, headers, await asyncio.wait_for(connection.body(headers, status), CONNECT_SECONDS)).json()
                raise Unreachable(f"the answer {status} is no stream of events")
            return AsyncEvents(connection, headers.get("transfer-encoding", "").lower() == "chunked")
        except (OSError, EOFError, ValueError, asyncio.TimeoutError) as error:
            connection.writer.close()
            raise Unreachable(f"{client.address!r} did not answer: {error or 'timeout'}") from error
        except BaseException:
            connection.writer.close()
            raise

    async def __aiter__(self) -> AsyncIterator[ServerEvent]:
        """The events and signs of life, until the stream ends or breaks."""
        parser, rest = Parser(), b""
        while piece := await self._piece():
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                if (event := parser.feed(line.decode(errors="replace").rstrip("\r"))) is not None:
                    yield event

    async def _piece(self) -> bytes:
        reader = self._connection.reader
        try:
            if not self._is_chunked:
                return await asyncio.wait_for(reader.read(1 << 16), SILENCE_SECONDS)
            size = int((await asyncio.wait_for(reader.readline(), SILENCE_SECONDS)).split(b";")[0] or b"0", 16)
            piece = await asyncio.wait_for(reader.readexactly(size), SILENCE_SECONDS) if size else b""
            await reader.readline()
            return piece
        except (OSError, EOFError, ValueError, asyncio.TimeoutError):
            return b""

    def close(self) -> None:
        """Ends the request."""
        self._connection.writer.close()


class SyncEvents:
    """An open stream of events in a thread."""

    def __init__(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        self._connection, self._response = connection, response

    @staticmethod
    def open(client: SyncHttp, path: str) -> SyncEvents:
        """Asks for a stream. Raises ``ApiError`` or ``Unreachable``."""
        connection = client.connect()
        try:
            connection.request("GET", client.address.prefix + path, b"", {**client.address.headers(), **_HEADERS})
            if connection.sock is not None:
                connection.sock.settimeout(SILENCE_SECONDS)
            response = connection.getresponse()
            if response.status != 200:
                found: Mapping[str, str] = {name.lower(): value for name, value in response.getheaders()}
                Answer(response.status, found, response.read()).json()
                raise Unreachable(f"the answer {response.status} is no stream of events")
            return SyncEvents(connection, response)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise Unreachable(f"{client.address!r} did not answer: {error}") from error
        except BaseException:
            connection.close()
            raise

    def __iter__(self) -> Iterator[ServerEvent]:
        """The events and signs of life, until the stream ends or breaks."""
        parser = Parser()
        while True:
            try:
                line = self._response.readline()
            except (OSError, ValueError, http.client.HTTPException):
                return
            if not line:
                return
            if (event := parser.feed(line.decode(errors="replace").rstrip("\r\n"))) is not None:
                yield event

    def close(self) -> None:
        """Ends the request."""
        self._connection.close()
