"""Errors: what a handler raises to fail a job, and what the client raises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from .duration import Duration, millis

Category = Literal["temporary", "permanent", "timeout", "cancelled", "system", "resource"]

_MESSAGE_BYTES_MAX = 4096
_CAUSES_MAX = 8


def cut(message: str, bytes_max: int = _MESSAGE_BYTES_MAX) -> str:
    """A message within the server's limit, without splitting a character; lone surrogates are replaced."""
    data = message.encode("utf-8", "replace")
    return data[:bytes_max].decode("utf-8", "ignore")


@dataclass(frozen=True)
class Failure:
    """How an attempt or a step failed: the form in which errors are stored."""

    category: Category
    message: str
    code: str | None = None
    retry_after_ms: int | None = None
    cause: Sequence[Mapping[str, Any]] = field(default=())

    def record(self) -> dict[str, Any]:
        """As stored in a step's record."""
        after = self.retry_after_ms
        delay = None if after is None else {"secs": after // 1000, "nanos": after % 1000 * 1_000_000}
        record: dict[str, Any] = {
            "category": self.category, "code": self.code, "message": self.message, "retry_after": delay,
        }
        if self.cause:
            record["cause"] = [dict(cause) for cause in self.cause]
        return record

    def body(self) -> dict[str, Any]:
        """As reported to the server."""
        body: dict[str, Any] = {"category": self.category, "message": self.message}
        if self.code is not None:
            body["code"] = self.code
        if self.retry_after_ms is not None:
            body["retry_after"] = f"{self.retry_after_ms}ms"
        if self.cause:
            body["cause"] = [dict(cause) for cause in self.cause]
        return body

    @staticmethod
    def of_record(record: Mapping[str, Any]) -> Failure:
        """Reads what ``record`` wrote."""
        delay = record.get("retry_after")
        after = None if delay is None else delay["secs"] * 1000 + delay["nanos"] // 1_000_000
        cause = tuple(record.get("cause", ()))
        return Failure(record["category"], record["message"], record.get("code"), after, cause)


class WindlassError(Exception):
    """The base of all errors of this library."""


class JobError(WindlassError):
    """An error with a category: raise it, or a subclass, to say how an attempt failed."""

    def __init__(
        self, message: str | BaseException = "", *, category: Category = "temporary", code: str | None = None,
        retry_after: Duration | None = None,
    ) -> None:
        message = describe(message) if isinstance(message, BaseException) else message
        super().__init__(message)
        after = None if retry_after is None else millis(retry_after)
        self.failure = Failure(category, cut(message), code, after)

    @property
    def code(self) -> str | None:
        """A stable code for programs."""
        return self.failure.code

    @property
    def category(self) -> Category:
        """Decides whether the job is retried."""
        return self.failure.category


class Permanent(JobError):
    """The job would fail the same way again: it is not retried."""

    def __init__(self, message: str | BaseException = "", code: str | None = None) -> None:
        super().__init__(message, category="permanent", code=code)


class RetryAfter(JobError):
    """The job may succeed after this delay, whatever its retry policy says."""

    def __init__(self, delay: Duration, message: str = "", code: str | None = None) -> None:
        super().__init__(message or f"retry after {millis(delay)}ms", code=code, retry_after=delay)


class Snooze(WindlassError):
    """Runs the job again after this delay, without counting a failure."""

    def __init__(self, delay: Duration) -> None:
        self.delay_ms = millis(delay)
        super().__init__(f"snoozed for {self.delay_ms}ms")


class StepFailed(JobError):
    """The error of a step, in the first attempt as in later ones. ``__cause__`` is the exception, if it was raised
    in this attempt."""

    def __init__(self, failure: Failure, key: str) -> None:
        Exception.__init__(self, failure.message)
        self.failure = failure
        self.key = key
        #: Whether the handler made a text of it, perhaps for an error of its own.
        self.was_shown = False

    def __str__(self) -> str:
        self.was_shown = True
        return self.failure.message


class StepSnoozed(Snooze):
    """The snooze of a step."""

    def __init__(self, delay_ms: int, key: str) -> None:
        super().__init__(delay_ms / 1000)
        self.key = key


class StepsChanged(Permanent):
    """The code does not match what earlier attempts of the job saved."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="steps_changed")


class ApiError(WindlassError):
    """The server refused a request. Match on ``code``; messages may change."""

    def __init__(self, status: int, code: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(f"{message} ({status} {code})")
        self.status, self.code, self.message, self.details = status, code, message, dict(details or {})


class Unreachable(WindlassError):
    """There is no answer from the server. ``was_sent`` is false if the request certainly did not reach it."""

    def __init__(self, message: str, was_sent: bool = True) -> None:
        super().__init__(message)
        self.was_sent = was_sent


class OtherProtocol(WindlassError):
    """The server speaks another worker protocol: a worker ends, because it might run steps twice."""

    def __init__(self, server: int, own: int) -> None:
        self.server, self.own = server, own
        super().__init__(
            f"the server speaks worker protocol {server}, this program {own}: use versions that speak the same one"
        )


class JobFailed(WindlassError):
    """The job whose result was asked for did not complete."""

    def __init__(self, id: str, state: str, error: Mapping[str, Any] | None) -> None:
        self.id, self.state, self.error = id, state, dict(error or {})
        super().__init__(f"job {id} is {state}: {self.error.get('message', 'no error was stored')}")


class ChildFailed(JobError):
    """A child did not complete. ``state`` is ``"deleted"`` if it does not exist any more."""

    def __init__(self, index: int, id: str | None, state: str, error: Mapping[str, Any] | None) -> None:
        self.index, self.id, self.state, self.error = index, id, state, dict(error or {})
        known = self.error.get("message", "no error was stored")
        super().__init__(f"child {id or index} is {state}: {known}", code="child_failed")


def chain(error: BaseException) -> Iterator[BaseException]:
    """The error and those behind it, nearest first, as a traceback shows them."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        hidden = current.__suppress_context__ or isinstance(current, (StepFailed, StepSnoozed))
        current = current.__cause__ or (None if hidden else current.__context__)


def causes(error: BaseException) -> Iterator[BaseException]:
    """The error and those that it was raised ``from``. An exception that was only being handled is none of them: the
    handler may have decided against it."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__


def snooze_of(error: BaseException) -> Snooze | None:
    """The snooze that an exception stands for. A ``JobError`` says itself how the attempt failed."""
    for one in causes(error):
        if isinstance(one, Snooze):
            return one
        if isinstance(one, JobError):
            return None
    return None


def failure_of(error: BaseException, mapping: Mapping[type[BaseException], Category] | None = None) -> Failure:
    """The failure that an exception stands for: that of the nearest ``JobError`` in its chain, or a temporary one, or
    the category that ``mapping`` has for its class. The code of other exceptions is the name of their class."""
    behind = list(chain(error))[1:]
    shown = tuple(
        {"message": cut(describe(one), 1024), "code": type(one).__name__} for one in behind[:_CAUSES_MAX]
    )
    if isinstance(error, JobError):
        own = error.failure
        return Failure(own.category, own.message, own.code, own.retry_after_ms, own.cause or shown)
    message = cut(describe(error))
    category = category_of(error, mapping or {})
    if category is None:
        inner = next((one for one in causes(error) if isinstance(one, StepFailed)), None)
        if inner is not None:
            found = inner.failure
            return Failure(found.category, message, found.code, found.retry_after_ms, shown)
    return Failure(category or "temporary", message, type(error).__name__, None, shown)


def category_of(error: BaseException, mapping: Mapping[type[BaseException], Category]) -> Category | None:
    """The category of the nearest class of the exception that is mapped."""
    return next((mapping[kind] for kind in type(error).__mro__ if kind in mapping), None)


def describe(error: BaseException) -> str:
    """An exception as text; formatting it may fail, too."""
    try:
        return str(error) or type(error).__name__
    except Exception:
        return type(error).__name__
