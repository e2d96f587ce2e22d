//! The demo's history: an hour of jobs, run in virtual time through the store's API, so that charts and lists are not empty
//! at the start.

use std::sync::Arc;
use std::time::Duration;

use windlass::Store;
use windlass::clock::{Clock, ManualClock, SystemClock, Timestamp};
use windlass::entropy::Entropy;
use windlass::job::{
    Category, Failure, Fence, JobId, JobType, NewJob, Payload, QueueName, RetryPolicy, Tenant,
};
use windlass::store::caller::Caller;
use windlass::store::{ClaimRequest, Environment, NewWorker, Outcome, Report, StoreOptions, SubmitOptions};

/// Length of the history.
const LENGTH: Duration = Duration::from_secs(3600);
/// Jobs are submitted once per step.
const STEP: Duration = Duration::from_secs(12);
/// Parts of a step in milliseconds, after each of which jobs are finished and claimed.
const MOMENTS: [u64; 8] = [100, 100, 150, 250, 600, 1_300, 3_000, 6_500];
/// Jobs that run at once.
const SLOTS: usize = 32;

/// Type, queue, payload, jobs per minute, duration in milliseconds, and the share that fails.
type Kind = (&'static str, &'static str, &'static str, f64, u64, f64);

const KINDS: [Kind; 6] = [
    ("email.send", "mail", r#"{"to":"customer@example.com","template":"order-confirmed"}"#, 45.0, 180, 0.02),
    (
        "webhook.deliver",
        "default",
        r#"{"target":"https://hooks.example.com/7","event":"order.paid"}"#,
        22.0,
        350,
        0.16,
    ),
    ("invoice.charge", "billing", r#"{"order":47000,"cents":1990}"#, 14.0, 650, 0.05),
    ("image.resize", "media", r#"{"photo":"album/7.jpg"}"#, 18.0, 2_200, 0.04),
    ("report.build", "reports", r#"{"month":"2026-09","rows":40000}"#, 0.6, 28_000, 0.03),
    ("etl.load", "etl", r#"{"table":"orders_daily"}"#, 1.2, 3_000, 0.06),
];

/// A running job.
struct Running {
    job: JobId,
    fence: Fence,
    ends_at: Timestamp,
    fails: bool,
    job_type: JobType,
}

/// Generates an hour of history up to now in the store at this address.
///
/// # Errors
/// If the store cannot be opened or fails.
pub(crate) async fn play_history(address: &str) -> anyhow::Result<()> {
    let end = SystemClock::new().now();
    let clock = Arc::new(ManualClock::new(end.minus(LENGTH)));
    let env = Environment::new(clock.clone(), Entropy::from_system(), StoreOptions::default());
    let store = Store::open_in(address, env)?;
    let caller = Caller::local();
    let new =
        NewWorker { name: "nightly".into(), concurrency: 32, heartbeats: false, ..NewWorker::default() };
    let worker = store.register(&caller, new).await?.id;
    let mut running: Vec<Running> = Vec::new();
    while clock.now() < end {
        let share = share_of_day(clock.now(), end);
        store.submit(&caller, wave(&store, share)?, SubmitOptions::default()).await?;
        store.tick().await?;
        let mut has_ready = true;
        for (place, moment) in MOMENTS.into_iter().enumerate() {
            if has_ready && running.len() < SLOTS {
                let request = ClaimRequest::new(worker, SLOTS - running.len());
                let claimed = store.claim(&caller, &request, Duration::ZERO).await?.jobs;
                running.extend(claimed.iter().map(|claim| start(&store, &claim.job, clock.now(), share)));
                has_ready = running.len() == SLOTS;
            }
            if place == 0 {
                // Once a minute this samples how many jobs are ready and running.
                store.roll_up().await?;
            }
            clock.advance(Duration::from_millis(moment));
            let now = clock.now();
            let over: Vec<Running> = running.extract_if(.., |run| run.ends_at <= now).collect();
            let reports: Vec<Report> = over.iter().map(report).collect();
            if !reports.is_empty() {
                store.finish(&caller, worker, reports).await?;
            }
        }
    }
    store.deregister(&caller, worker).await?;
    while store.seal().await?.has_more {}
    store.close();
    Ok(())
}

/// The load: normal, a peak, and a quarter of an hour with many failures.
fn share_of_day(now: Timestamp, end: Timestamp) -> f64 {
    let minutes = end.since(now).as_secs_f64() / 60.0;
    1.0 + 0.55 * (minutes / 9.0).sin() + if (24.0..32.0).contains(&minutes) { 0.9 } else { 0.0 }
}

/// The jobs submitted in one step.
fn wave(store: &Store, share: f64) -> anyhow::Result<Vec<NewJob>> {
    let random = || store.environment().entropy.fraction();
    let mut jobs = Vec::new();
    for (job_type, queue, payload, per_minute, _, _) in KINDS {
        let mut wanted = per_minute * share * STEP.as_secs_f64() / 60.0 * (0.5 + random());
        while wanted > random() {
            let mut job = NewJob::new(JobType::new(job_type)?, Payload::json(payload));
            job.queue = QueueName::new(queue)?;
            job.tenant = Some(Tenant::new(
                ["default", "acme", "globex"][usize::from(random() > 0.5) + usize::from(random() > 0.8)],
            )?);
            job.retry = Some(RetryPolicy { max_attempts: 2, ..RetryPolicy::standard() });
            jobs.push(job);
            wanted -= 1.0;
        }
    }
    Ok(jobs)
}

fn start(store: &Store, job: &windlass::job::JobRecord, now: Timestamp, share: f64) -> Running {
    let random = || store.environment().entropy.fraction();
    let name = job.lane.job_type.as_str();
    let kind = KINDS.iter().find(|kind| kind.0 == name);
    let (millis, fails) = kind.map_or((500, 0.0), |kind| (kind.4, kind.5));
    // At peaks more jobs fail.
    let fails = if share > 1.8 { fails * 2.5 } else { fails };
    let length = Duration::from_millis(millis).mul_f64(0.4 + 1.6 * random() * random());
    Running {
        job: job.id,
        fence: job.fence,
        ends_at: now.plus(length),
        fails: random() < fails,
        job_type: job.lane.job_type.clone(),
    }
}

fn report(run: &Running) -> Report {
    let cost_cents = match run.job_type.as_str() {
        "report.build" => 240,
        "invoice.charge" => 12,
        "image.resize" => 3,
        _ => 1,
    };
    if !run.fails {
        let outcome = Outcome::Completed { result: Some(br#"{"ok":true}"#.to_vec()) };
        return Report { cost_cents, ..Report::new(run.job, run.fence, outcome) };
    }
    let failure = match run.job_type.as_str() {
        "webhook.deliver" => {
            Failure::temporary("502 Bad Gateway from https://hooks.example.com/7 after 912 ms")
                .with_code("bad_gateway")
        }
        "invoice.charge" => Failure::new(Category::Timeout, "the gateway did not answer within 10 s"),
        "image.resize" => Failure::permanent("not_an_image", "album/7.jpg: unexpected end of file"),
        "etl.load" => {
            Failure::temporary("deadlock detected: process 4711 waits for ShareLock on transaction 90210")
        }
        _ => Failure::temporary("smtp: 421 4.7.0 try again later"),
    };
    Report::new(run.job, run.fence, Outcome::Failed(failure))
}
