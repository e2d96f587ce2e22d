"""JSON Schemas of payloads and results, made of annotations with pydantic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .job import Job


def schema_of(kind: Any) -> dict[str, Any] | None:
    """The JSON Schema of a type as it is written; None if there is no annotation, or one that says nothing.

    Raises ``ImportError`` without pydantic, and ``TypeError`` for a type that pydantic has no schema for.
    """
    if kind is None or kind is Any:
        return None
    from pydantic import PydanticSchemaGenerationError, TypeAdapter
    from pydantic.errors import PydanticInvalidForJsonSchema

    try:
        found = TypeAdapter(kind).json_schema(mode="validation")
    except (PydanticSchemaGenerationError, PydanticInvalidForJsonSchema) as error:
        raise TypeError(f"{kind!r} has no JSON Schema: {error}") from error
    return found or None


def type_settings(job: Job[Any, Any]) -> dict[str, Any]:
    """The settings of a type with the schemas of its handler; null removes a schema that is set."""
    return {"payload_schema": schema_of(job.payload_kind), "result_schema": schema_of(job.result_kind)}
