"""``windlass-worker module:app``: runs the worker of an application."""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys
from typing import Any

from .app import Windlass
from .errors import WindlassError
from .work.reload import Reloader, watch_lifeline
from .work.worker import Worker


def load(target: str) -> Windlass:
    """The application at ``module:name``."""
    module, _, name = target.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise SystemExit(f"windlass-worker: there is no module {error.name} in {os.getcwd()}, nor installed") from None
    for part in (name or "app").split("."):
        if not hasattr(found, part):
            apps = [key for key, one in vars(found).items() if isinstance(one, Windlass)]
            hint = f"; it has {', '.join(apps)}" if apps else ""
            raise SystemExit(f"windlass-worker: {module} has no {part}{hint}")
        found = getattr(found, part)
    if not isinstance(found, Windlass):
        raise SystemExit(f"windlass-worker: {target} is not a Windlass application")
    return found


def parser() -> argparse.ArgumentParser:
    """The options."""
    found = argparse.ArgumentParser(prog="windlass-worker", description="Runs the jobs of an application.")
    found.add_argument("app", help="module:name of the Windlass application, such as shop.jobs:app")
    add_options(found)
    found.add_argument("--reload", action="store_true", help="start again when a Python file changes, for development")
    found.add_argument(
        "--reload-dir", action="append", dest="reload_dirs",
        help="folder with such files; may be given several times (default: the current one)",
    )
    found.add_argument("--lifeline", type=int, help=argparse.SUPPRESS)
    return found


def add_options(found: argparse.ArgumentParser) -> None:
    """The options of a worker, which other commands have, too."""
    found.add_argument("--concurrency", type=int, default=10, help="jobs at once (default: 10)")
    found.add_argument("--queue", action="append", dest="queues", help="queue to work on; may be given several times")
    found.add_argument("--name", help="display name of the worker")
    found.add_argument("--worker-version", help="version of the program; jobs that require another one are left to others")
    found.add_argument("--drain", default="30s", help="how long running jobs may continue after SIGTERM (default: 30s)")
    found.add_argument("--grace", default="5s", help="how long a handler may clean up (default: 5s)")
    found.add_argument("--lenient-steps", action="store_true", help="continue jobs whose code was changed")
    found.add_argument("--no-schedules", action="store_true", help="do not create the application's schedules on the server")
    found.add_argument("--log-level", default="INFO", help="level of the log (default: INFO)")


def run(app: Windlass, given: argparse.Namespace) -> None:
    """Runs a worker with the options that were given, until it is stopped."""
    try:
        worker = Worker(
            app, concurrency=given.concurrency, queues=given.queues, name=given.name, version=given.worker_version,
            drain=given.drain, grace=given.grace, lenient_steps=given.lenient_steps, schedules=not given.no_schedules,
        )
    except ValueError as error:
        raise SystemExit(f"windlass-worker: {error}") from error
    try:
        worker.run_sync()
    except WindlassError as error:
        # Such as a key that is not valid: what it says is enough.
        raise SystemExit(f"windlass-worker: {error}") from error
    if worker.has_leftovers:
        # Threads that ignore that they should stop would keep the program from ending.
        logging.shutdown()
        os._exit(0)


def set_up_log(level: str) -> None:
    """Log lines on standard error."""
    logging.basicConfig(level=level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")


def main(arguments: list[str] | None = None) -> None:
    """The command."""
    arguments = sys.argv[1:] if arguments is None else arguments
    given = parser().parse_args(arguments)
    set_up_log(given.log_level)
    if given.lifeline is not None:
        watch_lifeline(given.lifeline)
    elif given.reload:
        raise SystemExit(Reloader(arguments, given.reload_dirs or [os.getcwd()], given.drain, given.grace).run())
    run(load(given.app), given)


if __name__ == "__main__":
    main()
