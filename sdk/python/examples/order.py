"""An order as one durable function: reserve, charge, wait for the warehouse, ship. If the card is declined, or the warehouse
does not answer, what was done is undone in reverse order. Any worker continues where another one stopped.

    windlass serve &
    windlass-worker order:app &
    python order.py
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from windlass_sdk import Cx, Permanent, StepFailed, Windlass

app = Windlass()


@dataclass
class Order:
    number: int
    cents: int
    #: How long to wait for the warehouse.
    patience: str = "2d"


async def call(what: str, order: Order, key: str) -> str:
    """A call to another system, which ignores a second one with the same key."""
    await asyncio.sleep(0.005)
    print(f"order {order.number}: {what}", flush=True)
    return key


async def charge(order: Order, key: str) -> str:
    """A card pays up to 1,000 euros."""
    if order.cents > 100_000:
        raise Permanent("the card was declined", code="declined")
    return await call("charge card", order, key)


async def undo(done: list[tuple[str, Callable[[], Awaitable[str]]]]) -> None:
    """Compensation, the last one first. Each part is a step like any other, so it runs once, also across crashes."""
    for _, compensate in reversed(done):
        await compensate()


@app.job("order", lifetime="30d", retry="backoff")
async def order(o: Order, cx: Cx) -> str:
    done: list[tuple[str, Callable[[], Awaitable[str]]]] = []

    def step(what: str) -> Awaitable[str]:
        return cx.step(what, call, what, o, cx.idempotency_key(what))

    await step("reserve stock")
    done.append(("stock", lambda: step("release stock")))
    try:
        await cx.step("charge card", charge, o, cx.idempotency_key("charge card"))
    except StepFailed as error:
        if error.category != "permanent":
            raise  # the attempt fails, and the step runs again
        await undo(done)
        return f"not sold: {error}"
    done.append(("card", lambda: step("refund card")))

    # Time to cancel the order. Neither the sleep nor the wait holds a slot, a thread or a process.
    await cx.sleep("1h")
    parcels = await cx.wait_signal("packed", int, timeout=o.patience)
    if parcels is None:
        await undo(done)
        return "given back: the warehouse did not answer"
    await step("ship")
    return f"shipped in {parcels} parcels"


def main() -> None:
    """Submits an order, and packs it."""
    handle = order.submit_sync(Order(1, 2_500), key="order-1")
    # Signals are kept until a job waits for them.
    handle.signal_sync("packed", 2)
    print(f"order 1 is job {handle.id}; it ships in an hour", flush=True)


if __name__ == "__main__":
    main()
