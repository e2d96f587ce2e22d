"""A client in FastAPI: opened and closed with the program, given to routes, and jobs that browsers follow.

::

    api = FastAPI(lifespan=lifespan(app))
    Client = Annotated[Windlass, Depends(client)]

    @api.get("/reports/{id}/events")
    async def follow(id: str, request: Request, windlass: Client) -> StreamingResponse:
        return await follow_job(windlass.handle(id), request)
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import StreamingResponse

from ..app import Windlass
from ..codec import dumps
from ..errors import ApiError, Unreachable
from ..handle import Handle

#: A comment this often shows browsers and proxies that the stream is alive, in seconds.
ALIVE_SECONDS = 15.0
#: Events that wait for a slow reader.
WAITING_MAX = 100

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[Any]]


def lifespan(app: Windlass, inner: Lifespan | None = None) -> Lifespan:
    """What ``FastAPI(lifespan=…)`` takes: the client is there for ``client``, and is closed with the program. ``inner`` is a
    lifespan of your own, which runs within it."""

    @contextlib.asynccontextmanager
    async def run(api: FastAPI) -> AsyncIterator[Any]:
        api.state.windlass = app
        try:
            if inner is None:
                yield
            else:
                async with inner(api) as state:
                    yield state
        finally:
            await app.close()

    return run


async def client(request: Request) -> Windlass:
    """The client of the program, as a dependency: ``Annotated[Windlass, Depends(client)]``."""
    found = getattr(request.app.state, "windlass", None)
    if not isinstance(found, Windlass):
        raise RuntimeError("there is no client: FastAPI(lifespan=lifespan(app))")
    return found


async def follow_job(handle: Handle[Any], request: Request) -> StreamingResponse:
    """The job's progress and partial output as server-sent events, for ``EventSource`` in a page:

    - ``progress`` with ``percent`` and ``message``;
    - ``chunk`` with what the handler streamed; its number is the event's id, so that a page that connects again continues after
      the last one (``Last-Event-ID``, or ``?after=``);
    - ``restart`` before a chunk that starts the output over;
    - ``end`` with ``state``, and then ``result`` or ``error``; it closes the stream.

    A job that does not exist is answered with 404, a server that is away with 503. Who may follow which job is your
    program's decision.
    """
    after = request.headers.get("last-event-id") or request.query_params.get("after") or "0"
    if not after.isdigit():
        raise HTTPException(422, "the number of the last event is not a number")
    try:
        await handle.show()
    except ApiError as error:
        raise HTTPException(404 if error.status in (404, 422) else 502, "there is no such job") from error
    except Unreachable as error:
        raise HTTPException(503, "the jobs cannot be reached") from error
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(_events(handle, int(after)), media_type="text/event-stream", headers=headers)


async def _events(handle: Handle[Any], after: int) -> AsyncIterator[str]:
    waiting: asyncio.Queue[str] = asyncio.Queue(WAITING_MAX)
    reading = asyncio.ensure_future(_read(handle, after, waiting.put))
    try:
        while not (reading.done() and waiting.empty()):
            getting = asyncio.ensure_future(waiting.get())
            await asyncio.wait({getting, reading}, timeout=ALIVE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if getting.done():
                yield getting.result()
                continue
            getting.cancel()
            if not reading.done():
                yield ": alive\n\n"
        # An error ends the stream without `end`; a page then connects again.
        reading.result()
    finally:
        reading.cancel()


async def _read(handle: Handle[Any], after: int, put: Callable[[str], Awaitable[None]]) -> None:
    async def progress() -> None:
        async for one in handle.progress():
            await put(_event("progress", {"percent": one.percent, "message": one.message}))

    async def chunks() -> None:
        async for one in handle.stream(after):
            if one.is_restart:
                await put(_event("restart", {"attempt": one.attempt}))
            await put(_event("chunk", one.chunk, one.number))

    both = [asyncio.ensure_future(progress()), asyncio.ensure_future(chunks())]
    try:
        await asyncio.gather(*both)
    finally:
        for one in both:
            one.cancel()
    job = await handle.show()
    end = {"result": job.get("result")} if job["state"] == "completed" else {"error": job.get("error")}
    await put(_event("end", {"state": job["state"], **end}))


def _event(name: str, data: Any, id: int | None = None) -> str:
    number = "" if id is None else f"id: {id}\n"
    return f"{number}event: {name}\ndata: {dumps(data)}\n\n"
