"""A pipeline of calls to a language model: parts of a document are summarised, a person approves, the summary is published. At
most four calls of one account run at once and sixty start in a minute, for the whole fleet; each reports its cost, and when the
budget of the day is spent, no more calls start until the next one. The model is a fake one.

    windlass serve &
    windlass-worker llm:app --concurrency 20 &
    python llm.py
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from windlass_sdk import Cx, RetryAfter, Windlass

app = Windlass()


@dataclass
class Document:
    account: str
    parts: list[str]


@dataclass
class Prompt:
    account: str
    text: str


class Busy(Exception):
    """What the model says when it has too much to do."""


class FakeModel:
    """Answers word by word, for two cents. It is busy when it is asked for the first time."""

    def __init__(self) -> None:
        self._asked: set[str] = set()

    async def ask(self, text: str, key: str) -> AsyncIterator[str]:
        """The answer. A second call with the same key costs nothing."""
        if "difficult" in text and key not in self._asked:
            self._asked.add(key)
            raise Busy
        for word in f"summary of {text}".split():
            await asyncio.sleep(0)
            yield word


model = FakeModel()


@app.job("llm.call", queue="llm", retry="backoff", timeout="2m")
async def call(p: Prompt, cx: Cx) -> str:
    words = []
    try:
        async for word in model.ask(p.text, cx.idempotency_key("ask")):
            words.append(word)
            await cx.stream(word)  # readers follow it live
    except Busy:
        raise RetryAfter("20s", "the model is busy") from None
    finally:
        cx.cost(2 if words else 0)  # counts towards the tenant's budget, also if the attempt fails
    return " ".join(words)


async def publish(text: str) -> None:
    """What happens to an approved summary."""
    print(f"published: {text}", flush=True)


@app.job("document.summarise", lifetime="30d")
async def summarise(d: Document, cx: Cx) -> str | None:
    # The limits of the queue count per key, which is the account here.
    calls = [call.child(Prompt(d.account, part), concurrency_key=d.account) for part in d.parts]
    # The document holds no slot while its parts run, and while it waits for a person.
    draft = "; ".join(await cx.gather(*calls))
    await cx.progress(80, f"to be approved: {draft}")
    if not await cx.wait_signal("approved", bool, timeout="3d"):
        return None  # declined, or not answered within three days
    await cx.step("publish", publish, draft)
    return draft


def set_limits(app: Windlass, *, per_minute: int, budget_cents: int) -> None:
    """The limits of the whole fleet, as where you deploy; the key needs the role `admin`."""
    limits = {"max_running_per_key": 4, "rate_per_key": {"count": per_minute, "per": "1m"}}
    app.http.call("PUT", "/queues/llm", limits)
    app.http.call("PUT", "/tenants/default", {"budget_cents": budget_cents, "budget_period": "day"})


def main() -> None:
    """Sets the limits, submits a document, and approves it when its draft is there."""
    set_limits(app, per_minute=60, budget_cents=50_000)
    handle = summarise.submit_sync(Document("provider-a", ["the first part", "the second part"]))
    print(f"the document is job {handle.id}", flush=True)
    handle.signal_sync("approved", True)
    print(handle.result_sync(timeout="10m"), flush=True)


if __name__ == "__main__":
    main()
