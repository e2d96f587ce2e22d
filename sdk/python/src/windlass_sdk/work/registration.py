"""A worker's registration: its id, and a new one when the server has forgotten it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import ApiError, OtherProtocol, Unreachable
from ..net.http_sync import SyncHttp

log = logging.getLogger("windlass")

#: Between heartbeats, in seconds, unless the server says otherwise.
HEARTBEAT_SECONDS = 10.0

#: The number of the worker protocol that this is.
PROTOCOL = 1


class Registration:
    """The worker as the server knows it; used by the event loop and by the heartbeats' thread."""

    def __init__(
        self, http: SyncHttp, body: Mapping[str, Any], on_lost: Callable[[], None], on_failed: Callable[[], None]
    ) -> None:
        self.id = ""
        #: Why the worker cannot continue.
        self.failure: OtherProtocol | None = None
        self._http, self._body, self._on_lost, self._on_failed = http, body, on_lost, on_failed
        self._lock = threading.Lock()
        self._is_closed = False

    def register(self, forgotten: str = "") -> None:
        """Registers, unless another thread did since ``forgotten`` was the id. Jobs of a forgotten worker are lost.

        Raises ``ApiError``, ``Unreachable`` or ``OtherProtocol``.
        """
        with self._lock:
            if self.id != forgotten or self._is_closed or self.failure is not None:
                return
            if forgotten:
                log.warning("the server does not know this worker any more; registering again")
                self._on_lost()
            registered = self._http.call("POST", "/workers", self._body)
            protocol = registered.get("protocol", PROTOCOL)
            if protocol != PROTOCOL:
                self.failure = OtherProtocol(protocol, PROTOCOL)
                raise self.failure
            self.id = registered["worker_id"]

    def close(self) -> str:
        """Ends the registration, and returns its id. A heartbeat that the server refuses because it has forgotten the
        worker meanwhile does not register it again."""
        with self._lock:
            self._is_closed = True
        return self.id

    def register_again(self, forgotten: str) -> None:
        """Registers, or leaves it to the next request. Stops the worker if the server speaks another protocol."""
        try:
            self.register(forgotten)
        except OtherProtocol as error:
            log.error("cannot continue: %s", error)
            self._on_failed()
        except (ApiError, Unreachable) as error:
            log.warning("cannot register again: %s", error)
        except Exception:
            # Such as an answer that is not the server's: the thread of the heartbeats continues.
            log.exception("cannot register again")
