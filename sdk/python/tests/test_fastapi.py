"""A push target for FastAPI."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import time
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from test_client import SECRET, sign

from windlass_sdk import Cx, Permanent, RetryAfter, Snooze, Windlass
from windlass_sdk.fastapi import push_router

app = Windlass()


@app.job("pushed")
async def pushed(how: str, cx: Cx) -> dict[str, Any]:
    if how == "permanent":
        raise Permanent("never")
    if how == "later":
        raise RetryAfter("90s")
    if how == "snooze":
        raise Snooze("1500ms")
    if how == "who":
        return {
            "who": [cx.id, cx.fence, cx.queue, cx.tenant, cx.submitted_key, cx.traceparent], "key": cx.idempotency_key("s"),
        }
    if how == "sleep":
        await cx.sleep("1h")
    return {"how": how, "attempt": cx.attempt}


@app.job("pushed.bytes")
async def pushed_bytes(data: bytes) -> int:
    return len(data)


TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def call(
    client: TestClient, payload: Any, type: str = "pushed", wrong: bool = False, more: dict[str, str] | None = None
) -> Any:
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    now = str(int(time.time()))
    headers = {
        "content-type": "application/json", "webhook-id": "j", "webhook-timestamp": now, "windlass-attempt": "2",
        "windlass-job-type": type, **(more or {}),
    }
    lines = sorted(f"{name}:{value}" for name, value in headers.items())
    lines.append(base64.b64encode(hashlib.sha256(body).digest()).decode())
    headers["webhook-signature"] = sign(f"j.{now}.".encode() + body)
    headers["windlass-signature"] = sign("\n".join(lines).encode())
    if wrong:
        headers["windlass-attempt"] = "1"
    return client.post("/windlass", content=body, headers=headers)


def test_fastapi_runs_pushed_jobs() -> None:
    api = FastAPI()
    api.include_router(push_router(app, secret=SECRET))
    with TestClient(api) as client:
        answer = call(client, "go")
        assert (answer.status_code, answer.json()) == (200, {"how": "go", "attempt": 2})
        assert call(client, "permanent").status_code == 422
        assert call(client, 5).status_code == 422
        assert call(client, "sleep").status_code == 422
        later = call(client, "later")
        assert (later.status_code, later.headers["retry-after"]) == (503, "90")
        assert call(client, "go", type="unknown").status_code == 503
        # A 4xx would fail the job permanently.
        assert call(client, "go", wrong=True).status_code == 500
        assert client.post("/windlass", content=b"{}").status_code == 500
        snoozed = call(client, "snooze")
        assert (snoozed.status_code, snoozed.headers["retry-after"]) == (503, "2")
        assert call(client, b"\xff\x00", "pushed.bytes", more={"content-type": "image/png"}).json() == 2
        assert call(client, b"\xff\x00", more={"content-type": "image/png"}).status_code == 422
    with pytest.raises(ValueError, match="secret"):
        push_router(app, secret="whsec_")


def test_a_durable_push_does_one_step_per_call() -> None:
    ran: list[str] = []

    @app.job("pushed.durable")
    async def durable(name: str, cx: Cx) -> list[Any]:
        async def step(name: str) -> str:
            ran.append(name)
            await cx.stream(name)
            return name.upper()

        await cx.log("called")
        first = await cx.step("first", step, "a")
        both = await asyncio.gather(cx.step("left", step, "b"), cx.step("right", step, "c"))
        await cx.sleep("1h")
        paid = await cx.wait_signal("paid", int)
        return [first, both, paid]

    def push(client: TestClient, checkpoints: dict[str, Any], now: str = "2030-01-01T00:00:00.000Z") -> dict[str, Any]:
        claimed = {
            "id": "j", "fence": 7, "attempt": 1, "failures": 0, "max_attempts": 3, "type": "pushed.durable",
            "queue": "q", "tenant": "t", "payload": "x",
            "checkpoints": [{"step": step, "value": value} for step, value in checkpoints.items()],
        }
        more = {"content-type": "application/vnd.windlass.claim+json", "windlass-time": now}
        found = call(client, json.dumps(claimed).encode(), "pushed.durable", more=more)
        assert (found.status_code, found.headers["content-type"]) == (200, "application/vnd.windlass.outcome+json")
        outcome: dict[str, Any] = found.json()
        assert (outcome["id"], outcome["fence"], outcome["logs"]) == ("j", 7, ["called"])
        checkpoints.update((one["step"], one["value"]) for one in outcome.get("checkpoints", []))
        return outcome

    api = FastAPI()
    api.include_router(push_router(app, secret=SECRET))
    saved: dict[str, Any] = {}
    with TestClient(api) as client:
        first = push(client, saved)
        assert (first["outcome"], list(saved), ran) == ("parked", ["first"], ["a"])
        assert first["stream"] == {"offset": 0, "chunks": ["a"]}
        push(client, saved)
        assert (sorted(saved), sorted(ran)) == (["first", "left", "right"], ["a", "b", "c"])
        sleeping = push(client, saved)
        assert sleeping["park"]["until"].startswith("2030-01-01T01:00:")
        waiting = push(client, saved, "2030-01-01T01:30:00.000Z")
        assert waiting["park"]["signal"] == "paid"
        saved["signal:paid"] = {"signal": 5}
        last = push(client, saved, "2030-01-01T01:30:00.000Z")
        assert (last["outcome"], last["result"]) == ("completed", ["A", ["B", "C"], 5])
        assert sorted(ran) == ["a", "b", "c"], "no step ran twice"


def test_a_pushed_job_is_known_by_its_headers() -> None:
    api = FastAPI()
    api.include_router(push_router(app, secret=SECRET))
    with TestClient(api) as client:
        for id, fence in (("job-1", 7), ("job-2", 8)):
            more = {
                "windlass-job-id": id, "windlass-fence": str(fence), "windlass-queue": "mail", "windlass-tenant": "acme",
                "windlass-idempotency-key": "50%25%20off", "traceparent": TRACE,
            }
            found = call(client, "who", more=more).json()
            assert found == {"who": [id, fence, "mail", "acme", "50% off", TRACE], "key": f"{id}/s"}
