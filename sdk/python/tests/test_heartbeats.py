"""Heartbeats against servers that are slow, gone or not the server: leases are kept, and handlers stop in time."""

from __future__ import annotations

import asyncio
import json
import logging
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from conftest import until
from test_attempts import attempt_of

from windlass_sdk import Cx, Windlass
from windlass_sdk.durable.context import Reason
from windlass_sdk.errors import Unreachable
from windlass_sdk.net.http_sync import SyncHttp
from windlass_sdk.net.wire import Address
from windlass_sdk.work import heartbeat, running as running_module
from windlass_sdk.work.attempt import Attempt, Settings
from windlass_sdk.work.heartbeat import Heartbeats
from windlass_sdk.work.registration import Registration
from windlass_sdk.work.running import Running

PATIENCE = 10.0


class FakeCx:
    def __init__(self, id: str) -> None:
        self.id, self.fence = id, 1


class FakeAttempt:
    """An attempt that only notes why it was asked to stop."""

    def __init__(self, id: str, lease: float) -> None:
        self.cx, self.lease = FakeCx(id), lease
        self.reasons: queue.Queue[str] = queue.Queue()

    def interrupt(self, reason: Reason) -> None:
        self.reasons.put(reason)


class FakeHttp:
    """Answers heartbeats: with ``continue``, or as the test says. Notes their jobs, and how long they may take."""

    def __init__(self) -> None:
        self.beats: queue.Queue[tuple[set[str], float]] = queue.Queue()
        self.answer: Callable[[Any], Any] = everything_continues

    def call(self, method: str, path: str, body: Any, timeout: float = 0.0) -> Any:
        assert (method, path) == ("POST", "/heartbeats")
        self.beats.put(({job["id"] for job in body["jobs"]}, timeout))
        if "wait" in body:
            # As a server that has no directives; shorter, for the test.
            threading.Event().wait(0.05)
        return self.answer(body)

    def close(self) -> None:
        pass

    def first_with(self, id: str, limit: float) -> float:
        """When the first heartbeat with a job came."""
        end = time.monotonic() + limit
        while id not in self.beats.get(timeout=max(0.0, end - time.monotonic()))[0]:
            pass
        return time.monotonic()


def everything_continues(body: Any) -> Any:
    return {"jobs": [{"directive": "continue"} for _ in body["jobs"]], "worker": {"paused": False, "mode": None}}


Start = Callable[..., tuple[Heartbeats, Running]]


@pytest.fixture
def beating() -> Iterator[Start]:
    """Starts heartbeats of some attempts."""
    started: list[Heartbeats] = []

    def start(http: Any, *attempts: FakeAttempt, grace: float = 5.0) -> tuple[Heartbeats, Running]:
        running = Running()
        for attempt in attempts:
            running.add(cast(Attempt, attempt))
        registration = Registration(http, {}, lambda: None, lambda: None)
        registration.id = "w"
        beats = Heartbeats(http, registration, running, grace, lambda ran: ran())
        started.append(beats)
        beats.start()
        return beats, running

    yield start
    for one in started:
        one.stop()


@pytest.fixture
def hanging() -> Iterator[Callable[[Any], Any]]:
    """An answer that does not come while the test runs."""
    over = threading.Event()

    def answer(_: Any) -> Any:
        over.wait(3 * PATIENCE)
        raise Unreachable("the test is over")

    yield answer
    over.set()


def test_handlers_are_stopped_by_silence_while_a_request_hangs(
    beating: Start, hanging: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "SILENCE_SECONDS", 5.1)
    http, attempt = FakeHttp(), FakeAttempt("j", 300.0)
    http.answer = hanging
    beating(http, attempt)
    assert attempt.reasons.get(timeout=PATIENCE) == "unreachable"


