"""The pytest fixture ``windlass_dev``: a server in virtual time for each test; see ``windlass_sdk.testing``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from . import DevServer


@pytest.fixture
def windlass_dev() -> Iterator[DevServer]:
    """A new server whose clock stands still until it is moved."""
    with DevServer() as server:
        yield server
