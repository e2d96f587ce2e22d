"""A document pipeline: split it into pages, process each page on its own, merge the results. Some pages fail for a while, one is
corrupt, and one is poison: it ends every process that works on it. The document is merged without those two.

    windlass serve &
    windlass-worker documents:app --concurrency 4 &
    python documents.py
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

from windlass_sdk import ChildFailed, Cx, JobError, Permanent, SyncCx, Windlass

app = Windlass()


@dataclass
class Document:
    name: str
    pages: int


@dataclass
class Page:
    document: str
    number: int


@dataclass
class Merged:
    words: int = 0
    missing: list[int] = field(default_factory=list)


@app.job("document.page", queue="pages", retry="fixed")
def page(p: Page, cx: SyncCx) -> int:
    """The words of a page. A `def` runs in a thread."""
    if p.number == 3:
        raise Permanent("the page cannot be decoded", code="corrupt")
    if p.number == 5:
        sys.exit("page 5 does something terrible")
    if p.number in (4, 8) and cx.failures < 2:
        raise JobError("the scanner is busy")
    cx.log(f"processed in attempt {cx.attempt}")
    return 100 + p.number


async def split(d: Document) -> list[int]:
    """The numbers of the pages."""
    return list(range(1, d.pages + 1))


async def store(name: str, merged: Merged) -> Merged:
    """Keeps the result."""
    print(f"{name}: {merged.words} words, without the pages {merged.missing}", flush=True)
    return merged


@app.job("document")
async def document(d: Document, cx: Cx) -> Merged:
    numbers = await cx.step("split", split, d)
    # The document holds no slot while its pages are processed; it runs again when the last one has ended.
    pages = await cx.spawn([page.child(Page(d.name, number)) for number in numbers], strategy="collect_all")
    merged = Merged()
    for number, words in zip(numbers, pages.results):
        if isinstance(words, ChildFailed):
            await cx.log(f"without page {number}: {words}")
            merged.missing.append(number)
        else:
            merged.words += words
    return await cx.step("store", store, d.name, merged)


def main() -> None:
    """Submits a document, and waits for it."""
    handle = document.submit_sync(Document("report.pdf", 8))
    print(f"report.pdf is job {handle.id}", flush=True)
    print(handle.result_sync(timeout="10m"), flush=True)


if __name__ == "__main__":
    main()
