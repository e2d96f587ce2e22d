"""What both HTTP clients share: addresses, heads of requests and answers, the store's clock, pauses between tries."""

from __future__ import annotations

import json
import os
import random
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any
from urllib.parse import quote, urlsplit

from ..duration import moment_millis
from ..errors import ApiError, Unreachable

try:
    USER_AGENT = f"windlass-sdk-python/{metadata.version('windlass-sdk')}"
except metadata.PackageNotFoundError:
    USER_AGENT = "windlass-sdk-python"
#: Longest answer to an ordinary request; a server has refused by then what it cannot do.
CALL_SECONDS = 35.0
#: Longest time to connect; a slower network is down.
CONNECT_SECONDS = 10.0
#: A connection that was idle for longer may have been closed by the server.
IDLE_SECONDS = 20.0
#: The code of a refusal by something between this program and the server.
NOT_THE_SERVER = "proxy_refused"
#: Answers that a repeat may change.
RETRIED = frozenset({408, 429, 502, 503, 504})
#: Those of them that say that nothing was done; after the others it may have been.
NOT_DONE = frozenset({429, 503})


@dataclass(frozen=True)
class Address:
    """A server and how to talk to it."""

    host: str
    port: int
    prefix: str
    tls: ssl.SSLContext | None
    key: str | None

    @staticmethod
    def of(url: str | None = None, key: str | None = None, tls: ssl.SSLContext | None = None) -> Address:
        """From arguments, or from ``WINDLASS_URL`` and ``WINDLASS_KEY``."""
        url = url or os.environ.get("WINDLASS_URL") or "http://127.0.0.1:7788"
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"not the address of a server: {url!r}")
        if parts.scheme == "https":
            tls = tls or ssl.create_default_context()
        port = parts.port or (443 if tls else 80)
        key = key or os.environ.get("WINDLASS_KEY") or None
        return Address(parts.hostname, port, parts.path.rstrip("/") + "/api/v1", tls, key)

    def __repr__(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.host}:{self.port}"

    def headers(self) -> dict[str, str]:
        """The headers of every request."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        found = {"Host": f"{host}:{self.port}", "User-Agent": USER_AGENT, "Content-Type": "application/json"}
        if self.key:
            found["Authorization"] = f"Bearer {self.key}"
        return found


def read_json(text: bytes) -> Any:
    """Any JSON, also with integers of more digits than Python converts: they are floats, as in other readers of JSON.

    One such payload must not make the answer with all other jobs unreadable.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except ValueError:
        return json.loads(text, parse_int=_number)


def _number(digits: str) -> float:
    try:
        return int(digits)
    except ValueError:
        return float(digits)


@dataclass(frozen=True)
class Answer:
    """An HTTP answer, read completely."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON.

        Raises ``ApiError`` for a refusal and ``Unreachable`` for an answer that is not the server's.
        """
        try:
            value = read_json(self.body) if self.body else None
        except ValueError:
            if self.status < 400:
                raise Unreachable(f"the answer {self.status} is not JSON: {self.body[:80]!r}") from None
            value = None
        if self.status < 400:
            return value
        error = value.get("error") if isinstance(value, dict) else None
        if not isinstance(error, dict):
            message = f"the answer {self.status} is not the server's: {self.body[:80]!r}"
            if self.status < 500 and self.status != 404:
                # A proxy's refusal, such as of a body that is too large: a repeat does not change it.
                raise ApiError(self.status, NOT_THE_SERVER, message)
            raise Unreachable(message)
        raise ApiError(self.status, error.get("code", ""), error.get("message", ""), error.get("details"))

    def retry_after(self) -> float | None:
        """Seconds that the server asks to wait before a repeat."""
        text = self.headers.get("retry-after", "")
        return float(text) if text.isdigit() else None


class StoreClock:
    """The store's time, from the answers' header and this process's monotonic clock between them."""

    def __init__(self) -> None:
        # One value, which other threads read whole: the store's time, and when it was learnt.
        self._learnt = (time.time_ns() // 1_000_000, time.monotonic())
        self._lock = threading.Lock()
        self.taken = 0
        """How many answers have set the clock."""
        # A server for tests, whose clock stands still between answers.
        self._is_stopped = os.environ.get("WINDLASS_CLOCK") == "stopped"

    def learn(self, headers: Mapping[str, str], sent: int) -> None:
        """Takes the time of an answer.

        ``sent`` is what ``taken`` was when its request was sent: if a later answer has come since, this one was overtaken
        and would set the clock back.
        """
        if shown := headers.get("windlass-time"):
            millis = moment_millis(shown)
            with self._lock:
                if self.taken == sent or millis >= self._learnt[0]:
                    self._learnt = (millis, time.monotonic())
                    self.taken += 1

    def now_ms(self) -> int:
        """Milliseconds since 1970 UTC."""
        base_ms, learnt = self._learnt
        return base_ms if self._is_stopped else base_ms + round((time.monotonic() - learnt) * 1000)


def boot_seconds() -> float:
    """A clock that continues while the machine is suspended, where the system has one; the monotonic clock may stand still."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def pauses(first: float = 0.05, longest: float = 2.0) -> Iterator[float]:
    """Pauses between tries: growing, with some jitter so that workers do not return together."""
    pause = first
    while True:
        yield pause * random.uniform(0.8, 1.2)
        pause = min(pause * 2, longest)


def segment(text: str) -> str:
    """A text as one segment of a path."""
    return quote(text, safe="")
