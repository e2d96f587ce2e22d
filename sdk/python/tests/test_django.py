"""Tasks of Django: enqueued by a program of a site, run by ``manage.py windlass_worker``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import APPS, PATIENCE, Server
from test_sql import Database, database

from windlass_sdk.django.api import NAME

__all__ = ["database"]


def run(url: str, folder: Path, backend: str, what: str, **more: str) -> list[str]:
    """Runs a worker of the backend and a program of the site. Returns what the worker's handlers noted."""
    effects = folder / "effects"
    environment = {**os.environ, "WINDLASS_URL": url, "EFFECTS": str(effects), **more}
    command = [sys.executable, "-m", "django", "windlass_worker", "--settings", "django_site.settings", "--backend", backend]
    worker = subprocess.Popen(command, cwd=APPS, env=environment)
    try:
        subprocess.run([sys.executable, "-m", "django_site.client", what], cwd=APPS, env=environment, check=True)
        worker.terminate()
        assert worker.wait(PATIENCE) == 0
    finally:
        if worker.poll() is None:
            worker.kill()
            worker.wait()
    return effects.read_text().splitlines() if effects.exists() else []


def test_the_api_is_that_of_this_django() -> None:
    assert NAME == ("django.tasks" if sys.version_info >= (3, 12) else "django_tasks")


def test_tasks_over_http(server: Server, tmp_path: Path) -> None:
    noted = run(server.url, tmp_path, "default", "over_http")
    assert noted.count("started add RUNNING") == noted.count("finished add SUCCESSFUL") == 1
    # One attempt of `attempts` succeeds, and one is the last of two that fail.
    assert noted.count("started attempts RUNNING") == 4
    assert (noted.count("finished attempts SUCCESSFUL"), noted.count("finished attempts FAILED")) == (1, 1)
    assert "finished greet SUCCESSFUL" in noted and "finished declines FAILED" in noted


def test_tasks_in_the_transactions_of_the_site(database: Database, tmp_path: Path) -> None:
    run(database.url, tmp_path, "orders", "in_transactions", POSTGRES=str(database.folder))


@pytest.mark.parametrize(("backend", "complaint"), [("none", "none"), ("orders", "")])
def test_a_worker_without_tasks_says_so(backend: str, complaint: str) -> None:
    code = (
        "import os, django\n"
        "from django.conf import settings\n"
        "settings.configure(INSTALLED_APPS=['windlass_sdk.django'], TASKS={'orders': {'BACKEND': "
        "'windlass_sdk.django.WindlassBackend', 'OPTIONS': {}}})\n"
        "django.setup()\n"
        "from django.core.management import call_command\n"
        f"call_command('windlass_worker', backend={backend!r})\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode != 0 and (complaint or "there are no tasks") in done.stderr, done.stderr


def test_options_are_checked() -> None:
    code = (
        "import django\n"
        "from django.conf import settings\n"
        "settings.configure()\n"
        "from windlass_sdk.django import WindlassBackend\n"
        "for options in ({'ulr': 'x'}, {'app': 'a:b', 'url': 'x'}):\n"
        "    try: WindlassBackend('a', {'OPTIONS': options})\n"
        "    except django.core.exceptions.ImproperlyConfigured as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "no option 'ulr'" in done.stdout and "has an app" in done.stdout


def test_a_database_without_the_store_is_complained_about() -> None:
    command = [sys.executable, "-m", "django", "check", "--settings", "django_site.settings"]
    done = subprocess.run(command, cwd=APPS, env={**os.environ, "WRONG": "1"}, capture_output=True, text=True)
    assert done.returncode != 0 and "windlass.E001" in done.stderr and "'orders'" in done.stderr, done.stderr
