//! How much a claim reads beside many lanes, and that it takes what a claim that reads everything would.

use std::time::Duration;

use super::*;
use crate::clock::{ManualClock, Timestamp};
use crate::entropy::Entropy;
use crate::error::WorkError;
use crate::job::{JobType, NewJob, Payload, Priority, QueueName, Seq, Tenant, WorkerId};
use crate::settings::{FairBy, QueueSettings};
use crate::store::Store;
use crate::store::caller::Caller;
use crate::store::command::claim::ClaimRequest;
use crate::store::command::settings::Settings;
use crate::store::command::submit::SubmitOptions;
use crate::store::command::worker::NewWorker;
use crate::store::environment::{Environment, StoreOptions};
use crate::store::tx::request::Kind;

const LANES: usize = 1_000;

fn job(tenant: usize, priority: i64) -> NewJob {
    NewJob {
        tenant: Some(Tenant::new(&format!("t{tenant:04}")).unwrap()),
        priority: Some(Priority::new(priority).unwrap()),
        ..NewJob::new(JobType::new("send").unwrap(), Payload::json("{}"))
    }
}

/// A store with two jobs per tenant, of which neither the tenants nor the priorities are in order, and a worker.
async fn filled(address: &str, lanes: usize, is_fair: bool) -> (Store, WorkerId) {
    let clock = std::sync::Arc::new(ManualClock::new(Timestamp::from_millis(1_800_000_000_000)));
    let env = Environment::new(clock, Entropy::seeded(1), StoreOptions::default());
    let (store, me) = (Store::open_in(address, env).unwrap(), Caller::local());
    let settings = QueueSettings { fair_by: is_fair.then_some(FairBy::Tenant), ..QueueSettings::default() };
    store.configure(&me, Settings::Queue(QueueName::default(), settings)).await.unwrap();
    let numbers: Vec<usize> = (0..2 * lanes).collect();
    for some in numbers.chunks(200) {
        let jobs = some.iter().map(|number| {
            let (tenant, priority) = (number * 7 % lanes, i64::try_from(number * 13 % 5).unwrap());
            job(tenant, priority)
        });
        store.submit(&me, jobs.collect(), SubmitOptions::default()).await.unwrap();
    }
    let worker = store.register(&me, NewWorker::default()).await.unwrap().id;
    (store, worker)
}

/// What a claim of 10 would take, and how many jobs it reads.
async fn next(store: &Store, worker: WorkerId, forgets: bool) -> (Vec<Seq>, usize) {
    let look = move |tx: &mut WriteTx<'_>| -> Result<(Vec<Seq>, usize), WorkError> {
        if forgets {
            tx.lane_heads().clear();
        }
        let (worker, config) = (tx.touch_worker(&Caller::local(), worker)?, tx.config()?);
        let request = ClaimRequest::new(worker.id, 10);
        let mut search = Search::new(tx, &config, &worker, &request, false)?;
        let mut taken = Vec::new();
        for left in (1..=10).rev() {
            taken.extend(search.next(tx, left)?);
        }
        Ok((taken, search.reads))
    };
    store.write("test", Kind::Claim(10), look).await.unwrap()
}

async fn claim(store: &Store, worker: WorkerId) -> Vec<Seq> {
    let request = ClaimRequest::new(worker, 10);
    let claimed = store.claim(&Caller::local(), &request, Duration::ZERO).await.unwrap();
    claimed.jobs.iter().map(|claimed| claimed.job.seq).collect()
}

fn addresses(files: &tempfile::TempDir) -> [String; 2] {
    ["memory:".to_owned(), format!("sqlite:{}", files.path().join("jobs.db").display())]
}

/// Once all lanes are known, a claim reads what it takes and corrects what the last one took.
#[tokio::test]
async fn a_claim_reads_as_much_beside_a_thousand_lanes_as_beside_a_hundred() {
    let files = tempfile::tempdir().unwrap();
    for address in addresses(&files) {
        for (lanes, is_fair) in [(LANES / 10, false), (LANES, false), (LANES / 10, true), (LANES, true)] {
            let address =
                if address == "memory:" { address.clone() } else { format!("{address}{lanes}{is_fair}") };
            let (store, worker) = filled(&address, lanes, is_fair).await;
            let (_, cold) = next(&store, worker, false).await;
            assert!(cold >= lanes, "nothing is known yet");
            for _ in 0..4 {
                claim(&store, worker).await;
                let (_, read) = next(&store, worker, false).await;
                assert!(read <= 120, "{address}: {read} beside {lanes} lanes");
            }
        }
    }
}

/// Model: fairness. What is remembered never changes which jobs come next: also of those that were added before the
/// remembered position, and of lanes that had been empty.
#[tokio::test]
async fn a_claim_that_remembers_takes_what_one_that_reads_everything_takes() {
    let files = tempfile::tempdir().unwrap();
    for address in addresses(&files) {
        for is_fair in [false, true] {
            let address = if address == "memory:" { address.clone() } else { format!("{address}{is_fair}") };
            let (store, worker) = filled(&address, 150, is_fair).await;
            let (me, random) = (Caller::local(), Entropy::seeded(7));
            for round in 0.. {
                let below = |most: u64| usize::try_from(random.next_u64() % most).unwrap();
                let more: Vec<NewJob> =
                    (0..below(8)).map(|_| job(below(150), i64::try_from(below(9)).unwrap())).collect();
                if round < 20 && !more.is_empty() {
                    store.submit(&me, more, SubmitOptions::default()).await.unwrap();
                }
                let (remembering, _) = next(&store, worker, false).await;
                let (reading, _) = next(&store, worker, true).await;
                assert_eq!(remembering, reading, "{address}, round {round}");
                let claimed = claim(&store, worker).await;
                assert_eq!(claimed, reading, "{address}, round {round}");
                if claimed.is_empty() {
                    break;
                }
            }
        }
    }
}
