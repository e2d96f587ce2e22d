"""Tasks of the site."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from windlass_sdk import Permanent
from windlass_sdk.django.api import NAME, task_finished, task_started

if NAME == "django.tasks":
    from django.tasks import task
else:
    from django_tasks import task


class Declined(Exception):
    """An error of the site."""


def note(line: str) -> None:
    with Path(os.environ["EFFECTS"]).open("a") as file:
        file.write(line + "\n")


def on_signal(sender: Any, task_result: Any, signal: Any, **_: Any) -> None:
    note(f"{'started' if signal is task_started else 'finished'} {task_result.task.name} {task_result.status}")


task_started.connect(on_signal)
task_finished.connect(on_signal)


@task
def add(a: int, b: int = 0) -> int:
    return a + b


@task(queue_name="mail", priority=100)
async def greet(name: str) -> dict[str, str]:
    await asyncio.sleep(0)
    return {"hello": name}


@task(takes_context=True)
def attempts(context: Any, until: int) -> list[Any]:
    if context.attempt < until:
        raise Declined("card 4711")
    return [context.attempt, context.task_result.id]


@task
async def declines(how: str) -> None:
    if how == "permanent":
        raise Permanent("never", code="declined")
    raise Declined("always")
