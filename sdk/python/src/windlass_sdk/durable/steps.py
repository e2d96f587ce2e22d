"""Steps: run once per job, also across crashes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..codec import plain
from ..errors import Failure, JobError, Permanent, StepFailed, StepsChanged, StepSnoozed, failure_of, snooze_of
from .core import CallCore
from .history import Branch, Places, Record, is_step_name
from .order import Call

T = TypeVar("T")


class StepCalls(CallCore):
    """The steps of one attempt."""

    async def enter_step(self, name: str, branch: Branch, is_main: bool) -> tuple[Call, bool, Any]:
        """Starts a step. Returns it, whether it is saved, and its saved value. Raises its saved error."""
        if not is_step_name(name):
            raise Permanent(f"a step cannot be named `{name}`", "step_name")
        call = await self.begin(name, branch, is_main)
        if call.saved is None:
            self.order.working.add(call.key)
            return call, False, None
        record = self.saved[call.key]
        call.has_ended = True
        try:
            failure = record.get("failure")
            if failure is not None:
                self._raise_saved(call, record, Failure.of_record(failure))
            return call, True, record.get("value")
        finally:
            self.end(call)

    def _raise_saved(self, call: Call, record: Record, failure: Failure) -> None:
        if "snooze_ms" in record:
            snooze = StepSnoozed(record["snooze_ms"], call.key)
            self.order.returns(call, snooze, Places.of(record))
            raise snooze
        error = StepFailed(failure, call.key)
        if failure.category != "permanent":
            self.order.returns(call, error, Places.of(record))
        raise error

    def read_saved(self, call: Call, value: Any, read: Callable[[Any], T]) -> T:
        """A saved value as the code expects it."""
        try:
            return read(value)
        except Exception as error:
            self.changed = StepsChanged(
                f"the saved value of step `{call.key}` cannot be read as the type the code expects: {error}"
            )
            raise self.changed from error

    async def step_done(self, call: Call, value: Any, read: Callable[[Any], T]) -> T:
        """Saves a step's value, and returns it as read back."""
        try:
            what = "written as JSON"
            try:
                json = plain(value)
                what = "read back from its JSON"
                found = read(json)
            except Exception as error:
                message = f"the step's value cannot be {what}: {error}"
                raise await self._save_failure(call, Failure("permanent", message, "step_unwritable")) from None
            await self._save_step(call, {"value": json})
            return found
        finally:
            self.end(call)

    async def step_failed(self, call: Call, error: BaseException) -> BaseException:
        """Ends a step with an exception. Returns the one that the handler gets."""
        try:
            snooze = snooze_of(error)
            if snooze is not None:
                found = StepSnoozed(snooze.delay_ms, call.key)
                self.order.fail(call, found, error)
                return found
            failure = failure_of(error, self.mapping)
            if failure.category == "permanent":
                return await self._save_failure(call, failure)
            failed = StepFailed(failure, call.key)
            self.order.fail(call, failed, error)
            return failed
        finally:
            self.end(call)

    async def _save_failure(self, call: Call, failure: Failure) -> StepFailed:
        await self._save_step(call, {"failure": failure.record()})
        return StepFailed(failure, call.key)

    async def _save_step(self, call: Call, result: Record) -> None:
        try:
            await self.save_after(call, call.key, {**self.order.record(call), **result})
        except JobError as error:
            failed = StepFailed(error.failure, call.key)
            self.order.fail(call, failed, None)
            raise failed from error
        call.has_ended = True
