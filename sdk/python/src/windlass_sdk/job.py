"""Job types: a function, its options, and the ways to submit it."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Literal, TypedDict, TypeVar, cast

from .durable.children import Child
from .codec import payload_fields
from .durable.context import is_async, is_generator
from .duration import Duration, moment_text, text
from .errors import Category
from .tracing import in_trace

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .app import Windlass
    from .handle import Handle
    from .work.inline import Inline
    from .schedules import ScheduleOptions

In = TypeVar("In")
Out = TypeVar("Out")


class Retry(TypedDict, total=False):
    """A retry policy; see ``docs/concepts.md``."""

    preset: Literal["standard", "fixed", "backoff"]
    strategy: Literal["constant", "linear", "exponential", "custom"]
    initial_delay: Duration
    max_delay: Duration
    multiplier: float
    jitter: float
    jitter_mode: Literal["random", "hashed"]
    max_attempts: int
    retry_on: list[Category]


class Debounce(TypedDict):
    """Of several submissions with the same key, only the last one runs, once none has come for the delay."""

    key: str
    delay: Duration


class Options(TypedDict, total=False):
    """Options of a submission. Those of the job type are the defaults."""

    queue: str
    #: Only workers that were started with exactly this ``version`` receive the job.
    requires_version: str
    priority: int | Literal["bulk", "low", "normal", "high", "critical"]
    delay: Duration
    run_at: datetime
    hold: bool
    key: str
    key_window: Duration
    unique_key: str
    concurrency_key: str
    debounce: Debounce
    retry: str | Retry
    timeout: Duration
    lifetime: Duration
    start_timeout: Duration
    lease: Duration
    after: list[str]
    after_any: list[str]
    #: Its name for ``after=["@name"]`` of other jobs in the same ``submit_many``.
    batch_name: str
    tags: Mapping[str, str]
    correlation_id: str
    callback_url: str
    tenant: str
    traceparent: str


_SPANS = {"initial_delay", "max_delay"}
_RENAMED = {"batch_name": "name", "key": "idempotency_key", "key_window": "idempotency_window"}
_TIMEOUTS = {"timeout": "execution", "lifetime": "lifetime", "start_timeout": "start", "lease": "lease"}


def submission(type: str, payload: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """A submission as the API takes it."""
    body: dict[str, Any] = {"type": type, **payload_fields(payload)}
    timeouts: dict[str, str] = {}
    for name, value in options.items():
        if name in _TIMEOUTS:
            timeouts[_TIMEOUTS[name]] = text(value)
        elif name in ("delay", "key_window"):
            body[_RENAMED.get(name, name)] = text(value)
        elif name == "run_at":
            body[name] = moment_text(value)
        elif name == "debounce":
            body[name] = {"key": value["key"], "delay": text(value["delay"])}
        elif name == "retry" and isinstance(value, Mapping):
            body[name] = {each: text(one) if each in _SPANS else one for each, one in value.items()}
        elif name not in Options.__annotations__:
            raise TypeError(f"a submission has no option {name!r}")
        else:
            body[_RENAMED.get(name, name)] = dict(value) if name == "tags" else value
    if timeouts:
        body["timeouts"] = timeouts
    return body


class Job(Generic[In, Out]):
    """A job type: submit it, spawn it as a child, or run it in a test. Calling it calls the function."""

    def __init__(
        self, app: Windlass, type: str, function: Callable[..., Any], options: Options,
        executor: Literal["thread", "process"], errors: Mapping[type[BaseException], Category] | None,
    ) -> None:
        self.app, self.type, self.function, self.options = app, type, function, options
        self.executor = executor
        self.errors = dict(errors or {})
        self.is_async = is_async(function)
        self.__doc__, self.__name__ = function.__doc__, function.__name__
        self.__module__, self.__qualname__ = function.__module__, function.__qualname__
        parameters = [one for one in inspect.signature(function).parameters.values() if one.kind != one.KEYWORD_ONLY]
        if len(parameters) > 2 or any(one.kind == one.VAR_POSITIONAL for one in parameters):
            raise TypeError(f"the handler of {type!r} takes a payload and the context, at most")
        self._names = [one.name for one in parameters]
        if is_generator(function):
            raise TypeError(f"the handler of {type!r} is a generator, which would run nothing: return the result, and use cx.stream for parts of it")
        if executor == "process" and (self.is_async or len(parameters) > 1):
            raise TypeError(f"the handler of {type!r} runs in a process: it must be `def`, with a payload alone")
        self._kinds: tuple[Any, Any] | None = None

    @property
    def payload_kind(self) -> Any:
        """The annotation of the payload; None if it has none."""
        return self._annotations()[0]

    @property
    def result_kind(self) -> Any:
        """The annotation of the result; None if it has none."""
        return self._annotations()[1]

    @property
    def location(self) -> tuple[str, str]:
        """The module and the name in it, for processes."""
        return self.__module__, self.__qualname__

    def _annotations(self) -> tuple[Any, Any]:
        # Read when first needed: types may be defined after the function.
        if self._kinds is None:
            try:
                hints = typing.get_type_hints(self.function)
            except NameError as error:
                message = f"the annotations of the handler of {self.type!r} cannot be read: {error}; define types at the top level"
                raise TypeError(message) from error
            result = hints.get("return")
            self._kinds = (
                hints.get(self._names[0]) if self._names else None, None if result is type(None) else result
            )
        return self._kinds

    def call(self, payload: Any, cx: Any) -> Any:
        """Calls the function with as many arguments as it takes."""
        return self.function(*(payload, cx)[: len(self._names)])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def submission(self, payload: In, options: Mapping[str, Any]) -> dict[str, Any]:
        """A submission as the API takes it."""
        return submission(self.type, payload, {**self.options, **options})

    async def submit(self, payload: In, **options: Unpack[Options]) -> Handle[Out]:
        """Submits a job."""
        return cast("Handle[Out]", await self.app.submit_body(self.submission(payload, options), self.result_kind))

    def submit_sync(self, payload: In, **options: Unpack[Options]) -> Handle[Out]:
        """Submits a job from a program without an event loop."""
        body = self.submission(payload, options)
        return cast("Handle[Out]", self.app.submit_body_sync(body, self.result_kind))

    def submit_in_tx(
        self, connection: Any, payload: In, *, schema: str = "windlass", **options: Unpack[Options]
    ) -> Any:
        """Submits a job in a transaction of your own on PostgreSQL; returns its id, or an awaitable of it. ``schema``
        is the schema of the store. See ``windlass_sdk.sql``."""
        from .sql import submit_in_tx

        return submit_in_tx(connection, in_trace(self.submission(payload, options)), schema=schema)

    def schedule(self, name: str, payload: In, **options: Unpack[ScheduleOptions]) -> None:
        """Declares a schedule for this job; see ``Windlass.schedule``."""
        from .schedules import schedule_body

        self.app.declare_schedule(name, schedule_body(self.type, payload, options, self.options))

    def child(self, payload: In, **options: Unpack[Options]) -> Child[Out]:
        """A job to submit with others: by ``app.submit_many``, or as a child by ``cx.gather`` and ``cx.spawn``."""
        return Child(in_trace(self.submission(payload, options)), self.result_kind)

    def run_inline(self, payload: In, **options: Any) -> Inline:
        """Runs one attempt without a server, for tests; see ``windlass_sdk.work.inline``."""
        from .work.inline import run_inline

        return run_inline(self, payload, **options)
