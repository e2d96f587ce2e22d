"""The store's clock as this process sees it."""

from __future__ import annotations

import pytest

from windlass_sdk.net.wire import StoreClock

EARLY = {"windlass-time": "2030-01-31T12:00:00.000Z"}
LATE = {"windlass-time": "2030-01-31T12:01:00.000Z"}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> StoreClock:
    """A clock that stands still between answers."""
    monkeypatch.setenv("WINDLASS_CLOCK", "stopped")
    return StoreClock()


def test_an_answer_that_was_overtaken_does_not_set_the_clock_back(clock: StoreClock) -> None:
    slow, quick = clock.taken, clock.taken
    clock.learn(LATE, quick)
    late = clock.now_ms()
    clock.learn(EARLY, slow)
    assert clock.now_ms() == late


def test_a_server_that_was_restored_is_believed(clock: StoreClock) -> None:
    clock.learn(LATE, clock.taken)
    late = clock.now_ms()
    clock.learn(EARLY, clock.taken)
    assert clock.now_ms() == late - 60_000
