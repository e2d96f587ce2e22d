"""Reports outcomes in batches, and again while the server is away. The server answers a late or repeated one as stale."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..net.api import Api
from ..codec import dumps
from ..errors import ApiError, Failure, Unreachable
from ..net.wire import RETRIED, pauses

log = logging.getLogger("windlass")

#: Most outcomes in one request.
OUTCOMES_MAX = 1_000
#: Bytes of outcomes in one request, unless a single one is larger.
BATCH_BYTES_MAX = 4 << 20
#: Most outcomes that wait to be sent; jobs that end while there are more keep their slots, so that no more are claimed.
BACKLOG_MAX = 10_000
#: Answers that say something of the outcome. After others, such as of a key that is not valid, the same may be taken.
UNSTORABLE = frozenset({400, 409, 413, 422})
#: How long outcomes are repeated that the server refuses for other reasons, in seconds; leases have expired by then.
REFUSED_SECONDS = 60.0


@dataclass(frozen=True)
class Report:
    """The outcome of one attempt, as JSON."""

    id: str
    fence: int
    outcome: str
    #: Whether it takes the place of one that the server refused.
    is_rejected: bool = False


class Completer:
    """Collects outcomes and sends them."""

    def __init__(self, api: Api, worker_id: Callable[[], str]) -> None:
        self._api, self._worker_id = api, worker_id
        self._reports: list[Report] = []
        self._some = asyncio.Event()
        self._taken = asyncio.Event()
        self._is_closing = False

    def add(self, report: Report) -> None:
        """Takes an outcome."""
        self._reports.append(report)
        self._some.set()

    async def room(self) -> None:
        """Waits until few enough outcomes wait to be sent."""
        while len(self._reports) >= BACKLOG_MAX:
            self._taken.clear()
            await self._taken.wait()

    def close(self) -> None:
        """Ends ``run`` once everything is sent."""
        self._is_closing = True
        self._some.set()

    async def run(self) -> None:
        """Sends outcomes until it is closed."""
        while True:
            await self._some.wait()
            # Quick handlers end together: one request takes all of them.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            batch = self._take()
            if batch:
                await self.send(batch)
            elif self._is_closing:
                return
            else:
                self._some.clear()

    def _take(self) -> list[Report]:
        size = count = 0
        for report in self._reports[:OUTCOMES_MAX]:
            size += len(report.outcome)
            if count and size > BATCH_BYTES_MAX:
                break
            count += 1
        batch, self._reports = self._reports[:count], self._reports[count:]
        self._taken.set()
        return batch

    async def send(self, batch: list[Report]) -> None:
        """Sends outcomes until the server takes or refuses them."""
        waits, until = pauses(), time.monotonic() + REFUSED_SECONDS
        while True:
            worker = self._worker_id()
            body = f'{{"worker_id":"{worker}","outcomes":[{",".join(one.outcome for one in batch)}]}}'
            try:
                answer = await self._api.call("POST", "/outcomes", body.encode())
            except Unreachable as error:
                log.warning("%d outcomes could not be reported, will retry: %s", len(batch), error)
                await asyncio.sleep(next(waits))
                continue
            except ApiError as error:
                if error.status in RETRIED or error.status >= 500:
                    await asyncio.sleep(next(waits))
                    continue
                if error.status in UNSTORABLE:
                    return await self._refused(batch, error)
                if time.monotonic() >= until:
                    log.error("%d outcomes were refused; their leases will expire: %s", len(batch), error)
                    return
                log.warning("%d outcomes were refused, will retry: %s", len(batch), error)
                await asyncio.sleep(next(waits))
                continue
            return await self._answered(batch, answer["outcomes"])

    async def _refused(self, batch: list[Report], error: ApiError) -> None:
        """One outcome may be the reason, such as a result that is nested too deeply; the others must not wait for it."""
        if batch[0].is_rejected:
            log.error("%d outcomes were refused; their leases will expire: %s", len(batch), error)
        elif len(batch) == 1:
            await self.send([instead(batch[0], failure_instead({"message": error.message}))])
        else:
            middle = len(batch) // 2
            await self.send(batch[:middle])
            await self.send(batch[middle:])

    async def _answered(self, batch: list[Report], answers: list[dict[str, object]]) -> None:
        again: list[Report] = []
        for report, answer in zip(batch, answers):
            if answer["status"] == "rejected" and not report.is_rejected:
                error = answer.get("error")
                again.append(instead(report, failure_instead(error if isinstance(error, dict) else {})))
            elif answer["status"] != "applied":
                log.info("job %s: the outcome is %s", report.id, answer["status"])
        if again:
            await self.send(again)


def failure_instead(error: Mapping[str, Any]) -> Failure:
    """The failure that takes the place of an outcome that the server cannot store, or whose follow-up it refused."""
    message = str(error.get("message", ""))
    if "index" not in error.get("details", {}):
        return Failure("permanent", message, "outcome_rejected")
    if error["code"] in ("invalid_value", "payload_too_large", "forbidden"):
        return Failure("permanent", message, "not_allowed")
    return Failure("temporary", message, "unique_key_taken" if error["code"] == "unique_key_taken" else "not_written")


def instead(report: Report, failure: Failure) -> Report:
    """A report of this failure."""
    error = dumps(failure.body())
    outcome = f'{{"id":"{report.id}","fence":{report.fence},"outcome":"failed","error":{error}}}'
    return Report(report.id, report.fence, outcome, is_rejected=True)
