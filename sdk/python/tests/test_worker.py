"""Workers as processes against a server: outcomes, crashes, restarts, directives."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Server, WorkerProcess, until
from jobs_app import Order, Receipt, app, blocks_loop, double, fallback, fails, group, order, order_sync

from windlass_sdk import ApiError, Job, JobFailed, StepsChanged, Windlass
from windlass_sdk.net.http_sync import SyncHttp
from windlass_sdk.work.registration import Registration

Start = Callable[..., WorkerProcess]


def submit(server: Server, type: str, payload: Any = None, **options: Any) -> str:
    return str(server.app.submit_sync(type, payload, **options).id)


ENDS: dict[str, tuple[str, tuple[str, str] | None, int]] = {
    "permanent": ("failed", ("permanent", "never"), 1),
    "mapped": ("failed", ("permanent", "KeyError"), 1),
    "resource": ("failed", ("resource", "quota"), 1),
    "unwritable": ("failed", ("permanent", "result_unwritable"), 1),
    "nan": ("failed", ("permanent", "result_unwritable"), 1),
    "large": ("failed", ("permanent", "outcome_rejected"), 1),
    "step": ("failed", ("permanent", "step_unwritable"), 1),
    "exit": ("dead_letter", ("system", "poison"), 3),
    "retry after": ("completed", None, 2),
    "snooze": ("completed", None, 2),
    "twice": ("completed", None, 3),
}


def test_how_attempts_end(server: Server, worker: WorkerProcess) -> None:
    ids = {how: submit(server, "fails", how, retry=fails.options["retry"]) for how in ENDS}
    for how, expected in ENDS.items():
        job = server.final(ids[how])
        error = job["error"] and (job["error"]["category"], job["error"]["code"])
        assert (job["state"], error, job["attempt"]) == expected, how


def test_a_payload_of_another_type_fails_the_job(server: Server, worker: WorkerProcess) -> None:
    job = server.final(submit(server, "order", {"id": "seven"}))
    assert (job["state"], job["error"]["code"]) == ("failed", "payload_unreadable")


def test_a_job_that_requires_a_version_runs_on_workers_of_that_version(server: Server, start: Start) -> None:
    start("--worker-version", "1")
    newer = submit(server, "double", 2, requires_version="2")
    # It is claimed after the other one, if at all.
    assert server.final(submit(server, "double", 1))["state"] == "completed"
    assert server.get(f"/jobs/{newer}")["state"] == "scheduled"
    start("--worker-version", "2")
    assert server.final(newer)["state"] == "completed"


@pytest.mark.parametrize("point", [
    "", "at the start", "in reserve", "after reserve", "after sleep", "after charge", "after signal", "after children",
])
def test_a_workflow_survives_a_kill_at_every_point(server: Server, start: Start, point: str) -> None:
    worker = start("--concurrency", "4")
    id = submit(server, "order", Order(7, point))
    server.post(f"/jobs/{id}/signals/paid", {"value": 5})
    if point:
        worker.died()
        worker = start("--concurrency", "4")
    job = server.final(id)
    assert job["result"] == {"seat": 82, "name": "Zoë 🚢"}, job
    assert sorted(worker.lines()) == ["charge", "reserve"]
    assert job["failures"] == 0


@pytest.mark.parametrize("point", ["", "after reserve", "after signal"])
def test_a_blocking_workflow_survives_a_kill(server: Server, start: Start, point: str) -> None:
    worker = start()
    id = submit(server, "order.sync", Order(7, point))
    server.post(f"/jobs/{id}/signals/paid", {"value": 5})
    if point:
        worker.died()
        worker = start()
    assert server.final(id)["result"] == {"seat": 82, "name": "sync"}
    assert worker.lines() == ["reserve"]


def test_the_records_are_those_of_the_protocol(server: Server, worker: WorkerProcess) -> None:
    id = submit(server, "order", Order(7))
    server.post(f"/jobs/{id}/signals/paid", {"value": 5})
    server.final(id)
    saved = server.checkpoints(id)
    until_ms = saved["sleep:"].pop("until")
    deadline = saved.pop("deadline:signal:paid")
    assert 3_500_000 < deadline["until"] - until_ms < 3_700_000
    assert saved == {
        "reserve": {"at": 0, "value": {"seat": 70, "name": "Zoë 🚢"}},
        "sleep:": {"at": 1, "lasts_ms": 20},
        "charge": {"at": 2, "value": 70},
        "signal:paid": {"signal": 5},
        "children:": {"at": 3, "group": {"strategy": "fail_fast", "count": 2, "types": ["double"]}},
    }


def test_a_caught_error_is_the_same_in_later_attempts(server: Server, worker: WorkerProcess) -> None:
    job = server.final(submit(server, "fallback", retry=fallback.options["retry"]))
    assert (job["result"], job["attempt"]) == (["OSError: down", "second", "ok"], 2)
    assert worker.lines() == ["primary", "secondary"]


def test_a_step_whose_error_fails_the_attempt_runs_again(server: Server, worker: WorkerProcess) -> None:
    job = server.final(submit(server, "reopened", retry=fallback.options["retry"]))
    assert (job["result"], job["attempt"]) == (2, 2)
    assert worker.lines() == ["flaky", "other", "flaky"]


def test_a_cancelled_handler_stops(server: Server, worker: WorkerProcess) -> None:
    id = submit(server, "waits", "w")
    worker.saw("w started 1")
    server.post(f"/jobs/{id}/cancel", {})
    worker.saw("w stopped: cancel")
    assert server.final(id)["state"] == "cancelled"


def test_a_suspended_handler_stops_and_runs_again_when_resumed(server: Server, worker: WorkerProcess) -> None:
    id = submit(server, "waits", "w")
    worker.saw("w started 1")
    server.post(f"/jobs/{id}/suspend", {"mode": "aggressive"})
    worker.saw("w stopped: suspend")
    server.in_state(id, "suspended")
    server.post(f"/jobs/{id}/resume", {})
    job = server.final(id)
    assert (job["result"], job["failures"]) == ("w", 0)


def test_a_blocking_handler_sees_that_it_is_cancelled(server: Server, worker: WorkerProcess, tmp_path: Path) -> None:
    id = submit(server, "blocks.sync", str(tmp_path / "never"))
    worker.saw("blocking")
    server.post(f"/jobs/{id}/cancel", {})
    worker.saw("reason cancel")


def test_an_attempt_that_takes_too_long_fails(server: Server, worker: WorkerProcess) -> None:
    job = server.final(submit(server, "waits", "t", timeout="1s", retry={"max_attempts": 1}))
    assert (job["state"], job["error"]["category"]) == ("dead_letter", "timeout")


def test_a_blocked_event_loop_keeps_its_lease(server: Server, worker: WorkerProcess, tmp_path: Path) -> None:
    id = submit(server, "blocks.loop", str(tmp_path / "go"), lease=blocks_loop.options["lease"])
    worker.saw("blocking the loop")
    first = server.in_state(id, "running")["lease"]["expires_at"]
    until("the lease is extended", lambda: server.job(id)["lease"]["expires_at"] > first)
    (tmp_path / "go").touch()
    assert server.final(id)["result"] == 1


def test_bytes_arrive_as_bytes(server: Server, worker: WorkerProcess) -> None:
    assert server.final(server.app.submit_sync("size", bytes(range(256))).id)["result"] == 256


def test_a_short_lease_is_kept(server: Server, worker: WorkerProcess, tmp_path: Path) -> None:
    id = submit(server, "blocks.loop", str(tmp_path / "go"), lease="2s")
    worker.saw("blocking the loop")
    for _ in range(4):
        end = server.in_state(id, "running")["lease"]["expires_at"]
        until("the lease is extended", lambda: server.job(id)["lease"]["expires_at"] > end)
    (tmp_path / "go").touch()
    assert server.final(id)["result"] == 1


def test_a_server_that_restarts_is_found_again(server: Server, worker: WorkerProcess, tmp_path: Path) -> None:
    id = submit(server, "until.file", str(tmp_path / "go"))
    worker.saw("waiting 1")
    server.kill()
    (tmp_path / "go").touch()
    until("the worker misses the server", lambda: "will retry" in worker.log.read_text())
    server.start()
    job = server.final(id)
    assert (job["state"], job["result"]) == ("completed", 1)
    assert server.final(submit(server, "double", 4))["result"] == 8


def test_a_worker_that_the_server_forgot_registers_again(server: Server, worker: WorkerProcess) -> None:
    assert server.final(submit(server, "double", 1))["result"] == 2
    for one in server.get("/workers")["workers"]:
        if one["name"].startswith("test-"):
            server.app.http.call("DELETE", f"/workers/{one['id']}")
    assert server.final(submit(server, "double", 4))["result"] == 8


def test_a_worker_waits_for_a_server_that_is_not_there_yet(server: Server, start: Start) -> None:
    server.kill()
    worker = start()
    until("the worker tries", lambda: "cannot register yet" in worker.log.read_text())
    server.start()
    assert server.final(submit(server, "double", 4))["result"] == 8


def test_sigterm_lets_running_jobs_finish(server: Server, start: Start, tmp_path: Path) -> None:
    worker = start()
    id = submit(server, "until.file", str(tmp_path / "go"))
    worker.saw("waiting 1")
    worker.process.send_signal(signal.SIGTERM)
    (tmp_path / "go").touch()
    assert worker.process.wait(30) == 0
    assert server.job(id)["state"] == "completed"
    left = [one for one in server.get("/workers")["workers"] if one["name"].startswith("test-")]
    assert left == []


def test_sigterm_gives_back_jobs_that_do_not_finish(server: Server, start: Start) -> None:
    worker = start("--drain", "0s", "--grace", "1s")
    id = submit(server, "waits", "w")
    worker.saw("w started 1")
    assert worker.stop() == 0
    job = server.job(id)
    assert (job["state"], job["failures"]) in [("retrying", 0), ("scheduled", 0)]
    assert "w stopped: released" in worker.lines()
    start()
    assert server.final(id)["result"] == "w"


def test_a_worker_takes_jobs_from_all_queues(server: Server, worker: WorkerProcess) -> None:
    assert server.final(submit(server, "double", 4, queue="another"))["result"] == 8


def test_two_workers_run_each_job_once(server: Server, start: Start) -> None:
    first, _ = start("--concurrency", "3"), start("--concurrency", "3")
    answer = server.post("/jobs/batch", {"jobs": [{"type": "fails", "payload": f"job {n}"} for n in range(60)]})
    for job in answer["jobs"]:
        assert server.final(job["id"])["state"] == "completed"
    assert sorted(first.lines()) == sorted(f"job {n} 1" for n in range(60))


def test_a_group_returns_results_and_failures_in_order(server: Server, worker: WorkerProcess) -> None:
    job = server.final(submit(server, "group", ["a", "permanent", "b"]))
    assert job["result"] == ["done 1", "failed", "done 1"]


def test_calls_side_by_side(server: Server, worker: WorkerProcess) -> None:
    id = submit(server, "beside")
    server.in_state(id, "waiting", "scheduled")
    server.post(f"/jobs/{id}/signals/go", {"value": 3})
    assert server.final(id)["result"] == ["a", "b", 3]
    assert sorted(worker.lines()) == ["a", "b"]


def test_decisions_are_the_same_in_every_attempt(server: Server, worker: WorkerProcess) -> None:
    id = submit(server, "decides")
    server.post(f"/jobs/{id}/signals/go", {})
    job = server.final(id)
    assert len(worker.lines()) == 2 and len(set(worker.lines())) == 1
    assert " ".join(job["result"]) == worker.lines()[0]


def test_a_checkpoint_continues_after_a_kill(server: Server, start: Start) -> None:
    worker = start()
    id = submit(server, "import", 4000)
    worker.died()
    start()
    assert server.final(id)["result"] == 4000
    assert worker.lines() == ["from 0", "from 2000"]


def test_changed_code_fails_jobs_that_started_before(
    server: Server, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = start(app="changed_app:app")
    id, other = submit(server, "changed"), submit(server, "changed")
    for one in (id, other):
        server.in_state(one, "waiting")
    worker.stop()
    monkeypatch.setenv("CHANGED", "1")
    strict = start(app="changed_app:app")
    server.post(f"/jobs/{id}/signals/go", {"value": 1})
    assert server.final(id)["error"]["code"] == "steps_changed"
    strict.stop()
    start("--lenient-steps", app="changed_app:app")
    server.post(f"/jobs/{other}/signals/go", {"value": 1})
    assert server.final(other)["result"] == 113


def test_processes_progress_logs_and_costs(server: Server, worker: WorkerProcess) -> None:
    assert server.final(submit(server, "square", 12))["result"] == 144
    text = "naïve \u2028 \"quoted\" 🚢"
    id = submit(server, "says", text)
    job = server.final(id)
    assert (job["result"], job["progress"]) == (text, {"percent": 40.0, "message": text})
    assert job["cost_cents"] == 12
    assert [one["text"] for one in server.get(f"/jobs/{id}/logs")["logs"]][-1] == "second line"


async def three(a: int, b: int, c: int) -> int:
    return a + b + c


def test_a_thread_that_does_not_stop_does_not_keep_the_worker(server: Server, start: Start) -> None:
    worker = start("--drain", "0s", "--grace", "1s")
    id = submit(server, "stubborn")
    worker.saw("stubborn")
    assert worker.stop() == 0
    job = server.job(id)
    assert (job["state"] in ("retrying", "scheduled"), job["failures"]) == (True, 0)


def test_processes_report_errors_and_are_replaced_when_they_die(server: Server, worker: WorkerProcess) -> None:
    died = server.final(submit(server, "process.fails", "dies", retry=fails.options["retry"]))
    assert (died["result"], died["crashes"]) == ("lives", 1)
    later = server.final(submit(server, "process.fails", "later", retry=fails.options["retry"]))
    assert (later["result"], later["attempt"]) == ("later", 2)
    never = server.final(submit(server, "process.fails", "permanent"))
    assert (never["error"]["category"], never["error"]["code"]) == ("permanent", "never")


def test_a_step_that_is_not_a_function_fails_the_job(server: Server, worker: WorkerProcess) -> None:
    assert server.final(submit(server, "coroutine"))["error"]["code"] == "step_work"


def test_a_job_that_was_cancelled_before_its_handler_began_is_reported(server: Server, worker: WorkerProcess) -> None:
    for _ in range(20):
        id = submit(server, "waits", "w")
        server.post(f"/jobs/{id}/cancel", {})
        assert server.final(id)["state"] == "cancelled"
    assert server.final(submit(server, "double", 4))["result"] == 8
    until("all slots are free", lambda: server.get("/jobs?state=running")["jobs"] == [])


def test_an_attempt_that_lost_its_lease_stops_and_the_next_one_runs(server: Server, worker: WorkerProcess) -> None:
    id = submit(server, "waits", "w")
    worker.saw("w started 1")
    for one in server.get("/workers")["workers"]:
        if one["name"].startswith("test-"):
            server.app.http.call("DELETE", f"/workers/{one['id']}")
    worker.saw("w stopped: lost")
    worker.saw("w started 2")
    assert server.final(id)["result"] == "w"


def test_an_outcome_that_cannot_be_sent_does_not_keep_others(server: Server, worker: WorkerProcess) -> None:
    jobs = [{"type": "fails", "payload": "deep" if n == 3 else f"job {n}"} for n in range(8)]
    answer = server.post("/jobs/batch", {"jobs": jobs})
    ends = [server.final(job["id"]) for job in answer["jobs"]]
    assert ends[3]["error"]["code"] == "outcome_rejected"
    assert [job["state"] for job in ends].count("completed") == 7
    deep = server.final(submit(server, "fails", "deep step"))
    assert (deep["error"]["category"], deep["error"]["code"]) == ("permanent", "not_allowed")


def test_names_and_kinds_are_checked_when_they_are_defined() -> None:
    assert isinstance(double, Job) and app.jobs["double"] is double
    with pytest.raises(ValueError, match="already"):
        app.job("double")(lambda number: number)
    with pytest.raises(TypeError, match="no option"):
        Windlass().job("x", colour="red")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="at most"):
        Windlass().job("x")(three)  # type: ignore[arg-type]


def test_a_payload_that_is_too_large_is_refused(server: Server) -> None:
    with pytest.raises(ApiError) as refused:
        submit(server, "double", "x" * (2 << 20))
    assert refused.value.code == "payload_too_large"


def test_the_result_of_a_failed_job_is_an_error(server: Server, worker: WorkerProcess) -> None:
    with pytest.raises(JobFailed, match="never"):
        server.app.handle(submit(server, "fails", "permanent")).result_sync("30s")
    with pytest.raises(TimeoutError):
        server.app.handle(submit(server, "waits", "forever")).result_sync("10ms")


__all__ = ["Receipt", "StepsChanged", "group", "order", "order_sync"]


def test_groups_side_by_side_children_that_are_started_and_races(server: Server, start: Start) -> None:
    worker = start("--concurrency", "8", "--grace", "1s", app="jobs_app:app")
    job = server.post("/jobs", {"type": "side_by_side", "payload": None})["id"]
    found = server.final(job)
    assert found["state"] == "completed", (found, worker.log.read_text())
    assert found["result"][:3] == [[2], [4], "left"]
    started = found["result"][3]
    children = server.get(f"/jobs/{job}/children?limit=2")
    assert len(children["children"]) == 2 and children["next_cursor"]
    ids = [child["id"] for child in server.get(f"/jobs/{job}/children")["children"]]
    assert started in ids and len(ids) == 3


def test_a_heartbeat_on_its_way_does_not_register_a_worker_that_has_ended(server: Server) -> None:
    registration = Registration(SyncHttp(server.app.address), {"name": "w", "queues": [], "types": ["a"]}, lambda: None, lambda: None)
    registration.register()
    ended = registration.close()
    server.app.http.call("DELETE", f"/workers/{ended}")
    # What the answer 404 to a heartbeat leads to.
    registration.register_again(ended)
    assert "w" not in {worker["name"] for worker in server.get("/workers")["workers"]}
