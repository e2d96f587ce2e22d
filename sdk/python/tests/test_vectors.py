"""Every test vector of the worker protocol, with ``async def`` and with ``def`` handlers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from windlass_sdk import Child, Cx, JobError, StepFailed, SyncCx, Windlass
from windlass_sdk.durable.children import Children
from windlass_sdk.duration import moment_millis
from windlass_sdk.errors import ChildFailed
from windlass_sdk.work.inline import Inline, run_inline

FILE = json.loads((Path(__file__).parents[3] / "docs/protocol/vectors.json").read_text())
NOW: int = FILE["now"]


def error_of(given: dict[str, Any]) -> JobError:
    after = given.get("retry_after_ms")
    return JobError(
        given["message"], category=given["category"], code=given.get("code"),
        retry_after=None if after is None else after / 1000,
    )


def strategy_of(given: Any) -> Any:
    return given["threshold"] if isinstance(given, dict) else given


def shown(children: Children[Any]) -> list[Any]:
    return [{"state": one.state} if isinstance(one, ChildFailed) else {"result": one} for one in children.results]


class Program:
    """Runs the operations of a vector and notes what happened."""

    def __init__(self, operations: list[dict[str, Any]]) -> None:
        self.operations = operations
        self.ran: list[str] = []
        self.got: dict[str, Any] = {}
        self.caught: dict[str, BaseException] = {}
        self.counts: dict[tuple[str, str], int] = {}
        self.races = 0

    def key(self, branch: str, name: str) -> str:
        path, _, sides = branch.partition("|")
        number = self.counts[branch, name] = self.counts.get((branch, name), 0) + 1
        return path + name.replace("#", "##") + sides + ("" if number == 1 else f"#{number}")

    async def run(self, cx: Cx, operations: list[dict[str, Any]], branch: str = "") -> Any:
        for one in operations:
            if "return" in one:
                return one["return"]
            await self.operate(cx, one, branch)
        return None

    async def operate(self, cx: Cx, one: dict[str, Any], branch: str) -> None:
        if "step" in one:
            await self.step(cx, one, branch)
        elif "sleep" in one:
            await cx.sleep(one["sleep"] / 1000, name=one.get("name", ""))
        elif "signal" in one:
            timeout = one.get("timeout")
            key = self.key(branch, f"signal:{one['signal']}")
            self.got[key] = await cx.wait_signal(one["signal"], timeout=None if timeout is None else timeout / 1000)
        elif "children" in one:
            name = one.get("name", "")
            children = [Child[Any](job, None) for job in one["children"]]
            found = await cx.spawn(children, strategy=strategy_of(one["strategy"]), name=name)
            self.got[self.key(branch, f"children:{name}")] = shown(found)
        elif "checkpoint" in one:
            await cx.checkpoint(one["checkpoint"])
        elif "together" in one:
            await asyncio.gather(*(self.operate(cx, each, branch) for each in one["together"]))
        elif "race" in one:
            self.races += 1
            left, right = one["race"]
            sides = (f"{branch}|#l{self.races}", f"{branch}|#r{self.races}")
            await cx.race(self.operate(cx, left, sides[0]), self.operate(cx, right, sides[1]))
        elif "raise" in one:
            raise self.caught[one["raise"]]
        elif "fail" in one:
            raise error_of(one["fail"])

    async def step(self, cx: Cx, one: dict[str, Any], branch: str) -> None:
        key = self.key(branch, one["step"])

        async def work() -> Any:
            self.ran.append(key)
            await self.run(cx, one.get("within", []), key + "#/")
            if "fails" in one:
                raise error_of(one["fails"])
            return one["returns"]

        try:
            self.got[key] = await cx.step(one["step"], work)
        except StepFailed as error:
            if not one.get("caught"):
                raise
            self.caught[key] = error

    def run_sync(self, cx: SyncCx, operations: list[dict[str, Any]], branch: str = "") -> Any:
        for one in operations:
            if "return" in one:
                return one["return"]
            self.operate_sync(cx, one, branch)
        return None

    def operate_sync(self, cx: SyncCx, one: dict[str, Any], branch: str) -> None:
        if "step" in one:
            self.step_sync(cx, one, branch)
        elif "sleep" in one:
            cx.sleep(one["sleep"] / 1000, name=one.get("name", ""))
        elif "signal" in one:
            timeout = one.get("timeout")
            key = self.key(branch, f"signal:{one['signal']}")
            self.got[key] = cx.wait_signal(one["signal"], timeout=None if timeout is None else timeout / 1000)
        elif "children" in one:
            name = one.get("name", "")
            children = [Child[Any](job, None) for job in one["children"]]
            self.got[self.key(branch, f"children:{name}")] = shown(
                cx.spawn(children, strategy=strategy_of(one["strategy"]), name=name)
            )
        elif "checkpoint" in one:
            cx.checkpoint(one["checkpoint"])
        elif "raise" in one:
            raise self.caught[one["raise"]]
        elif "fail" in one:
            raise error_of(one["fail"])

    def step_sync(self, cx: SyncCx, one: dict[str, Any], branch: str) -> None:
        key = self.key(branch, one["step"])

        def work() -> Any:
            self.ran.append(key)
            self.run_sync(cx, one.get("within", []), key + "#/")
            if "fails" in one:
                raise error_of(one["fails"])
            return one["returns"]

        try:
            self.got[key] = cx.step(one["step"], work)
        except StepFailed as error:
            if not one.get("caught"):
                raise
            self.caught[key] = error


def outcome_of(found: Inline) -> dict[str, Any]:
    if found.outcome == "completed":
        return {"outcome": "completed", "result": found.result}
    if found.outcome == "failed":
        return {"outcome": "failed", "category": found.error["category"], "code": found.error.get("code")}
    if found.outcome == "spawned":
        given = found.spawned
        named = {"name": given["name"], "strategy": given["strategy"], "count": len(given["jobs"])}
        first = [one["name"] for one in found.started]
        return {"outcome": "spawned", **named, **({"first": first} if first else {})}
    return {"outcome": "parked", "park": park_of(found.park)}


def park_of(given: Mapping[str, Any]) -> dict[str, Any]:
    park = dict(given)
    if "until" in park:
        park["until"] = moment_millis(park["until"])
    if "timeout" in park:
        park["timeout_ms"] = int(park.pop("timeout").removesuffix("ms"))
    if "any" in park:
        park["any"] = [park_of(one) for one in park["any"]]
    return park


def check(vector: dict[str, Any], program: Program, found: Inline) -> None:
    expected = vector["expect"]
    saves, ran = [list(one) for one in found.saves], program.ran
    wanted_saves, wanted_ran = expected["saves"], expected["ran"]
    if any("together" in one or "race" in one for one in vector["program"]):
        saves, wanted_saves = sorted(saves, key=str), sorted(wanted_saves, key=str)
        ran, wanted_ran = sorted(ran), sorted(wanted_ran)
    assert outcome_of(found) == expected["outcome"]
    assert saves == wanted_saves
    assert ran == wanted_ran
    for key, value in expected.get("got", {}).items():
        assert program.got[key] == value, key


def saved_of(vector: dict[str, Any]) -> dict[str, Any]:
    return dict(vector.get("saved", {}))


@pytest.mark.parametrize("vector", FILE["vectors"], ids=lambda vector: vector["name"])
def test_async_handlers_follow_the_protocol(vector: dict[str, Any]) -> None:
    program, app = Program(vector["program"]), Windlass()

    @app.job("vector")
    async def handler(_: Any, cx: Cx) -> Any:
        return await program.run(cx, program.operations)

    found = run_inline(
        handler, None, saved=saved_of(vector), groups=vector.get("groups", ()), now_ms=NOW,
        lenient_steps=vector.get("lenient", False),
    )
    check(vector, program, found)


SEQUENTIAL = [
    one for one in FILE["vectors"] if not any("together" in step or "race" in step for step in one["program"])
]


@pytest.mark.parametrize("vector", SEQUENTIAL, ids=lambda vector: vector["name"])
def test_sync_handlers_follow_the_protocol(vector: dict[str, Any]) -> None:
    program, app = Program(vector["program"]), Windlass()

    @app.job("vector")
    def handler(_: Any, cx: SyncCx) -> Any:
        return program.run_sync(cx, program.operations)

    found = run_inline(
        handler, None, saved=saved_of(vector), groups=vector.get("groups", ()), now_ms=NOW,
        lenient_steps=vector.get("lenient", False),
    )
    check(vector, program, found)


def test_the_vectors_are_of_protocol_1() -> None:
    assert FILE["protocol"] == 1 and len(FILE["vectors"]) >= 60
