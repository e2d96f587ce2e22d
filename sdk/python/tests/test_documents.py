"""Programs in documents, run as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from conftest import Server, binary, until

ROOT = Path(__file__).parents[3]


def blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def test_the_sample_without_packages_fails_a_job_whose_work_raises(server: Server, tmp_path: Path) -> None:
    (tmp_path / "worker.py").write_text(blocks("docs/workers.md")[0])
    environment = {**os.environ, "WINDLASS_URL": server.url}
    worker = subprocess.Popen([sys.executable, tmp_path / "worker.py"], env=environment, stdout=subprocess.DEVNULL)
    try:
        retry = {"max_attempts": 2, "initial_delay": "10ms"}
        id = server.post("/jobs", {"type": "greet", "payload": 5, "retry": retry})["id"]
        job = server.final(id)
        assert (job["state"], job["attempt"], job["failures"]) == ("dead_letter", 2, 2)
        assert "TypeError" in job["error"]["message"]
    finally:
        worker.terminate()
        assert worker.wait(30) == 0


def test_the_sample_without_packages_survives_a_server_that_restarts(server: Server, tmp_path: Path) -> None:
    page = blocks("docs/workers.md")[0]
    assert len(page.splitlines()) <= 30
    # Work that continues over the restart, with heartbeats that fail meanwhile.
    slow = page.replace("ended.wait(10)", "ended.wait(0.05)").replace(
        'return {"outcome": "completed"', 'os.system("while [ ! -e gate ]; do sleep 0.02; done")\n    return {"outcome": "completed"'
    )
    assert "wait(0.05)" in slow and "gate" in slow
    (tmp_path / "worker.py").write_text(slow)
    log = tmp_path / "log"
    with log.open("wb") as output:
        command = [sys.executable, str(tmp_path / "worker.py")]
        worker = subprocess.Popen(command, cwd=tmp_path, env={**os.environ, "WINDLASS_URL": server.url}, stdout=output)
    try:
        id = server.post("/jobs", {"type": "greet", "payload": {"name": "Ann"}})["id"]
        server.in_state(id, "running")
        server.kill()
        until("a heartbeat fails", lambda: "refused" in log.read_text() or "reset" in log.read_text())
        (tmp_path / "gate").touch()
        server.start()
        assert server.final(id)["result"] == {"hello": "Ann"} and server.job(id)["attempt"] == 1
        # The idle worker survives another restart.
        server.kill()
        server.start()
        assert server.final(server.post("/jobs", {"type": "greet", "payload": {"name": "Bob"}})["id"])["result"] == {"hello": "Bob"}
        worker.terminate()
        assert worker.wait(30) == 0
        assert [one for one in server.get("/workers")["workers"] if one["name"] != "callbacks"] == []
    finally:
        if worker.poll() is None:
            worker.kill()
            worker.wait()


def test_the_guides_are_python_that_compiles() -> None:
    for page in ("sdk/python/README.md", "docs/python.md"):
        found = blocks(page)
        assert found
        for block in found:
            # Snippets of handlers and of programs with a running loop are fragments of an async function.
            compile("async def _():\n" + "".join(f"    {line}\n" for line in block.splitlines()), page, "exec")


def test_the_first_example_of_the_readme_runs(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(blocks("sdk/python/README.md")[0])
    check = (
        "import jobs\n"
        "first = jobs.order.run_inline(jobs.Order(7, 1200))\n"
        "assert (first.outcome, first.park['signal']) == ('parked', 'paid'), first\n"
        "second = jobs.order.run_inline(jobs.Order(7, 1200), saved={**first.saved, 'signal:paid': {'signal': True}})\n"
        "assert second.value() == 'seat 70', second\n"
    )
    subprocess.run([sys.executable, "-c", check], cwd=tmp_path, check=True)


def marked(page: str) -> tuple[dict[str, str], list[str]]:
    """The files of a tutorial, and the commands that this test runs, in order."""
    text = (ROOT / page).read_text()
    files = dict(re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", text, re.DOTALL))
    runs = re.findall(r"<!-- run by sdk/python/\S+ -->\n```console\n(.*?)```", text, re.DOTALL)
    lines = "".join(runs).replace("\\\n", " ").splitlines()
    return files, [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


def test_the_tutorial_works_as_it_is_written(server: Server, tmp_path: Path) -> None:
    files, commands = marked("docs/tutorials/python.md")
    assert len(files) == 3 and len(commands) > 10
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    places = [str(Path(sys.executable).parent), str(Path(binary()).parent), os.environ["PATH"]]
    environment = {**os.environ, "WINDLASS_URL": server.url, "PATH": os.pathsep.join(places), "PYTHONPATH": str(tmp_path)}
    background: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            if command == "windlass serve":
                continue
            if command.startswith("pkill"):
                background.pop().kill()
                continue
            if command.endswith("&"):
                background.append(subprocess.Popen(f"exec {command[:-1]}", shell=True, cwd=tmp_path, env=environment))
                continue
            done = subprocess.run(command, shell=True, cwd=tmp_path, env=environment, capture_output=True, timeout=120)
            assert done.returncode == 0, (command, done)
        shown = subprocess.run(["windlass", "list", "--type", "order", "--json"], env=environment, capture_output=True, check=True)
        assert b"approved and confirmed" in shown.stdout, shown
    finally:
        for worker in background:
            worker.terminate()
            worker.wait(30)


def test_the_sdk_has_the_version_of_the_server() -> None:
    def version(file: str) -> str:
        found = re.search(r'^version = "(.*)"', (ROOT / file).read_text(), re.MULTILINE)
        assert found
        return found.group(1)

    assert version("sdk/python/pyproject.toml") == version("Cargo.toml")
