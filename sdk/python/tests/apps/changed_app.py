"""``changed`` as it was before a deployment and after it, by environment."""

from __future__ import annotations

import os

from windlass_sdk import Cx, Windlass

app = Windlass()


@app.job("changed")
async def changed(_: None, cx: Cx) -> int:
    total = await cx.step("one", int, 1)
    if os.environ.get("CHANGED"):
        total += await cx.step("new", int, 100)
    total += await cx.step("old", int, 10)
    await cx.wait_signal("go")
    return total + await cx.step("two", int, 2)
