"""The client: submissions, handles, payloads by annotation, attempts without a server, signatures."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from enum import Enum
from pathlib import Path
from typing import Any, Optional, TypedDict

import pytest
from conftest import Server, WorkerProcess
from jobs_app import Order, double, order

from windlass_sdk import (
    ApiError, Cx, InvalidSignature, JobFailed, Permanent, StepFailed, Unreachable, Windlass, verify_headers, verify_webhook,
)
from windlass_sdk import codec, duration
from windlass_sdk.errors import failure_of
from windlass_sdk.job import submission
from windlass_sdk.net.wire import Address


def test_handles_are_typed_and_wait(server: Server, worker: WorkerProcess) -> None:
    async def use() -> None:
        app = Windlass(server.url)

        @app.job("double")
        async def double(number: int) -> int:
            return number * 2

        first = await double.submit(4, key="once")
        again = await double.submit(4, key="once")
        assert (first.id, again.is_duplicate) == (again.id, True)
        result: int = await first.result("30s")
        assert result == 8
        handles = await app.submit_many("double", range(50))
        assert await asyncio.gather(*(handle.result("30s") for handle in handles)) == [2 * n for n in range(50)]
        waiting = await app.submit("order", {"id": 1, "die_at": ""})
        await waiting.cancel("not needed")
        with pytest.raises(JobFailed, match="cancelled"):
            await waiting.result("30s")
        said = await app.submit("says", "half")
        assert [(one.percent, one.message) async for one in said.progress()][-1] == (40, "half")
        await app.close()

    asyncio.run(use())


def test_output_is_followed_and_starts_over_after_a_failure(server: Server, worker: WorkerProcess) -> None:
    words = [f"wörd {number}" for number in range(2_500)]

    async def use() -> None:
        app = Windlass(server.url)
        said = await app.submit("story", words, retry={"strategy": "constant", "initial_delay": "10ms", "jitter": 0})
        chunks = [one async for one in said.stream()]
        assert await said.result("30s") == len(words)
        assert [one.number for one in chunks] == list(range(1, len(chunks) + 1))
        # What the step wrote is not repeated; what came after it is.
        assert [one.chunk for one in chunks if one.attempt == 1] == [{"plan": len(words)}, *words]
        assert [one.chunk for one in chunks if one.attempt == 2] == words
        assert [one.attempt for one in chunks if one.is_restart] == [2]
        last = [one async for one in said.stream(after=chunks[-2].number)]
        assert last == chunks[-1:]
        await app.close()

    asyncio.run(use())
    waiting = Windlass(server.url).submit_sync("story.sync", ["a", "b"])
    chunks = list(waiting.stream_sync())
    assert [(one.attempt, one.chunk) for one in chunks] == [(1, "a"), (1, "b"), (2, "a"), (2, "b"), (2, "end")]
    assert not any(one.is_restart for one in chunks)


def test_a_program_without_a_loop_submits_and_waits(server: Server, worker: WorkerProcess) -> None:
    app = Windlass(server.url)

    @app.job("double", queue="default")
    def local(number: int) -> int:
        raise NotImplementedError

    assert local.submit_sync(21, tags={"from": "test"}, delay="10ms").result_sync("30s") == 42


def test_schemas_of_annotations_are_checked_by_the_server(server: Server) -> None:
    async def use() -> None:
        app = Windlass(server.url)

        @app.job("typed")
        async def typed(o: Order) -> int:
            return o.id

        await app.register_schemas()
        shown = server.get("/types/typed")
        assert shown["payload_schema"]["required"] and shown["result_schema"] == {"type": "integer"}
        with pytest.raises(ApiError) as refused:
            await app.submit("typed", {"id": "one"})
        assert (refused.value.status, refused.value.details["field"]) == (422, "payload.id")
        await app.close()

    asyncio.run(use())


def test_a_token_reads_one_job(server: Server) -> None:
    async def use() -> None:
        key = server.post("/keys", {"name": "boss", "role": "admin"})["secret"]
        app = Windlass(server.url, key=key)
        mine, other = await app.submit("a"), await app.submit("a")
        page = Windlass(server.url, key=await mine.token("1h"))
        assert (await page.handle(mine.id).show())["id"] == mine.id
        with pytest.raises(ApiError, match="unauthorized|valid API key"):
            await page.handle(other.id).show()
        await app.close()
        await page.close()

    asyncio.run(use())


def test_a_server_that_is_not_there_is_unreachable() -> None:
    app = Windlass("http://127.0.0.1:9")
    with pytest.raises(Unreachable):
        app.http.call("GET", "/stats")
    with pytest.raises(Unreachable):
        asyncio.run(_ask(app))


async def _ask(app: Windlass) -> Any:
    return await app.api().call("GET", "/stats")


def test_addresses() -> None:
    address = Address.of("http://[::1]:7788/base/", "wl_secret")
    assert (address.host, address.port, address.prefix) == ("::1", 7788, "/base/api/v1")
    assert "wl_secret" not in repr(address)
    assert Address.of("https://jobs.example").port == 443
    with pytest.raises(ValueError, match="address"):
        Address.of("jobs.example")


class Colour(Enum):
    RED = "red"


class Person(TypedDict):
    name: str


@dataclass
class Everything:
    when: datetime
    colour: Colour
    person: Person
    lasts: timedelta = timedelta(seconds=1)
    numbers: list[int] = field(default_factory=list)
    nothing: Optional[str] = None


@pytest.mark.parametrize("has_pydantic", [True, False])
def test_values_are_read_by_annotation(monkeypatch: pytest.MonkeyPatch, has_pydantic: bool) -> None:
    monkeypatch.setattr(codec, "_PYDANTIC", has_pydantic)
    value = Everything(datetime(2030, 1, 2, tzinfo=timezone.utc), Colour.RED, {"name": "Ann"}, numbers=[1])
    plain = codec.plain(value)
    assert codec.decode(plain, Everything) == value
    assert codec.decode([1, 2], tuple[int, int]) == (1, 2)
    assert codec.decode({"a": {"name": "x"}}, dict[str, Person]) == {"a": {"name": "x"}}
    assert codec.decode(None, Optional[int]) is None
    for wrong, kind in [("x", int), ({}, Everything), ({"nme": 1}, Person), ([1], tuple[int, int])]:
        with pytest.raises((TypeError, ValueError)):
            codec.decode(wrong, kind)


def test_values_without_json_are_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)
    for value in (float("nan"), object(), circle, "\ud800", {1: {2, "a"}}):
        with pytest.raises((TypeError, ValueError)):
            codec.dumps(value)


def test_durations() -> None:
    assert [duration.millis(one) for one in ("1h30m", "250ms", 1.5, timedelta(days=1), "0.5s")] == [
        5_400_000, 250, 1500, 86_400_000, 500,
    ]
    for wrong in ("", "five", "5", "1h 30", -1):
        with pytest.raises(ValueError):
            duration.millis(wrong)
    with pytest.raises(TypeError, match="not a datetime: 'tomorrow'"):
        submission("a", None, {"run_at": "tomorrow"})


def test_failures_of_exceptions() -> None:
    try:
        try:
            raise OSError("no route")
        except OSError as error:
            raise ValueError("bad") from error
    except ValueError as error:
        found = failure_of(error, {Exception: "resource"})
    assert (found.category, found.code, found.message) == ("resource", "ValueError", "bad")
    assert found.cause == ({"message": "no route", "code": "OSError"},)
    assert failure_of(Permanent("x" * 10_000, "long")).message == "x" * 4096


def test_an_attempt_without_a_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EFFECTS", str(tmp_path / "effects"))
    first = order.run_inline(Order(7), saved={"reserve": {"seat": 70, "name": "Ann"}})
    assert (first.outcome, [key for key, _ in first.saves]) == ("parked", ["sleep:"])
    saved = {**first.saved, "sleep:": {**first.saved["sleep:"], "until": 0}, "charge": {"at": 2, "value": 70}}
    second = order.run_inline(Order(7), saved={**saved, "signal:paid": {"signal": 5}}, attempt=2)
    assert (second.outcome, len(second.spawned["jobs"])) == ("spawned", 2)
    assert double.run_inline(4).value() == 8
    with pytest.raises(JobFailed, match="cannot be read"):
        double.run_inline("x").value()  # type: ignore[arg-type]


def test_a_dropped_step_stays_dropped() -> None:
    app = Windlass()
    ran: list[str] = []

    @app.job("drops")
    async def drops(_: None, cx: Cx) -> str:
        async def slow() -> str:
            ran.append("slow")
            await asyncio.Event().wait()
            return "slow"

        try:
            return await asyncio.wait_for(cx.step("slow", slow), 0.05)
        except asyncio.TimeoutError:
            return await cx.step("quick", lambda: "quick")

    first = drops.run_inline(None)
    assert first.value() == "quick" and first.saved["slow"]["left_out"] is True
    again = drops.run_inline(None, saved=first.saved)
    assert (again.value(), ran, again.saves) == ("quick", ["slow"], [])


def test_a_step_that_is_left_running_stops_with_its_attempt() -> None:
    app = Windlass()
    stopped: list[str] = []

    @app.job("leaves")
    async def leaves(_: None, cx: Cx) -> None:
        async def slow() -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                stopped.append("slow")
                raise

        async def broken() -> None:
            raise OSError("down")

        await asyncio.gather(cx.step("slow", slow), cx.step("broken", broken))

    assert leaves.run_inline(None).error["code"] == "OSError"
    assert stopped == ["slow"]


def test_changed_code_cannot_be_caught() -> None:
    app = Windlass()

    @app.job("changed")
    async def changed(_: None, cx: Cx) -> str:
        try:
            await cx.step("new", lambda: 1)
        except Exception:
            pass
        return "continued"

    found = changed.run_inline(None, saved={"old": 1})
    assert (found.outcome, found.error["code"]) == ("failed", "steps_changed")


def test_a_saved_value_of_another_type_is_changed_code() -> None:
    app = Windlass()

    async def count() -> int:
        return 1

    @app.job("count")
    async def counts(_: None, cx: Cx) -> int:
        return await cx.step("count", count)

    assert counts.run_inline(None, saved={"count": "many"}).error["code"] == "steps_changed"
    with pytest.raises(StepFailed):
        raise StepFailed(failure_of(ValueError("x")), "key")


SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef01234567").decode()


def sign(content: bytes) -> str:
    digest = hmac.new(b"0123456789abcdef01234567", content, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode()


def test_signatures() -> None:
    body, now = b'{"type":"job.completed"}', str(int(time.time()))
    headers = {"Webhook-Id": "m", "webhook-timestamp": now, "windlass-fence": "3", "content-type": "application/json"}
    signed = {**headers, "webhook-signature": "v1,AAAA " + sign(f"m.{now}.".encode() + body)}
    verify_webhook(body, signed, ["whsec_" + base64.b64encode(b"an older secret.").decode(), SECRET])
    lines = sorted(f"{name.lower()}:{value}" for name, value in headers.items())
    lines.append(base64.b64encode(hashlib.sha256(body).digest()).decode())
    signed["windlass-signature"] = sign("\n".join(lines).encode())
    verify_headers(body, signed, SECRET)
    for wrong in (
        {**signed, "webhook-timestamp": "1"}, {**signed, "windlass-fence": "4"}, {**signed, "webhook-id": "n"}, {},
    ):
        with pytest.raises(InvalidSignature):
            verify_headers(body, wrong, SECRET)
    with pytest.raises(InvalidSignature):
        verify_webhook(body + b" ", signed, SECRET)
    for strange in (
        {**signed, "webhook-timestamp": "²"}, {**signed, "webhook-timestamp": "9" * 5000},
        {**signed, "webhook-signature": "v1,é"}, {**signed, "webhook-id": "\u2028"}, {**signed, "windlass-x": "\u2028"},
    ):
        with pytest.raises(InvalidSignature):
            verify_headers(body, strange, SECRET)


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_" + base64.b64encode(b"15 bytes long..").decode(), "whsec_é", []])
def test_a_guessable_secret_is_refused(secret: Any) -> None:
    now = str(int(time.time()))
    forged = "v1," + base64.b64encode(hmac.new(b"", f"m.{now}.{{}}".encode(), hashlib.sha256).digest()).decode()
    headers = {"webhook-id": "m", "webhook-timestamp": now, "webhook-signature": forged}
    with pytest.raises(ValueError, match="secret"):
        verify_webhook(b"{}", headers, secret)
