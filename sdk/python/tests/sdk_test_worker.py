"""The worker for ``windlass sdk-test``: runs the programs that docs/sdk-test.md describes.

    windlass sdk-test -- python tests/sdk_test_worker.py
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

from windlass_sdk import Child, Cx, JobError, Snooze, StepFailed, Windlass
from windlass_sdk.cli import main
from windlass_sdk.durable.children import Children
from windlass_sdk.errors import ChildFailed

FOLDER = Path(os.environ.get("WINDLASS_TEST_FOLDER", "."))
app = Windlass()


class Payload(TypedDict):
    program: list[dict[str, Any]]


def note(line: str) -> None:
    with (FOLDER / "effects").open("a") as file:
        file.write(line + "\n")


def is_first(name: str) -> bool:
    """Whether this is asked for the first time, in any process."""
    try:
        (FOLDER / f"once-{name.replace('/', '_')}").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def error_of(given: dict[str, Any]) -> JobError:
    after = given.get("retry_after_ms")
    return JobError(
        given["message"], category=given["category"], code=given.get("code"),
        retry_after=None if after is None else after / 1000,
    )


def shown(children: Children[Any]) -> list[Any]:
    return [{"state": one.state} if isinstance(one, ChildFailed) else {"result": one} for one in children.results]


class Done(Exception):
    """The handler returns this."""

    def __init__(self, result: Any) -> None:
        self.result = result


class Program:
    """One attempt of a program."""

    def __init__(self, cx: Cx) -> None:
        self.cx = cx
        self.got: dict[str, Any] = {}
        self.caught: dict[str, BaseException] = {}
        self.counts: dict[str, int] = {}

    def key(self, name: str) -> str:
        number = self.counts[name] = self.counts.get(name, 0) + 1
        return name if number == 1 else f"{name}#{number}"

    async def run(self, operations: list[dict[str, Any]], branch: str = "") -> None:
        for one in operations:
            name = next(name for name in OPERATIONS if name in one)
            await OPERATIONS[name](self, one, branch)

    async def step(self, one: dict[str, Any], branch: str) -> None:
        key = self.key(branch + one["step"])

        async def work() -> Any:
            note(key)
            await self.run(one.get("within", []), key + "#/")
            if "fails" in one and (one["times"] > 8 or any(is_first(f"{key}-{n}") for n in range(one["times"]))):
                raise error_of(one["fails"])
            return "x" * one["returns_bytes"] if "returns_bytes" in one else one["returns"]

        try:
            self.got[key] = await self.cx.step(one["step"], work)
        except StepFailed as error:
            if not one.get("caught"):
                raise
            self.caught[key] = error

    async def sleep(self, one: dict[str, Any], _: str) -> None:
        await self.cx.sleep(one["sleep"] / 1000, name=one.get("name", ""))

    async def signal(self, one: dict[str, Any], branch: str) -> None:
        timeout = one.get("timeout")
        key = self.key(branch + f"signal:{one['signal']}")
        self.got[key] = await self.cx.wait_signal(one["signal"], timeout=None if timeout is None else timeout / 1000)

    async def first_signal(self, one: dict[str, Any], _: str) -> None:
        async def wait(name: str) -> str:
            await self.cx.wait_signal(name)
            return name

        tasks = [asyncio.create_task(wait(name)) for name in one["first_signal"]]
        done, _rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        raise Done(next(iter(done)).result())

    async def children(self, one: dict[str, Any], branch: str) -> None:
        strategy = one["strategy"]["threshold"] if isinstance(one["strategy"], dict) else one["strategy"]
        name = one.get("name", "")
        children = [Child[Any](job, None) for job in one["children"]]
        self.got[self.key(branch + f"children:{name}")] = shown(await self.cx.spawn(children, strategy=strategy, name=name))

    async def checkpoint(self, one: dict[str, Any], _: str) -> None:
        await self.cx.checkpoint(one["checkpoint"])

    async def together(self, one: dict[str, Any], branch: str) -> None:
        await asyncio.gather(*(self.run([each], branch) for each in one["together"]))

    async def fail(self, one: dict[str, Any], _: str) -> None:
        if self.cx.failures < one["times"]:
            raise error_of(one["fail"])

    async def raise_(self, one: dict[str, Any], _: str) -> None:
        if one["raise"] in self.caught:
            raise self.caught[one["raise"]]

    async def snooze(self, one: dict[str, Any], _: str) -> None:
        if is_first("snooze"):
            raise Snooze(one["snooze"] / 1000)

    async def kill(self, one: dict[str, Any], _: str) -> None:
        if is_first(one["kill"]):
            os.kill(os.getpid(), signal.SIGKILL)

    async def until_stopped(self, one: dict[str, Any], _: str) -> None:
        if is_first(one["until_stopped"]):
            try:
                await asyncio.Event().wait()
            finally:
                note("stopped")

    async def pause(self, one: dict[str, Any], _: str) -> None:
        if is_first("pause"):
            await asyncio.sleep(one["pause"] / 1000)

    async def versions(self, one: dict[str, Any], branch: str) -> None:
        await self.run(one["versions"][0 if is_first("version") else -1], branch)

    async def follow_up(self, one: dict[str, Any], _: str) -> None:
        self.cx.submit_on_completion(sdktest.child({"program": one["follow_up"]}))

    async def progress(self, one: dict[str, Any], _: str) -> None:
        await self.cx.progress(one["progress"], one["message"])

    async def log(self, one: dict[str, Any], _: str) -> None:
        await self.cx.log(*one["log"])

    async def stream(self, one: dict[str, Any], _: str) -> None:
        for chunk in one["stream"]:
            await self.cx.stream(chunk)

    async def cost(self, one: dict[str, Any], _: str) -> None:
        self.cx.cost(one["cost"])

    async def note(self, one: dict[str, Any], _: str) -> None:
        note(one["note"])

    async def return_(self, one: dict[str, Any], _: str) -> None:
        raise Done(one["return"])

    async def return_got(self, one: dict[str, Any], _: str) -> None:
        raise Done(self.got[one["return_got"]])

    async def return_checkpoint(self, _one: dict[str, Any], _: str) -> None:
        raise Done(self.cx.last_checkpoint())

    async def return_bytes(self, one: dict[str, Any], _: str) -> None:
        raise Done("x" * one["return_bytes"])


OPERATIONS: dict[str, Callable[[Program, dict[str, Any], str], Any]] = {
    "step": Program.step, "sleep": Program.sleep, "signal": Program.signal, "first_signal": Program.first_signal,
    "children": Program.children, "checkpoint": Program.checkpoint, "together": Program.together, "fail": Program.fail,
    "raise": Program.raise_, "snooze": Program.snooze, "kill": Program.kill, "until_stopped": Program.until_stopped,
    "pause": Program.pause, "versions": Program.versions, "follow_up": Program.follow_up, "progress": Program.progress,
    "log": Program.log, "stream": Program.stream, "cost": Program.cost, "note": Program.note, "return": Program.return_,
    "return_got": Program.return_got, "return_checkpoint": Program.return_checkpoint, "return_bytes": Program.return_bytes,
}


@app.job("sdktest")
async def sdktest(payload: Payload, cx: Cx) -> Any:
    try:
        await Program(cx).run(payload["program"])
    except Done as done:
        return done.result
    return None


@app.job("sdktest.number")
async def number(payload: int, cx: Cx) -> int:
    return payload + 1


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    version = os.environ.get("WINDLASS_TEST_VERSION", "1")
    main(["sdk_test_worker:app", "--name", "sdk-test", "--concurrency", "4", "--worker-version", version])
