"""FastAPI: a client that lives as long as the program, jobs that browsers follow, and a push target, to which the server posts
jobs and which answers with their outcome; see ``docs/python.md`` and ``docs/webhooks.md``."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from fastapi import APIRouter, Request, Response

from ..duration import moment_millis
from .client import client, follow_job, lifespan
from ..work.inline import run_inline_async
from ..push import CLAIM_TYPE, OUTCOME_TYPE, run_pushed
from ..webhooks import InvalidSignature, keys_of, verify_headers

if TYPE_CHECKING:
    from ..app import Windlass

__all__ = ["claimed_fields", "client", "follow_job", "lifespan", "push_router"]


def push_router(app: Windlass, *, secret: str | Sequence[str], path: str = "/windlass") -> APIRouter:
    """A router that runs pushed jobs of the application. A call that is not signed with the secret is refused.

    If the queue's push target is ``durable``, handlers may have steps, sleep, wait and spawn; a call does the next step and
    answers. Otherwise a push has no checkpoints: a handler that sleeps, waits or spawns fails permanently. Raises
    ``ValueError`` if the secret is none.
    """
    keys_of(secret)
    router = APIRouter()

    @router.post(path)
    async def run(request: Request) -> Response:
        body = await request.body()
        try:
            verify_headers(body, dict(request.headers), secret)
        except InvalidSignature as error:
            # Not a 4xx, which would fail the job permanently: the operator can correct a wrong secret.
            return _answer(500, {"error": str(error)})
        fields = claimed_fields(request.headers)
        job = app.jobs.get(fields["type"])
        if job is None:
            return _answer(503, {"error": "there is no handler for this type here"})
        content_type = request.headers.get("content-type", "").split(";")[0].strip().lower()
        if content_type == CLAIM_TYPE:
            now_ms = moment_millis(request.headers["windlass-time"])
            outcome = await run_pushed(job, json.loads(body), now_ms)
            return Response(outcome, media_type=OUTCOME_TYPE)
        payload = None
        if content_type != "application/json":
            fields["payload_base64"] = base64.b64encode(body).decode()
        else:
            try:
                payload = json.loads(body) if body else None
            except ValueError:
                return _answer(422, {"error": "the payload is not JSON"})
        found = await run_inline_async(job, payload, attempt=fields["attempt"], claimed=fields)
        if found.outcome == "completed":
            return _answer(200, found.result)
        if "for" in found.park:
            return _later({"error": "snoozed"}, found.park["for"])
        if found.outcome != "failed":
            return _answer(422, {"error": "a pushed job cannot sleep, wait or spawn unless its target is durable"})
        return _failure(found.error)

    return router


def claimed_fields(headers: Mapping[str, str]) -> dict[str, Any]:
    """What the signed headers say of the job, as a claim says it; the server percent-encodes them."""
    names = {"id": "job-id", "type": "job-type", "queue": "queue", "tenant": "tenant"}
    fields: dict[str, Any] = {field: unquote(headers.get(f"windlass-{name}", "")) for field, name in names.items()}
    fields["fence"] = int(headers.get("windlass-fence", "0"))
    fields["attempt"] = int(headers.get("windlass-attempt", "1"))
    if (key := headers.get("windlass-idempotency-key")) is not None:
        fields["idempotency_key"] = unquote(key)
    if (traceparent := headers.get("traceparent")) is not None:
        fields["traceparent"] = unquote(traceparent)
    return fields


def _failure(error: Any) -> Response:
    if error["category"] == "permanent":
        return _answer(422, error)
    return _later(error, error["retry_after"]) if "retry_after" in error else _answer(503, error)


def _later(value: Any, delay: str) -> Response:
    response = _answer(503, value)
    response.headers["retry-after"] = str(math.ceil(int(delay.removesuffix("ms")) / 1000))
    return response


def _answer(status: int, value: Any) -> Response:
    return Response(json.dumps(value), status_code=status, media_type="application/json")
