"""A backend for Django's tasks: they are jobs, whose type is the path of the task's function."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.utils.module_loading import import_string

from ..app import Windlass
from ..codec import plain
from ..errors import ApiError
from ..handle import LogLine
from ..job import Job, submission
from ..net.wire import segment
from ..sql import submit_in_tx
from ..tracing import in_trace
from . import api
from .results import PATIENCE, fill, started
from .running import handler_of

_OPTIONS = {"app", "database", "key", "modules", "schema", "submit", "url"}
_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]{0,254}")
#: Django's priorities are from -100 to 100, those of jobs from 0 to 100, and normal ones 0 and 50.
_NORMAL, _STEP = 50, 2

# Django makes a backend for every thread; all with the same name share these.
_apps: dict[str, Windlass] = {}
_tasks: dict[str, dict[str, Any]] = {}


class WindlassBackend(api.BaseTaskBackend):
    """Enqueues tasks as jobs: over HTTP, or with the option ``database`` in the transaction of a PostgreSQL database that has
    the store."""

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        super().__init__(alias, params)
        if unknown := sorted(set(self.options) - _OPTIONS):
            raise ImproperlyConfigured(f"the task backend {alias!r} has no option {unknown[0]!r}; it has {sorted(_OPTIONS)}")
        if "app" in self.options and {"url", "key"} & set(self.options):
            raise ImproperlyConfigured(f"the task backend {alias!r} has an app, which has its own url and key")
        self.database: str | None = self.options.get("database")
        self.schema: str = self.options.get("schema", "windlass")
        self.submit: Mapping[str, Any] = self.options.get("submit", {})

    @property
    def app(self) -> Windlass:
        """The application that submits and runs the tasks."""
        if "app" in self.options:
            module, _, name = str(self.options["app"]).partition(":")
            found = getattr(importlib.import_module(module), name or "app")
            if not isinstance(found, Windlass):
                raise ImproperlyConfigured(f"{self.options['app']} is not a Windlass application")
            return found
        key = f"{self.alias} {self.options.get('url')} {self.options.get('key')}"
        if key not in _apps:
            _apps[key] = Windlass(self.options.get("url"), key=self.options.get("key"))
        return _apps[key]

    def register_jobs(self) -> Windlass:
        """The application with a handler for every task of this backend that was imported, and those in ``modules``."""
        for module in self.options.get("modules", ()):
            importlib.import_module(module)
        app = self.app
        for type, task in _tasks.get(self.alias, {}).items():
            if type not in app.jobs:
                app.jobs[type] = Job(app, type, handler_of(self, task), {}, "thread", None)
        return app

    def validate_task(self, task: Any) -> None:
        """Refuses tasks that cannot be jobs."""
        super().validate_task(task)
        if not _TYPE.fullmatch(task.module_path):
            raise api.InvalidTask(f"{task.module_path!r} cannot be the type of a job: letters, digits and dots, 255 at most")
        _tasks.setdefault(self.alias, {}).setdefault(task.module_path, task)

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Submits the task as a job."""
        result, body = self._prepare(task, args, kwargs)
        if self.database is not None:
            id = submit_in_tx(connections[self.database], in_trace(body), schema=self.schema)
        else:
            id = self.app.submit_body_sync(body, None).id
        object.__setattr__(result, "id", id)
        api.task_enqueued.send(type(self), task_result=result)
        return result

    async def aenqueue(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """As ``enqueue``."""
        if self.database is not None:
            # The transaction belongs to Django's thread.
            return await super().aenqueue(task, args, kwargs)
        result, body = self._prepare(task, args, kwargs)
        object.__setattr__(result, "id", (await self.app.submit_body(body, None)).id)
        await api.task_enqueued.asend(type(self), task_result=result)
        return result

    def _prepare(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        self.validate_task(task)
        # It refuses arguments that have no JSON.
        result = started(self.alias, task, args, kwargs)
        options = {"queue": task.queue_name, "priority": round(_NORMAL + task.priority / _STEP), **self.submit}
        if task.run_after is not None:
            options["run_at"] = task.run_after
        return result, submission(task.module_path, plain({"args": result.args, "kwargs": result.kwargs}), options)

    def get_result(self, result_id: str) -> Any:
        """The result of a task, as it is now."""
        try:
            job = self.app.http.call("GET", _job(result_id), patience=PATIENCE)
            result = self._result(job)
            attempts = self.app.http.call("GET", _attempts(result_id), patience=PATIENCE)["attempts"]
            logs = self.app.handle(result_id).logs_sync() if _has_failed(attempts) else []
        except ApiError as error:
            raise self._missing(result_id, error) from error
        return fill(result, job, attempts, logs)

    async def aget_result(self, result_id: str) -> Any:
        """As ``get_result``."""
        try:
            job = await self.app.api().call("GET", _job(result_id), patience=PATIENCE)
            result = self._result(job)
            attempts = (await self.app.api().call("GET", _attempts(result_id), patience=PATIENCE))["attempts"]
            logs: list[LogLine] = await self.app.handle(result_id).logs() if _has_failed(attempts) else []
        except ApiError as error:
            raise self._missing(result_id, error) from error
        return fill(result, job, attempts, logs)

    def _missing(self, result_id: str, error: ApiError) -> Exception:
        # An id that is none is refused with 422.
        is_missing = error.status in (404, 422)
        return api.TaskResultDoesNotExist(f"there is no task result {result_id}") if is_missing else error

    def _result(self, job: Mapping[str, Any]) -> Any:
        task = _tasks.get(self.alias, {}).get(job["type"])
        if task is None:
            try:
                task = import_string(job["type"])
            except ImportError:
                task = None
        if getattr(task, "module_path", None) != job["type"] or getattr(task, "backend", None) != self.alias:
            raise api.TaskResultDoesNotExist(f"job {job['id']} is of type {job['type']}, which is no task of {self.alias!r}")
        if job["redacted"]:
            raise ImproperlyConfigured(f"the key of the task backend {self.alias!r} may not read payloads and results")
        payload = job["payload"]
        return started(self.alias, task, payload["args"], payload["kwargs"], job["id"])

    def check(self, **kwargs: Any) -> Iterable[Any]:
        """Complains about a database that has no transactions to submit in."""
        found = list(super().check(**kwargs))
        if self.database is not None and connections[self.database].vendor != "postgresql":
            message = f"The task backend {self.alias!r} submits in transactions of {self.database!r}, which is not PostgreSQL."
            found.append(checks.Error(message, hint="Leave out the option `database`.", id="windlass.E001"))
        return found


def _job(id: str) -> str:
    return f"/jobs/{segment(id)}?payload=true"


def _attempts(id: str) -> str:
    return f"/jobs/{segment(id)}/attempts"


def _has_failed(attempts: Sequence[Mapping[str, Any]]) -> bool:
    return any(one.get("error") for one in attempts)
