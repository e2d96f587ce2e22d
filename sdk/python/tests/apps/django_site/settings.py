"""A site with two task backends: one over HTTP, one in transactions of PostgreSQL."""

from __future__ import annotations

import os
from typing import Any

import django

SECRET_KEY = "for tests only"
USE_TZ = True
INSTALLED_APPS = ["windlass_sdk.django", "django_site"]
if django.VERSION < (6,):
    # It checks the settings of backends.
    INSTALLED_APPS.append("django_tasks")
if host := os.environ.get("POSTGRES"):
    DATABASES = {
        "default": {"ENGINE": "django.db.backends.postgresql", "NAME": "postgres", "USER": "windlass", "HOST": host}
    }
else:
    DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
_BACKEND = "windlass_sdk.django.WindlassBackend"
_RETRY = {"strategy": "constant", "initial_delay": "1ms", "jitter": 0, "max_attempts": 2}
TASKS: dict[str, Any] = {
    "default": {"BACKEND": _BACKEND, "QUEUES": ["default", "mail"], "OPTIONS": {"submit": {"retry": _RETRY}}},
    "own": {"BACKEND": _BACKEND, "OPTIONS": {"app": "jobs_app:app"}},
    "orders": {"BACKEND": _BACKEND, "OPTIONS": {"modules": ["django_site.orders"]}},
}
# Without PostgreSQL, a check complains about it.
if host or os.environ.get("WRONG"):
    TASKS["orders"]["OPTIONS"]["database"] = "default"
