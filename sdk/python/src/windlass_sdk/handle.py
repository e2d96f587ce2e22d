"""Handles: a submitted job, to wait for, watch and act on."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar

from .codec import decode, payload_fields
from .duration import Duration, millis, text
from .errors import JobFailed
from .net.sse import ALIVE, AsyncEvents, ServerEvent, SyncEvents
from .net.wire import CALL_SECONDS, segment

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .app import Windlass

Out = TypeVar("Out")

_FINAL = frozenset({"completed", "failed", "dead_letter", "cancelled"})
#: Longest wait in one request, in seconds: shorter than the timeouts of proxies.
_WAIT_SECONDS = 20.0
#: How often progress is read, in milliseconds.
_PROGRESS_MS = 250
#: How long reads are repeated while the server is away, in seconds.
_PATIENCE = 30.0


class Redrive(TypedDict, total=False):
    """How a job is retried."""

    #: Another payload, for a job that failed because of what it was given.
    payload: Any
    #: Steps from this one on run again.
    from_step: str
    #: All steps run again.
    reset_checkpoints: bool
    #: Refuses a job that was redriven already.
    only_once: bool


@dataclass(frozen=True)
class Progress:
    """A job's progress, from 0 to 100."""

    percent: float
    message: str | None = None


@dataclass(frozen=True)
class StreamChunk:
    """A piece of a job's partial output."""

    #: Its number in the job, from 1.
    number: int
    #: The attempt that wrote it.
    attempt: int
    #: The value that the handler gave.
    chunk: Any
    #: Whether the output starts over with it: an attempt before it had written some, and did not park.
    is_restart: bool = False


@dataclass(frozen=True)
class JobEvent:
    """Something that happened to a job."""

    #: Its dotted name, such as ``job.lifecycle.completed``.
    event: str
    #: Its number in the audit trail; events below the queue's audit level have none.
    seq: int | None
    #: The record, as the API shows it.
    data: Mapping[str, Any]


@dataclass(frozen=True)
class LogLine:
    """What a handler wrote to the job's log."""

    number: int
    attempt: int
    text: str


