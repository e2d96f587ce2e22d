"""A worker's registration: its id, and a new one when the server has forgotten it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import ApiError, Unreachable
from ..net.http_sync import SyncHttp

log = logging.getLogger("windlass")

#: Between heartbeats, in seconds, unless the server says otherwise.
HEARTBEAT_SECONDS = 10.0


class Registration:
    """The worker as the server knows it; used by the event loop and by the heartbeats' thread."""

    def __init__(self, http: SyncHttp, body: Mapping[str, Any], on_lost: Callable[[], None]) -> None:
        self.id = ""
        self._http, self._body, self._on_lost = http, body, on_lost
        self._lock = threading.Lock()
        self._is_closed = False

    def register(self, forgotten: str = "") -> None:
        """Registers, unless another thread did since ``forgotten`` was the id. Jobs of a forgotten worker are lost.

        Raises ``ApiError`` or ``Unreachable``.
        """
        with self._lock:
            if self.id != forgotten or self._is_closed:
                return
            if forgotten:
                log.warning("the server does not know this worker any more; registering again")
                self._on_lost()
            self.id = self._http.call("POST", "/workers", self._body)["worker_id"]

    def close(self) -> str:
        """Ends the registration, and returns its id. A heartbeat that the server refuses because it has forgotten the
        worker meanwhile does not register it again."""
        with self._lock:
            self._is_closed = True
        return self.id

    def register_again(self, forgotten: str) -> None:
        """Registers, or leaves it to the next request."""
        try:
            self.register(forgotten)
        except (ApiError, Unreachable) as error:
            log.warning("cannot register again: %s", error)
