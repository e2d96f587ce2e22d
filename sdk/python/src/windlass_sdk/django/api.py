"""The task API of Django: its own from 6.0 on, else that of the package ``django-tasks``, which has the same names."""

from __future__ import annotations

import importlib
from typing import Any

try:
    import django.tasks

    NAME = "django.tasks"
except ImportError:
    NAME = "django_tasks"

_base: Any = importlib.import_module(f"{NAME}.base")
_exceptions: Any = importlib.import_module(f"{NAME}.exceptions")
_signals: Any = importlib.import_module(f"{NAME}.signals")
task_backends: Any = importlib.import_module(NAME).task_backends
BaseTaskBackend: Any = importlib.import_module(f"{NAME}.backends.base").BaseTaskBackend
TaskContext, TaskError, TaskResult, TaskResultStatus = (
    _base.TaskContext, _base.TaskError, _base.TaskResult, _base.TaskResultStatus,
)
# django-tasks has other names for two exceptions.
InvalidTask: Any = getattr(_exceptions, "InvalidTask", None) or _exceptions.InvalidTaskError
TaskResultDoesNotExist: Any = _exceptions.TaskResultDoesNotExist
task_enqueued, task_started, task_finished = _signals.task_enqueued, _signals.task_started, _signals.task_finished
