"""How many no-op jobs one worker process runs, and how soon an idle worker picks a job up.

Run beside a server: ``WINDLASS_URL=… python benchmarks/noop.py --jobs 20000 --concurrency 200``.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from typing import Any

from windlass_sdk import Windlass, Worker

#: A hundred bytes.
TEXT = "x" * 88
Payload = dict[str, str]

app = Windlass()
done = 0
finished = asyncio.Event()
wanted = 0
started: dict[str, float] = {}


@app.job("bench.noop")
async def noop(_: Payload) -> None:
    global done
    done += 1
    if done == wanted:
        finished.set()


@app.job("bench.pickup")
async def pickup(payload: Payload) -> None:
    started[payload["label"]] = time.perf_counter()


async def throughput(jobs: int, concurrency: int) -> float:
    global wanted
    wanted = jobs
    for start in range(0, jobs, 5_000):
        await app.submit_many("bench.noop", [{"text": TEXT}] * min(5_000, jobs - start))
    worker = Worker(app, concurrency=concurrency)
    began = time.perf_counter()
    running = asyncio.create_task(worker.run(handle_signals=False))
    await finished.wait()
    worker.stop()
    # The end includes the last report: the worker stops when the server has taken all outcomes.
    await running
    return jobs / (time.perf_counter() - began)


async def latency(samples: int) -> Any:
    worker = Worker(app, concurrency=10)
    running = asyncio.create_task(worker.run(handle_signals=False))
    await (await pickup.submit({"label": "warm"})).result("30s")
    waits = []
    for number in range(samples):
        label, asked = str(number), time.perf_counter()
        await (await pickup.submit({"label": label, "text": TEXT})).result("30s")
        waits.append((started[label] - asked) * 1000)
    worker.stop()
    await running
    return statistics.quantiles(waits, n=100)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--concurrency", type=int, default=200)
    parser.add_argument("--samples", type=int, default=200)
    given = parser.parse_args()
    print(f"no-op jobs: {await throughput(given.jobs, given.concurrency):,.0f}/s")
    shares = await latency(given.samples)
    print(f"from submit to the handler: p50 {shares[49]:.1f} ms, p95 {shares[94]:.1f} ms")


if __name__ == "__main__":
    asyncio.run(main())
