"""The application that the tests' worker processes run."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from dataclasses import dataclass
from typing import Any

from windlass_sdk import (
    ChildFailed, Cx, JobError, Permanent, RetryAfter, Snooze, StepFailed, SyncCx, Windlass,
)

app = Windlass(errors={KeyError: "permanent"})
QUICK: Any = {"strategy": "constant", "initial_delay": "10ms", "jitter": 0, "max_attempts": 4}


def effect(line: str) -> None:
    with open(os.environ["EFFECTS"], "a") as file:
        file.write(line + "\n")


def die_once(point: str, wanted: str) -> None:
    """Kills this process, the first time that the wanted point is reached."""
    mark = os.environ["EFFECTS"] + ".died"
    if point == wanted and not os.path.exists(mark):
        with open(mark, "w"):
            pass
        os.kill(os.getpid(), signal.SIGKILL)


@dataclass
class Order:
    id: int
    die_at: str = ""


@dataclass
class Receipt:
    seat: int
    name: str


@app.job("order", retry=QUICK)
async def order(given: Order, cx: Cx) -> Receipt:
    async def reserve(id: int) -> Receipt:
        die_once("in reserve", given.die_at)
        effect("reserve")
        return Receipt(id * 10, "Zoë 🚢")

    def charge(cents: int) -> int:
        effect("charge")
        return cents

    die_once("at the start", given.die_at)
    receipt = await cx.step("reserve", reserve, given.id)
    die_once("after reserve", given.die_at)
    await cx.sleep("20ms")
    die_once("after sleep", given.die_at)
    await cx.step("charge", charge, receipt.seat)
    die_once("after charge", given.die_at)
    paid = await cx.wait_signal("paid", int, timeout="1h")
    die_once("after signal", given.die_at)
    one, two = await cx.gather(double.child(1), double.child(paid or 0))
    die_once("after children", given.die_at)
    return Receipt(receipt.seat + one + two, receipt.name)


@app.job("order.sync", retry=QUICK)
def order_sync(given: Order, cx: SyncCx) -> Receipt:
    def reserve(id: int) -> Receipt:
        effect("reserve")
        return Receipt(id * 10, "sync")

    receipt = cx.step("reserve", reserve, given.id)
    die_once("after reserve", given.die_at)
    cx.sleep("20ms")
    paid = cx.wait_signal("paid", int)
    die_once("after signal", given.die_at)
    one, two = cx.gather(double.child(1), double.child(paid or 0))
    return Receipt(receipt.seat + one + two, receipt.name)


@app.job("double")
def double(number: int) -> int:
    return number * 2


@app.job("square", executor="process")
def square(number: int) -> int:
    return number * number


@app.job("fails", retry=QUICK)
async def fails(how: str, cx: Cx) -> Any:
    effect(f"{how} {cx.attempt}")
    if how == "permanent":
        raise Permanent("never", code="never")
    if how == "mapped":
        raise KeyError("missing")
    if how == "resource":
        raise JobError("quota", category="resource", code="quota")
    if how == "unwritable":
        return object()
    if how == "nan":
        return float("nan")
    if how == "large":
        return "x" * (2 << 20)
    if how.startswith("deep"):
        value: Any = 1
        for _ in range(300):
            value = [value]
        return await cx.step("deep", lambda: value) if how == "deep step" else value
    if how == "exit":
        raise SystemExit(3)
    if how == "retry after" and cx.attempt == 1:
        raise RetryAfter("10ms", "not yet")
    if how == "snooze" and cx.attempt == 1:
        raise Snooze("10ms")
    if how == "twice" and cx.attempt <= 2:
        raise OSError("connection refused")
    if how == "step":
        return await cx.step("object", lambda: object())
    return cx.attempt


@app.job("fallback", retry=QUICK)
async def fallback(_: None, cx: Cx) -> list[str]:
    async def primary() -> str:
        effect("primary")
        raise OSError("down")

    async def secondary() -> str:
        effect("secondary")
        return "second"

    try:
        found = await cx.step("primary", primary)
    except StepFailed as error:
        found = f"{error.code}: {error}"
    return [found, await cx.step("secondary", secondary), *await late(cx)]


async def late(cx: Cx) -> list[str]:
    if cx.attempt == 1:
        raise RuntimeError("the first attempt fails after all")
    return ["ok"]


@app.job("reopened", retry=QUICK)
async def reopened(_: None, cx: Cx) -> int:
    async def flaky() -> int:
        effect("flaky")
        if cx.attempt == 1:
            raise OSError("down")
        return cx.attempt

    caught: StepFailed | None = None
    value = 0
    try:
        value = await cx.step("flaky", flaky)
    except StepFailed as error:
        caught = error
    await cx.step("other", effect, "other")
    if caught is not None:
        raise RuntimeError("gave up") from caught
    return value


@app.job("waits", retry=QUICK)
async def waits(label: str, cx: Cx) -> str:
    effect(f"{label} started {cx.attempt}")
    try:
        if cx.attempt == 1:
            await asyncio.Event().wait()
    except asyncio.CancelledError:
        effect(f"{label} stopped: {cx.reason}")
        raise
    return label


@app.job("until.file", retry=QUICK)
async def until_file(path: str, cx: Cx) -> int:
    effect(f"waiting {cx.attempt}")
    while not os.path.exists(path):
        await asyncio.sleep(0.01)
    return await cx.step("attempt", lambda: cx.attempt)


@app.job("blocks.sync")
def blocks_sync(path: str, cx: SyncCx) -> str:
    effect("blocking")
    while not os.path.exists(path) and not cx.cancelled:
        time.sleep(0.01)
    effect(f"reason {cx.reason}")
    return str(cx.reason)


@app.job("size")
async def size(data: bytes) -> int:
    return len(data)


@app.job("blocks.loop", lease="10s")
async def blocks_loop(path: str, cx: Cx) -> int:
    """Blocks the whole event loop."""
    effect("blocking the loop")
    while not os.path.exists(path):
        time.sleep(0.01)
    return cx.attempt


@app.job("group")
async def group(payloads: list[str], cx: Cx) -> list[str]:
    children = await cx.spawn([fails.child(one, retry={"max_attempts": 1}) for one in payloads])
    return [one.state if isinstance(one, ChildFailed) else f"done {one}" for one in children.results]


@app.job("beside")
async def beside(_: None, cx: Cx) -> list[Any]:
    async def slow(name: str) -> str:
        effect(name)
        return name

    steps = await asyncio.gather(cx.step("a", slow, "a"), cx.step("b", slow, "b"))
    waited = await asyncio.gather(cx.wait_signal("go", int), cx.sleep("30ms"))
    return [*steps, waited[0]]


@app.job("decides")
async def decides(_: None, cx: Cx) -> list[str]:
    now, number, id = await cx.now(), await cx.random(), await cx.uuid()
    effect(f"{now.isoformat()} {number} {id}")
    await cx.wait_signal("go")
    return [now.isoformat(), str(number), str(id)]


@app.job("import")
async def imports(rows: int, cx: Cx) -> int:
    row: int = cx.last_checkpoint(int) or 0
    effect(f"from {row}")
    while row < rows:
        row += 1000
        await cx.checkpoint(row)
        die_once("at 2000", "at 2000" if row == 2000 else "")
    return row


@app.job("says")
async def says(text: str, cx: Cx) -> str:
    await cx.progress(40, text)
    await cx.log(text, "second line")
    cx.cost(12)
    return text


@app.job("story", retry=QUICK)
async def story(words: list[str], cx: Cx) -> int:
    async def plan() -> None:
        await cx.stream({"plan": len(words)})

    await cx.step("plan", plan)
    for word in words:
        await cx.stream(word)
    if cx.attempt == 1:
        raise RuntimeError("once")
    return len(words)


@app.job("story.sync")
def story_sync(words: list[str], cx: SyncCx) -> None:
    for word in words:
        cx.stream(word)
    cx.sleep("10ms")
    cx.stream("end")


@app.job("stubborn")
def stubborn(_: None) -> None:
    effect("stubborn")
    while True:
        time.sleep(1)


@app.job("process.fails", executor="process", retry=QUICK)
def process_fails(how: str) -> Any:
    if how == "dies":
        die_once("dies", "dies")
        return "lives"
    if how.startswith("waits "):
        effect("waits")
        while not os.path.exists(how.removeprefix("waits ")):
            time.sleep(0.01)
        return "waited"
    if how == "later" and not os.path.exists(os.environ["EFFECTS"]):
        effect("later")
        raise RetryAfter("10ms", "not yet")
    if how == "permanent":
        raise Permanent("never", code="never")
    return how


@app.job("coroutine")
async def coroutine(_: None, cx: Cx) -> Any:
    async def work() -> int:
        return 1

    return await cx.step("work", work())  # type: ignore[call-overload]


@app.job("side_by_side")
async def side_by_side(_: None, cx: Cx) -> list[Any]:
    """Two groups at once, a child that is not waited for, and a race of a group and a sleep."""
    started = await cx.start(double.child(5))
    groups = await asyncio.gather(cx.spawn([double.child(1)]), cx.spawn([double.child(2)], name="second"))
    first = await cx.race(cx.wait_any(["never"], timeout="1ms"), cx.sleep("1h"))
    return [*(group.all() for group in groups), first.side, started]
