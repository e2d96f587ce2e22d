"""Jobs as results of Django's tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.utils import timezone

from ..handle import LogLine
from . import api

#: How long requests are repeated while the server is away, in seconds.
PATIENCE = 30.0
#: The beginning of the log line with an exception.
TRACEBACK = "Traceback (most recent call last):"
#: The class of errors whose code is not the path of one: those that the server found.
_OTHERS = {"timeout": "builtins.TimeoutError"}
_OTHER = "windlass_sdk.errors.JobError"


def started(alias: str, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any], id: str = "") -> Any:
    """The result of a task that has just been enqueued."""
    return api.TaskResult(
        task=task, id=id, status=api.TaskResultStatus.READY, enqueued_at=timezone.now(), started_at=None, finished_at=None,
        last_attempted_at=None, args=list(args), kwargs=dict(kwargs), backend=alias, errors=[], worker_ids=[],
    )


def change(result: Any, **fields: Any) -> None:
    """Sets fields of a result, which is frozen."""
    for name, value in fields.items():
        object.__setattr__(result, name, value)


def fill(result: Any, job: Mapping[str, Any], attempts: Sequence[Mapping[str, Any]], logs: Sequence[LogLine]) -> Any:
    """The result with what the server knows of the job."""
    change(
        result, status=_status(job["state"]), enqueued_at=_moment(job["created_at"]),
        started_at=_moment(job["first_started_at"]), finished_at=_moment(job["completed_at"]),
        last_attempted_at=_moment(job["started_at"]), worker_ids=[str(one["worker"]) for one in attempts],
        errors=[_error(one, logs) for one in attempts if one.get("error")], _return_value=job["result"],
    )
    return result


def _status(state: str) -> Any:
    known = {
        "running": api.TaskResultStatus.RUNNING, "completed": api.TaskResultStatus.SUCCESSFUL,
        "failed": api.TaskResultStatus.FAILED, "dead_letter": api.TaskResultStatus.FAILED,
        "cancelled": api.TaskResultStatus.FAILED,
    }
    return known.get(state, api.TaskResultStatus.READY)


def _moment(shown: str | None) -> datetime | None:
    if shown is None:
        return None
    found = datetime.fromisoformat(shown.replace("Z", "+00:00"))
    # Without time zones, Django's own moments are local ones.
    return found if timezone.is_aware(timezone.now()) else timezone.make_naive(found)


def _error(attempt: Mapping[str, Any], logs: Sequence[LogLine]) -> Any:
    error = attempt["error"]
    code = error.get("code") or error["category"]
    texts = [one.text for one in logs if one.attempt == attempt["number"] and TRACEBACK in one.text]
    return api.TaskError(
        exception_class_path=code if "." in code else _OTHERS.get(code, _OTHER),
        traceback=texts[-1] if texts else error["message"],
    )
