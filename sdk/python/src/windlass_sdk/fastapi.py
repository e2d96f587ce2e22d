"""A push target for FastAPI: the server posts jobs to it, and the answer is the outcome. See ``docs/webhooks.md``."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response

from .inline import run_inline_async
from .webhooks import InvalidSignature, verify_headers

if TYPE_CHECKING:
    from .app import Windlass


def push_router(app: Windlass, *, secret: str | Sequence[str], path: str = "/windlass") -> APIRouter:
    """A router that runs pushed jobs of the application. A call that is not signed with the secret is refused (401).

    A push has no checkpoints: a handler that sleeps, waits or spawns fails for good.
    """
    router = APIRouter()

    @router.post(path)
    async def run(request: Request) -> Response:
        body = await request.body()
        try:
            verify_headers(body, dict(request.headers), secret)
        except InvalidSignature as error:
            return _answer(401, {"error": str(error)})
        job = app.jobs.get(request.headers.get("windlass-job-type", ""))
        if job is None:
            return _answer(503, {"error": "there is no handler for this type here"})
        try:
            payload = json.loads(body) if body else None
        except ValueError:
            return _answer(422, {"error": "the payload is not JSON"})
        found = await run_inline_async(job, payload, attempt=int(request.headers.get("windlass-attempt", "1")))
        if found.outcome == "completed":
            return _answer(200, found.result)
        if found.outcome != "failed":
            return _answer(422, {"error": "a pushed job cannot sleep, wait or spawn"})
        return _failure(found.error)

    return router


def _failure(error: Any) -> Response:
    if error["category"] == "permanent":
        return _answer(422, error)
    response = _answer(503, error)
    if "retry_after" in error:
        seconds = math.ceil(int(error["retry_after"].removesuffix("ms")) / 1000)
        response.headers["retry-after"] = str(seconds)
    return response


def _answer(status: int, value: Any) -> Response:
    return Response(json.dumps(value), status_code=status, media_type="application/json")
