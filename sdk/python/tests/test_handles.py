"""Handles and submissions: events, logs, redrives, debounce, batches of several types."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from conftest import Server, WorkerProcess

from windlass_sdk import ApiError, Handle, Windlass
from windlass_sdk.net.sse import ALIVE, Parser, ServerEvent


def use(server: Server, work: Any) -> None:
    async def run() -> None:
        app = Windlass(server.url)
        await work(app)
        await app.close()

    asyncio.run(run())


def test_events_are_followed_to_the_end(server: Server, worker: WorkerProcess) -> None:
    async def work(app: Windlass) -> None:
        held = await app.submit("double", 4, hold=True)
        seen: list[str] = []

        async def follow() -> None:
            async for one in held.events():
                seen.append(one.event)

        following, priority = asyncio.ensure_future(follow()), 60
        # The stream is open once something has come.
        while not seen:
            priority += 1 if priority < 100 else -40
            await app.api().call("POST", f"/jobs/{held.id}/priority", {"value": priority})
        await app.api().call("POST", f"/jobs/{held.id}/submit", {})
        await following
        assert seen[0] == "job.ops.priority_updated" and seen[-1] == "job.lifecycle.completed"
        whole = [one async for one in held.events(after=0)]
        assert len(whole) > 2 and len({one.seq for one in whole}) == len(whole)
        assert whole[-1].event == "job.lifecycle.completed" and whole[-1].seq is not None
        assert whole[-1].data["job"] == held.id
        # From the last but one on, and without a loop.
        seq = whole[-2].seq
        # Signs of life may come before the first event.
        for _ in range(10):
            assert [one async for one in held.events(after=seq)] == whole[-1:]
        assert await asyncio.to_thread(lambda: list(app.handle(held.id).events_sync(after=seq))) == whole[-1:]
        # From now on nothing happens any more.
        assert [one async for one in held.events()] == []
        with pytest.raises(ApiError):
            async for _ in app.handle("no-id").events(after=0):
                raise AssertionError("an event of no job")

    use(server, work)


def test_events_are_read_from_lines() -> None:
    parser, found = Parser(), []
    for line in (": alive", "id: 7", "event: a", "data: {", "data:}", "", "", "data: x", ""):
        found.append(parser.feed(line))
    assert [one for one in found if one] == [ALIVE, ServerEvent("a", "{\n}", "7"), ServerEvent("message", "x")]


def test_logs_and_redrives(server: Server, worker: WorkerProcess) -> None:
    async def work(app: Windlass) -> None:
        failed = await app.submit("fails", "permanent")
        await asyncio.to_thread(server.final, failed.id)
        again = await failed.redrive(payload="snooze", only_once=True)
        assert again.id != failed.id and (await again.show())["retry_of"] == failed.id
        with pytest.raises(ApiError, match="redriven"):
            await failed.redrive(only_once=True)
        assert server.final(again.id)["state"] == "completed"
        other = await asyncio.to_thread(lambda: failed.redrive_sync(reset_checkpoints=True))
        assert server.final(other.id)["state"] == "failed"

        said = await app.submit("says", "half")
        await said.result("30s")
        lines = await said.logs()
        assert lines and lines == await asyncio.to_thread(said.logs_sync)
        assert [line.number for line in lines] == list(range(1, len(lines) + 1)) and lines[0].attempt == 1

    use(server, work)


def test_a_program_without_a_loop_signals_cancels_and_looks(server: Server) -> None:
    handle = server.app.submit_sync("cleo")
    handle.signal_sync("paid", 5)
    assert handle.show_sync()["state"] == "scheduled"
    handle.cancel_sync("not needed")
    assert handle.show_sync()["state"] == "cancelled"


def test_of_several_submissions_the_last_one_runs(server: Server) -> None:
    first = server.app.submit_sync("index", 1, debounce={"key": "page-7", "delay": "1h"})
    last = server.app.submit_sync("index", 2, debounce={"key": "page-7", "delay": "1h"})
    assert (first.is_debounced, last.is_debounced, last.id) == (False, True, first.id)
    assert server.get(f"/jobs/{first.id}?payload=true")["payload"] == 2


def test_jobs_of_several_types_are_submitted_together(server: Server) -> None:
    app = Windlass(server.url)

    @app.job("page", queue="pages")
    async def page(number: int) -> str:
        return str(number)

    @app.job("mail", debounce={"key": "never", "delay": "1s"})
    async def mail(to: str) -> int:
        return len(to)

    async def work(_: Windlass) -> None:
        both = await app.submit_many([page.child(1, batch_name="one"), page.child(2)])
        typed: Handle[str] = both[0]
        assert (await typed.show())["queue"] == "pages"
        await app.close()

    use(server, work)
    first, second = app.submit_many_sync([page.child(3, batch_name="three"), page.child(4, after=["@three"])])
    assert second.show_sync()["after"] == [first.id]
    assert len(app.submit_many_sync("page", range(3), queue="other")) == 3
    before = len(server.get("/jobs")["jobs"])
    with pytest.raises(ApiError):
        app.submit_many_sync([page.child(5), page.child(6, priority=101)])
    assert len(server.get("/jobs")["jobs"]) == before
