"""What a program does first with a generated client, against a real server: the types and the answers must fit."""

import sys
from uuid import UUID

from windlass_client import AuthenticatedClient
from windlass_client.api.claims import claim_jobs
from windlass_client.api.heartbeats import send_heartbeats
from windlass_client.api.jobs import (
    act_on_jobs,
    cancel_job,
    explain_job,
    get_job,
    get_job_result,
    list_jobs,
    save_checkpoint,
    signal_job,
    submit_job,
    submit_jobs,
)
from windlass_client.api.outcomes import report_outcomes
from windlass_client.api.queues import get_queue, pause_queue, resume_queue, update_queue
from windlass_client.api.schedules import list_schedules, put_schedule, trigger_schedule
from windlass_client.api.stats import get_stats
from windlass_client.api.workers import deregister_worker, list_workers, register_worker
from windlass_client.models import (
    ApiError,
    BulkRequest,
    BulkRequestAction,
    CheckpointRequest,
    ClaimRequest,
    EmptyRequest,
    Heartbeat,
    HeartbeatRequest,
    Job,
    JobBatch,
    JobFilter,
    JobState,
    OutcomeReport,
    OutcomeKind,
    OutcomesRequest,
    PauseRequest,
    QueueChanges,
    ReasonRequest,
    ResumeQueueRequest,
    ScheduleRequest,
    SignalRequest,
    Submission,
    WorkerRequest,
)


def job_of(answer: Job | ApiError | None) -> Job:
    assert isinstance(answer, Job), answer
    return answer


def work(client: AuthenticatedClient, submitted: Job) -> None:
    registered = register_worker.sync(client=client, body=WorkerRequest(name="generated", queues=["mail"]))
    assert registered is not None and not isinstance(registered, ApiError)
    # The id goes back as it came.
    worker = registered.worker_id
    claimed = claim_jobs.sync(client=client, body=ClaimRequest(worker_id=worker, limit=10, wait="1s"))
    assert claimed is not None and not isinstance(claimed, ApiError)
    (job,) = claimed.jobs
    assert job.id == submitted.id and job.payload == {"to": "ada@example.com"}, job
    saved = CheckpointRequest(fence=job.fence, worker_id=worker, value={"seat": 12})
    save_checkpoint.sync_detailed(job.id, "reserve", client=client, body=saved)
    beats = HeartbeatRequest(worker_id=worker, jobs=[Heartbeat(id=job.id, fence=job.fence)])
    directives = send_heartbeats.sync(client=client, body=beats)
    assert directives is not None and not isinstance(directives, ApiError)
    assert directives.jobs[0].directive == "continue"
    done = OutcomeReport(id=job.id, fence=job.fence, outcome=OutcomeKind.COMPLETED, result={"message_id": "m-7"})
    reported = report_outcomes.sync(client=client, body=OutcomesRequest(worker_id=worker, outcomes=[done]))
    assert reported is not None and not isinstance(reported, ApiError)
    assert reported.outcomes[0].status == "applied", reported
    known = list_workers.sync(client=client)
    assert known is not None and not isinstance(known, ApiError)
    assert worker in [one.id for one in known.workers]
    assert deregister_worker.sync_detailed(worker, client=client).status_code == 204


def main(url: str, key: str) -> None:
    client = AuthenticatedClient(base_url=url, token=key)
    body = Submission(type_="email.send", queue="mail", payload={"to": "ada@example.com"}, idempotency_key="a")
    submitted = job_of(submit_job.sync(client=client, body=body))
    assert isinstance(submitted.id, UUID) and submitted.state is JobState.SCHEDULED, submitted
    assert submitted.duplicate is False
    assert job_of(submit_job.sync(client=client, body=body)).duplicate is True

    # No parameter has a default that the client sends.
    page = list_jobs.sync(client=client)
    assert page is not None and not isinstance(page, ApiError)
    assert [job.id for job in page.jobs] == [submitted.id] and page.next_cursor is None
    reasons = explain_job.sync(submitted.id, client=client)
    assert reasons is not None and not isinstance(reasons, ApiError)

    work(client, submitted)
    ended = job_of(get_job.sync(submitted.id, client=client, wait="5s"))
    assert ended.state is JobState.COMPLETED and ended.result == {"message_id": "m-7"}, ended
    result = get_job_result.sync(submitted.id, client=client)
    assert result is not None and not isinstance(result, ApiError) and result.state is JobState.COMPLETED

    # A batch, an action without its optional fields, a signal, an error with its code.
    batch = JobBatch(jobs=[Submission(type_="a", name="first"), Submission(type_="b", after=["@first"])])
    jobs = submit_jobs.sync(client=client, body=batch)
    assert jobs is not None and not isinstance(jobs, ApiError)
    first, second = jobs.jobs
    assert second.after == [first.id]
    signal_job.sync(first.id, "paid", client=client, body=SignalRequest(value=7))
    assert job_of(cancel_job.sync(first.id, client=client, body=ReasonRequest())).changed is True
    refused = cancel_job.sync(submitted.id, client=client, body=ReasonRequest())
    assert isinstance(refused, ApiError) and refused.error.code == "state_conflict", refused
    count = BulkRequest(action=BulkRequestAction.CANCEL, filter_=JobFilter(), dry_run=True)
    counted = act_on_jobs.sync(client=client, body=count)
    assert counted is not None and not isinstance(counted, ApiError) and counted.matched == 3

    # Settings, pauses, schedules.
    update_queue.sync(queue="mail", client=client, body=QueueChanges(max_running=5))
    assert pause_queue.sync("mail", client=client, body=PauseRequest(reason="test")) is not None
    queue = get_queue.sync("mail", client=client)
    assert queue is not None and not isinstance(queue, ApiError)
    assert queue.max_running == 5 and queue.paused is not None and queue.paused.reason == "test"
    resume_queue.sync("mail", client=client, body=ResumeQueueRequest())
    put_schedule.sync("daily", client=client, body=ScheduleRequest(every="1d", job=Submission(type_="report")))
    schedules = list_schedules.sync(client=client)
    assert schedules is not None and not isinstance(schedules, ApiError)
    assert schedules.schedules[0].job.type_ == "report"
    assert job_of(trigger_schedule.sync("daily", client=client, body=EmptyRequest())).type_ == "report"
    stats = get_stats.sync(client=client)
    assert stats is not None and not isinstance(stats, ApiError) and stats.states["completed"] == 1
    print("the generated Python client works")


main(sys.argv[1], sys.argv[2])
