"""The calls of one attempt: their keys, places and records, errors that are not saved yet, and which steps run again.
Pure: it neither waits nor writes. See the sections "Places" and "Errors that a handler caught" of the worker protocol."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import Failure, Permanent, StepFailed, StepSnoozed, chain, describe
from .history import KEY_CHARS_MAX, Branch, History, LeftOut, Places, Record, is_unicode, is_within, without_none


@dataclass(eq=False)
class Call:
    """One call of a step, a sleep, a wait or a group, from its start until it ends."""

    name: str
    branch: Branch
    key: str
    made: int
    #: Number of overlaps when the call was made; None if it is beside another one.
    began: int | None
    place: int | None = None
    first: int | None = None
    saved: Places | None = None
    is_left_out: bool = False
    has_ended: bool = False
    started: float = field(default_factory=time.monotonic)

    @property
    def is_nested(self) -> bool:
        """Whether it is made within a step."""
        return bool(self.branch.path)


@dataclass
class _Undecided:
    record: Record
    ended: int


class Order:
    """The order of calls of one attempt."""

    def __init__(self, saved: Mapping[str, Any]) -> None:
        self.known = History(saved)
        self.active: set[Call] = set()
        self.working: set[str] = set()
        self.is_stopping = False
        self.is_unknown = False
        #: Sleeps and groups that are saved with a place and wait: their records without it.
        self.placed: dict[str, Record] = {}
        self._undecided: dict[str, _Undecided] = {}
        self._settled: set[str] = set()
        self._errors: list[tuple[StepFailed | StepSnoozed, Places, int]] = []
        self._dropped: dict[str, LeftOut] = {}
        self._retry: set[str] = set()
        self._count: dict[tuple[Branch, str], int] = {}
        self._races: dict[Branch, int] = {}
        self._tick = 0
        self._last_made = 0
        self._overlaps = 0

    def call(self, name: str, branch: Branch) -> Call:
        """Registers a call.

        Raises ``Permanent`` if its key is too long.
        """
        self._tick += 1
        self._last_made = self._tick
        call = Call(name, branch, "", self._tick, None)
        self.next_key(call)
        if not is_unicode(call.key):
            raise Permanent(f"step: is no Unicode text: {call.key[:40]!a}", "step_name")
        if len(call.key) > KEY_CHARS_MAX:
            raise Permanent(f"step: is longer than {KEY_CHARS_MAX} characters: {call.key[:40]}…", "not_allowed")
        if not call.is_nested:
            beside = sum(1 for one in self.active if not one.is_nested)
            self._overlaps += beside > 0
            is_alone = not beside and not branch.sides and not self.is_stopping
            call.began = self._overlaps if is_alone else None
        self.active.add(call)
        return call

    def race(self, branch: Branch) -> tuple[Branch, Branch]:
        """The sides of the next race in this branch."""
        number = self._races[branch] = self._races.get(branch, 0) + 1
        return branch.sides_of(number)

    def next_key(self, call: Call) -> None:
        """Gives the call the next key of its name, and what is saved for it."""
        number = self._count[call.branch, call.name] = self._count.get((call.branch, call.name), 0) + 1
        call.key = call.branch.key_of(call.name, number)
        call.is_left_out = call.key in self.known.left_out
        call.saved = None if call.is_left_out else self.known.places.get(call.key)
        if call.saved is not None:
            self.known.make(call.key)
        elif not call.is_left_out:
            call.place, call.first = self.known.next_place, self.known.open.get(call.key)
            self.known.next_place += 1

    def is_turn(self, call: Call) -> bool:
        """Whether all saved calls that must come before this one have been made."""
        missing = self.known.first_missing()
        if missing is None or self.is_unknown or call.is_nested:
            return True
        return call.saved is not None and missing[0] >= (call.saved.at or 0)

    def record(self, call: Call) -> Record:
        """An empty record with the call's places."""
        if call.is_nested:
            return {}
        if call.saved is not None:
            return without_none({"at": call.saved.at, "from": call.saved.began})
        if call.began == self._overlaps:
            return without_none({"at": call.place, "from": call.first})
        if call.first is None:
            return {"from": call.place}
        return {"from": call.first, "to": call.place}

    def continues(self, call: Call, record: Record) -> None:
        """The call is saved and waits: if another one is saved beside it, it loses its place."""
        at, began = record.get("at"), record.get("from")
        if at is not None:
            rest = {name: value for name, value in record.items() if name not in ("at", "from", "to")}
            self.placed[call.key] = {"from": at if began is None else began, **rest}
            if began is not None:
                self.placed[call.key]["to"] = at

    def beside_each_other(self) -> list[tuple[str, Record]]:
        """Sleeps and groups that wait side by side, without their places."""
        alone = sum(1 for one in self.active if not one.is_nested) <= 1
        return [] if alone else sorted(self.placed.items())

    def saved_before(self, call: Call) -> list[tuple[str, Record]]:
        """What must be saved before this call."""
        undecided = [(key, one.record) for key, one in self._undecided.items() if one.ended < call.made]
        placed = [(key, record) for key, record in self.placed.items() if key != call.key]
        return sorted(undecided, key=lambda one: one[0]) + sorted(placed, key=lambda one: one[0])

    def mark_saved(self, keys: list[str]) -> None:
        """These are saved now."""
        for key in keys:
            self.placed.pop(key, None)
            undecided = self._undecided.pop(key, None)
            if undecided is None:
                continue
            if undecided.record.get("open"):
                self._settled.discard(key)
            else:
                self._settled.add(key)

    def end(self, call: Call) -> None:
        """Ends a call. One that has no result was dropped by the handler."""
        self.active.discard(call)
        self.working.discard(call.key)
        self.placed.pop(call.key, None)
        self._tick += 1
        if call.has_ended or self.is_stopping or call.is_left_out:
            return
        places = call.saved or Places(None, call.place if call.first is None else call.first)
        by = self._errors[-1] if self._errors and self._errors[-1][2] > self._last_made else None
        record = without_none({
            "left_out": True, "from": None if call.is_nested else places.first,
            "ran_ms": round((time.monotonic() - call.started) * 1000), "dropped_by": by and by[0].key,
        })
        self._dropped[call.key] = LeftOut(Places.of(record), record["ran_ms"], record.get("dropped_by"))
        self._undecided[call.key] = _Undecided(record, self._tick)

    def fail(self, call: Call, error: StepFailed | StepSnoozed, cause: BaseException | None) -> None:
        """Ends a call with an error that is not saved yet."""
        record = {**self.record(call), "failure": failure_record(error)}
        if isinstance(error, StepSnoozed):
            record["snooze_ms"] = error.delay_ms
        self._tick += 1
        if cause is not None:
            self._reopen_within(call, cause)
        if not self.is_stopping:
            self._undecided[call.key] = _Undecided(record, self._tick)
        self.returns(call, error, Places.of(record))

    def returns(self, call: Call, error: StepFailed | StepSnoozed, places: Places) -> None:
        """The handler gets this error, saved or not."""
        call.has_ended = True
        self._tick += 1
        self._errors.append((error, places, self._tick))

    def _reopen_within(self, call: Call, cause: BaseException) -> None:
        for index in self._causes(cause):
            inner, _, ended = self._errors[index]
            if ended > call.made and is_within(inner.key, call.key):
                dropped = {**self.known.left_out, **self._dropped}
                keys = [key for key, one in dropped.items() if one.by == inner.key]
                for key in (*keys, inner.key):
                    self._undecided[key] = _Undecided({"open": True}, ended)

    def retry_later(self, error: BaseException) -> None:
        """Runs the step that returned this error again if the attempt fails."""
        self._retry.update(self._errors[index][0].key for index in self._causes(error))

    def reopened_by(self, error: BaseException) -> list[tuple[str, Record]]:
        """The records that open the steps again whose errors failed the attempt."""
        opened = {self._errors[index][0].key: self._errors[index][1].opened() for index in self._causes(error)}
        for one, places, _ in self._errors:
            if one.key in self._retry:
                opened[one.key] = places.opened()
        for key, left_out in {**self.known.left_out, **self._dropped}.items():
            if left_out.by in opened:
                opened[key] = left_out.places.opened()
        opened.update((key, one.record) for key, one in self._undecided.items() if one.record.get("open"))
        known = (self._settled, self.known.places, self.known.left_out)
        return [(key, record) for key, record in opened.items() if any(key in saved for saved in known)]

    def _causes(self, error: BaseException) -> list[int]:
        found = next((one for one in chain(error) if isinstance(one, (StepFailed, StepSnoozed))), None)
        if found is not None:
            return [index for index, one in enumerate(self._errors) if one[0] is found]
        texts: dict[str, int] = {}
        message = describe(error)
        for index, (one, _, _) in enumerate(self._errors):
            if isinstance(one, StepFailed) and one.was_shown and names(message, one.failure.message):
                texts[one.failure.message] = index
        return list(texts.values())


def failure_record(error: StepFailed | StepSnoozed) -> Record:
    """The failure of a step's error, as stored."""
    if isinstance(error, StepFailed):
        return error.failure.record()
    return Failure("temporary", str(error)).record()


def names(message: str, part: str) -> bool:
    """Whether ``message`` contains ``part`` as whole words."""
    at = message.find(part) if part else -1
    while at >= 0:
        before, after = message[at - 1:at] if at else "", message[at + len(part):at + len(part) + 1]
        if not before.isalnum() and not after.isalnum():
            return True
        at = message.find(part, at + 1)
    return False
