"""``windlass-worker --reload``: a real parent, its workers, and files that change."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import PATIENCE, Server, until

from windlass_sdk.work import reload

JOBS = '''
import asyncio, pathlib
from windlass_sdk import Windlass
app = Windlass()

@app.job("says")
async def says(gate: str) -> str:
    while gate and not pathlib.Path(gate).exists():
        await asyncio.sleep(0.01)
    return "VERSION"
'''


class Reloading:
    """The parent process, and the folder of its program."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server, self.folder = server, folder
        folder.mkdir()
        self.write("one")
        command = [sys.executable, "-m", "windlass_sdk.cli", "jobs:app", "--reload"]
        environment = {**os.environ, "WINDLASS_URL": server.url}
        self.log = server.folder / "reloading.log"
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(command, cwd=folder, env=environment, stderr=output)

    def write(self, version: str) -> None:
        (self.folder / "jobs.py").write_text(JOBS.replace("VERSION", version))

    def submit(self, gate: Path | str = "") -> str:
        return str(self.server.app.submit_sync("says", str(gate)).id)

    def result(self, id: str) -> str:
        return str(self.server.final(id)["result"])

    def worker(self) -> str:
        """The id of the only worker, once there is one."""
        return str(until("a worker", self.workers)[0])

    def workers(self) -> list[str]:
        found = self.server.get("/workers")["workers"]
        return [str(one["id"]) for one in found if one["name"] != "callbacks"]


@pytest.fixture
def reloading(server: Server, tmp_path: Path) -> Iterator[Reloading]:
    found = Reloading(server, tmp_path / "program")
    yield found
    if found.process.poll() is None:
        found.process.kill()
        found.process.wait()
    until("its worker stops with it", lambda: not found.workers())


def test_a_change_lets_running_jobs_finish_and_the_next_run_the_new_code(reloading: Reloading, tmp_path: Path) -> None:
    id = reloading.submit(tmp_path / "gate")
    reloading.server.in_state(id, "running")
    before = reloading.worker()
    reloading.write("two")
    until("the change is seen", lambda: "changed: " in reloading.log.read_text())
    (tmp_path / "gate").touch()
    assert (reloading.result(id), reloading.server.job(id)["attempt"]) == ("one", 1)
    until("another worker", lambda: (found := reloading.workers()) and before not in found)
    assert reloading.result(reloading.submit()) == "two"
    reloading.process.terminate()
    assert reloading.process.wait(PATIENCE) == 0
    assert reloading.workers() == []


def test_a_program_that_does_not_start_is_started_again_after_the_next_change(reloading: Reloading) -> None:
    assert reloading.result(reloading.submit()) == "one"
    (reloading.folder / "jobs.py").write_text("this is no program")
    until("the worker has stopped", lambda: not reloading.workers())
    assert reloading.process.poll() is None
    (reloading.folder / "parts").mkdir()
    (reloading.folder / "parts" / "new.py").write_text("")
    reloading.write("six")
    assert reloading.result(reloading.submit()) == "six"
    reloading.process.send_signal(signal.SIGINT)
    assert reloading.process.wait(PATIENCE) == 0


def test_a_worker_does_not_outlive_the_parent_that_was_killed(reloading: Reloading) -> None:
    reloading.worker()
    reloading.process.kill()
    reloading.process.wait()


def test_what_is_looked_at_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.py", "b.txt", ".hidden/c.py", "node_modules/d.py", "venv/pyvenv.cfg", "venv/e.py", "parts/f.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    found = reload.snapshot([str(tmp_path)])
    assert sorted(found) == [str(tmp_path / "a.py"), str(tmp_path / "parts" / "f.py")]
    assert reload.changed(found, found) == []
    (tmp_path / "a.py").write_text("1")
    (tmp_path / "parts" / "f.py").unlink()
    assert len(reload.changed(found, reload.snapshot([str(tmp_path)]))) == 2
    monkeypatch.setattr(reload, "ENTRIES_MAX", 3)
    with pytest.raises(SystemExit, match="--reload-dir"):
        reload.snapshot([str(tmp_path)])
