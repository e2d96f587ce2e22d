"""Clients of `scripts/stalls`: requests with an API key, the probe, and event streams, the last two in processes of their own."""

import http.client
import json
import multiprocessing
import selectors
import socket
import threading
import time


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


#: A port of its own: another server on this machine must not get the load.
PORT = free_port()
#: A server refuses more streams of one key than 200.
STREAM_KEYS, STREAMS = 3, 500
KEYS = {}

FORK = multiprocessing.get_context("fork")


class Client:
    def __init__(self, key="load", port=PORT):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self.headers = {"content-type": "application/json", "authorization": f"Bearer {KEYS[key]}"}

    def __call__(self, method, path, body=None):
        text = None if body is None else json.dumps(body)
        try:
            response = self.request(method, path, text)
        except http.client.RemoteDisconnected:
            # The server closes connections that are idle for long.
            response = self.request(method, path, text)
        data = response.read()
        if response.status >= 300:
            raise RuntimeError(f"{method} {path}: {response.status} {data[:300]}")
        return json.loads(data) if data.startswith((b"{", b"[")) else None

    def request(self, method, path, text):
        self.connection.request(method, path, text, self.headers)
        return self.connection.getresponse()

    def submit(self, count, job):
        """The ids of as many such jobs; `job` is a function of the number."""
        ids = []
        for first in range(0, count, 5_000):
            some = [job(number) for number in range(first, min(first + 5_000, count))]
            ids += [job["id"] for job in self("POST", "/api/v1/jobs/batch", {"jobs": some})["jobs"]]
        return ids

    def worker(self, **interest):
        return self("POST", "/api/v1/workers", interest)["worker_id"]

    def claim(self, worker, limit, wait="0s"):
        return self("POST", "/api/v1/claims", {"worker_id": worker, "limit": limit, "wait": wait})["jobs"]

    def beat(self, worker):
        self("POST", "/api/v1/heartbeats", {"worker_id": worker, "jobs": []})

    def complete(self, worker, jobs):
        done = [{"id": job["id"], "fence": job["fence"], "outcome": "completed"} for job in jobs]
        self("POST", "/api/v1/outcomes", {"worker_id": worker, "outcomes": done})

    def count(self, state):
        return self("GET", "/api/v1/stats")["states"][state]

    def until(self, is_done):
        while not is_done():
            time.sleep(0.05)


class Process:
    """Runs `main(pipe)` in a process of its own, so that the load does not share an interpreter with it."""

    def __init__(self, main):
        self.pipe, theirs = FORK.Pipe()
        self.process = FORK.Process(target=self.run, args=(main, theirs), daemon=True)
        self.process.start()
        theirs.close()

    def run(self, main, pipe):
        # So that it sees the end of the pipe, and ends, when this script is killed.
        self.pipe.close()
        main(pipe)

    def ask(self, word):
        self.pipe.send(word)
        return self.pipe.recv()

    def end(self):
        answer = self.ask("end")
        self.process.join()
        return answer


class Probe(Process):
    """Submits, claims and finishes a job, asks whether the server is ready, and sends a heartbeat, each every 50 ms."""

    def __init__(self):
        super().__init__(probe)
        self.pipe.recv()

    def took(self):
        """What each operation took since the last call, in seconds, by its name."""
        return self.ask("took")


def probe(pipe):
    client = Client("probe")
    worker = client.worker(queues=["probe"], types=["probe"])
    took, is_over, failed, rounds = {}, threading.Event(), [], {}

    def measure(name, operation):
        began = time.monotonic()
        answer = operation()
        took.setdefault(name, []).append(time.monotonic() - began)
        return answer

    def job(own):
        payload = {"type": "probe", "queue": "probe", "payload": {}}
        measure("submit", lambda: own("POST", "/api/v1/jobs", payload))
        jobs = measure("claim", lambda: own.claim(worker, 1, "5s"))
        measure("finish", lambda: own.complete(worker, jobs))

    def ready(own):
        began = time.monotonic()
        try:
            measure("readyz", lambda: own("GET", "/readyz"))
        except RuntimeError:
            # The store did not answer within a second, so this is a stall.
            took.setdefault("not ready", []).append(time.monotonic() - began)

    def repeat(do):
        own = Client("probe")
        try:
            while not is_over.is_set():
                began = time.monotonic()
                do(own)
                rounds[do] = rounds.get(do, 0) + 1
                time.sleep(max(0, 0.05 - (time.monotonic() - began)))
        except (OSError, RuntimeError) as error:
            failed.append(error)

    doings = (job, ready, lambda own: measure("heartbeat", lambda: own.beat(worker)))
    threads = [threading.Thread(target=repeat, args=(do,), daemon=True) for do in doings]
    [thread.start() for thread in threads]
    pipe.send("started")
    while True:
        word = pipe.recv()
        # What has begun by now counts, however long it takes.
        done = {do: rounds.get(do, 0) for do in doings}
        while not failed and any(rounds.get(do, 0) < before + 2 for do, before in done.items()):
            time.sleep(0.01)
        if failed:
            raise failed[0]
        if word == "end":
            is_over.set()
            [thread.join() for thread in threads]
        pipe.send({name: list(took.pop(name)) for name in list(took)})
        if word == "end":
            return


class Streams(Process):
    """Event streams of several keys, read as fast as they come."""

    def __init__(self):
        super().__init__(read_streams)
        opened = self.pipe.recv()
        if isinstance(opened, str):
            raise RuntimeError(opened)


def read_streams(pipe):
    opened = []
    for number in range(STREAMS):
        stream = Client(f"streams{number % STREAM_KEYS}")
        stream.headers["accept"] = "text/event-stream"
        response = stream.request("GET", "/api/v1/events", None)
        if response.status != 200:
            pipe.send(f"stream {number}: {response.status} {response.read()[:300]}")
            return
        opened.append((stream, response))
    pipe.send(len(opened))
    selector, received = selectors.DefaultSelector(), [0] * len(opened)
    for number, (stream, _) in enumerate(opened):
        stream.connection.sock.setblocking(False)
        selector.register(stream.connection.sock, selectors.EVENT_READ, number)
    selector.register(pipe, selectors.EVENT_READ, None)
    while True:
        for key, _ in selector.select():
            if key.data is None:
                pipe.recv()
                pipe.send(received)
                return
            some = key.fileobj.recv(1 << 16)
            received[key.data] += len(some)
            if not some:
                selector.unregister(key.fileobj)
