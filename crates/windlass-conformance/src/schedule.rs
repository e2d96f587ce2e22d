//! Schedules: one job per run, missed runs and overlaps as their policies say, and everything people do to them.

pub mod actions;

use std::sync::Arc;
use std::time::Duration;

use windlass::audit::AuditEvent;
use windlass::clock::Timestamp;
use windlass::error::ScheduleError;
use windlass::job::{JobRecord, JobState, NewJob, Payload, ScheduleName};
use windlass::limits;
use windlass::schedule::{CatchUp, Overlap, ScheduleSpec};
use windlass::settings::QueueSettings;
use windlass::store::engine::RecordQuery;
use windlass::store::{NewSchedule, NewWorker, PutSchedule, RetriedRun, Schedule};

use crate::fixture::{Fixture, just_before, new_job, secs};

tests!(
    schedule, schedule:
    each_run_submits_one_job,
    a_cron_expression_is_read_on_the_clocks_of_its_zone,
    a_one_off_runs_once_and_stays_to_be_seen,
    missed_runs_are_skipped,
    missed_runs_are_made_up_for_once,
    missed_runs_are_all_made_up_for_up_to_a_limit,
    runs_may_overlap,
    a_run_is_left_out_while_the_one_before_is_not_over,
    a_run_cancels_the_one_before,
    a_run_that_is_refused_cancels_nothing,
    a_cancelled_run_hands_on_its_unique_key,
    a_run_that_finds_no_room_is_tried_again_until_the_next_one_comes,
    a_run_whose_unique_key_is_taken_is_left_out_and_reported,
    a_run_that_finds_no_room_for_an_hour_is_given_up,
    a_job_of_a_schedule_is_what_was_asked_for,
    the_next_moment_is_known,
);

/// The name of a schedule.
pub fn named(name: &str) -> ScheduleName {
    ScheduleName::new(name).unwrap()
}

/// A schedule with a run every so many seconds.
pub fn every(seconds: u64) -> NewSchedule {
    NewSchedule::new(ScheduleSpec::Every(secs(seconds)), new_job("report"))
}

/// A schedule by a cron expression.
pub fn cron(expression: &str, zone: &str) -> NewSchedule {
    let timing = ScheduleSpec::Cron { cron: expression.parse().unwrap(), timezone: zone.parse().unwrap() };
    NewSchedule::new(timing, new_job("report"))
}

/// Creates or changes a schedule.
pub async fn put(t: &Fixture, name: &str, new: NewSchedule) -> PutSchedule {
    t.store.put_schedule(&t.me, named(name), new).await.expect("the schedule is allowed")
}

/// A schedule that exists.
pub async fn get(t: &Fixture, name: &str) -> Arc<Schedule> {
    t.store.schedule(&t.me, named(name)).await.unwrap().expect("the schedule is there")
}

/// The jobs there are, oldest first.
pub async fn jobs(t: &Fixture) -> Vec<JobRecord> {
    let mut jobs: Vec<JobRecord> = t.everything().await.jobs.into_iter().map(|found| found.job).collect();
    jobs.reverse();
    jobs
}

/// The runs that submitted jobs, oldest first.
async fn runs(t: &Fixture) -> Vec<Timestamp> {
    jobs(t).await.iter().map(|job| job.run_at).collect()
}

/// `count` moments, one every `seconds`, from `seconds` after `start` on.
fn moments(start: Timestamp, seconds: u64, which: std::ops::RangeInclusive<u64>) -> Vec<Timestamp> {
    which.map(|n| start.plus(secs(seconds * n))).collect()
}

