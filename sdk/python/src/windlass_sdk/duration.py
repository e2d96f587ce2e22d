"""Durations as people write them: ``timedelta``, seconds, or texts such as ``"1h30m"``."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import Union

Duration = Union[timedelta, float, int, str]

_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")


def millis(duration: Duration) -> int:
    """Whole milliseconds of a duration; numbers are seconds.

    Raises ``ValueError`` for a negative duration or a text that is none.
    """
    if isinstance(duration, timedelta):
        found = round(duration / timedelta(milliseconds=1))
    elif isinstance(duration, str):
        found = _parse(duration)
    else:
        found = round(duration * 1000)
    if found < 0:
        raise ValueError(f"a duration cannot be negative: {duration!r}")
    return found


def _parse(text: str) -> int:
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text.replace(" ", ""):
        raise ValueError(f"not a duration: {text!r}; write for example '90s', '1h30m' or '7d'")
    return round(sum(float(number) * _UNITS[unit] for number, unit in parts))


def text(duration: Duration) -> str:
    """The duration as the API takes it."""
    return f"{millis(duration)}ms"


def moment_text(moment: datetime) -> str:
    """A moment as the API takes it; one without a time zone is local time."""
    if not isinstance(moment, datetime):
        raise TypeError(f"not a datetime: {moment!r}")
    return moment.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def moment_millis(moment: str) -> int:
    """Milliseconds since 1970 of a moment as the API writes it."""
    parsed = datetime.fromisoformat(moment.replace("Z", "+00:00"))
    return round(parsed.timestamp() * 1000)
