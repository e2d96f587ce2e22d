"""What both contexts share: the claimed job, why an attempt should stop, and reading of values."""

from __future__ import annotations

import dataclasses
import inspect
import math
import threading
import typing
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Literal

from .calls import Calls
from .children import Child
from ..codec import decode
from ..errors import JobError, Permanent
from .history import CHECKPOINT, Branch

#: Why an attempt should stop.
Reason = Literal["cancel", "suspend", "timeout", "lost", "unreachable", "released"]

#: Most log lines in one request.
LINES_MAX = 1_000

#: Most jobs that the completion of one submits.
FOLLOW_UPS_MAX = 100

#: Where the code runs: inside which step, and on which sides of races.
BRANCH: ContextVar[Branch] = ContextVar("windlass_branch", default=Branch())


class BaseContext:
    """A claimed job."""

    def __init__(self, job: Mapping[str, Any], calls: Calls) -> None:
        self._job, self._calls = job, calls
        self._stop = threading.Event()
        self._reason: Reason | None = None
        self._cost_cents: float = 0
        self._follow_ups: list[Mapping[str, Any]] = []

    @property
    def id(self) -> str:
        """The job's id."""
        return str(self._job["id"])

    @property
    def type(self) -> str:
        """The job's type."""
        return str(self._job["type"])

    @property
    def queue(self) -> str:
        """The queue that the job was claimed from."""
        return str(self._job["queue"])

    @property
    def tenant(self) -> str:
        """The tenant that owns the job."""
        return str(self._job["tenant"])

    @property
    def attempt(self) -> int:
        """The number of the attempt, from 1."""
        return int(self._job["attempt"])

    @property
    def failures(self) -> int:
        """How many earlier attempts failed; unlike ``attempt`` without those that parked or were released."""
        return int(self._job["failures"])

    @property
    def max_attempts(self) -> int:
        """How many attempts may fail before the job fails permanently."""
        return int(self._job["max_attempts"])

    @property
    def fence(self) -> int:
        """Grows with every claim: for conditional writes to other systems, so that a stale attempt fails there."""
        return int(self._job["fence"])

    @property
    def tags(self) -> Mapping[str, str]:
        """The job's tags."""
        return dict(self._job.get("tags") or {})

    @property
    def correlation_id(self) -> str | None:
        """The submitter's id for the operation that the job belongs to."""
        return self._job.get("correlation_id")

    @property
    def traceparent(self) -> str | None:
        """The W3C trace context that the job belongs to."""
        return self._job.get("traceparent")

    @property
    def submitted_key(self) -> str | None:
        """The idempotency key that the job was submitted with."""
        return self._job.get("idempotency_key")

    def idempotency_key(self, step: str) -> str:
        """A key for this step that is the same in every attempt: for services that ignore repeated requests."""
        return f"{self.id}/{step}"

    @property
    def cancelled(self) -> bool:
        """Whether the attempt should stop. Long blocking work looks at this now and then."""
        return self._stop.is_set()

    @property
    def reason(self) -> Reason | None:
        """Why the attempt should stop; None if it should not."""
        return self._reason

    def cost(self, cents: float) -> None:
        """Adds costs, also parts of a cent; the sum is booked with the attempt's outcome, in whole cents."""
        if not 0 <= cents < math.inf:
            raise ValueError("costs are not negative, and finite")
        self._cost_cents += cents

    def submit_on_completion(self, *children: Child[Any]) -> None:
        """Submits jobs when this attempt completes, in the same commit: both happen, or neither. They are made with
        ``job.child(payload)``, and the worker's key must be allowed to submit."""
        if len(self._follow_ups) + len(children) > FOLLOW_UPS_MAX:
            raise Permanent(f"at most {FOLLOW_UPS_MAX} jobs can be submitted on completion", "not_allowed")
        self._follow_ups.extend(child.submission for child in children)

    def retry_later(self, error: BaseException) -> None:
        """Runs the step that raised this error again if this attempt fails, whatever it fails with."""
        self._calls.order.retry_later(error)

    def last_checkpoint(self, kind: Any = None) -> Any:
        """The value last given to ``checkpoint``, in this attempt or an earlier one; None if there is none."""
        value = self._calls.saved.get(CHECKPOINT)
        return None if value is None else decode(value, kind)


def tell_to_stop(cx: BaseContext, reason: Reason) -> bool:
    """Asks a handler to stop, from any thread; false if it was asked before."""
    if cx._reason is not None:
        return False
    cx._reason = reason
    cx._calls.order.is_stopping = True
    cx._stop.set()
    return True


def follow_ups_of(cx: BaseContext) -> list[Mapping[str, Any]]:
    """The jobs that the attempt's completion submits."""
    return cx._follow_ups


def cost_of(cx: BaseContext) -> int:
    """The costs of the attempt."""
    return math.floor(cx._cost_cents + 0.5)


def reader(work: Callable[..., Any], kind: Any) -> Callable[[Any], Any]:
    """How a step's value is read: as the given type, or as the work's annotation says."""
    if kind is None and isinstance(work, type):
        # A class of values makes such a value; `int` and the like are JSON's own.
        kind = work if dataclasses.is_dataclass(work) or hasattr(work, "model_fields") else None
        return (lambda value: decode(value, kind)) if kind is not None else (lambda value: value)
    if kind is None:
        function = getattr(work, "func", work)
        if not getattr(function, "__annotations__", None):
            return lambda value: value
        try:
            kind = typing.get_type_hints(function).get("return")
        except (NameError, TypeError):
            return lambda value: value
        if kind is None or kind is type(None) or isinstance(kind, typing.TypeVar):
            return lambda value: value
    return lambda value: decode(value, kind)


def read_signal(record: Mapping[str, Any], name: str, kind: Any) -> Any:
    """A signal's value; None after a timeout."""
    if record.get("timeout"):
        return None
    try:
        return decode(record.get("signal"), kind)
    except Exception as error:
        message = f"the value of signal `{name}` cannot be read as the type the code expects: {error}"
        raise Permanent(message, "signal_unreadable") from error


def check_work(work: Any) -> None:
    """Refuses work that is not a function: a coroutine would run in every attempt, or never.

    Raises ``Permanent``.
    """
    if not callable(work):
        if inspect.iscoroutine(work):
            work.close()
        raise Permanent("a step takes a function and its arguments: cx.step(name, function, …)", "step_work")
    if is_generator(work):
        raise Permanent("the function of a step is a generator: let it return a list", "step_work")


def is_async(work: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine."""
    return inspect.iscoroutinefunction(getattr(work, "func", work))


def is_generator(work: Callable[..., Any]) -> bool:
    """Whether calling it gives a generator, which runs nothing."""
    function = getattr(work, "func", work)
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def panic_of(error: BaseException) -> JobError:
    """The error of a step that tried to end the process."""
    return JobError(f"the step ended with {error!r}", category="system", code="panic")


def progress_item(percent: float, message: str) -> dict[str, Any]:
    """Progress as the API takes it."""
    return {"progress": {"percent": percent, **({"message": writable(message)} if message else {})}}


def log_items(lines: Sequence[str]) -> list[dict[str, Any]]:
    """Log lines as the API takes them, at most a thousand in one."""
    written = [writable(str(line)) for line in lines]
    return [{"logs": written[start:start + LINES_MAX]} for start in range(0, len(written), LINES_MAX)]


def writable(text: str) -> str:
    """The text with lone surrogates replaced, which have no UTF-8."""
    return text.encode("utf-8", "replace").decode()
