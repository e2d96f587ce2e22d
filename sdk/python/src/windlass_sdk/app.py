"""The application: job types, and the connection to a server."""

from __future__ import annotations

import asyncio
import ssl
import weakref
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from .net.api import Api
from .durable.children import Child
from .durable.cx import Cx
from .durable.cx_sync import SyncCx
from .errors import Category
from .handle import Handle
from .net.http_sync import SyncHttp
from .job import Job, Options, submission
from .net.wire import Address, StoreClock, segment
from .schedules import Schedule, ScheduleOptions, Schedules, schedule_body
from .schemas import type_settings
from .tracing import in_trace, trace_fields

if TYPE_CHECKING:
    from typing_extensions import Unpack

In = TypeVar("In")
Out = TypeVar("Out")
J = TypeVar("J", bound=Job[Any, Any])

#: How long submissions are repeated while the server is away, in seconds.
SUBMIT_PATIENCE = 30.0


class _Decorator:
    """What ``app.job(...)`` returns: keeps the types of payload and result."""

    def __init__(self, make: Callable[[Callable[..., Any]], Job[Any, Any]]) -> None:
        self._make = make

    @overload
    def __call__(self, function: Callable[[In, Cx], Awaitable[Out]]) -> Job[In, Out]: ...

    @overload
    def __call__(self, function: Callable[[In], Awaitable[Out]]) -> Job[In, Out]: ...

    @overload
    def __call__(self, function: Callable[[In, SyncCx], Out]) -> Job[In, Out]: ...

    @overload
    def __call__(self, function: Callable[[In], Out]) -> Job[In, Out]: ...

    @overload
    def __call__(self, function: Callable[[], Any]) -> Job[None, Any]: ...

    def __call__(self, function: Callable[..., Any]) -> Job[Any, Any]:
        return self._make(function)