/// Model: schedule-runs, schedule-actions
async fn each_run_submits_one_job(t: &Fixture) {
    let start = t.now();
    put(t, "often", every(60)).await;
    t.tick().await;
    assert!(jobs(t).await.is_empty(), "the first run is a minute away");
    for n in 1..=3 {
        t.advance(just_before(secs(60)));
        t.tick().await;
        assert_eq!(jobs(t).await.len(), n - 1);
        t.advance(Duration::from_millis(1));
        for _ in 0..3 {
            t.tick().await;
        }
        assert_eq!(jobs(t).await.len(), n, "once, however often time is let act");
    }
    assert_eq!(runs(t).await, moments(start, 60, 1..=3));
    let found = t.get(jobs(t).await[0].id).await;
    assert_eq!(found.job.state, JobState::Scheduled);
    assert_eq!(found.spec.owner, "schedule:often");
    let key = format!("schedule:often:{}", start.plus(secs(60)));
    assert_eq!(found.spec.idempotency_key, Some(key));
    let schedule = get(t, "often").await;
    assert_eq!((schedule.submitted, schedule.last_run), (3, Some(start.plus(secs(180)))));
    assert_eq!(schedule.last_job, jobs(t).await.last().map(|job| job.id));
}

/// Model: schedule-runs. From winter to summer time, the clocks of Berlin continue showing two.
async fn a_cron_expression_is_read_on_the_clocks_of_its_zone(t: &Fixture) {
    put(t, "nightly", cron("30 2 * * *", "Europe/Berlin")).await;
    // The fixture's clock begins in January 2027; the clocks change on 28 March.
    let change = Timestamp::from_millis(1_806_195_600_000);
    assert_eq!(change.to_string(), "2027-03-28T01:00:00.000Z");
    let mut days = Vec::new();
    while t.now() < change.plus(secs(3 * 86_400)) {
        t.advance(secs(3600));
        t.tick().await;
        days.extend(t.claim_and_finish_all().await);
    }
    let spring: Vec<String> =
        days.iter().map(ToString::to_string).filter(|at| at.contains("-03-2")).collect();
    assert_eq!(
        spring[7..],
        ["2027-03-27T01:30:00.000Z", "2027-03-28T01:00:00.000Z", "2027-03-29T00:30:00.000Z"]
    );
}

/// Model: schedule-runs
async fn a_one_off_runs_once_and_stays_to_be_seen(t: &Fixture) {
    let at = t.now().plus(secs(90));
    put(t, "launch", NewSchedule::new(ScheduleSpec::At(at), new_job("report"))).await;
    assert_eq!(get(t, "launch").await.next_runs(), [at]);
    for _ in 0..4 {
        t.advance(secs(45));
        t.tick().await;
    }
    assert_eq!(runs(t).await, [at]);
    let after = get(t, "launch").await;
    assert_eq!((after.next_runs(), after.last_run), (Vec::new(), Some(at)));
    // Putting it in place again, as a program does at every start, runs nothing again.
    let again = put(t, "launch", NewSchedule::new(ScheduleSpec::At(at), new_job("report"))).await;
    assert!(!again.is_changed);
    t.advance(secs(45));
    t.tick().await;
    assert_eq!(runs(t).await, [at]);
}

async fn after_downtime(t: &Fixture, missed: CatchUp, downtime: Duration) -> Vec<Timestamp> {
    put(t, "often", NewSchedule { missed, ..every(60) }).await;
    t.advance(secs(60));
    t.tick().await;
    t.advance(downtime);
    t.tick().await;
    runs(t).await
}

async fn missed_records(t: &Fixture) -> usize {
    let query = RecordQuery { event: Some(AuditEvent::ScheduleMissed), ..RecordQuery::default() };
    t.records(query).await.len()
}

/// Model: schedule-runs
async fn missed_runs_are_skipped(t: &Fixture) {
    let start = t.now();
    assert_eq!(after_downtime(t, CatchUp::Skip, secs(5 * 60 + 30)).await, moments(start, 60, 1..=1));
    assert_eq!(missed_records(t).await, 1);
    t.advance(secs(30));
    t.tick().await;
    assert_eq!(runs(t).await, [start.plus(secs(60)), start.plus(secs(7 * 60))], "the next one is on time");
}

/// Model: schedule-runs
async fn missed_runs_are_made_up_for_once(t: &Fixture) {
    let start = t.now();
    let found = after_downtime(t, CatchUp::Once, secs(5 * 60 + 30)).await;
    assert_eq!(found, [start.plus(secs(60)), start.plus(secs(6 * 60))]);
    assert_eq!(missed_records(t).await, 1);
}