def test_no_handler_is_stopped_while_heartbeats_are_answered(beating: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    # Two seconds of silence; heartbeats need a twentieth.
    monkeypatch.setattr(heartbeat, "SILENCE_SECONDS", 7.0)
    http, attempt, later = FakeHttp(), FakeAttempt("j", 300.0), FakeAttempt("k", 300.0)
    _, running = beating(http, attempt)
    for _ in range(6):
        http.beats.get(timeout=PATIENCE)
    running.add(cast(Attempt, later))
    http.first_with("k", PATIENCE)
    assert attempt.reasons.empty() and later.reasons.empty()


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="no clock that continues while the machine is suspended")
def test_handlers_are_stopped_when_a_suspended_machine_resumes(
    beating: Start, hanging: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    suspended = [0.0]
    clock = time.clock_gettime
    monkeypatch.setattr(time, "clock_gettime", lambda id: clock(id) + (suspended[0] if id == time.CLOCK_BOOTTIME else 0.0))
    http, attempt = FakeHttp(), FakeAttempt("j", 300.0)
    http.answer = hanging
    beating(http, attempt)
    http.beats.get(timeout=PATIENCE)
    assert attempt.reasons.empty()
    suspended[0] = 3_600.0
    assert attempt.reasons.get(timeout=PATIENCE) == "unreachable"


def test_jobs_that_were_claimed_since_are_not_stopped_by_the_silence_before(
    beating: Start, hanging: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000.0]
    for module in (heartbeat, running_module):
        monkeypatch.setattr(module, "boot_seconds", lambda: now[0])
    monkeypatch.setattr(heartbeat, "LOOK_SECONDS", 0.01)
    http, attempt, later = FakeHttp(), FakeAttempt("j", 300.0), FakeAttempt("k", 300.0)
    http.answer = hanging
    _, running = beating(http, attempt)
    http.beats.get(timeout=PATIENCE)
    now[0] += 60.0
    running.add(cast(Attempt, later))
    # Stopped at every look: at the second one the later job was there.
    for _ in range(3):
        assert attempt.reasons.get(timeout=PATIENCE) == "unreachable"
    assert later.reasons.empty()
    # If there is no answer from now on, it is its turn.
    now[0] += 21.0
    assert later.reasons.get(timeout=PATIENCE) == "unreachable"


@pytest.mark.parametrize(("timeout", "limit"), [(0.5, 0.5), (35.0, 10.0)])
def test_connecting_takes_no_longer_than_the_request_may(monkeypatch: pytest.MonkeyPatch, timeout: float, limit: float) -> None:
    limits: list[float] = []

    def create_connection(address: Any, timeout: float, source: Any) -> socket.socket:
        limits.append(timeout)
        raise TimeoutError("no answer")

    monkeypatch.setattr(socket, "create_connection", create_connection)
    with pytest.raises(Unreachable):
        SyncHttp(Address.of("http://127.0.0.1:1")).call("GET", "/", timeout=timeout)
    assert limits == [limit]


@pytest.mark.parametrize(
    ("grace", "reasons", "periods"),
    [(60.0, ["unreachable"], [10.0]), (2.0, ["unreachable"], [2.0]), (60.0, ["cancel", "lost"], [60.0]),
     (60.0, ["cancel", "unreachable", "unreachable"], [60.0, 10.0])],
)
def test_handlers_of_a_worker_that_is_cut_off_have_ten_seconds(
    monkeypatch: pytest.MonkeyPatch, grace: float, reasons: list[Reason], periods: list[float]
) -> None:
    began, go = asyncio.Event(), asyncio.Event()

    @Windlass().job("stays")
    async def stays(_: None, cx: Cx) -> None:
        began.set()
        try:
            await go.wait()
        except asyncio.CancelledError:
            await go.wait()

    async def use() -> None:
        attempt = attempt_of(stays, Settings(grace=grace))
        found: list[float] = []
        later = attempt.loop.call_later

        def call_later(delay: float, callback: Any, *arguments: Any, **more: Any) -> asyncio.TimerHandle:
            if callback == attempt._give_up:
                found.append(delay)
            return later(delay, callback, *arguments, **more)

        monkeypatch.setattr(attempt.loop, "call_later", call_later)
        running = asyncio.create_task(attempt.run())
        await began.wait()
        for reason in reasons:
            attempt.interrupt(reason)
            # Its effects are in the loop's next turn.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert found == periods
        go.set()
        await running

    asyncio.run(use())


def test_a_shorter_lease_that_starts_is_extended_in_time(beating: Start) -> None:
    http = FakeHttp()
    # What the thread for short leases sends: it does not wait for directives.
    sent: queue.Queue[tuple[set[str], float]] = queue.Queue()

    def answer(body: Any) -> Any:
        if "wait" not in body:
            sent.put(({job["id"] for job in body["jobs"]}, time.monotonic()))
        return everything_continues(body)

    http.answer = answer
    _, running = beating(http, FakeAttempt("long", 12.0))
    assert sent.get(timeout=PATIENCE)[0] == {"long"}
    started = time.monotonic()
    running.add(cast(Attempt, FakeAttempt("short", 1.0)))
    # And again after a third of its lease, not of the longer one.
    for limit in (1.0, 2.0):
        jobs, at = sent.get(timeout=PATIENCE)
        assert jobs == {"long", "short"} and at - started < limit


class HalfDead:
    """A server whose first connection answers one heartbeat, and then nothing more; later ones answer all."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.dead: list[socket.socket] = []
        #: When a heartbeat was read on a connection that answers.
        self.renewed: queue.Queue[float] = queue.Queue()
        self.closed = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def _accept(self) -> None:
        number = 0
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            number += 1
            threading.Thread(target=self._serve, args=(connection, 1 if number == 1 else 1_000), daemon=True).start()

    def _serve(self, connection: socket.socket, answers: int) -> None:
        with connection, connection.makefile("rb") as file:
            while True:
                size = 0
                while (line := file.readline()) not in (b"\r\n", b""):
                    if line.lower().startswith(b"content-length"):
                        size = int(line.split(b":")[1])
                if not line:
                    self.closed.set()
                    return
                body = json.loads(file.read(size))
                if not answers:
                    continue
                answers -= 1
                self.renewed.put(time.monotonic())
                text = json.dumps(everything_continues(body)).encode()
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(text) + text)


def test_a_dead_connection_ends_no_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "ANSWER_SECONDS", (0.1, 8.0))
    server, running = HalfDead(), Running()
    running.add(cast(Attempt, FakeAttempt("j", 1.5)))
    http = SyncHttp(Address.of(server.url))
    registration = Registration(http, {}, lambda: None, lambda: None)
    registration.id = "w"
    beats = Heartbeats(http, registration, running, 5.0, lambda ran: ran())
    # Only the thread for short leases: the first connection is its own.
    thread = threading.Thread(target=beats._keep_short, daemon=True)
    thread.start()
    try:
        first = server.renewed.get(timeout=PATIENCE)
        # One third until the next heartbeat, one until its connection is given up.
        assert server.renewed.get(timeout=PATIENCE) - first < 1.5
        assert server.closed.wait(PATIENCE)
    finally:
        beats.stop()
        server.listener.close()
        thread.join(PATIENCE)


@pytest.mark.parametrize(("lease", "limit"), [(1.0, 1.0), (12.0, 4.0), (300.0, 8.0)])
def test_a_request_is_given_up_after_a_third_of_the_shortest_lease(lease: float, limit: float, beating: Start) -> None:
    http = FakeHttp()
    beats, _ = beating(http)
    http.beats.get(timeout=PATIENCE)
    beats._send("w", [("j", 1)], lease, may_wait=False)
    assert http.beats.get(timeout=PATIENCE) == ({"j"}, limit)


@pytest.mark.parametrize(("left", "limit"), [(100.0, 8.0), (3.0, 3.0), (0.5, 1.0), (-60.0, 8.0)])
def test_a_request_ends_before_handlers_have_to_stop_or_is_patient_afterwards(
    monkeypatch: pytest.MonkeyPatch, left: float, limit: float
) -> None:
    http = FakeHttp()
    client = cast(SyncHttp, http)
    registration = Registration(client, {}, lambda: None, lambda: None)
    beats = Heartbeats(client, registration, Running(), 5.0, lambda _: None)
    monkeypatch.setattr(beats, "_left", lambda: left)
    beats._send("w", [("j", 1)], 300.0, may_wait=False)
    assert http.beats.get(timeout=PATIENCE) == ({"j"}, limit)


@pytest.mark.parametrize("answer", [None, {}, {"jobs": []}, "text"])
def test_the_thread_for_short_leases_survives_an_answer_that_is_not_the_servers(
    beating: Start, caplog: pytest.LogCaptureFixture, answer: Any
) -> None:
    http, answers = FakeHttp(), 0
    renewed = threading.Event()

    def strange(body: Any) -> Any:
        nonlocal answers
        if "wait" in body:
            return everything_continues(body)
        answers += 1
        if answers == 1:
            return answer
        renewed.set()
        return everything_continues(body)

    http.answer = strange
    with caplog.at_level(logging.ERROR, "windlass"):
        beating(http, FakeAttempt("j", 1.0))
        assert renewed.wait(PATIENCE)
    assert "short leases failed" in caplog.text


@pytest.mark.parametrize("answer", [None, {}])
def test_the_heartbeats_survive_a_registration_that_is_answered_by_another(answer: Any) -> None:
    class Proxy:
        def call(self, *_: Any) -> Any:
            return answer

    registration = Registration(cast(SyncHttp, Proxy()), {}, lambda: None, lambda: None)
    registration.id = "forgotten"
    registration.register_again("forgotten")
    assert registration.id == "forgotten"