class Windlass:
    """Job types and a server. The address and the key come from ``WINDLASS_URL`` and ``WINDLASS_KEY`` unless given.

    ``errors`` maps classes of exceptions to categories, for all handlers: ``{ValueError: "permanent"}``.
    """

    def __init__(
        self, url: str | None = None, *, key: str | None = None, tls: ssl.SSLContext | None = None,
        errors: Mapping[type[BaseException], Category] | None = None,
    ) -> None:
        self.address = Address.of(url, key, tls)
        self.errors = dict(errors or {})
        self.jobs: dict[str, Job[Any, Any]] = {}
        #: The schedules that this program declares, as the API takes them, by name.
        self.declared_schedules: dict[str, Mapping[str, Any]] = {}
        self.clock = StoreClock()
        #: For programs and threads without an event loop.
        self.http = SyncHttp(self.address, self.clock)
        #: The schedules on the server.
        self.schedules = Schedules(self)
        self._apis: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Api] = weakref.WeakKeyDictionary()

    def api(self) -> Api:
        """The API for the running event loop."""
        loop = asyncio.get_running_loop()
        found = self._apis.get(loop)
        if found is None:
            found = self._apis[loop] = Api(self.address, self.clock)
        return found

    async def close(self) -> None:
        """Closes the connections of the running event loop."""
        found = self._apis.pop(asyncio.get_running_loop(), None)
        if found is not None:
            await found.close()

    def job(
        self, type: str, *, executor: Literal["thread", "process"] = "thread",
        errors: Mapping[type[BaseException], Category] | None = None, **options: Unpack[Options],
    ) -> _Decorator:
        """Registers a handler: ``async def``, or ``def``, which runs in a thread or with ``executor="process"`` in a
        process. It takes the payload and, if it has a second parameter, the context.

        Options are the defaults of submissions of this type.
        """
        submission(type, None, options)

        def make(function: Callable[..., Any]) -> Job[Any, Any]:
            if type in self.jobs:
                raise ValueError(f"there is a handler for {type!r} already: {self.jobs[type].__qualname__}")
            made: Job[Any, Any] = Job(self, type, function, options, executor, errors)
            self.jobs[type] = made
            return made

        return _Decorator(make)

    def schedule(self, name: str, *, payload: Any = None, **options: Unpack[ScheduleOptions]) -> Callable[[J], J]:
        """Declares a schedule for the job below it; ``job.schedule`` is the same with a typed payload::

            @app.schedule("nightly", cron="30 2 * * *", timezone="Europe/Berlin")
            @app.job("report")
            async def report() -> None: ...

        Workers create declared schedules on the server when they start, and ``sync_schedules`` does. One that is no
        longer declared stays there until it is deleted: another program may have declared it.
        """

        def declare(job: J) -> J:
            if not isinstance(job, Job):
                raise TypeError(f"the schedule {name!r} needs a job: put @app.schedule above @app.job")
            self.declare_schedule(name, schedule_body(job.type, payload, options, job.options))
            return job

        return declare

    def declare_schedule(self, name: str, body: Mapping[str, Any]) -> None:
        """Declares a schedule that is written as the API takes it. Raises ``ValueError`` if the name is taken."""
        if name in self.declared_schedules:
            raise ValueError(f"there is a schedule {name!r} already")
        self.declared_schedules[name] = body

    async def sync_schedules(self) -> list[Schedule]:
        """Creates the declared schedules on the server, or changes those that differ. The key needs the role ``operator`` or
        ``admin``."""
        return [await self.schedules.put_body(name, body) for name, body in self.declared_schedules.items()]

    def sync_schedules_sync(self) -> list[Schedule]:
        """As ``sync_schedules``, for programs without an event loop."""
        return [self.schedules.put_body_sync(name, body) for name, body in self.declared_schedules.items()]

    async def submit(self, type: str, payload: Any = None, **options: Unpack[Options]) -> Handle[Any]:
        """Submits a job of a type that need not have a handler here."""
        return await self.submit_body(submission(type, payload, options), None)

    def submit_sync(self, type: str, payload: Any = None, **options: Unpack[Options]) -> Handle[Any]:
        """As ``submit``, for programs without an event loop."""
        return self.submit_body_sync(submission(type, payload, options), None)

    async def submit_body(self, body: Mapping[str, Any], kind: Any) -> Handle[Any]:
        """Submits a job. One without an idempotency key is not sent again if the server may have it."""
        answer = await self.api().call(
            "POST", "/jobs", in_trace(body), patience=SUBMIT_PATIENCE, may_repeat="idempotency_key" in body,
            headers=trace_fields(),
        )
        return self._handle(answer, kind)

    def submit_body_sync(self, body: Mapping[str, Any], kind: Any) -> Handle[Any]:
        """As ``submit_body``, for programs without an event loop."""
        answer = self.http.call(
            "POST", "/jobs", in_trace(body), patience=SUBMIT_PATIENCE, may_repeat="idempotency_key" in body,
            headers=trace_fields(),
        )
        return self._handle(answer, kind)

    @overload
    async def submit_many(
        self, type: str, payloads: Iterable[Any], **options: Unpack[Options]
    ) -> list[Handle[Any]]: ...

    @overload
    async def submit_many(self, type: Iterable[Child[Out]]) -> list[Handle[Out]]: ...

    async def submit_many(
        self, type: str | Iterable[Child[Any]], payloads: Iterable[Any] = (), **options: Unpack[Options]
    ) -> list[Handle[Any]]:
        """Submits up to 10,000 jobs, all or none: of one type, ``submit_many("page", payloads, queue="q")``, or of several,
        ``submit_many([page.child(1, batch_name="one"), mail.child(m, after=["@one"])])``."""
        children = self._children(type, payloads, options)
        answer = await self.api().call("POST", "/jobs/batch", _batch(children), patience=SUBMIT_PATIENCE, may_repeat=False)
        return [self._handle(one, child.kind) for one, child in zip(answer["jobs"], children)]

    @overload
    def submit_many_sync(self, type: str, payloads: Iterable[Any], **options: Unpack[Options]) -> list[Handle[Any]]: ...

    @overload
    def submit_many_sync(self, type: Iterable[Child[Out]]) -> list[Handle[Out]]: ...

    def submit_many_sync(
        self, type: str | Iterable[Child[Any]], payloads: Iterable[Any] = (), **options: Unpack[Options]
    ) -> list[Handle[Any]]:
        """As ``submit_many``, for programs without an event loop."""
        children = self._children(type, payloads, options)
        answer = self.http.call("POST", "/jobs/batch", _batch(children), patience=SUBMIT_PATIENCE, may_repeat=False)
        return [self._handle(one, child.kind) for one, child in zip(answer["jobs"], children)]

    def _children(
        self, type: str | Iterable[Child[Any]], payloads: Iterable[Any], options: Options
    ) -> Sequence[Child[Any]]:
        if not isinstance(type, str):
            return list(type)
        return [Child(in_trace(submission(type, one, options)), self.kind_of(type)) for one in payloads]

    async def register_schemas(self) -> None:
        """Sets the JSON Schemas of all types that have a handler here, made of its annotations with pydantic: from then on
        the server refuses payloads and results that do not match. The key needs the role ``admin``."""
        for job in self.jobs.values():
            await self.api().call("PUT", f"/types/{segment(job.type)}", type_settings(job), patience=SUBMIT_PATIENCE)

    def handle(self, id: str) -> Handle[Any]:
        """A handle for a job that was submitted earlier."""
        return Handle(self, id)

    def kind_of(self, type: str) -> Any:
        """The type of the results of a job type, if its handler is here."""
        return self.jobs[type].result_kind if type in self.jobs else None

    def _handle(self, answer: Mapping[str, Any], kind: Any) -> Handle[Any]:
        is_duplicate, is_debounced = bool(answer.get("duplicate")), bool(answer.get("debounced"))
        return Handle(self, answer["id"], kind, is_duplicate=is_duplicate, is_debounced=is_debounced)


def _batch(children: Sequence[Child[Any]]) -> dict[str, Any]:
    return {"jobs": [child.submission for child in children]}