/// Model: schedule-runs
async fn missed_runs_are_all_made_up_for_up_to_a_limit(t: &Fixture) {
    let start = t.now();
    let found = after_downtime(t, CatchUp::All, secs(5 * 60 + 30)).await;
    assert_eq!(found, moments(start, 60, 1..=6));
    let limit = limits::SCHEDULE_MISSED_MAX as u64;
    t.advance(secs(60 * 10 * limit));
    t.tick().await;
    let last = 6 + 10 * limit;
    let expected: Vec<Timestamp> =
        moments(start, 60, 1..=6).into_iter().chain(moments(start, 60, last - limit + 1..=last)).collect();
    assert_eq!(runs(t).await, expected, "the latest of them");
    assert_eq!(missed_records(t).await, 2);
}

/// Model: schedule-runs
async fn runs_may_overlap(t: &Fixture) {
    put(t, "often", every(60)).await;
    for n in 1..=3 {
        t.advance(secs(60));
        t.tick().await;
        assert_eq!(jobs(t).await.len(), n);
    }
    assert!(jobs(t).await.iter().all(|job| job.state == JobState::Scheduled));
    assert_eq!(get(t, "often").await.open.len(), 1, "those before do not count any more");
}

/// Model: schedule-runs
async fn a_run_is_left_out_while_the_one_before_is_not_over(t: &Fixture) {
    let start = t.now();
    put(t, "often", NewSchedule { overlap: Overlap::Skip, missed: CatchUp::All, ..every(60) }).await;
    let quiet = NewWorker { heartbeats: false, ..NewWorker::default() };
    let worker = t.store.register(&t.me, quiet).await.unwrap().id;
    t.advance(secs(60));
    t.tick().await;
    let first = t.claim_one(worker).await;
    t.advance(secs(60));
    t.tick().await;
    assert_eq!(jobs(t).await.len(), 1, "one is running");
    t.complete(worker, &first).await;
    t.advance(secs(120));
    t.tick().await;
    assert_eq!(
        runs(t).await,
        [start.plus(secs(60)), start.plus(secs(180))],
        "the second made up for met the first"
    );
    assert_eq!(get(t, "often").await.overlapped, 2);
}

/// Model: schedule-runs
async fn a_run_cancels_the_one_before(t: &Fixture) {
    put(t, "often", NewSchedule { overlap: Overlap::Cancel, ..every(60) }).await;
    let worker = t.worker().await;
    t.advance(secs(60));
    t.tick().await;
    t.claim_one(worker).await;
    for n in 2..=4 {
        t.advance(secs(20));
        t.tick().await;
        t.advance(secs(40));
        t.tick().await;
        let states: Vec<JobState> = jobs(t).await.iter().map(|job| job.state).collect();
        assert_eq!(states.len(), n);
        assert!(states[..n - 1].iter().all(|state| *state == JobState::Cancelled), "{states:?}");
        assert_eq!(states[n - 1], JobState::Scheduled);
    }
}

/// Model: schedule-runs, backpressure
async fn a_run_that_is_refused_cancels_nothing(t: &Fixture) {
    let one = QueueSettings { max_depth: Some(1), ..QueueSettings::default() };
    t.set_queue("default", one.clone()).await;
    put(t, "often", NewSchedule { overlap: Overlap::Cancel, ..every(60) }).await;
    t.advance(secs(60));
    t.tick().await;
    // The room of the run before is enough.
    t.advance(secs(60));
    t.tick().await;
    let states = async || {
        let jobs = jobs(t).await.into_iter().filter(|job| job.lane.job_type.as_str() != "other");
        jobs.map(|job| job.state).collect::<Vec<JobState>>()
    };
    assert_eq!(states().await, [JobState::Cancelled, JobState::Scheduled]);
    // With another job beside it, it is not.
    t.set_queue("default", QueueSettings { max_depth: Some(2), ..one.clone() }).await;
    let other = t.submit(new_job("other")).await;
    t.set_queue("default", one).await;
    t.advance(secs(60));
    t.tick().await;
    assert!(get(t, "often").await.refused.is_some(), "there is no room for it");
    assert_eq!(states().await, [JobState::Cancelled, JobState::Scheduled]);
    let by_hand = t.store.trigger_schedule(&t.me, named("often")).await.unwrap_err();
    assert!(matches!(by_hand, ScheduleError::Refused(_)), "{by_hand}");
    assert_eq!(states().await, [JobState::Cancelled, JobState::Scheduled]);
    // The refused run is tried again, and replaces the one before once there is room.
    t.cancel(other.id).await;
    t.advance(secs(1));
    t.tick().await;
    assert_eq!(states().await, [JobState::Cancelled, JobState::Cancelled, JobState::Scheduled]);
}

