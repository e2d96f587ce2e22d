"""Submissions inside a transaction of your own on PostgreSQL: a commit creates the job, a rollback leaves nothing.

``connection`` is a connection or cursor of psycopg (sync or async) or psycopg2, a connection or session of SQLAlchemy
(sync or async), or a connection of Django. The SQL function ``windlass.submit`` does the work.
"""

from __future__ import annotations

import base64
import inspect
import re
from collections.abc import Mapping
from typing import Any

from .codec import dumps

_STATEMENT = 'SELECT "{}".submit(%s::text, %s::{}, %s::jsonb)'
_NAMED = 'SELECT "{}".submit(CAST(:type AS text), CAST(:payload AS {}), CAST(:options AS jsonb))'

#: Type, payload (JSON or bytes) and options, as they are given to the function.
_Arguments = tuple[str, "str | bytes", str]
_SCHEMA = re.compile(r"[^\W\d][\w$]*")


def submit_in_tx(connection: Any, body: Mapping[str, Any], *, schema: str = "windlass") -> Any:
    """Submits a job in the connection's transaction. Returns its id, or an awaitable of it if the connection is
    asynchronous. ``schema`` is the schema of the store.

    Raises ``ValueError`` if it cannot be the name of a schema.
    """
    if not _SCHEMA.fullmatch(schema):
        raise ValueError("a schema is named with letters, digits, `_` and `$`")
    options = {name: value for name, value in body.items() if name not in ("type", "payload", "payload_base64")}
    encoded = body.get("payload_base64")
    payload = dumps(body.get("payload")) if encoded is None else base64.b64decode(encoded)
    kind = "text" if encoded is None else "bytea"
    arguments = (str(body["type"]), payload, dumps(options))
    if type(connection).__module__.split(".")[0] in ("sqlalchemy", "sqlmodel", "flask_sqlalchemy"):
        return _sqlalchemy(connection, _NAMED.format(schema, kind), arguments)
    statement = _STATEMENT.format(schema, kind)
    if hasattr(connection, "execute") and not _is_django(connection):
        return _psycopg(connection, statement, arguments)
    with connection.cursor() as cursor:
        cursor.execute(statement, arguments)
        return _id(cursor.fetchone())


def _is_django(connection: Any) -> bool:
    return type(connection).__module__.startswith("django")


def _psycopg(connection: Any, statement: str, arguments: _Arguments) -> Any:
    executed = connection.execute(statement, arguments)
    if inspect.isawaitable(executed):
        return _psycopg_async(connection, executed)
    # A cursor of psycopg2 returns nothing; it has the rows itself.
    return _id((executed if executed is not None else connection).fetchone())


async def _psycopg_async(connection: Any, executed: Any) -> str:
    cursor = await executed
    row = await (cursor if cursor is not None else connection).fetchone()
    return _id(row)


def _id(row: Any) -> str:
    """The only column of a row: some row factories make dictionaries."""
    return str(next(iter(row.values())) if isinstance(row, Mapping) else next(iter(row)))


def _sqlalchemy(connection: Any, statement: str, arguments: _Arguments) -> Any:
    from sqlalchemy import text

    found = connection.execute(text(statement), dict(zip(("type", "payload", "options"), arguments)))
    return _sqlalchemy_async(found) if inspect.isawaitable(found) else str(found.scalar_one())


async def _sqlalchemy_async(executing: Any) -> str:
    return str((await executing).scalar_one())
