"""Submissions inside a transaction of your own on PostgreSQL: a commit creates the job, a rollback leaves nothing.

``connection`` is a connection or cursor of psycopg (sync or async) or psycopg2, a connection or session of SQLAlchemy
(sync or async), or a connection of Django. The SQL function ``windlass.submit`` does the work.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from .codec import dumps

_STATEMENT = "SELECT windlass.submit(%s::text, %s::text, %s::jsonb)"
_NAMED = "SELECT windlass.submit(CAST(:type AS text), CAST(:payload AS text), CAST(:options AS jsonb))"


def submit_in_tx(connection: Any, body: Mapping[str, Any]) -> Any:
    """Submits a job in the connection's transaction. Returns its id, or an awaitable of it if the connection is
    asynchronous."""
    options = {name: value for name, value in body.items() if name not in ("type", "payload")}
    arguments = (str(body["type"]), dumps(body.get("payload")), dumps(options))
    if type(connection).__module__.split(".")[0] in ("sqlalchemy", "sqlmodel", "flask_sqlalchemy"):
        return _sqlalchemy(connection, arguments)
    if hasattr(connection, "execute") and not _is_django(connection):
        return _psycopg(connection, arguments)
    with connection.cursor() as cursor:
        cursor.execute(_STATEMENT, arguments)
        return str(cursor.fetchone()[0])


def _is_django(connection: Any) -> bool:
    return type(connection).__module__.startswith("django")


def _psycopg(connection: Any, arguments: tuple[str, str, str]) -> Any:
    executed = connection.execute(_STATEMENT, arguments)
    if inspect.isawaitable(executed):
        return _psycopg_async(connection, executed)
    # A cursor of psycopg2 returns nothing; it has the rows itself.
    return str((executed if executed is not None else connection).fetchone()[0])


async def _psycopg_async(connection: Any, executed: Any) -> str:
    cursor = await executed
    row = await (cursor if cursor is not None else connection).fetchone()
    return str(row[0])


def _sqlalchemy(connection: Any, arguments: tuple[str, str, str]) -> Any:
    from sqlalchemy import text

    found = connection.execute(text(_NAMED), dict(zip(("type", "payload", "options"), arguments)))
    return _sqlalchemy_async(found) if inspect.isawaitable(found) else str(found.scalar_one())


async def _sqlalchemy_async(executing: Any) -> str:
    return str((await executing).scalar_one())
