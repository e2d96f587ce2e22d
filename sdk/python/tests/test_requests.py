"""Requests: what is repeated, which connections are used again, and outcomes that something refuses."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from windlass_sdk import ApiError, OtherProtocol, Permanent, Windlass, Worker
from windlass_sdk.cli import main, parser, run
from windlass_sdk.durable.core import Stopped
from windlass_sdk.errors import Unreachable
from windlass_sdk.net import http_sync
from windlass_sdk.net.api import Api
from windlass_sdk.net.wire import Address, Answer as HttpAnswer
from windlass_sdk.work import completer
from windlass_sdk.work.backend import ServerBackend, Writes
from windlass_sdk.work.completer import Completer, Report
from windlass_sdk.work.registration import Registration

Answer = tuple[int, bytes]


class Stub:
    """A server that gives the answers of a test, the last one again and again, and notes the requests."""

    def __init__(self, *answers: Answer) -> None:
        self.answers, self.bodies, self.peers = list(answers), list[bytes](), set[Any]()
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                stub.peers.add(self.client_address)
                stub.bodies.append(self.rfile.read(int(self.headers.get("content-length", 0))))
                status, body = stub.answers.pop(0) if len(stub.answers) > 1 else stub.answers[0]
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def stub() -> Iterator[Callable[..., Stub]]:
    started: list[Stub] = []

    def start(*answers: Answer) -> Stub:
        started.append(Stub(*answers))
        return started[-1]

    yield start
    for one in started:
        one.server.shutdown()
        one.server.server_close()


def refusal(status: int) -> Answer:
    return status, json.dumps({"error": {"code": "refused", "message": "no"}}).encode()


@pytest.mark.parametrize(("status", "count"), [(408, 1), (502, 1), (504, 1), (429, 2), (503, 2)])
def test_a_request_that_may_have_been_done_is_not_repeated(stub: Callable[..., Stub], status: int, count: int) -> None:
    def send(app: Windlass) -> Any:
        return app.http.call("POST", "/jobs", {}, patience=30.0, may_repeat=False)

    async def send_async(app: Windlass) -> Any:
        return await app.api().call("POST", "/jobs", {}, patience=30.0, may_repeat=False)

    for each in (send, lambda app: asyncio.run(send_async(app))):
        server = stub(refusal(status), (200, b"{}"))
        try:
            each(Windlass(server.url))
        except ApiError as error:
            assert error.status == status
        assert len(server.bodies) == count


def registered(protocol: int) -> Answer:
    return 201, json.dumps({"worker_id": f"w{protocol}", "heartbeat_every": "10s", "protocol": protocol}).encode()


def test_a_worker_ends_if_the_server_speaks_another_protocol(stub: Callable[..., Stub]) -> None:
    server = stub(registered(2))
    app = Windlass(server.url)

    @app.job("a")
    async def handle(_: None) -> None: ...

    with pytest.raises(OtherProtocol, match="worker protocol 2, this program 1"):
        asyncio.run(Worker(app).run(handle_signals=False))
    assert len(server.bodies) == 1
    with pytest.raises(SystemExit, match="windlass-worker: the server speaks worker protocol 2"):
        run(app, parser().parse_args(["x:app"]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no.such:app"], "there is no module no in "), (["jobs_app:other"], "jobs_app has no other; it has app"),
        (["json:app"], "json has no app$"), (["jobs_app:asyncio"], "jobs_app:asyncio is not a Windlass application"),
        (["jobs_app:app", "--concurrency", "0"], "concurrency is at least 1"), (["jobs_app:app", "--drain", "x"], "not a duration: 'x'"),
    ],
)
def test_a_command_that_cannot_run_says_why(arguments: list[str], message: str) -> None:
    with pytest.raises(SystemExit, match=f"^windlass-worker: {message}"):
        main([*arguments, "--log-level", "CRITICAL"])


def test_a_worker_ends_if_the_server_was_replaced_by_one_of_another_protocol(stub: Callable[..., Stub]) -> None:
    server, events = stub(registered(1), registered(2)), list[str]()
    registration = Registration(
        Windlass(server.url).http, {}, lambda: events.append("lost"), lambda: events.append("failed")
    )
    registration.register()
    registration.register_again("w1")
    registration.register_again("w1")
    assert events == ["lost", "failed"] and len(server.bodies) == 2
    assert isinstance(registration.failure, OtherProtocol)


def test_writes_of_several_jobs_share_a_request_and_one_that_is_refused_spoils_no_other(stub: Callable[..., Stub]) -> None:
    def answers(*statuses: str) -> Answer:
        return 200, json.dumps({"jobs": [{"id": "j", "status": status} for status in statuses]}).encode()

    # All four at once are refused, so is the half with the bad one, and then it alone.
    server = stub(refusal(400), refusal(400), refusal(400), answers("saved"), answers("saved", "stale"))

    async def write() -> list[Any]:
        api = Windlass(server.url).api()
        writes = Writes(api)
        jobs = [ServerBackend(api, writes, "w", {"id": f"j{n}", "fence": 1}, print) for n in range(4)]
        return await asyncio.gather(*(job.save([("a", n)]) for n, job in enumerate(jobs)), return_exceptions=True)

    bad, good, other, stale = asyncio.run(write())
    assert isinstance(bad, Permanent) and bad.code == "not_allowed"
    assert good is None and other is None and isinstance(stale, Stopped)
    sizes = [len(json.loads(body)["jobs"]) for body in server.bodies]
    assert sizes == [4, 2, 1, 1, 2]


def test_log_lines_that_may_be_lost_fail_no_attempt(stub: Callable[..., Stub]) -> None:
    async def write(url: str, item: Any) -> None:
        api = Windlass(url).api()
        await ServerBackend(api, Writes(api), "w", {"id": "j", "fence": 1}, print).note(item)

    lost, refused = stub(refusal(502)), stub(refusal(422))
    asyncio.run(write(lost.url, {"logs": ["a"]}))
    assert len(lost.bodies) == 1
    with pytest.raises(Permanent):
        asyncio.run(write(refused.url, {"logs": ["a"]}))


def test_a_signal_is_sent_once(stub: Callable[..., Stub], monkeypatch: pytest.MonkeyPatch) -> None:
    repeats: list[bool] = []

    async def call(self: Api, *_: Any, may_repeat: bool = True, **__: Any) -> None:
        repeats.append(may_repeat)

    monkeypatch.setattr(Api, "call", call)
    asyncio.run(_signal(Windlass()))
    assert repeats == [False]


async def _signal(app: Windlass) -> None:
    await app.handle("j").signal("go")


def test_an_idle_or_inherited_connection_is_replaced(stub: Callable[..., Stub], monkeypatch: pytest.MonkeyPatch) -> None:
    server = stub((200, b"{}"))
    http = Windlass(server.url).http
    http.call("POST", "/a")
    http.call("POST", "/a")
    assert len(server.peers) == 1
    monkeypatch.setattr(http_sync, "IDLE_SECONDS", 0.0)
    http.call("POST", "/a")
    assert len(server.peers) == 2
    monkeypatch.undo()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    http.call("POST", "/a")
    assert len(server.peers) == 3


def test_the_refusal_of_a_proxy_is_a_refusal(stub: Callable[..., Stub]) -> None:
    page = b"<html>Request Entity Too Large</html>"
    with pytest.raises(ApiError) as refused:
        Windlass(stub((413, page)).url).http.call("POST", "/outcomes", {})
    assert refused.value.status == 413
    # Nothing says that the server does not know something.
    with pytest.raises(Unreachable):
        Windlass(stub((404, page)).url).http.call("POST", "/outcomes", {})


def report(id: str) -> Report:
    return Report(id, 1, f'{{"id":"{id}","fence":1,"outcome":"completed"}}')


def applied(*ids: str) -> Answer:
    return 200, json.dumps({"outcomes": [{"id": id, "status": "applied"} for id in ids]}).encode()


def outcomes(body: bytes) -> list[str]:
    return [one["outcome"] for one in json.loads(body)["outcomes"]]


async def _send(server: Stub, *reports: Report) -> None:
    await Completer(Api(Address.of(server.url)), lambda: "w").send(list(reports))


def test_an_outcome_that_a_proxy_finds_too_large_does_not_keep_others(stub: Callable[..., Stub]) -> None:
    page = (413, b"<html></html>")
    server = stub(page, applied("a"), page, applied("b"))
    asyncio.run(_send(server, report("a"), report("b")))
    assert [outcomes(body) for body in server.bodies] == [["completed"] * 2, ["completed"], ["completed"], ["failed"]]


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refusal_of_the_worker_does_not_fail_its_jobs(stub: Callable[..., Stub], status: int) -> None:
    server = stub(refusal(status), applied("a"))
    asyncio.run(_send(server, report("a")))
    assert [outcomes(body) for body in server.bodies] == [["completed"], ["completed"]]


def test_a_refusal_that_stays_ends(stub: Callable[..., Stub], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completer, "REFUSED_SECONDS", 0.0)
    server = stub(refusal(403))
    asyncio.run(_send(server, report("a")))
    assert len(server.bodies) == 1


def test_jobs_keep_their_slots_while_too_many_outcomes_wait(
    stub: Callable[..., Stub], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completer, "BACKLOG_MAX", 2)

    async def use() -> None:
        server = stub(applied("a", "b"))
        sender = Completer(Api(Address.of(server.url)), lambda: "w")
        sender.add(report("a"))
        await sender.room()
        sender.add(report("b"))
        room = asyncio.create_task(sender.room())
        await asyncio.sleep(0)
        assert not room.done()
        sending = asyncio.create_task(sender.run())
        await room
        sender.close()
        await sending

    asyncio.run(use())


def test_a_handle_pauses_if_the_server_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    async def call(self: Api, *_: Any, **__: Any) -> Any:
        nonlocal asked
        asked += 1
        return {"state": "running"}

    monkeypatch.setattr(Api, "call", call)

    async def wait() -> None:
        with pytest.raises(TimeoutError):
            await Windlass().handle("j").result("300ms")

    asyncio.run(wait())
    assert asked <= 3


def test_an_integer_of_too_many_digits_does_not_make_an_answer_unreadable() -> None:
    body = b'{"jobs": [{"payload": ' + b"9" * 5000 + b'}, {"payload": 12345678901234567890}]}'
    first, second = HttpAnswer(200, {}, body).json()["jobs"]
    assert first["payload"] == float("inf")
    assert second["payload"] == 12345678901234567890
    with pytest.raises(Unreachable):
        HttpAnswer(200, {}, b"\xff{").json()
