"""Reports outcomes in batches, and again while the server is away. The server answers a late or repeated one as stale."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from ..net.api import Api
from ..codec import dumps
from ..errors import ApiError, Failure, Unreachable
from ..net.wire import RETRIED, pauses

log = logging.getLogger("windlass")

#: Most outcomes in one request.
OUTCOMES_MAX = 1_000
#: Bytes of outcomes in one request, unless a single one is larger.
BATCH_BYTES_MAX = 4 << 20


@dataclass(frozen=True)
class Report:
    """The outcome of one attempt, as JSON."""

    id: str
    fence: int
    outcome: str


class Completer:
    """Collects outcomes and sends them."""

    def __init__(self, api: Api, worker_id: Callable[[], str]) -> None:
        self._api, self._worker_id = api, worker_id
        self._reports: list[Report] = []
        self._some = asyncio.Event()
        self._is_closing = False

    def add(self, report: Report) -> None:
        """Takes an outcome."""
        self._reports.append(report)
        self._some.set()

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
        return batch

    async def send(self, batch: list[Report]) -> None:
        """Sends outcomes until the server takes or refuses them."""
        waits = pauses()
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
                return await self._refused(batch, error)
            return await self._answered(batch, answer["outcomes"])

    async def _refused(self, batch: list[Report], error: ApiError) -> None:
        """One outcome may be the reason, such as a result that is nested too deeply; the others must not wait for it."""
        if error.status == 404 or is_rejected(batch[0]):
            log.error("%d outcomes were refused; their leases will expire: %s", len(batch), error)
        elif len(batch) == 1:
            await self.send([rejected(batch[0], error.message)])
        else:
            middle = len(batch) // 2
            await self.send(batch[:middle])
            await self.send(batch[middle:])

    async def _answered(self, batch: list[Report], answers: list[dict[str, object]]) -> None:
        again: list[Report] = []
        for report, answer in zip(batch, answers):
            if answer["status"] == "rejected" and not is_rejected(report):
                error = answer.get("error")
                message = error.get("message", "") if isinstance(error, dict) else ""
                again.append(rejected(report, message))
            elif answer["status"] != "applied":
                log.info("job %s: the outcome is %s", report.id, answer["status"])
        if again:
            await self.send(again)


def is_rejected(report: Report) -> bool:
    """Whether the outcome was refused before."""
    return '"code":"outcome_rejected"' in report.outcome[:300] or '"code":"outcome_rejected"' in report.outcome[-300:]


def rejected(report: Report, message: str) -> Report:
    """The failure that takes the place of an outcome that the server cannot store."""
    error = dumps(Failure("permanent", message, "outcome_rejected").body())
    outcome = f'{{"id":"{report.id}","fence":{report.fence},"outcome":"failed","error":{error}}}'
    return Report(report.id, report.fence, outcome)