/// Model: unique-key, schedule-runs
async fn a_cancelled_run_hands_on_its_unique_key(t: &Fixture) {
    let job = NewJob { unique_key: Some("report".into()), ..new_job("report") };
    put(t, "often", NewSchedule { overlap: Overlap::Cancel, job: job.clone(), ..every(60) }).await;
    put(t, "other", NewSchedule { job, ..every(90) }).await;
    t.advance(secs(60));
    t.tick().await;
    t.advance(secs(30));
    t.tick().await;
    let refused = get(t, "other").await.refused.clone().expect("the key was held");
    assert!(refused.message.contains("unique key"), "{}", refused.message);
    t.advance(secs(30));
    t.tick().await;
    let states: Vec<JobState> = jobs(t).await.iter().map(|job| job.state).collect();
    assert_eq!(states, [JobState::Cancelled, JobState::Scheduled]);
    let by_hand = t.store.trigger_schedule(&t.me, named("other")).await.unwrap_err();
    assert!(matches!(by_hand, ScheduleError::Refused(_)), "{by_hand}");
}

/// Model: backpressure
async fn a_run_that_finds_no_room_is_tried_again_until_the_next_one_comes(t: &Fixture) {
    t.set_queue("default", QueueSettings { max_depth: Some(1), ..QueueSettings::default() }).await;
    let blocking = t.submit(new_job("other")).await;
    put(t, "often", every(60)).await;
    t.advance(secs(60));
    t.tick().await;
    let schedule = get(t, "often").await;
    let refused = schedule.refused.as_ref().expect("the queue is full");
    let first = t.now();
    assert_eq!((refused.run, refused.at, schedule.submitted), (first, first, 0));
    assert_eq!(schedule.retry, Some(RetriedRun { run: first, until: first.plus(secs(60)) }));
    assert_eq!(refusals(t).await.len(), 1);
    t.advance(secs(20));
    t.tick().await;
    assert_eq!(get(t, "often").await, schedule, "still no room, and nothing is written");
    // The next run takes its place, and is refused like it.
    t.advance(secs(40));
    t.tick().await;
    let schedule = get(t, "often").await;
    assert_eq!((schedule.submitted, schedule.refusals), (0, 1));
    assert_eq!(schedule.retry.map(|retry| retry.run), Some(first.plus(secs(60))));
    let said = refusals(t).await;
    assert_eq!(said.len(), 3, "refused, given up, and the next one refused: {said:?}");
    assert!(said[1].contains("skipped") && said[2].contains("retried"), "{said:?}");
    t.cancel(blocking.id).await;
    t.advance(secs(1));
    t.tick().await;
    let schedule = get(t, "often").await;
    assert_eq!((schedule.submitted, schedule.refusals, schedule.retry), (1, 1, None));
    assert_eq!(schedule.last_run, Some(first.plus(secs(60))), "late, but the run that it was");
    t.tick().await;
    assert_eq!(get(t, "often").await.submitted, 1);
}

/// What the audit trail says of refused runs.
async fn refusals(t: &Fixture) -> Vec<String> {
    let records = t.trail().await.into_iter();
    let refused = records.filter(|record| record.event == AuditEvent::ScheduleRefused);
    refused.map(|record| record.context).collect()
}

