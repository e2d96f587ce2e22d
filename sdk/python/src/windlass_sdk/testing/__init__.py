"""Tests in virtual time: ``windlass dev`` with a clock that stands still, and worker processes to kill.

With pytest, the fixture ``windlass_dev`` is a server of its own for each test::

    def test_a_reminder(windlass_dev):
        windlass_dev.worker("jobs:app")
        job = windlass_dev.app.submit_sync("remind", {"user": 7})
        windlass_dev.advance("30d")
        assert windlass_dev.job(job.id)["state"] == "completed"

The program is found by ``WINDLASS_BINARY``, or is ``windlass`` in the path.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from ..app import Windlass
from ..duration import Duration, millis

#: How long the server may take to start, in seconds.
START_SECONDS = 30.0
#: How long moving the clock may take, in seconds: it waits for jobs that run.
ADVANCE_SECONDS = 600.0


class DevWorker:
    """A worker process."""

    def __init__(self, server: DevServer, name: str, process: subprocess.Popen[bytes]) -> None:
        self._server, self.name, self.process = server, name, process

    def kill(self) -> None:
        """Ends the process as a crash does. The server ends its leases at once, as it does later without it."""
        self.process.kill()
        self.process.wait()
        self._server.crash(worker=self.name)

    def stop(self) -> int:
        """Lets the process finish what it runs. Returns its exit code."""
        self.process.terminate()
        return self.process.wait()


class DevServer:
    """A server in memory whose clock stands still until ``advance``."""

    def __init__(self, binary: str | None = None) -> None:
        binary = binary or os.environ.get("WINDLASS_BINARY") or "windlass"
        self._process = subprocess.Popen(
            [binary, "dev", "--stopped-clock", "--listen", "127.0.0.1:0"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )
        self._workers: list[DevWorker] = []
        self._address: list[str] = []
        self._lines: list[str] = []
        self._is_listening = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if not self._is_listening.wait(START_SECONDS) or not self._address:
            self.close()
            raise RuntimeError(f"windlass dev did not start: {''.join(self._lines)}")
        #: Its address.
        self.url = self._address[0]
        #: A client of it.
        self.app = Windlass(self.url)

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            text = line.decode(errors="replace")
            self._lines.append(text)
            if found := re.search(r"listening on (http://\S+?);", text):
                self._address.append(found.group(1))
                self._is_listening.set()
        self._is_listening.set()

    def _post(self, path: str, body: Any) -> Any:
        data = json.dumps(body).encode()
        request = urllib.request.Request(
            self.url + path, data=data, headers={"content-type": "application/json"}, method="POST"
        )
        with urllib.request.urlopen(request, timeout=ADVANCE_SECONDS) as answer:
            return json.load(answer)

    def advance(self, by: Duration, *, wait: Duration | None = None) -> bool:
        """Moves the clock forward, from timer to timer; workers run what becomes due before the next one.

        ``wait`` is how long to wait in real time for jobs that run, 10 s unless given. Returns whether nothing runs and
        no worker has anything to do any more.
        """
        body: dict[str, Any] = {"by": f"{millis(by)}ms"}
        if wait is not None:
            body["wait"] = f"{millis(wait)}ms"
        return bool(self._post("/dev/advance", body)["settled"])

    def settle(self) -> bool:
        """Waits until nothing runs and no worker has anything to do, without moving the clock."""
        return self.advance(0)

    def now(self) -> datetime:
        """The store's time."""
        with urllib.request.urlopen(self.url + "/dev/clock", timeout=START_SECONDS) as answer:
            return datetime.fromisoformat(json.load(answer)["now"].replace("Z", "+00:00"))

    def crash(self, *, worker: str | None = None, after_step: str | None = None) -> None:
        """Ends the leases of a worker, by its name, or of all workers, as if their processes had died. With
        ``after_step``, the worker that saves this step next loses its jobs then, once."""
        given = {"worker": worker, "after_step": after_step}
        self._post("/dev/crash", {key: value for key, value in given.items() if value is not None})

    def reset(self) -> None:
        """Deletes all jobs, schedules and workers."""
        self._post("/dev/reset", {})

    def job(self, id: str) -> Any:
        """A job as the API shows it."""
        return self.app.http.call("GET", f"/jobs/{id}")

    def worker(
        self, app: str, *arguments: str, folder: str | Path | None = None, environment: dict[str, str] | None = None
    ) -> DevWorker:
        """Starts a worker process for ``module:app``, as ``windlass-worker`` does, and waits until it has registered."""
        name = f"dev-{len(self._workers) + 1}"
        command = [sys.executable, "-m", "windlass_sdk.cli", app, "--name", name, *arguments]
        found = self.run(name, command, folder=folder, environment=environment)
        until = time.monotonic() + START_SECONDS
        while name not in {one["name"] for one in self.app.http.call("GET", "/workers")["workers"]}:
            if found.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"the worker {app} did not start")
            time.sleep(0.01)
        return found

    def run(
        self, name: str, command: Sequence[str], *, folder: str | Path | None = None,
        environment: dict[str, str] | None = None,
    ) -> DevWorker:
        """Starts any program as a worker with this name; it finds the server in ``WINDLASS_URL``."""
        variables = {**os.environ, **(environment or {}), "WINDLASS_URL": self.url, "WINDLASS_CLOCK": "stopped"}
        process = subprocess.Popen(command, cwd=folder, env=variables)
        found = DevWorker(self, name, process)
        self._workers.append(found)
        return found

    def close(self) -> None:
        """Ends the server and its workers."""
        for process in [*(worker.process for worker in self._workers), self._process]:
            if process.poll() is None:
                process.kill()
            process.wait()
        if self._process.stderr is not None:
            self._reader.join()
            self._process.stderr.close()

    def __enter__(self) -> DevServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
