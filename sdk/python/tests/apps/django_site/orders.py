"""Tasks that are enqueued in transactions."""

from __future__ import annotations

from windlass_sdk.django.api import NAME

if NAME == "django.tasks":
    from django.tasks import task
else:
    from django_tasks import task


@task(backend="orders")
def confirm(order: int) -> str:
    return f"order {order} is confirmed"