class Handle(Generic[Out]):
    """A job. ``kind`` is the type of its result."""

    def __init__(
        self, app: Windlass, id: str, kind: Any = None, *, is_duplicate: bool = False, is_debounced: bool = False
    ) -> None:
        self._app, self.id, self._kind = app, id, kind
        #: Whether the submission replaced the payload of a job that waited with the same debounce key.
        self.is_debounced = is_debounced
        #: Whether the submission found a job that an earlier one with the same key had created.
        self.is_duplicate = is_duplicate

    def __repr__(self) -> str:
        return f"Handle({self.id})"

    @property
    def _path(self) -> str:
        return f"/jobs/{segment(self.id)}"

    async def show(self) -> Mapping[str, Any]:
        """The job as it is now."""
        return dict(await self._app.api().call("GET", self._path, patience=_PATIENCE))

    def show_sync(self) -> Mapping[str, Any]:
        """As ``show``, for programs without an event loop."""
        return dict(self._app.http.call("GET", self._path, patience=_PATIENCE))

    async def result(self, timeout: Duration | None = None) -> Out:
        """Waits until the job is final and returns its result.

        Raises ``JobFailed`` if it did not complete, and ``TimeoutError`` if it is not final in time.
        """
        until = _until(timeout)
        while True:
            began, (path, wait) = time.monotonic(), self._waiting(until)
            job = await self._app.api().call("GET", path, timeout=wait + CALL_SECONDS, patience=_PATIENCE)
            if job["state"] in _FINAL:
                return self._result(job)
            _check(until, self.id)
            await asyncio.sleep(_rest(began, wait))

    def result_sync(self, timeout: Duration | None = None) -> Out:
        """As ``result``, for programs without an event loop."""
        until = _until(timeout)
        while True:
            began, (path, wait) = time.monotonic(), self._waiting(until)
            job = self._app.http.call("GET", path, timeout=wait + CALL_SECONDS, patience=_PATIENCE)
            if job["state"] in _FINAL:
                return self._result(job)
            _check(until, self.id)
            time.sleep(_rest(began, wait))

    def _waiting(self, until: float | None) -> tuple[str, float]:
        left = _WAIT_SECONDS if until is None else min(_WAIT_SECONDS, max(0.0, until - time.monotonic()))
        return f"{self._path}?wait={round(left * 1000)}ms", left

    def _result(self, job: Mapping[str, Any]) -> Out:
        if job["state"] != "completed":
            raise JobFailed(self.id, job["state"], job.get("error"))
        found: Out = decode(job.get("result"), self._kind)
        return found

    async def progress(self) -> AsyncIterator[Progress]:
        """The job's progress, each time it changes, until the job is final."""
        last = None
        while True:
            began, path = time.monotonic(), f"{self._path}?wait={_PROGRESS_MS}ms"
            job = await self._app.api().call("GET", path, patience=_PATIENCE)
            shown = job.get("progress")
            if shown is not None and shown != last:
                last = shown
                yield Progress(shown["percent"], shown.get("message"))
            if job["state"] in _FINAL:
                return
            await asyncio.sleep(_rest(began, _PROGRESS_MS / 1000))

    async def stream(self, after: int = 0) -> AsyncIterator[StreamChunk]:
        """The job's partial output, chunk by chunk as it is written, until the job is final. A chunk with ``is_restart``
        starts the output over: the attempt before it failed. ``after`` is the number of the last chunk that is known."""
        while True:
            began = time.monotonic()
            path = f"{self._path}/stream?after={after}&wait={round(_WAIT_SECONDS * 1000)}ms"
            page = await self._app.api().call("GET", path, timeout=_WAIT_SECONDS + CALL_SECONDS, patience=_PATIENCE)
            for one in page["chunks"]:
                after = one["number"]
                yield _chunk(one)
            if page["state"] in _FINAL and after >= page["last"]:
                return
            if not page["chunks"]:
                await asyncio.sleep(_rest(began, _WAIT_SECONDS))

    def stream_sync(self, after: int = 0) -> Iterator[StreamChunk]:
        """As ``stream``, for programs without an event loop."""
        while True:
            began = time.monotonic()
            path = f"{self._path}/stream?after={after}&wait={round(_WAIT_SECONDS * 1000)}ms"
            page = self._app.http.call("GET", path, timeout=_WAIT_SECONDS + CALL_SECONDS, patience=_PATIENCE)
            for one in page["chunks"]:
                after = one["number"]
                yield _chunk(one)
            if page["state"] in _FINAL and after >= page["last"]:
                return
            if not page["chunks"]:
                time.sleep(_rest(began, _WAIT_SECONDS))

    async def signal(self, name: str, value: Any = None) -> None:
        """Sends a signal; it is kept until the job waits for it. It is not repeated: the job would get it twice."""
        await self._app.api().call("POST", f"{self._path}/signals/{segment(name)}", {"value": value}, may_repeat=False)

    def signal_sync(self, name: str, value: Any = None) -> None:
        """As ``signal``, for programs without an event loop."""
        self._app.http.call("POST", f"{self._path}/signals/{segment(name)}", {"value": value}, may_repeat=False)

    async def events(self, after: int | None = None) -> AsyncIterator[JobEvent]:
        """What happens to the job, from now on or after the event with this number, until it is final. It connects again if
        the stream breaks. 0 is the beginning."""
        while True:
            stream = await AsyncEvents.open(self._app.api().http, self._events(after))
            try:
                # An end before the stream began would not be announced on it.
                if after is None and (await self.show())["state"] in _FINAL:
                    return
                was_quiet = False
                async for one in stream:
                    if one.name == "end":
                        break
                    if one is ALIVE:
                        # Its end may be below the audit level: then it was sent only to those who listened.
                        if was_quiet and (await self.show())["state"] in _FINAL:
                            return
                        was_quiet = True
                        continue
                    event, was_quiet = _event(one), False
                    after = after if event.seq is None else event.seq
                    yield event
                    if _is_end(event):
                        return
            finally:
                stream.close()
            if (await self.show())["state"] in _FINAL:
                return
            await asyncio.sleep(_PROGRESS_MS / 1000)

    def events_sync(self, after: int | None = None) -> Iterator[JobEvent]:
        """As ``events``, for programs without an event loop."""
        while True:
            stream = SyncEvents.open(self._app.http, self._events(after))
            try:
                if after is None and self.show_sync()["state"] in _FINAL:
                    return
                was_quiet = False
                for one in stream:
                    if one.name == "end":
                        break
                    if one is ALIVE:
                        if was_quiet and self.show_sync()["state"] in _FINAL:
                            return
                        was_quiet = True
                        continue
                    event, was_quiet = _event(one), False
                    after = after if event.seq is None else event.seq
                    yield event
                    if _is_end(event):
                        return
            finally:
                stream.close()
            if self.show_sync()["state"] in _FINAL:
                return
            time.sleep(_PROGRESS_MS / 1000)

    def _events(self, after: int | None) -> str:
        return f"/events?job={segment(self.id)}" + ("" if after is None else f"&last_event_id={after}")

    async def logs(self) -> list[LogLine]:
        """The job's log."""
        found: list[LogLine] = []
        while True:
            page = await self._app.api().call("GET", self._logs(found), patience=_PATIENCE)
            if not page["logs"]:
                return found
            found.extend(LogLine(one["number"], one["attempt"], one["text"]) for one in page["logs"])

    def logs_sync(self) -> list[LogLine]:
        """As ``logs``, for programs without an event loop."""
        found: list[LogLine] = []
        while True:
            page = self._app.http.call("GET", self._logs(found), patience=_PATIENCE)
            if not page["logs"]:
                return found
            found.extend(LogLine(one["number"], one["attempt"], one["text"]) for one in page["logs"])

    def _logs(self, found: list[LogLine]) -> str:
        return f"{self._path}/logs" + (f"?after={found[-1].number}" if found else "")

    async def redrive(self, **options: Unpack[Redrive]) -> Handle[Out]:
        """Retries a final job as a new one, and returns its handle. It keeps the saved steps by default. It is
        repeated only with ``only_once``: there would be two new jobs."""
        path, body, may_repeat = f"{self._path}/redrive", _redrive(options), bool(options.get("only_once"))
        job = await self._app.api().call("POST", path, body, patience=_PATIENCE, may_repeat=may_repeat)
        return Handle(self._app, job["id"], self._kind)

    def redrive_sync(self, **options: Unpack[Redrive]) -> Handle[Out]:
        """As ``redrive``, for programs without an event loop."""
        path, body, may_repeat = f"{self._path}/redrive", _redrive(options), bool(options.get("only_once"))
        job = self._app.http.call("POST", path, body, patience=_PATIENCE, may_repeat=may_repeat)
        return Handle(self._app, job["id"], self._kind)

    async def token(self, expires: Duration = "15m") -> str:
        """A token for a page in a browser: it reads this job, its result and its partial output, at most for 24 hours, and
        ends with this program's key."""
        answer = await self._app.api().call("POST", f"{self._path}/tokens", {"expires": text(expires)}, patience=_PATIENCE)
        return str(answer["token"])

    async def cancel(self, reason: str | None = None) -> None:
        """Cancels the job."""
        await self._act("cancel", {"reason": reason} if reason else {})

    def cancel_sync(self, reason: str | None = None) -> None:
        """As ``cancel``, for programs without an event loop."""
        self._app.http.call("POST", f"{self._path}/cancel", {"reason": reason} if reason else {})

    async def suspend(self, mode: str = "idle_only") -> None:
        """Suspends the job: ``idle_only``, ``graceful`` or ``aggressive``."""
        await self._act("suspend", {"mode": mode})

    async def resume(self) -> None:
        """Resumes the job after a suspension."""
        await self._act("resume", {})

    async def _act(self, action: str, body: Mapping[str, Any]) -> None:
        await self._app.api().call("POST", f"{self._path}/{action}", body)


def _redrive(options: Mapping[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in options.items() if name != "payload"}
    return {**rest, **payload_fields(options["payload"])} if "payload" in options else rest


def _event(one: ServerEvent) -> JobEvent:
    return JobEvent(one.name, None if one.id is None else int(one.id), json.loads(one.data))


def _is_end(event: JobEvent) -> bool:
    """Whether the job is final after this event, or does not exist any more."""
    return event.data.get("context", {}).get("state") in _FINAL or event.event == "job.ops.deleted"


def _chunk(shown: Mapping[str, Any]) -> StreamChunk:
    return StreamChunk(shown["number"], shown["attempt"], shown["chunk"], bool(shown.get("restart")))


def _until(timeout: Duration | None) -> float | None:
    return None if timeout is None else time.monotonic() + millis(timeout) / 1000


def _check(until: float | None, id: str) -> None:
    if until is not None and time.monotonic() >= until:
        raise TimeoutError(f"job {id} is not final yet")


def _rest(began: float, wait: float) -> float:
    """The pause after an answer that came before the time it was asked to wait: not every proxy lets a server wait."""
    return max(0.0, min(wait, _PROGRESS_MS / 1000) - (time.monotonic() - began))
