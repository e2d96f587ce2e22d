"""The examples, with real workers in virtual time."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import Any

from conftest import TESTS, until

from windlass_sdk import Handle
from windlass_sdk.testing import DevServer

EXAMPLES = TESTS.parent / "examples"


def main(dev: DevServer, name: str) -> subprocess.Popen[str]:
    """The program of an example."""
    environment = {**os.environ, "WINDLASS_URL": dev.url}
    command = [sys.executable, str(EXAMPLES / name)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def job_of(program: subprocess.Popen[str]) -> str:
    """The id of the job that a program says first."""
    assert program.stdout is not None
    found = re.search(r"is job (\S+?)(;|$)", program.stdout.readline().strip())
    assert found
    return found.group(1)


def ended(program: subprocess.Popen[str]) -> str:
    """The last line of a program that ends well."""
    output, _ = program.communicate(timeout=60)
    assert program.returncode == 0
    return output.strip()


def submit(dev: DevServer, type: str, payload: Any, **options: Any) -> Handle[Any]:
    return dev.app.submit_sync(type, payload, **options)


def steps(dev: DevServer, handle: Handle[Any]) -> list[str]:
    """The steps of the order that were saved, in order."""
    saved = dev.app.http.call("GET", f"/jobs/{handle.id}/checkpoints")["checkpoints"]
    places = {one["step"]: one["value"].get("at") for one in saved if not re.match("sleep:|signal:|deadline:", one["step"])}
    return sorted(places, key=lambda step: int(places[step]))


def test_orders_ship_or_are_undone_and_survive_a_crash(windlass_dev: DevServer) -> None:
    dev = windlass_dev
    day = dev.worker("order:app", folder=EXAMPLES)
    program = main(dev, "order.py")
    good = dev.app.handle(job_of(program))
    ended(program)
    until("it waits", lambda: dev.job(good.id)["state"] == "waiting")
    dev.crash(after_step="charge card")
    bad = submit(dev, "order", {"number": 2, "cents": 900, "patience": "1d"}, lifetime="30d")
    until("the worker crashed", lambda: dev.job(bad.id)["crashes"] == 1)
    day.kill()
    dev.worker("order:app", folder=EXAMPLES)
    declined = submit(dev, "order", {"number": 3, "cents": 900_000, "patience": "1d"}, lifetime="30d")
    assert dev.advance("2h")
    assert dev.job(good.id)["result"] == "shipped in 2 parcels"
    assert steps(dev, good) == ["reserve stock", "charge card", "ship"]
    assert dev.job(declined.id)["result"] == "not sold: the card was declined"
    assert steps(dev, declined) == ["reserve stock", "charge card", "release stock"]
    assert dev.job(bad.id)["state"] == "waiting"
    assert dev.advance("2d")
    assert dev.job(bad.id)["result"] == "given back: the warehouse did not answer"
    assert steps(dev, bad) == ["reserve stock", "charge card", "refund card", "release stock"]


def test_a_document_is_merged_without_the_pages_that_fail(windlass_dev: DevServer) -> None:
    dev = windlass_dev
    dev.worker("documents:app", "--concurrency", "4", folder=EXAMPLES)
    program = main(dev, "documents.py")
    id = job_of(program)
    until("it waits for its pages", lambda: dev.job(id)["state"] == "waiting")
    assert dev.advance("1d")
    assert dev.job(id)["result"] == {"words": 628, "missing": [3, 5]}
    assert ended(program) == "Merged(words=628, missing=[3, 5])"
    log = [line.text for line in dev.app.handle(id).logs_sync()]
    assert len(log) == 2 and "cannot be decoded" in log[0]
    pages = dev.app.http.call("GET", "/jobs?type=document.page")["jobs"]
    assert sorted(page["state"] for page in pages) == ["completed"] * 6 + ["dead_letter", "failed"]
    assert sorted(page["attempt"] for page in pages) == [1] * 5 + [3] * 3


def test_calls_of_a_model_keep_to_the_rate_and_the_budget(windlass_dev: DevServer) -> None:
    dev = windlass_dev
    dev.worker("llm:app", folder=EXAMPLES)
    program = main(dev, "llm.py")
    id = job_of(program)
    text = "summary of the first part; summary of the second part"
    assert ended(program) == text
    assert dev.job(id)["result"] == text
    # The program's limits let this through at once; these do not.
    dev.app.http.call("PUT", "/queues/llm", {"max_running_per_key": 4, "rate_per_key": {"count": 2, "per": "1m"}})
    dev.app.http.call("PUT", "/tenants/default", {"budget_cents": 11, "budget_period": "day"})
    document = submit(dev, "document.summarise", {"account": "b", "parts": ["one", "a difficult two", "three"]}, lifetime="30d")

    def completed() -> int:
        return len(dev.app.http.call("GET", "/jobs?type=llm.call&state=completed")["jobs"]) - 2

    until("it waits for its parts", lambda: dev.job(document.id)["state"] == "waiting")
    assert dev.settle()
    # Two calls of this account have started, and one of them found the model busy.
    assert completed() == 1
    dev.advance("3m")
    until("the other calls", lambda: completed() == 3)
    calls = dev.app.http.call("GET", "/jobs?type=llm.call")["jobs"]
    assert sum(dev.job(one["id"])["cost_cents"] for one in calls) == 10
    chunks = [one.chunk for one in dev.app.handle(calls[0]["id"]).stream_sync()]
    assert chunks[:2] == ["summary", "of"]
    until("it waits for a person", lambda: dev.job(document.id)["progress"])
    document.signal_sync("approved", False)
    assert dev.settle() and dev.job(document.id)["state"] == "completed" and dev.job(document.id)["result"] is None
    # The sixth call spends the budget, the seventh waits for the next day.
    for number in (6, 7):
        submit(dev, "llm.call", {"account": "c", "text": str(number)}, queue="llm", concurrency_key="c", lifetime="30d")
        dev.settle()
    until("the sixth call", lambda: completed() == 4)
    waiting = dev.app.http.call("GET", "/jobs?type=llm.call&limit=1")["jobs"][0]["id"]
    assert "over_quota" in str(dev.app.http.call("GET", f"/jobs/{waiting}/explain"))
    dev.advance("1d")
    until("the last call", lambda: completed() == 5)