/// Model: unique-key, schedule-actions. Another job has the unique key, and time alone does not change that.
async fn a_run_whose_unique_key_is_taken_is_left_out_and_reported(t: &Fixture) {
    let job = NewJob { unique_key: Some("report".into()), ..new_job("report") };
    let holder = t.submit(job.clone()).await;
    put(t, "often", NewSchedule { job, ..every(60) }).await;
    t.advance(secs(60));
    t.tick().await;
    let schedule = get(t, "often").await;
    assert_eq!((schedule.retry, schedule.refusals, schedule.submitted), (None, 1, 0));
    let said = refusals(t).await;
    assert!(said.len() == 1 && said[0].contains(&holder.id.to_string()), "{said:?}");
    t.cancel(holder.id).await;
    t.tick().await;
    assert_eq!(get(t, "often").await.submitted, 0, "it is not made up for");
    t.advance(secs(60));
    t.tick().await;
    assert_eq!(get(t, "often").await.submitted, 1);
}

/// Model: schedule-actions. A run of a schedule that runs seldom is not tried forever.
async fn a_run_that_finds_no_room_for_an_hour_is_given_up(t: &Fixture) {
    t.set_queue("default", QueueSettings { max_depth: Some(1), ..QueueSettings::default() }).await;
    t.submit(NewJob { lifetime: Some(secs(90_000)), ..new_job("other") }).await;
    let once = ScheduleSpec::At(t.now().plus(secs(10)));
    put(t, "once", NewSchedule { timing: once, ..every(60) }).await;
    t.advance(secs(10));
    t.tick().await;
    t.advance(limits::SCHEDULE_RETRY_MAX.saturating_sub(secs(1)));
    t.tick().await;
    assert!(get(t, "once").await.retry.is_some());
    t.advance(secs(1));
    t.tick().await;
    let schedule = get(t, "once").await;
    assert_eq!((schedule.retry, schedule.refusals, schedule.submitted), (None, 1, 0));
    t.tick().await;
    assert_eq!(get(t, "once").await, schedule, "it is over");
}

/// Model: payload, schedule-actions. Payload and options, byte for byte.
async fn a_job_of_a_schedule_is_what_was_asked_for(t: &Fixture) {
    let payload = Payload::bytes([0, 159, 146, 150, 255], "application/octet-stream");
    let mut job = NewJob {
        payload: payload.clone(),
        queue: crate::fixture::queue("slow"),
        priority: Some(crate::fixture::priority(77)),
        delay: Some(secs(5)),
        concurrency_key: Some("one".into()),
        execution_timeout: Some(secs(7)),
        ..new_job("report")
    };
    job.metadata.tags.insert("team".into(), "data".into());
    put(t, "binary", NewSchedule { job, ..every(60) }).await;
    let spaced = Payload::json("{ \"kept\" :  1e0 }");
    put(t, "text", NewSchedule { job: NewJob { payload: spaced.clone(), ..new_job("text") }, ..every(61) })
        .await;
    t.advance(secs(61));
    t.tick().await;
    let all = jobs(t).await;
    let (binary, text) = (t.get(all[0].id).await, t.get(all[1].id).await);
    assert_eq!((binary.spec.payload, text.spec.payload), (payload, spaced));
    assert_eq!((binary.job.priority.value(), binary.job.lane.queue.as_str()), (77, "slow"));
    assert_eq!((binary.job.state, binary.job.run_at), (JobState::Delayed, t.now().plus(secs(4))));
    assert_eq!(binary.job.policy.timeouts.execution, secs(7));
    assert_eq!(binary.spec.metadata.tags.get("team").map(String::as_str), Some("data"));
}

/// Model: timer-precision. Maintenance learns when to come back.
async fn the_next_moment_is_known(t: &Fixture) {
    let start = t.now();
    put(t, "often", every(60)).await;
    let ticked = t.store.tick().await.unwrap();
    assert_eq!((ticked.scheduled, ticked.next_at), (0, Some(start.plus(secs(60)))));
    t.advance(secs(60));
    let ticked = t.store.tick().await.unwrap();
    assert_eq!((ticked.scheduled, ticked.has_more), (1, true));
    // Next is the end of nothing but the next run: the job that was submitted lives for days.
    assert_eq!(t.store.tick().await.unwrap().next_at, Some(start.plus(secs(120))));
}
