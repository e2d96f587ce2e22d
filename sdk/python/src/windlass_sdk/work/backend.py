"""An attempt's writes to a server. Every write names the fence; a stale one ends the attempt without an outcome."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from ..codec import dumps
from ..net.api import Api
from ..durable.calls import Calls, NewGroup, Spawned, Stopped, park_body
from ..errors import ApiError, JobError, Permanent, Unreachable
from ..net.wire import segment
from .batch import Batch

log = logging.getLogger("windlass")

#: How long writes are repeated while the server is away, in seconds; by then heartbeats have stopped the attempt.
WRITE_PATIENCE = 25.0

#: Children in one answer.
PAGE = 1_000


def saved_steps(records: Iterable[tuple[str, Any]]) -> list[dict[str, Any]]:
    """Checkpoints as the API takes them."""
    return [{"step": key, "value": value} for key, value in records]


class Writes:
    """The writes of all jobs of a worker: those that come at the same time share a request."""

    def __init__(self, api: Api) -> None:
        def batch(path: str, may_repeat: bool) -> Batch:
            async def send(worker: str, items: str) -> list[dict[str, Any]]:
                body = f'{{"worker_id":"{worker}","jobs":[{items}]}}'.encode()
                answer = await api.call("POST", path, body, patience=WRITE_PATIENCE, may_repeat=may_repeat)
                jobs: list[dict[str, Any]] = answer["jobs"]
                return jobs

            return Batch(send)

        self.saves = batch("/checkpoints", True)
        self.beats = batch("/heartbeats", True)
        #: Beats with log lines; a repeated line would be there twice.
        self.logs = batch("/heartbeats", False)


class ServerBackend:
    """The writes of one claimed job."""

    def __init__(
        self, api: Api, writes: Writes, worker: str, job: Mapping[str, Any], on_directive: Callable[[str], None]
    ) -> None:
        self._api, self._worker, self._job, self._on_directive = api, worker, job, on_directive
        self._writes = writes
        self.calls: Calls | None = None

    def now_ms(self) -> int:
        """The store's time."""
        return self._api.clock.now_ms()

    def _lease(self) -> dict[str, Any]:
        return {"fence": self._job["fence"], "worker_id": self._worker}

    async def save(self, records: Sequence[tuple[str, Any]]) -> None:
        """Saves checkpoints in one commit, all or none."""
        item = self._item(checkpoints=saved_steps(records))
        await self._write(self._saved(item))

    async def _saved(self, item: str) -> None:
        answer = await self._writes.saves.add(self._worker, item)
        error = answer.get("error") or {}
        if answer["status"] == "stale":
            raise ApiError(409, "stale_fence", "the lease was lost")
        if answer["status"] != "saved":
            raise ApiError(422, error.get("code", ""), error.get("message", "it was rejected"), error.get("details"))

    def _item(self, **fields: Any) -> str:
        try:
            return dumps({"id": self._job["id"], "fence": self._job["fence"], **fields})
        except (TypeError, ValueError) as error:
            raise Permanent(f"it cannot be written as JSON: {error}", "not_allowed") from error

    async def group(self, key: str) -> Mapping[str, Any] | None:
        """The group with this name and its children."""
        came: Mapping[str, Any] | None
        came = next((group for group in self._job.get("groups") or () if group["name"] == key), None)
        group, children = came, list(came["children"]) if came else []
        cursor = came.get("next_cursor") if came else None
        while group is None or cursor:
            path = f"/jobs/{self._job['id']}/children?limit={PAGE}&group={segment(key)}"
            found = await self._call("GET", path + (f"&cursor={segment(cursor)}" if cursor else ""), None)
            group = group or next((group for group in found["groups"] if group["name"] == key), None)
            if group is None:
                return None
            children.extend(child for child in found["children"] if child["group"] == group["group"])
            cursor = found.get("next_cursor")
        return {**group, "children": children}

    async def spawn(self, group: NewGroup, records: Sequence[tuple[str, Any]]) -> Spawned:
        """Spawns a group; the server saves the checkpoints and parks the job in the same commit."""
        fields = {"name": group.name, "strategy": group.strategy, "jobs": list(group.jobs)}
        body: dict[str, Any] = {**self._lease(), **fields}
        if group.beside is None:
            body["park"] = False
        elif group.beside:
            body["beside"] = [park_body(one, self.now_ms()) for one in group.beside]
        if records:
            body["checkpoints"] = saved_steps(records)
        answer = await self._call("POST", f"/jobs/{self._job['id']}/children", body)
        return Spawned(answer["parent"]["state"] != "running", [child["id"] for child in answer["children"]])

    async def note(self, item: Mapping[str, Any]) -> None:
        """Sends progress or log lines in a heartbeat. Log lines are not repeated, and one that may be lost fails no attempt."""
        batch = self._writes.logs if "logs" in item else self._writes.beats
        try:
            directive = (await self._write(batch.add(self._worker, self._item(**item))))["directive"]
        except JobError as error:
            if "logs" not in item or error.code != "not_written":
                raise
            log.warning("job %s: log lines may be lost: %s", self._job["id"], error)
            return
        if directive != "continue":
            self._on_directive(directive)

    async def stream(self, offset: int, chunks: Sequence[str]) -> None:
        """Adds to the job's output; a repeat adds nothing twice."""
        lease = dumps({**self._lease(), "offset": offset})
        body = f'{lease[:-1]},"chunks":[{",".join(chunks)}]}}'.encode()
        await self._call("POST", f"/jobs/{self._job['id']}/stream", body)

    async def _call(self, method: str, path: str, body: Any) -> Any:
        return await self._write(self._api.call(method, path, body, patience=WRITE_PATIENCE))

    async def _write(self, request: Awaitable[Any]) -> Any:
        try:
            return await request
        except ApiError as error:
            if error.code == "stale_fence" or error.status == 404:
                if self.calls is not None:
                    self.calls.leave()
                raise Stopped from None
            if error.status in (400, 413, 422):
                raise Permanent(error.message, "not_allowed") from error
            code = "unique_key_taken" if error.code == "unique_key_taken" else "not_written"
            raise JobError(str(error), code=code) from error
        except Unreachable as error:
            raise JobError(str(error), code="not_written") from error
