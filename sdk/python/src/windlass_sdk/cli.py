"""``windlass-worker module:app``: runs the worker of an application."""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys
from typing import Any

from .app import Windlass
from .work.worker import Worker


def load(target: str) -> Windlass:
    """The application at ``module:name``."""
    module, _, name = target.partition(":")
    sys.path.insert(0, os.getcwd())
    found: Any = importlib.import_module(module)
    for part in (name or "app").split("."):
        found = getattr(found, part)
    if not isinstance(found, Windlass):
        raise SystemExit(f"windlass-worker: {target} is not a Windlass application")
    return found


def main(arguments: list[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="windlass-worker", description="Runs the jobs of an application.")
    parser.add_argument("app", help="module:name of the Windlass application, such as shop.jobs:app")
    parser.add_argument("--concurrency", type=int, default=10, help="jobs at once (default: 10)")
    parser.add_argument("--queue", action="append", dest="queues", help="queue to work on; may be given several times")
    parser.add_argument("--name", help="display name of the worker")
    parser.add_argument("--worker-version", help="version of the program, shown with the worker")
    parser.add_argument("--drain", default="30s", help="how long running jobs may go on after SIGTERM (default: 30s)")
    parser.add_argument("--grace", default="5s", help="how long a handler may clean up (default: 5s)")
    parser.add_argument("--lenient-steps", action="store_true", help="continue jobs whose code was changed")
    parser.add_argument("--log-level", default="INFO", help="level of the log (default: INFO)")
    given = parser.parse_args(arguments)
    logging.basicConfig(level=given.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    worker = Worker(
        load(given.app), concurrency=given.concurrency, queues=given.queues, name=given.name,
        version=given.worker_version, drain=given.drain, grace=given.grace, lenient_steps=given.lenient_steps,
    )
    worker.run_sync()
    if worker.has_leftovers:
        # Threads that ignore that they should stop would keep the program from ending.
        logging.shutdown()
        os._exit(0)


if __name__ == "__main__":
    main()
