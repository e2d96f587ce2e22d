"""``windlass-worker --reload``: a parent that starts the worker again when a source file has changed."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from types import FrameType

from ..duration import Duration, millis

log = logging.getLogger("windlass")

#: How often files are looked at, in seconds.
LOOK_SECONDS = 0.5
#: Most files and folders that are looked at.
ENTRIES_MAX = 50_000
#: What a worker needs to report and deregister after its drain and its grace, in seconds; then it is killed.
STOP_SECONDS = 20.0
#: Folders that are not of the program; those whose name begins with a dot are left out, too.
_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages"})

#: A file's time of change and size, by its path.
Snapshot = dict[str, tuple[int, int]]


def snapshot(folders: Sequence[str]) -> Snapshot:
    """The Python files in the folders and those within them.

    Raises ``SystemExit`` if there is too much to look at.
    """
    found: Snapshot = {}
    for number, entry in enumerate(_entries(folders), 1):
        if number > ENTRIES_MAX:
            raise SystemExit(
                f"windlass-worker: --reload looks at {ENTRIES_MAX} files at most, and there are more in "
                f"{', '.join(folders)}; name the folders of the program with --reload-dir"
            )
        if entry.name.endswith(".py"):
            try:
                info = entry.stat()
            except OSError:
                # It was removed meanwhile.
                continue
            found[entry.path] = (info.st_mtime_ns, info.st_size)
    return found


def _entries(folders: Sequence[str]) -> Iterator[os.DirEntry[str]]:
    waiting = list(folders)
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    yield entry
                    is_ours = not entry.name.startswith(".") and entry.name not in _SKIPPED
                    # A virtual environment may have any name.
                    if is_ours and entry.is_dir(follow_symlinks=False) and not _is_environment(entry.path):
                        waiting.append(entry.path)
        except OSError:
            continue


def _is_environment(folder: str) -> bool:
    return os.path.exists(os.path.join(folder, "pyvenv.cfg"))


def changed(before: Snapshot, after: Snapshot) -> list[str]:
    """The files that were changed, added or removed."""
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


class Reloader:
    """Runs a worker process, and another one after every change. A running job may finish first, as at any stop."""

    def __init__(self, arguments: Sequence[str], folders: Sequence[str], drain: Duration, grace: Duration) -> None:
        self._arguments, self._folders = arguments, folders
        self._patience = (millis(drain) + millis(grace)) / 1000 + STOP_SECONDS
        self._child: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._seen: Snapshot = {}
        # The worker stops when the other end is closed, however this process ends.
        self._lifeline, self._end = os.pipe()

    def run(self) -> int:
        """Runs until SIGTERM or SIGINT. Returns the exit code of the last worker."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        while not self._stopping.is_set():
            self._seen = snapshot(self._folders)
            self._start()
            files = self._wait_for_change()
            if files:
                log.info("changed: %s; the worker starts again", ", ".join(files[:3]) + ("…" if files[3:] else ""))
                self._tell(signal.SIGTERM)
                self._wait_for_end()
        return self._wait_for_end()

    def _start(self) -> None:
        # Caches of compiled modules go by whole seconds and sizes, and would hide a quick change.
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        self._child = subprocess.Popen(
            [sys.executable, "-m", "windlass_sdk.cli", *self._arguments, "--lifeline", str(self._lifeline)],
            env=environment, pass_fds=[self._lifeline],
            # Ctrl-C in a terminal reaches it once, by this process.
            start_new_session=True,
        )
        if self._stopping.is_set():
            self._tell(signal.SIGTERM)

    def _wait_for_change(self) -> list[str]:
        has_ended = False
        while not self._stopping.wait(LOOK_SECONDS):
            if files := changed(self._seen, snapshot(self._folders)):
                return files
            if not has_ended and self._child is not None and (code := self._child.poll()) is not None:
                has_ended = True
                log.warning("the worker ended with %d; it starts again after the next change", code)
        return []

    def _wait_for_end(self) -> int:
        assert self._child is not None
        try:
            return self._child.wait(self._patience)
        except subprocess.TimeoutExpired:
            log.warning("the worker did not stop in %.0f s and is killed", self._patience)
            self._child.kill()
            return self._child.wait()

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        self._stopping.set()
        self._tell(signal.SIGTERM)

    def _tell(self, number: int) -> None:
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(number)


def watch_lifeline(descriptor: int) -> None:
    """Stops this process when the one that started it has ended."""

    def watch() -> None:
        os.read(descriptor, 1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="windlass-lifeline", daemon=True).start()
