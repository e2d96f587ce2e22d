//! A store as after weeks of use: jobs in every state, of several types, queues, tenants and owners, with tags, and a few
//! rare ones among the oldest, which a scan of the newest does not find.

use std::sync::Arc;
use std::time::Duration;

use windlass::Store;
use windlass::clock::{Clock, ManualClock, SystemClock};
use windlass::entropy::Entropy;
use windlass::job::{
    Dependency, Failure, JobRecord, JobType, NewJob, Payload, Priority, QueueName, RetryPolicy, Tenant,
    WorkerId,
};
use windlass::store::caller::{Caller, Role};
use windlass::store::{
    ActionRequest, BulkAction, ClaimRequest, Environment, Filter, NewWorker, Outcome, Report, StoreOptions,
    SubmitOptions, Suspend,
};

/// Steps of the simulated hour: a batch is submitted and processed in each.
const STEPS: usize = 100;
/// Jobs of the rare type; they are submitted first.
const RARE: usize = 40;
/// Percentage of jobs that are processed.
const WORKED: usize = 48;
const HOUR: Duration = Duration::from_secs(3600);
/// Hours before that one, with few jobs: statistics of every length have something to show.
const HOURS_BEFORE: u32 = 30 * 24;
/// Jobs in each of them, of every type, queue and tenant.
const JOBS_BEFORE: usize = 45;

/// Fills the store at an address with this many jobs, submitted and processed within the last hour, and with the
/// statistics of a month before.
pub(super) async fn fill(address: &str, jobs: usize) -> anyhow::Result<()> {
    let clock = Arc::new(ManualClock::new(SystemClock::new().now().minus(HOUR * (HOURS_BEFORE + 1))));
    let env = Environment::new(clock.clone(), Entropy::from_system(), StoreOptions::default());
    let store = Store::open_in(address, env)?;
    let me = Caller::local();
    let owners = ["shop", "billing", "cron"].map(|name| Caller::new(name, Role::Admin, None));
    let new =
        NewWorker { name: "veteran".to_owned(), concurrency: 500, heartbeats: false, ..NewWorker::default() };
    let worker = store.register(&me, new).await?.id;
    for _ in 0..HOURS_BEFORE {
        let batch =
            (0..JOBS_BEFORE).map(|number| job(processed(number))).collect::<anyhow::Result<Vec<_>>>()?;
        store.submit(&me, batch, SubmitOptions::default()).await?;
        work(&store, &me, worker, JOBS_BEFORE, false).await?;
        clock.advance(HOUR);
        store.tick().await?;
        while store.roll_up().await?.has_more {}
    }
    while store.prune().await? > 0 {}
    for step in 0..STEPS {
        let batch =
            (jobs * step / STEPS..jobs * (step + 1) / STEPS).map(job).collect::<anyhow::Result<Vec<_>>>()?;
        let share = batch.len() * WORKED / 100;
        store.submit(&owners[step % owners.len()], batch, SubmitOptions::default()).await?;
        work(&store, &me, worker, share, step + 1 == STEPS).await?;
        clock.advance(HOUR / u32::try_from(STEPS)?);
        store.tick().await?;
    }
    let held = Filter { tag: Some(("hold".to_owned(), "yes".to_owned())), ..Filter::default() };
    store.bulk(&me, &held, BulkAction::Act(ActionRequest::Suspend(Suspend::default()))).await?;
    store.close();
    Ok(())
}

/// The number of a job that is processed: of the types, queues and tenants in turn.
fn processed(number: usize) -> usize {
    (1 + number / 15) * 500 + 4 + number % 15
}

fn job(number: usize) -> anyhow::Result<NewJob> {
    let of_hundred = number % 100;
    let payload = format!(r#"{{"order":{number},"note":"{}"}}"#, "x".repeat(60));
    let mut job = NewJob::new(JobType::new(&format!("kind.{}", number % 9))?, Payload::json(payload));
    job.queue = QueueName::new(["mail", "media", "reports", "billing", "search"][number % 5])?;
    job.tenant = Some(Tenant::new(["acme", "globex", "initech"][number / 500 % 3])?);
    if number < RARE {
        job.job_type = JobType::new("rare.kind")?;
        job.queue = QueueName::new("rare-queue")?;
    }
    let tags = &mut job.metadata.tags;
    tags.insert("region".to_owned(), ["north", "south", "east", "west"][number % 4].to_owned());
    if number.is_multiple_of(10) {
        tags.insert("customer".to_owned(), format!("c{}", number / 10 % 1_000));
        job.metadata.correlation_id = Some(format!("order-{}", number / 20));
    }
    match of_hundred {
        // These are processed: before all others, and some of them have a single attempt.
        0..WORKED => {
            job.priority = Some(Priority::new(80)?);
            job.retry = (of_hundred < 4).then(|| RetryPolicy { max_attempts: 1, ..RetryPolicy::standard() });
        }
        48..63 => job.delay = Some(HOUR * 24 * u32::try_from(number % 5 + 1)?),
        63 => job.hold = true,
        64 => job.name = Some("first".to_owned() + &number.to_string()),
        65 => job.after = vec![Dependency::Named("first".to_owned() + &(number - 1).to_string())],
        66 => drop(tags.insert("hold".to_owned(), "yes".to_owned())),
        _ => {}
    }
    Ok(job)
}

/// Processes this many jobs; in the last step some are left running.
async fn work(
    store: &Store,
    me: &Caller,
    worker: WorkerId,
    jobs: usize,
    is_last: bool,
) -> anyhow::Result<()> {
    let mut done = 0;
    while done < jobs {
        let request = ClaimRequest::new(worker, (jobs - done).min(500));
        let claimed = store.claim(me, &request, Duration::ZERO).await?.jobs;
        anyhow::ensure!(!claimed.is_empty(), "there are no jobs left to process");
        done += claimed.len();
        if is_last && done >= jobs {
            break;
        }
        let report = |job: &JobRecord| Report::new(job.id, job.fence, outcome(job));
        let reports = claimed.iter().map(|claimed| report(&claimed.job)).collect();
        store.finish(me, worker, reports).await?;
    }
    Ok(())
}

fn outcome(job: &JobRecord) -> Outcome {
    let number = job.seq.0;
    match number % 100 {
        _ if job.policy.retry.max_attempts == 1 => {
            let message = format!("upstream {} refused order {number}: 503", number % 3);
            Outcome::Failed(Failure::temporary(message))
        }
        5 => Outcome::Failed(Failure::permanent("no_address", format!("order {number} has no address"))),
        6 => Outcome::Failed(Failure::retry_after(HOUR, format!("order {number} is locked"))),
        _ => Outcome::Completed { result: Some(br#"{"sent":true}"#.to_vec()) },
    }
}
