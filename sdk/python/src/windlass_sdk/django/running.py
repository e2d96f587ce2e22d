"""How a worker runs Django's tasks."""

from __future__ import annotations

import os
import socket
import traceback
from collections.abc import Callable, Mapping
from inspect import iscoroutinefunction
from typing import Any, NoReturn

from asgiref.sync import sync_to_async
from django.db import close_old_connections
from django.utils import timezone

from ..durable.context import BaseContext
from ..durable.cx import Cx
from ..durable.cx_sync import SyncCx
from ..errors import JobError, Snooze, category_of
from . import api
from .results import change, started


#: Longest code of an error.
_CODE_MAX = 128


def handler_of(backend: Any, task: Any) -> Callable[..., Any]:
    """The handler of a task's jobs: of the kind of its function, ``async def`` or ``def``."""

    async def run(payload: dict[str, Any], cx: Cx) -> Any:
        result = _begin(backend, task, payload, cx)
        # Connections live in the thread in which Django's asynchronous calls run.
        await sync_to_async(close_old_connections)()
        await api.task_started.asend(type(backend), task_result=result)
        try:
            value = await task.func(*_arguments(task, result), **result.kwargs)
        except Exception as error:
            await cx.log(_shown(error))
            if _end_badly(result, cx, error, backend):
                await api.task_finished.asend(type(backend), task_result=result)
            _raise(error, backend)
        else:
            _end_well(result, value)
            await api.task_finished.asend(type(backend), task_result=result)
            return value
        finally:
            await sync_to_async(close_old_connections)()

    def run_sync(payload: dict[str, Any], cx: SyncCx) -> Any:
        result = _begin(backend, task, payload, cx)
        close_old_connections()
        api.task_started.send(type(backend), task_result=result)
        try:
            value = task.func(*_arguments(task, result), **result.kwargs)
        except Exception as error:
            cx.log(_shown(error))
            if _end_badly(result, cx, error, backend):
                api.task_finished.send(type(backend), task_result=result)
            _raise(error, backend)
        else:
            _end_well(result, value)
            api.task_finished.send(type(backend), task_result=result)
            return value
        finally:
            close_old_connections()

    return run if iscoroutinefunction(task.func) else run_sync


def _begin(backend: Any, task: Any, payload: Mapping[str, Any], cx: BaseContext) -> Any:
    result, now = started(backend.alias, task, payload["args"], payload["kwargs"], cx.id), timezone.now()
    worker = f"{socket.gethostname()}:{os.getpid()}"
    change(
        result, status=api.TaskResultStatus.RUNNING, started_at=now, last_attempted_at=now, enqueued_at=None,
        worker_ids=[worker] * cx.attempt,
    )
    return result


def _arguments(task: Any, result: Any) -> list[Any]:
    context = [api.TaskContext(task_result=result)] if task.takes_context else []
    return context + list(result.args)


def _end_well(result: Any, value: Any) -> None:
    change(result, status=api.TaskResultStatus.SUCCESSFUL, finished_at=timezone.now(), _return_value=value)


def _end_badly(result: Any, cx: BaseContext, error: Exception, backend: Any) -> bool:
    """Whether the task has failed permanently, as far as the worker knows."""
    change(
        result, status=api.TaskResultStatus.FAILED, finished_at=timezone.now(),
        errors=[api.TaskError(exception_class_path=_path(error), traceback=_shown(error))],
    )
    if isinstance(error, Snooze):
        return False
    category = error.category if isinstance(error, JobError) else category_of(error, backend.app.errors)
    return category == "permanent" or cx.failures + 1 >= cx.max_attempts


def _raise(error: Exception, backend: Any) -> NoReturn:
    """Raises the error with the path of its class as code, by which results name it. Errors of this library stay as they
    are."""
    if isinstance(error, (JobError, Snooze)):
        raise error
    category = category_of(error, backend.app.errors) or "temporary"
    raise JobError(error, category=category, code=_path(error)) from error.__cause__


def _path(error: Exception) -> str:
    path = f"{type(error).__module__}.{type(error).__qualname__}"
    return path if len(path) <= _CODE_MAX else type(error).__name__


def _shown(error: Exception) -> str:
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))
