"""Durable background jobs: workers, steps that survive crashes, and a typed client for Windlass.

>>> app = Windlass()
>>> @app.job("greet")
... async def greet(name: str) -> str:
...     return f"hello {name}"
"""

from .app import Windlass
from .durable.children import Child, Children
from .durable.cx import Cx, First
from .durable.cx_sync import SyncCx
from .errors import (
    ApiError, ChildFailed, JobError, JobFailed, OtherProtocol, Permanent, RetryAfter, Snooze, StepFailed, StepsChanged,
    Unreachable, WindlassError,
)
from .handle import Handle, JobEvent, LogLine, Progress, StreamChunk
from .work.inline import Inline, run_inline_async
from .job import Debounce, Job, Options, Retry
from .schedules import Schedule, ScheduleOptions, Schedules
from .webhooks import InvalidSignature, verify_headers, verify_webhook
from .work.worker import Worker

__all__ = [
    "ApiError", "Child", "ChildFailed", "Children", "Cx", "Debounce", "First", "Handle", "Inline", "InvalidSignature", "Job",
    "JobError", "JobEvent", "JobFailed", "LogLine", "Options", "OtherProtocol", "Permanent", "Progress", "Retry", "RetryAfter", "Schedule", "ScheduleOptions", "Schedules", "Snooze",
    "StepFailed", "StepsChanged", "StreamChunk", "SyncCx", "Unreachable", "Windlass", "WindlassError", "Worker", "run_inline_async", "verify_headers", "verify_webhook",
]
