"""What earlier attempts saved: places in the order of calls, and which calls must come again. Pure; see the sections
"Records" and "Places" of the worker protocol."""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

CHECKPOINT = "checkpoint"
DEADLINE = "deadline:"
_RESERVED = ("sleep:", "signal:", "children:", DEADLINE)
#: Characters of a key.
KEY_CHARS_MAX = 256

Record = dict[str, Any]


def is_unicode(text: str) -> bool:
    """Whether a text can be sent: one with half of a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_step_name(name: str) -> bool:
    """Whether a step can have this name."""
    return bool(name) and name != CHECKPOINT and "#" not in name and not name.startswith(_RESERVED)


@dataclass(frozen=True)
class Branch:
    """Where a call is made: inside which step, and on which sides of which races. Calls are counted for each branch by
    itself, because a replay may not reach one."""

    #: The key of the step around it and ``#/``; empty outside of steps.
    path: str = ""
    #: The sides of races inside that step, outermost first.
    sides: str = ""

    @staticmethod
    def within(key: str) -> Branch:
        """The branch inside the step with this key."""
        return Branch(key + "#/")

    @property
    def step_key(self) -> str:
        """The key of the step around it."""
        return self.path[:-2]

    def sides_of(self, race: int) -> tuple[Branch, Branch]:
        """The two sides of the n-th race in this branch."""
        return Branch(self.path, f"{self.sides}#l{race}"), Branch(self.path, f"{self.sides}#r{race}")

    def key_of(self, name: str, occurrence: int) -> str:
        """The key of the n-th call of a name, from 1. A ``#`` in the name is doubled."""
        number = "" if occurrence == 1 else f"#{occurrence}"
        return f"{self.path}{name.replace('#', '##')}{self.sides}{number}"


def is_within(inner: str, outer: str) -> bool:
    """Whether the call with the key ``inner`` is made inside the step with the key ``outer``."""
    return inner.startswith(outer + "#/")


@dataclass(frozen=True)
class Places:
    """The places of a call; all are None inside a step."""

    at: int | None = None
    began: int | None = None

    @staticmethod
    def of(record: Record) -> Places:
        """The places in a record."""
        return Places(record.get("at"), record.get("from"))

    @property
    def first(self) -> int | None:
        """The first place it took."""
        return self.at if self.began is None else self.began

    def opened(self) -> Record:
        """The record of a call with these places that runs again."""
        return without_none({"at": self.at, "from": self.first, "open": True})


def without_none(record: Record) -> Record:
    """The record without fields that do not apply."""
    return {name: value for name, value in record.items() if value is not None}


@dataclass(frozen=True)
class LeftOut:
    """A call that the handler dropped."""

    places: Places
    ran_ms: int = 0
    by: str | None = None


class History:
    """The saved records, by what the order of calls needs."""

    def __init__(self, saved: Mapping[str, Any]) -> None:
        self.places: dict[str, Places] = {}
        self.left_out: dict[str, LeftOut] = {}
        self.open: dict[str, int | None] = {}
        self.next_place = 0
        self._made: set[str] = set()
        self._required: list[tuple[int, str]] = []
        self._passed = 0
        optional: list[tuple[float, float]] = []
        for key, value in saved.items():
            if key != CHECKPOINT and not key.startswith(DEADLINE):
                self._read(key, value if isinstance(value, dict) else {}, optional)
        for key, places in self.places.items():
            at = places.at
            if at is not None and not any(first < at < last for first, last in optional):
                insort(self._required, (at, key))

    def _read(self, key: str, record: Record, optional: list[tuple[float, float]]) -> None:
        places = Places.of(record)
        taken = [place for place in (places.at, places.began, record.get("to")) if place is not None]
        self.next_place = max(self.next_place, *(place + 1 for place in taken)) if taken else self.next_place
        last: float | None = places.at if places.at is not None else record.get("to")
        if record.get("open"):
            last = math.inf
        if places.first is not None and last is not None and places.first < last:
            optional.append((places.first, last))
        if record.get("left_out"):
            self.left_out[key] = LeftOut(places, record.get("ran_ms", 0), record.get("dropped_by"))
        elif record.get("open"):
            self.open[key] = places.first
        else:
            self.places[key] = places

    def make(self, key: str) -> None:
        """Notes that a saved call is made in this attempt."""
        self._made.add(key)

    def first_missing(self) -> tuple[int, str] | None:
        """The first required call that this attempt has not made."""
        while self._passed < len(self._required) and self._required[self._passed][1] in self._made:
            self._passed += 1
        return self._required[self._passed] if self._passed < len(self._required) else None

    def require_nothing_after(self, place: int) -> None:
        """Stops requiring calls saved after this place."""
        self._required = [required for required in self._required if required[0] <= place]
        self._passed = 0
