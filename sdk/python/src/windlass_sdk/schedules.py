"""Schedules: jobs at times of the day, at intervals, or once. Declared beside the handlers, or managed by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from .duration import Duration, moment_text, text
from .handle import Handle
from .job import Options, submission
from .net.wire import segment

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .app import Windlass

#: How long requests are repeated while the server is away, in seconds.
PATIENCE = 30.0
#: Schedules in one answer.
PAGE = 1_000

Missed = Literal["once", "all", "skip"]
Overlap = Literal["allow", "skip", "cancel"]


class ScheduleOptions(Options, total=False):
    """When a schedule is due (one of ``cron``, ``every`` and ``at``), what happens otherwise, and the options of its jobs."""

    #: Five fields, or six with seconds first, or ``@daily`` and the like.
    cron: str
    #: The time zone of ``cron``, such as ``Europe/Berlin``; UTC unless given.
    timezone: str
    every: Duration
    at: datetime
    #: What happens to runs that nothing started in time; ``once`` unless given.
    missed: Missed
    #: What happens if the job of the previous run has not ended; ``allow`` unless given.
    overlap: Overlap


_TIMING = ("cron", "every", "at")
_OWN = ScheduleOptions.__annotations__.keys() - Options.__annotations__.keys()


@dataclass(frozen=True)
class Schedule:
    """A schedule as the server has it."""

    name: str
    #: The type of its jobs.
    type: str
    cron: str | None
    timezone: str | None
    every: str | None
    at: datetime | None
    missed: Missed
    overlap: Overlap
    is_paused: bool
    #: At most five.
    next_runs: list[datetime]
    last_run: datetime | None
    #: The id of the job of its last run.
    last_job: str | None
    #: How many jobs it has submitted.
    submitted: int
    #: Everything that the API shows.
    shown: Mapping[str, Any]


#: In ``Schedules``, ``list`` is a method.
ScheduleList = list[Schedule]


def schedule_body(type: str, payload: Any, options: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """A schedule as the API takes it.

    Raises ``ValueError`` unless it says in one way when it is due, and ``TypeError`` for an option that there is not.
    """
    given = [name for name in _TIMING if options.get(name) is not None]
    if len(given) != 1:
        raise ValueError(f"a schedule needs one of cron, every and at, and has {', '.join(given) or 'none'}")
    body: dict[str, Any] = {}
    for name in sorted(_OWN & options.keys()):
        value = options[name]
        body[name] = text(value) if name == "every" else moment_text(value) if name == "at" else value
    own = {name: value for name, value in options.items() if name not in _OWN}
    return {**body, "job": submission(type, payload, {**defaults, **own})}


class Schedules:
    """The schedules on the server. The key needs the role ``operator`` or ``admin`` to change them. Methods that end in
    ``_sync`` are for programs without an event loop."""

    def __init__(self, app: Windlass) -> None:
        self._app = app

    async def put(self, name: str, type: str, payload: Any = None, **options: Unpack[ScheduleOptions]) -> Schedule:
        """Creates a schedule, or changes it so that it is as given; it keeps its history, and its pause."""
        return await self.put_body(name, self._body(type, payload, options))

    def put_sync(self, name: str, type: str, payload: Any = None, **options: Unpack[ScheduleOptions]) -> Schedule:
        """As ``put``."""
        return self.put_body_sync(name, self._body(type, payload, options))

    async def put_body(self, name: str, body: Mapping[str, Any]) -> Schedule:
        """Creates or changes a schedule that is written as the API takes it."""
        return _shown(await self._ask("PUT", name, "", body))

    def put_body_sync(self, name: str, body: Mapping[str, Any]) -> Schedule:
        """As ``put_body``."""
        return _shown(self._ask_sync("PUT", name, "", body))

    async def list(self, *, deleted: bool = False) -> ScheduleList:
        """All schedules, or those that were deleted in the last 35 days."""
        found: list[Schedule] = []
        path: str | None = _list_path(deleted, None)
        while path is not None:
            page = await self._app.api().call("GET", path, patience=PATIENCE)
            found.extend(map(_shown, page["schedules"]))
            path = _list_path(deleted, page["next_cursor"]) if page["next_cursor"] else None
        return found

    def list_sync(self, *, deleted: bool = False) -> ScheduleList:
        """As ``list``."""
        found: list[Schedule] = []
        path: str | None = _list_path(deleted, None)
        while path is not None:
            page = self._app.http.call("GET", path, patience=PATIENCE)
            found.extend(map(_shown, page["schedules"]))
            path = _list_path(deleted, page["next_cursor"]) if page["next_cursor"] else None
        return found

    async def get(self, name: str) -> Schedule:
        """A schedule."""
        return _shown(await self._ask("GET", name))

    def get_sync(self, name: str) -> Schedule:
        """As ``get``."""
        return _shown(self._ask_sync("GET", name))

    async def pause(self, name: str, reason: str | None = None, *, expires: Duration | None = None) -> Schedule:
        """Skips the runs until it is resumed, or the pause expires. They are not made up for."""
        return _shown(await self._ask("POST", name, "/pause", _pause(reason, expires)))

    def pause_sync(self, name: str, reason: str | None = None, *, expires: Duration | None = None) -> Schedule:
        """As ``pause``."""
        return _shown(self._ask_sync("POST", name, "/pause", _pause(reason, expires)))

    async def resume(self, name: str) -> Schedule:
        """Ends a pause."""
        return _shown(await self._ask("POST", name, "/resume", {}))

    def resume_sync(self, name: str) -> Schedule:
        """As ``resume``."""
        return _shown(self._ask_sync("POST", name, "/resume", {}))

    async def trigger(self, name: str) -> Handle[Any]:
        """Submits its job now, also if it is paused. The request is not repeated: there would be two jobs."""
        return self._handle(await self._ask("POST", name, "/trigger", {}, may_repeat=False))

    def trigger_sync(self, name: str) -> Handle[Any]:
        """As ``trigger``."""
        return self._handle(self._ask_sync("POST", name, "/trigger", {}, may_repeat=False))

    async def delete(self, name: str) -> None:
        """Deletes a schedule; it can be restored for 35 days."""
        await self._ask("DELETE", name)

    def delete_sync(self, name: str) -> None:
        """As ``delete``."""
        self._ask_sync("DELETE", name)

    async def restore(self, name: str) -> Schedule:
        """Creates a deleted schedule again, as it was."""
        return _shown(await self._ask("POST", name, "/restore", {}))

    def restore_sync(self, name: str) -> Schedule:
        """As ``restore``."""
        return _shown(self._ask_sync("POST", name, "/restore", {}))

    def _body(self, type: str, payload: Any, options: Mapping[str, Any]) -> dict[str, Any]:
        job = self._app.jobs.get(type)
        return schedule_body(type, payload, options, {} if job is None else job.options)

    def _handle(self, job: Mapping[str, Any]) -> Handle[Any]:
        return Handle(self._app, job["id"], self._app.kind_of(job["type"]))

    async def _ask(self, method: str, name: str, action: str = "", body: Any = None, may_repeat: bool = True) -> Any:
        path = f"/schedules/{segment(name)}{action}"
        return await self._app.api().call(method, path, body, patience=PATIENCE, may_repeat=may_repeat)

    def _ask_sync(self, method: str, name: str, action: str = "", body: Any = None, may_repeat: bool = True) -> Any:
        path = f"/schedules/{segment(name)}{action}"
        return self._app.http.call(method, path, body, patience=PATIENCE, may_repeat=may_repeat)


def _list_path(deleted: bool, cursor: str | None) -> str:
    more = "" if cursor is None else f"&cursor={segment(cursor)}"
    return f"/schedules?limit={PAGE}{'&deleted=true' if deleted else ''}{more}"


def _pause(reason: str | None, expires: Duration | None) -> dict[str, Any]:
    given = {"reason": reason, "expires": None if expires is None else text(expires)}
    return {name: value for name, value in given.items() if value is not None}


def _moment(shown: str | None) -> datetime | None:
    return None if shown is None else datetime.fromisoformat(shown.replace("Z", "+00:00"))


def _shown(one: Mapping[str, Any]) -> Schedule:
    return Schedule(
        name=one["name"], type=one["job"]["type"], cron=one["cron"], timezone=one["timezone"], every=one["every"],
        at=_moment(one["at"]), missed=one["missed"], overlap=one["overlap"], is_paused=one["paused"] is not None,
        next_runs=[moment for moment in map(_moment, one["next_runs"]) if moment is not None],
        last_run=_moment(one["last_run"]), last_job=one["last_job"], submitted=one["submitted"], shown=one,
    )
