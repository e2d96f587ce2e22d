"""Schedules that a worker creates when it starts."""

from __future__ import annotations

from windlass_sdk import Windlass

app = Windlass()


@app.schedule("hourly", every="1h", payload="sales", overlap="skip", tags={"by": "test"})
@app.job("report", queue="slow")
async def report(of: str) -> str:
    return f"report of {of}"


report.schedule("nightly", "stock", cron="30 2 * * *", timezone="Europe/Berlin", missed="skip")
