//! Schedules as a program that embeds the library uses them, in virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use windlass::client::{ActionResult, CatchUp, JobBuilder, Overlap, PauseOptions, Trigger};
use windlass::error::ScheduleError;
use windlass::handler::State;
use windlass::testing::TestClient;
use windlass::worker::Worker;

use super::harness::step_by_step_on_every_engine;
use super::job_types::{Greet, greet};

step_by_step_on_every_engine!(
    a_schedule_runs_its_handler_day_by_day_in_virtual_time,
    a_schedule_is_paused_triggered_and_deleted_by_its_name,
    a_job_of_a_schedule_waits_for_its_own_delay,
    a_schedule_that_cannot_be_meant_is_refused
);

type Count = Arc<AtomicUsize>;

const HOUR: Duration = Duration::from_secs(3600);

async fn counted(job: Greet, State(runs): State<Count>) -> anyhow::Result<String> {
    runs.fetch_add(1, Ordering::SeqCst);
    Ok(job.name)
}

/// Model: schedule-runs, schedule-actions. A day passes in milliseconds.
async fn a_schedule_runs_its_handler_day_by_day_in_virtual_time(t: &TestClient) {
    let runs = Count::default();
    let nightly = t
        .client()
        .schedule("nightly", Trigger::cron("30 2 * * *"), JobBuilder::new(&greet("night")).queue("slow"))
        .timezone("Europe/Berlin")
        .missed(CatchUp::Once)
        .overlap(Overlap::Skip)
        .await
        .unwrap();
    let shown = nightly.next_runs().await.unwrap();
    assert_eq!(shown.len(), 5);
    for day in 1..=3 {
        t.advance(24 * HOUR).await;
        let worker = Worker::new(t.client()).queue("slow", 1).with(runs.clone()).handle(counted);
        assert_eq!(t.run_due(worker).await, 1);
        assert_eq!(runs.load(Ordering::SeqCst), day);
    }
    let schedule = nightly.get().await.unwrap().unwrap();
    assert_eq!((schedule.submitted, schedule.last_run), (3, Some(shown[2])));
}

/// Model: schedule-actions
async fn a_schedule_is_paused_triggered_and_deleted_by_its_name(t: &TestClient) {
    t.client().schedule("hourly", Trigger::Every(HOUR), greet("hour")).await.unwrap();
    let hourly = t.client().schedule_named("hourly").unwrap();
    assert_eq!(hourly.pause(PauseOptions::default()).await.unwrap(), ActionResult::Changed);
    assert_eq!(hourly.pause(PauseOptions::default()).await.unwrap(), ActionResult::Unchanged);
    t.advance(3 * HOUR).await;
    assert_eq!(hourly.get().await.unwrap().unwrap().submitted, 0);
    let job = hourly.trigger().await.unwrap();
    assert_eq!(t.job(job.id()).await.spec.owner, "schedule:hourly");
    assert_eq!(hourly.resume().await.unwrap(), ActionResult::Changed);
    t.advance(2 * HOUR).await;
    assert_eq!(hourly.get().await.unwrap().unwrap().submitted, 3);
    assert_eq!(t.client().schedules().await.unwrap().len(), 1);
    hourly.delete().await.unwrap();
    assert!(hourly.get().await.unwrap().is_none());
}

/// Model: timer-precision. A delay of the job itself is kept to the moment.
async fn a_job_of_a_schedule_waits_for_its_own_delay(t: &TestClient) {
    let draft = JobBuilder::new(&greet("later")).delay(Duration::from_secs(90));
    let hourly = t.client().schedule("hourly", Trigger::Every(HOUR), draft).await.unwrap();
    let start = t.now();
    t.advance(HOUR + Duration::from_secs(120)).await;
    let id = hourly.get().await.unwrap().unwrap().last_job.expect("it ran");
    assert_eq!(t.job(id).await.job.scheduled_at, Some(start.plus(HOUR + Duration::from_secs(90))));
}

/// Invalid values are reported when the builder is awaited.
async fn a_schedule_that_cannot_be_meant_is_refused(t: &TestClient) {
    let field = |error: ScheduleError| match error {
        ScheduleError::Invalid(invalid) => invalid.field,
        other => panic!("{other}"),
    };
    let queue = t.client();
    let refused =
        async |placing: windlass::client::ScheduleBuilder| field(placing.await.map(drop).unwrap_err());
    assert_eq!(refused(queue.schedule("a", Trigger::cron("61 * * * *"), greet("x"))).await, "cron");
    let nowhere = queue.schedule("a", Trigger::cron("* * * * *"), greet("x")).timezone("Mars/Olympus");
    assert_eq!(refused(nowhere).await, "timezone");
    let timeless = queue.schedule("a", Trigger::Every(HOUR), greet("x")).timezone("UTC");
    assert_eq!(refused(timeless).await, "timezone");
    assert_eq!(refused(queue.schedule("1", Trigger::Every(HOUR), greet("x"))).await, "name");
    let bad_job = JobBuilder::new(&greet("x")).priority(101);
    assert_eq!(refused(queue.schedule("a", Trigger::Every(HOUR), bad_job)).await, "job.priority");
    assert_eq!(refused(queue.schedule("a", Trigger::At(t.now()), greet("x"))).await, "at");
    assert!(queue.schedule_named("").is_err());
    assert!(queue.schedules().await.unwrap().is_empty());
}
