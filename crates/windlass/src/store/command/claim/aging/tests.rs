//! How much a claim reads where jobs age, and which lanes take turns when it cannot read everything.

use std::time::Duration;

use super::*;
use crate::clock::ManualClock;
use crate::entropy::Entropy;
use crate::error::WorkError;
use crate::job::{JobType, NewJob, Payload, Priority, QueueName, Tenant, WorkerId};
use crate::limits;
use crate::settings::QueueSettings;
use crate::store::Store;
use crate::store::caller::Caller;
use crate::store::command::claim::ClaimRequest;
use crate::store::command::settings::Settings;
use crate::store::command::submit::SubmitOptions;
use crate::store::command::worker::NewWorker;
use crate::store::environment::{Environment, StoreOptions};
use crate::store::tx::request::Kind;

const LANES: usize = 1_000;
const PRIORITIES: i64 = 50;

/// A store with one job per tenant and priority, and a worker.
async fn filled(address: &str, lanes: usize) -> (Store, WorkerId) {
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_800_000_000_000)));
    let env = Environment::new(clock, Entropy::seeded(1), StoreOptions::default());
    let (store, me) = (Store::open_in(address, env).unwrap(), Caller::local());
    let settings = QueueSettings { aging: Some(Duration::from_secs(60)), ..QueueSettings::default() };
    store.configure(&me, Settings::Queue(QueueName::default(), settings)).await.unwrap();
    let job = |tenant: usize, priority: i64| NewJob {
        tenant: Some(Tenant::new(&format!("t{tenant}")).unwrap()),
        priority: Some(Priority::new(priority).unwrap()),
        ..NewJob::new(JobType::new("send").unwrap(), Payload::json("{}"))
    };
    for first in (0..lanes).step_by(100) {
        let tenants = first..lanes.min(first + 100);
        let jobs = tenants.flat_map(|tenant| (0..PRIORITIES).map(move |priority| job(tenant, priority)));
        store.submit(&me, jobs.collect(), SubmitOptions::default()).await.unwrap();
    }
    let worker = store.register(&me, NewWorker::default()).await.unwrap().id;
    (store, worker)
}

/// Jobs and positions that a claim of 10 reads.
async fn reads(store: &Store, worker: WorkerId) -> usize {
    let count_reads = move |tx: &mut WriteTx<'_>| -> Result<usize, WorkError> {
        let (worker, config) = (tx.touch_worker(&Caller::local(), worker)?, tx.config()?);
        let request = ClaimRequest::new(worker.id, 10);
        let mut search = Search::new(tx, &config, &worker, &request, false)?;
        for left in (1..=10).rev() {
            assert!(search.next(tx, left)?.is_some());
        }
        Ok(search.reads)
    };
    store.write("test", Kind::Claim(10), count_reads).await.unwrap()
}

async fn claim(store: &Store, worker: WorkerId) {
    let request = ClaimRequest::new(worker, 10);
    let claimed = store.claim(&Caller::local(), &request, Duration::ZERO).await.unwrap();
    assert_eq!(claimed.jobs.len(), 10);
}

#[tokio::test]
async fn a_claim_reads_a_bounded_number_of_jobs_however_many_lanes_and_priorities_age() {
    let files = tempfile::tempdir().unwrap();
    for address in ["memory:".to_owned(), format!("sqlite:{}", files.path().join("jobs.db").display())] {
        let (store, worker) = filled(&address, LANES).await;
        let read = reads(&store, worker).await;
        // Of a lane that was not compared, more is read as soon as its first job is taken.
        let taken = 10 * 20;
        assert!(read <= LANES + limits::AGING_HEADS_PER_CLAIM + taken, "{address}: {read}");
    }
}

/// Once all lanes were compared, a claim reads the jobs that it takes and checks those that the last one took.
#[tokio::test]
async fn a_claim_reads_as_much_beside_a_thousand_known_lanes_as_beside_a_hundred() {
    let files = tempfile::tempdir().unwrap();
    for address in ["memory:".to_owned(), format!("sqlite:{}", files.path().join("jobs.db").display())] {
        for lanes in [LANES / 10, LANES] {
            let address = if address == "memory:" { address.clone() } else { format!("{address}{lanes}") };
            let (store, worker) = filled(&address, lanes).await;
            let heads = lanes * usize::try_from(PRIORITIES).unwrap();
            for _ in 0..=heads / (limits::AGING_HEADS_PER_CLAIM - RANKS) {
                claim(&store, worker).await;
            }
            for _ in 0..3 {
                let read = reads(&store, worker).await;
                assert!(read <= 60, "{address}: {read} beside {lanes} lanes");
                claim(&store, worker).await;
            }
        }
    }
}

fn lane(number: usize) -> Arc<Lane> {
    Arc::new(Lane {
        tenant: Tenant::new(&format!("t{number}")).unwrap(),
        queue: QueueName::new("default").unwrap(),
        job_type: JobType::new("send").unwrap(),
        version: None,
    })
}

/// Takes a turn of `window` among these lanes.
fn turn(turns: &mut AgingTurns, lanes: &[Arc<Lane>], window: usize, anywhere: u64) -> Vec<Arc<Lane>> {
    let mut lanes = lanes.to_vec();
    turns.sort(&mut lanes, |lane| lane, anywhere);
    turns.compared(lanes[..window].iter());
    lanes.truncate(window);
    lanes
}

#[test]
fn every_lane_has_its_turn_in_as_many_claims_as_it_takes_to_look_at_all() {
    let lanes: Vec<Arc<Lane>> = (0..100).map(lane).collect();
    let (mut turns, random) = (AgingTurns::default(), Entropy::seeded(7));
    for round in 0..5 {
        let seen: Vec<Arc<Lane>> =
            (0..10).flat_map(|_| turn(&mut turns, &lanes, 10, random.next_u64())).collect();
        for lane in &lanes {
            assert_eq!(seen.iter().filter(|seen| *seen == lane).count(), 1, "round {round}");
        }
    }
}

#[test]
fn claims_for_other_lanes_and_new_lanes_take_no_turn_away() {
    let lanes: Vec<Arc<Lane>> = (0..40).map(lane).collect();
    let others: Vec<Arc<Lane>> = (1_000..1_100).map(lane).collect();
    let (mut turns, random) = (AgingTurns::default(), Entropy::seeded(7));
    let mut seen = Vec::new();
    let mut grown = lanes.clone();
    for claim in 0..8 {
        turn(&mut turns, &others, 10, random.next_u64());
        seen.extend(turn(&mut turns, &grown, 10, random.next_u64()));
        grown.extend((0..10).map(|new| lane(2_000 + claim * 10 + new)));
    }
    assert!(lanes.iter().all(|lane| seen.contains(lane)), "each had its turn in twice as many claims");
    assert_eq!(seen.len(), 80);
    assert!(lanes.iter().all(|lane| seen[..40].contains(lane)), "and before all that came after it");
}

#[test]
fn lanes_that_wait_equally_long_begin_anywhere() {
    let lanes: Vec<Arc<Lane>> = (0..100).map(lane).collect();
    let first = |anywhere| turn(&mut AgingTurns::default(), &lanes, 1, anywhere).remove(0);
    assert_eq!((first(3), first(250)), (lanes[3].clone(), lanes[50].clone()));
}
