"""Programs in documents, run as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from conftest import Server

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


def test_the_sdk_has_the_version_of_the_server() -> None:
    def version(file: str) -> str:
        found = re.search(r'^version = "(.*)"', (ROOT / file).read_text(), re.MULTILINE)
        assert found
        return found.group(1)

    assert version("sdk/python/pyproject.toml") == version("Cargo.toml")
