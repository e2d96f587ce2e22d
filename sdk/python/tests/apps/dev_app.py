"""Jobs for tests in virtual time. What steps do stands in a file, line by line."""

from __future__ import annotations

import os
from pathlib import Path

from windlass_sdk import Cx, SyncCx, Windlass

app = Windlass()


def note(line: str) -> str:
    with Path(os.environ["EFFECTS"]).open("a") as file:
        file.write(line + "\n")
    return line


@app.job("remind", lifetime="90d")
async def remind(days: int, cx: Cx) -> list[str]:
    first = await cx.step("first", note, "first")
    await cx.sleep(f"{days}d")
    second = await cx.step("second", note, "second")
    return [first, second]


@app.job("remind_sync", lifetime="90d")
def remind_sync(days: int, cx: SyncCx) -> str:
    cx.sleep(f"{days}d")
    return cx.wait_signal("paid", str, timeout=f"{days}d") or "not paid"


@app.job("flaky", retry={"strategy": "constant", "initial_delay": "1h", "max_attempts": 3})
async def flaky(_: None, cx: Cx) -> int:
    if cx.failures < 2:
        raise RuntimeError("busy")
    return cx.failures


@app.job("chain")
async def chain(length: int, cx: Cx) -> int:
    await cx.step("link", note, f"link {length}")
    if length > 1:
        cx.submit_on_completion(chain.child(length - 1))
    return length
