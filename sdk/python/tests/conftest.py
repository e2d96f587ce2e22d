"""A real server and real worker processes for every test."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from windlass_sdk import Windlass
from windlass_sdk.errors import WindlassError

TESTS = Path(__file__).parent
#: Programs that the tests run, and import jobs from.
APPS = TESTS / "apps"
#: How long anything may take; waits end as soon as their condition holds.
PATIENCE = 30.0


def binary() -> str:
    found = os.environ.get("WINDLASS_BINARY")
    assert found, "WINDLASS_BINARY must name the windlass binary; run scripts/sdk-python BINARY"
    return found


def until(what: str, condition: Callable[[], Any]) -> Any:
    """Waits until the condition is true, and returns its value."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.01)
    raise AssertionError(f"not in time: {what}")


class Server:
    """A server process on a file."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, 0
        self.process: subprocess.Popen[bytes] | None = None
        self.start()
        self.app = Windlass(self.url)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        log = self.folder / f"server-{time.monotonic_ns()}.log"
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [binary(), "serve", "--store", f"sqlite:{self.folder / 'jobs.db'}", "--listen", f"127.0.0.1:{self.port}"],
                stdout=output, stderr=output,
            )
        shown = until("the server listens", lambda: re.search(r"http://127\.0\.0\.1:(\d+)", log.read_text()))
        self.port = int(shown.group(1))

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def get(self, path: str) -> Any:
        return self.app.http.call("GET", path, patience=PATIENCE)

    def post(self, path: str, body: Any) -> Any:
        return self.app.http.call("POST", path, body)

    def job(self, id: str) -> Any:
        return self.get(f"/jobs/{id}")

    def final(self, id: str) -> Any:
        """The job, once it is final."""
        states = ("completed", "failed", "dead_letter", "cancelled")
        job = self.get(f"/jobs/{id}?wait={round(PATIENCE)}s")
        assert job["state"] in states, job
        return job

    def in_state(self, id: str, *states: str) -> Any:
        return until(f"job {id} is {states}", lambda: (job := self.job(id))["state"] in states and job)

    def checkpoints(self, id: str) -> dict[str, Any]:
        return {one["step"]: one["value"] for one in self.get(f"/jobs/{id}/checkpoints")["checkpoints"]}


class WorkerProcess:
    """A worker process that runs ``jobs_app``; what its handlers do stands in a file, line by line."""

    def __init__(self, server: Server, *arguments: str, app: str = "jobs_app:app", key: str = "") -> None:
        self.server = server
        self.effects = server.folder / "effects"
        self.log = server.folder / f"worker-{time.monotonic_ns()}.log"
        environment = {**os.environ, "WINDLASS_URL": server.url, "EFFECTS": str(self.effects), "WINDLASS_KEY": key}
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "windlass_sdk.cli", app, "--name", f"test-{self.log.stem}", *arguments],
                cwd=APPS, env=environment, stdout=output, stderr=output,
            )

    def lines(self) -> list[str]:
        return self.effects.read_text().splitlines() if self.effects.exists() else []

    def saw(self, line: str) -> None:
        until(f"{line!r} in {self.lines()}", lambda: line in self.lines())

    def died(self) -> None:
        """Waits until the process has killed itself, then gives its jobs back as an operator may."""
        assert self.process.wait(PATIENCE) == -signal.SIGKILL, self.log.read_text()
        for worker in self.server.get("/workers")["workers"]:
            if worker["name"] == f"test-{self.log.stem}":
                self.server.app.http.call("DELETE", f"/workers/{worker['id']}")

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(PATIENCE)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A new server on an empty store."""
    found = Server(tmp_path)
    yield found
    found.kill()


@pytest.fixture
def start(server: Server) -> Iterator[Callable[..., WorkerProcess]]:
    """Starts worker processes."""
    started: list[WorkerProcess] = []

    def start(*arguments: str, app: str = "jobs_app:app", key: str = "") -> WorkerProcess:
        started.append(WorkerProcess(server, *arguments, app=app, key=key))
        return started[-1]

    yield start
    for worker in started:
        worker.end()


@pytest.fixture
def worker(start: Callable[..., WorkerProcess]) -> WorkerProcess:
    """One worker process."""
    return start("--concurrency", "8", "--grace", "1s")


__all__ = ["Server", "WindlassError", "WorkerProcess", "json", "until"]
