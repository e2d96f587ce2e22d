"""A client without an event loop: for heartbeats, which must not depend on one, and for synchronous programs."""

from __future__ import annotations

import http.client
import os
import threading
import time
from collections.abc import Mapping
from typing import Any

from ..codec import dumps
from ..errors import Unreachable
from .wire import CALL_SECONDS, CONNECT_SECONDS, IDLE_SECONDS, NOT_DONE, RETRIED, Address, Answer, StoreClock, pauses


class SyncHttp:
    """A connection per thread, kept open."""

    def __init__(self, address: Address, clock: StoreClock | None = None) -> None:
        self.address = address
        self.clock = clock or StoreClock()
        self._local = threading.local()

    def call(
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
                answer = self.send(method, path, data, timeout, headers, may_repeat)
            except Unreachable as error:
                if time.monotonic() >= until or (error.was_sent and not may_repeat):
                    raise
                time.sleep(next(waits))
                continue
            self.clock.learn(answer.headers, sent)
            if answer.status not in (RETRIED if may_repeat else NOT_DONE) or time.monotonic() >= until:
                return answer.json()
            time.sleep(min(answer.retry_after() or next(waits), 5.0))

    def send(
        self, method: str, path: str, body: bytes, timeout: float, more: Mapping[str, str] | None = None,
        may_repeat: bool = True,
    ) -> Answer:
        """Sends one request."""
        connection = self._kept()
        is_used = connection is not None
        if connection is None:
            connection = self._local.connection = self.connect()
            self._local.process = os.getpid()
        headers = {**self.address.headers(), **(more or {})}
        # For connecting, also again.
        connection.timeout = min(CONNECT_SECONDS, timeout)
        try:
            if connection.sock is not None:
                connection.sock.settimeout(timeout)
            connection.request(method, self.address.prefix + path, body, headers)
            if connection.sock is not None:
                connection.sock.settimeout(timeout)
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            answer = Answer(response.status, found, response.read())
            self._local.idle_since = time.monotonic()
            return answer
        except (OSError, http.client.HTTPException) as error:
            self.close()
            # A kept connection that the server closed: the request was not read.
            if is_used and may_repeat and isinstance(error, (ConnectionError, http.client.RemoteDisconnected)):
                return self.send(method, path, body, timeout, more)
            was_sent = is_used or not isinstance(error, ConnectionRefusedError)
            raise Unreachable(f"{self.address!r} did not answer: {error}", was_sent) from error

    def _kept(self) -> http.client.HTTPConnection | None:
        """This thread's connection, unless the server may have closed it, or it is that of a parent process."""
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            return None
        is_fresh = time.monotonic() - getattr(self._local, "idle_since", 0.0) < IDLE_SECONDS
        if is_fresh and self._local.process == os.getpid():
            return connection
        self.close()
        return None

    def connect(self) -> http.client.HTTPConnection:
        """A new connection."""
        address = self.address
        if address.tls is None:
            return http.client.HTTPConnection(address.host, address.port, timeout=CONNECT_SECONDS)
        return http.client.HTTPSConnection(
            address.host, address.port, timeout=CONNECT_SECONDS, context=address.tls
        )

    def close(self) -> None:
        """Closes this thread's connection."""
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        self._local.connection = None
        if connection is not None:
            connection.close()
