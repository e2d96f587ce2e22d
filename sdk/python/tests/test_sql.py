"""Submissions inside transactions of psycopg, SQLAlchemy and Django, on a PostgreSQL server of their own."""

from __future__ import annotations

import asyncio
import glob
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import psycopg.rows
import pytest
import sqlalchemy
from conftest import binary, until
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session

from windlass_sdk import ApiError, Windlass

app = Windlass()


@app.job("email", queue="mail", retry={"max_attempts": 2})
async def email(to: str) -> None:
    """Never run here."""


class Database:
    """A server that need not survive a loss of power."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.url = folder, ""
        programs = glob.glob("/usr/lib/postgresql/*/bin")
        assert programs, "PostgreSQL is needed for this test (./check installs it)"
        self.programs = Path(sorted(programs)[-1])
        # PostgreSQL refuses to run as root.
        self.user: Any = "nobody" if os.getuid() == 0 else None
        if self.user:
            shutil.chown(folder, self.user)
        self.run("initdb", "--username=windlass", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C")
        options = f"-k '{folder}' -c listen_addresses= -c fsync=off"
        self.run("pg_ctl", "-w", "-l", str(folder / "log"), "-o", options, "start")

    def run(self, program: str, *arguments: str) -> None:
        command = [str(self.programs / program), "-D", str(self.folder / "data"), *arguments]
        subprocess.run(command, user=self.user, cwd="/", check=True, stdout=subprocess.DEVNULL)

    @property
    def dsn(self) -> str:
        return f"host={self.folder} user=windlass dbname=postgres"


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    """A database with Windlass's schema, and a server that turns submissions into jobs."""
    folder = Path(tempfile.mkdtemp(prefix="wl-"))
    found = Database(folder)
    store = f"postgres:///postgres?user=windlass&host={folder}"
    log = folder / "windlass.log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [binary(), "serve", "--store", store, "--listen", "127.0.0.1:0"], stdout=output, stderr=output
        )
    try:
        listens = until("the server listens", lambda: re.search(r"http://127\.0\.0\.1:\d+", log.read_text()))
        found.url = listens.group(0)
        yield found
    finally:
        server.kill()
        server.wait()
        found.run("pg_ctl", "-m", "immediate", "-w", "stop")
        shutil.rmtree(folder, ignore_errors=True)


def shown(database: Database, id: str) -> bool:
    """Whether the job exists."""
    try:
        return bool(Windlass(database.url).http.call("GET", f"/jobs/{id}")["id"] == id)
    except ApiError as error:
        assert error.status == 404
        return False


def stored(database: Database, id: str) -> bool:
    """Waits until the job exists."""
    return bool(until(f"{id} is a job", lambda: shown(database, id)))


def payload(database: Database, id: str) -> Any:
    """The payload of a job that is no JSON."""
    return Windlass(database.url).http.call("GET", f"/jobs/{id}?payload=true")["payload_base64"]


def test_psycopg(database: Database) -> None:
    with psycopg.connect(database.dsn) as connection:
        id = email.submit_in_tx(connection, "Zoë", key="welcome", tags={"a": "b"})
        again = email.submit_in_tx(connection.cursor(), "Zoë", key="welcome")
        assert id == again and not shown(database, id)
    assert stored(database, id)
    with psycopg.connect(database.dsn) as connection:
        gone = email.submit_in_tx(connection, "cleo", timeout="5s")
        connection.rollback()
        later = email.submit_in_tx(connection, "later")
        data = app.jobs["email"].submit_in_tx(connection, b"\x00\xff")
    assert stored(database, later) and not shown(database, gone)
    assert stored(database, data) and payload(database, data) == "AP8="
    with psycopg.connect(database.dsn, row_factory=psycopg.rows.dict_row) as connection:
        row = email.submit_in_tx(connection, "rows are dictionaries", schema="windlass")
    assert stored(database, row)
    with psycopg.connect(database.dsn) as connection:
        with pytest.raises(psycopg.errors.InvalidSchemaName):
            email.submit_in_tx(connection, "x", schema="another")
        with pytest.raises(ValueError, match="schema"):
            email.submit_in_tx(connection, "x", schema='a".b')
    with psycopg.connect(database.dsn) as connection, pytest.raises(psycopg.errors.InvalidParameterValue):
        email.submit_in_tx(connection, "x", priority=101)


def test_psycopg_asynchronously(database: Database) -> None:
    async def submit() -> str:
        async with await psycopg.AsyncConnection.connect(database.dsn) as connection:
            first = await email.submit_in_tx(connection, "a")
            assert first != await email.submit_in_tx(connection.cursor(), "b")
            return str(first)

    assert stored(database, asyncio.run(submit()))


def test_sqlalchemy(database: Database) -> None:
    url = f"postgresql+psycopg://windlass@/postgres?host={database.folder}"
    engine = sqlalchemy.create_engine(url)
    with engine.begin() as connection:
        first = email.submit_in_tx(connection, "a : b %s", delay="1h")
    with Session(engine) as session:
        second = email.submit_in_tx(session, "b")
        data = app.jobs["email"].submit_in_tx(session, b"\x00\xff")
        session.commit()
    engine.dispose()
    assert stored(database, first) and stored(database, second)
    assert stored(database, data) and payload(database, data) == "AP8="

    async def submit() -> str:
        engine = create_async_engine(url)
        async with engine.begin() as connection:
            found = await email.submit_in_tx(connection, "c")
        await engine.dispose()
        return str(found)

    assert stored(database, asyncio.run(submit()))


def test_django(database: Database) -> None:
    import django
    from django.conf import settings

    host = {"NAME": "postgres", "USER": "windlass", "HOST": str(database.folder)}
    settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", **host}})
    django.setup()
    from django.db import connection, transaction

    with transaction.atomic():
        id = email.submit_in_tx(connection, "a")
        assert not shown(database, id)
    assert stored(database, id)
    connection.close()
