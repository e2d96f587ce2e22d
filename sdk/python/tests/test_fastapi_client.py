"""A client in FastAPI, and jobs that a page follows."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

import pytest
from conftest import Server, WorkerProcess
from fastapi import Depends, FastAPI, Request
from fastapi.responses import StreamingResponse
from fastapi.testclient import TestClient

from windlass_sdk import Retry, Windlass
from windlass_sdk.fastapi import client, follow_job, lifespan

Client = Annotated[Windlass, Depends(client)]


def program(app: Windlass, closed: list[str]) -> FastAPI:
    @contextlib.asynccontextmanager
    async def own(_: FastAPI) -> AsyncIterator[dict[str, str]]:
        yield {"greeting": "hello"}
        closed.append("own")

    api = FastAPI(lifespan=lifespan(app, own))

    @api.post("/jobs/{type}")
    async def submit(type: str, request: Request, windlass: Client) -> dict[str, Any]:
        handle = await windlass.submit(type, await request.json())
        return {"id": handle.id, "greeting": request.state.greeting}

    @api.get("/jobs/{id}/events")
    async def follow(id: str, request: Request, windlass: Client) -> StreamingResponse:
        return await follow_job(windlass.handle(id), request)

    return api


def events(text: str) -> list[tuple[str, Any]]:
    found = []
    for block in text.strip().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if lines:
            found.append((lines["event"], json.loads(lines["data"])))
    return found


def test_a_page_follows_a_job(server: Server, worker: WorkerProcess) -> None:
    app, closed = Windlass(server.url), list[str]()
    with TestClient(program(app, closed)) as page:
        submitted = page.post("/jobs/says", json="half").json()
        assert submitted["greeting"] == "hello"
        answer = page.get(f"/jobs/{submitted['id']}/events")
        assert answer.headers["content-type"].startswith("text/event-stream")
        found = events(answer.text)
        assert ("progress", {"percent": 40, "message": "half"}) in found
        assert found[-1][0] == "end" and found[-1][1]["state"] == "completed" and "result" in found[-1][1]

        story = page.post("/jobs/story.sync", json=["a", "b"]).json()["id"]
        found = events(page.get(f"/jobs/{story}/events").text)
        assert [data for name, data in found if name == "chunk"] == ["a", "b", "a", "b", "end"]
        # A page that connects again continues after the last chunk.
        again = events(page.get(f"/jobs/{story}/events", headers={"last-event-id": "4"}).text)
        assert [data for name, data in again if name == "chunk"] == ["end"]
        asked = events(page.get(f"/jobs/{story}/events?after=4").text)
        assert [data for name, data in asked if name == "chunk"] == ["end"]

        failed = page.post("/jobs/fails", json="permanent").json()["id"]
        name, end = events(page.get(f"/jobs/{failed}/events").text)[-1]
        assert (name, end["state"], end["error"]["message"]) == ("end", "failed", "never")
        assert page.get("/jobs/no-id/events").status_code == 404
        assert page.get("/jobs/01a1f073-5b8d-4a0a-86d9-4a66d7f3db16/events").status_code == 404
        assert page.get(f"/jobs/{failed}/events?after=x").status_code == 422
    assert closed == ["own"]
    assert not app._apis, "its connections are closed"


def test_output_that_starts_over_is_marked(server: Server, worker: WorkerProcess) -> None:
    retry: Retry = {"strategy": "constant", "initial_delay": "10ms", "jitter": 0}
    handle = server.app.submit_sync("story", ["a"], retry=retry)
    with TestClient(program(Windlass(server.url), [])) as page:
        names = [name for name, _ in events(page.get(f"/jobs/{handle.id}/events").text)]
    assert names.count("restart") == 1 and names[names.index("restart") + 1] == "chunk"


def test_without_the_lifespan_there_is_no_client() -> None:
    api = FastAPI()

    @api.get("/")
    async def show(windlass: Client) -> None:
        """Never reached."""

    with TestClient(api) as page, pytest.raises(RuntimeError, match="lifespan"):
        page.get("/")
