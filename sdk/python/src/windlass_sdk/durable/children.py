"""Children of a job: what is spawned, and their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, Union

from ..codec import decode
from ..errors import ChildFailed, Permanent

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

#: When a group is decided: at the first child that fails, when all have ended, or when this many have completed.
Strategy = Union[Literal["fail_fast", "collect_all"], int]


def strategy_body(strategy: Strategy) -> Any:
    """The strategy as the API takes it."""
    return {"threshold": strategy} if isinstance(strategy, int) else strategy


@dataclass(frozen=True)
class Child(Generic[T_co]):
    """A job to spawn; made by ``job.child(payload)``."""

    submission: Mapping[str, Any]
    kind: Any


@dataclass(frozen=True)
class Children(Generic[T]):
    """The results of a group."""

    #: Whether the group succeeded by its strategy.
    is_well: bool
    #: Each child's result or error, in input order.
    results: Sequence[T | ChildFailed]

    def all(self) -> list[T]:
        """All results.

        Raises the error of the first child that failed; if none failed, of the first that was cancelled or deleted.
        """
        errors = [one for one in self.results if isinstance(one, ChildFailed)]
        failed = [one for one in errors if one.state in ("failed", "dead_letter")]
        if errors:
            raise (failed or errors)[0]
        return [one for one in self.results if not isinstance(one, ChildFailed)]


def results_of(group: Mapping[str, Any], kinds: Sequence[Any]) -> Children[Any]:
    """The results of a decided group, in input order."""
    by_index = {child["index"]: child for child in group["children"]}
    found: list[Any] = []
    # A group that varies has as many children as were spawned, not as this attempt would spawn.
    for index in range(group.get("total", len(kinds))):
        kind = kinds[index] if index < len(kinds) else kinds[-1] if len(set(map(repr, kinds))) == 1 else None
        child = by_index.get(index)
        if child is None:
            found.append(ChildFailed(index, None, "deleted", None))
        elif child["state"] != "completed":
            found.append(ChildFailed(index, child.get("id"), child["state"], child.get("error")))
        else:
            found.append(_result(child, kind))
    return Children(group.get("decided") == "well", found)


def _result(child: Mapping[str, Any], kind: Any) -> Any:
    if child.get("omitted"):
        raise Permanent("the results of the children are too large together", "child_results_too_large")
    if child.get("redacted"):
        raise Permanent(f"the result of child {child.get('id')} cannot be read with this key", "child_result_unreadable")
    try:
        return decode(child.get("result"), kind)
    except Exception as error:
        raise Permanent(f"the result of child {child.get('id')} cannot be read: {error}", "child_result_unreadable")
