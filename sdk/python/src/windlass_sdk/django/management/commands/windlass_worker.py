"""``manage.py windlass_worker``: runs the tasks of a backend, and the other jobs of its application."""

from __future__ import annotations

import argparse
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.module_loading import autodiscover_modules

from ....cli import add_options, run, set_up_log
from ... import WindlassBackend
from ...api import task_backends


class Command(BaseCommand):
    """The command."""

    help = "Runs tasks: those in the modules `tasks` of all installed applications, and in the backend's option `modules`."

    def add_arguments(self, parser: CommandParser) -> None:
        """The options of `windlass-worker`."""
        add_options(parser)
        parser.add_argument("--backend", default="default", help="the backend in TASKS (default: default)")

    def handle(self, **options: Any) -> None:
        """Runs until SIGTERM or SIGINT."""
        set_up_log(options["log_level"])
        backend = task_backends[options["backend"]]
        if not isinstance(backend, WindlassBackend):
            raise CommandError(f"the task backend {options['backend']!r} is not one of Windlass")
        autodiscover_modules("tasks")
        app = backend.register_jobs()
        if not app.jobs:
            raise CommandError("there are no tasks: define them in modules `tasks` of installed applications")
        run(app, argparse.Namespace(**options))
