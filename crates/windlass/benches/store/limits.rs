//! What jobs that a limit holds back cost those it does not: claims of one queue beside a hundred thousand blocked jobs of
//! another, and a tenant's first job beside a million of another's.

use std::time::Duration;

use windlass::job::{NewJob, QueueName, Rate, Tenant};
use windlass::store::command::claim::ClaimRequest;
use windlass::store::command::settings::Settings;
use windlass::store::config::{FairBy, QueueSettings};

use crate::report::Report;
use crate::workload::Bench;

/// Jobs for each figure.
const SAMPLE: usize = 100_000;
/// Jobs that are held back.
const BLOCKED: usize = 100_000;

pub(crate) async fn measure(report: &mut Report) {
    let hour = Duration::from_secs(3600);
    let none = QueueSettings::default;
    let limited = QueueSettings { max_running: Some(1), ..none() };
    let throttled = QueueSettings { rate: Some(Rate::new(1, hour)), ..none() };
    let key = Some("one".to_owned());
    let plain = Bench::open(100).await.job;
    for (with, settings, job) in [
        ("at its limit", limited, plain.clone()),
        ("without a token", throttled, plain.clone()),
        ("behind one key", none(), NewJob { concurrency_key: key, ..plain }),
    ] {
        let bench = Bench::open(100).await;
        bench.submit_batches(2 * SAMPLE, 1_000).await;
        let base = bench.drain(SAMPLE, 4).await;
        let other = QueueName::new("other").expect("a name");
        let settings = Settings::Queue(other.clone(), settings);
        bench.store.configure(&bench.me, settings).await.expect("an admin may");
        bench.fill(BLOCKED, 1_000, &NewJob { queue: other.clone(), ..job }).await;
        let request = ClaimRequest { queues: Some(vec![other]), ..ClaimRequest::new(bench.worker, 1) };
        // The first runs, and a concurrency key sets the others aside, some in each claim.
        for _ in 0..2 * BLOCKED / windlass::limits::TICK_JOBS_PER_COMMIT {
            bench.store.claim(&bench.me, &request, Duration::ZERO).await.expect("is answered");
        }
        let beside = bench.drain(SAMPLE, 4).await;
        report.add_ratio(format!("claim+finish beside 100 k jobs {with}"), beside, base);
        bench.close();
    }
    fairness(report).await;
}

/// How many jobs start before the first one of a tenant that comes late to a fair queue.
async fn fairness(report: &mut Report) {
    let bench = Bench::open(100).await;
    let fair = QueueSettings { fair_by: Some(FairBy::Tenant), ..QueueSettings::default() };
    let settings = Settings::Queue(QueueName::default(), fair);
    bench.store.configure(&bench.me, settings).await.expect("an admin may");
    bench.fill(1_000_000, 10_000, &bench.job).await;
    bench.drain(1_000, 1).await;
    let late = Tenant::new("late").expect("a name");
    bench.fill(2, 1, &NewJob { tenant: Some(late.clone()), ..bench.job.clone() }).await;
    let request = ClaimRequest::new(bench.worker, 10);
    let claimed = bench.store.claim(&bench.me, &request, Duration::ZERO).await.expect("is answered").jobs;
    let place = claimed.iter().position(|claimed| claimed.job.lane.tenant == late);
    let place = place.map_or("after more than ten".to_owned(), |place| format!("after {place}"));
    report.push("a tenant's first job beside another's million".into(), place, "fair_by tenant".into());
    bench.close();
}
