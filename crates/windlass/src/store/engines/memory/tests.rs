//! Cases that a store without faults does not show: panics, a clock that runs backwards, a closed engine.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::*;
use crate::clock::Clock;
use crate::entropy::Entropy;
use crate::job::{
    JobId, JobMetadata, JobRecord, JobState, JobType, Lane, Need, Payload, QueueName, Seq, Spec, Tenant,
    acts_at,
};
use crate::store::engine::{
    AuditLogMut, DocumentKind, Edge, JobData, JobDataKind, JobDataQuery, JobDataWrite, Key, KeyHolder,
    KeyKind, LaneCursor, Side,
};
use crate::store::environment::StoreOptions;
use crate::store::tx::write_tx::WriteTx;

type Outcome = Result<(), StoreError>;

struct Work<F>(F, SyncSender<Outcome>);

impl<F: FnMut(&mut WriteTx<'_>) + Send> WriteTask for Work<F> {
    fn run(&mut self, tx: &mut WriteTx<'_>) {
        (self.0)(tx);
    }

    fn done(self: Box<Self>, outcome: Outcome) {
        self.1.send(outcome).unwrap();
    }

    fn adds_jobs(&self) -> bool {
        true
    }

    fn weight(&self) -> usize {
        1
    }

    fn is_urgent(&self) -> bool {
        false
    }

    fn claims(&self) -> usize {
        0
    }

    fn names(&self) -> &[JobId] {
        &[]
    }
}

struct TestRead<F>(F, SyncSender<Outcome>);

impl<F: FnMut(&mut ReadTx<'_>) + Send> ReadTask for TestRead<F> {
    fn is_long(&self) -> bool {
        false
    }

    fn run(&mut self, tx: &mut ReadTx<'_>) {
        (self.0)(tx);
    }

    fn done(self: Box<Self>, outcome: Outcome) {
        self.1.send(outcome).unwrap();
    }
}

/// A clock that shows any time it is set to.
struct AnyClock(AtomicI64);

impl Clock for AnyClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

fn engine() -> (MemoryEngine, Arc<AnyClock>) {
    let clock = Arc::new(AnyClock(AtomicI64::new(1000)));
    let env = Environment::new(clock.clone(), Entropy::seeded(1), StoreOptions::default());
    (MemoryEngine::new(Arc::new(env)), clock)
}

fn answer(outcome: &Receiver<Outcome>) -> Outcome {
    outcome.recv().expect("every task is answered")
}

fn write(engine: &MemoryEngine, work: impl FnMut(&mut WriteTx<'_>) + Send + 'static) -> Outcome {
    let (sender, outcome) = sync_channel(1);
    engine.write(Box::new(Work(work, sender)));
    answer(&outcome)
}

/// The result of a read.
fn read<T: Send + 'static>(
    engine: &MemoryEngine,
    mut query: impl FnMut(&mut ReadTx<'_>) -> T + Send + 'static,
) -> Result<T, StoreError> {
    let (sender, outcome) = sync_channel(1);
    let (found, finding) = sync_channel(1);
    engine.read(Box::new(TestRead(move |tx: &mut ReadTx<'_>| found.send(query(tx)).unwrap(), sender)));
    answer(&outcome).map(|()| finding.recv().unwrap())
}

fn lane() -> Arc<Lane> {
    let job_type = JobType::new("mail.send").unwrap();
    Arc::new(Lane::new(Tenant::default(), QueueName::default(), job_type))
}

fn job(seq: Seq, now: Timestamp) -> JobRecord {
    let id = JobId::new(now, u128::from(seq.0.unsigned_abs()));
    JobRecord {
        state: JobState::Scheduled,
        eligible_at: Some(now),
        scheduled_at: Some(now),
        expires_at: now.plus(crate::limits::DURATION_MAX),
        ..JobRecord::new(seq, id, lane(), Arc::default(), now)
    }
}

fn spec() -> Spec {
    Spec { payload: Payload::json("{}"), owner: "ann".into(), ..Spec::unknown() }
}

fn key() -> Key {
    let Lane { tenant, job_type, .. } = (*lane()).clone();
    Key { kind: KeyKind::Unique, tenant, job_type, text: "one".into() }
}

fn data(seq: Seq) -> JobData {
    JobData { seq, kind: JobDataKind::Checkpoint, name: "a".into(), number: 0, body: Arc::from(&b"1"[..]) }
}

/// Adds a job with a key, job data, and an edge to the job before it.
fn add(tx: &mut WriteTx<'_>) {
    let (seq, now) = (tx.allocate(1).unwrap(), tx.now);
    tx.insert(job(seq, now), spec(), vec![(key(), KeyHolder::unique(seq))]);
    tx.write_job_data(JobDataWrite::Put(data(seq)));
    tx.link(Edge { dependency: Seq(seq.0 - 1), dependent: seq, need: Need::After });
}

/// Everything that is stored, as text for comparison.
fn contents(engine: &MemoryEngine) -> String {
    read(engine, |tx| {
        let seqs: Vec<Seq> = (1..=4).map(Seq).collect();
        let query =
            |seq| JobDataQuery { seq, kind: JobDataKind::Checkpoint, name: None, above: None, limit: 9 };
        let lanes = [LaneCursor { lane: lane(), after: None }];
        let db = &mut *tx.db;
        format!(
            "{:?}",
            (
                db.load(&seqs).unwrap(),
                db.specs(&seqs).unwrap(),
                db.ready(&lanes, 9).unwrap(),
                (db.due(Timestamp::MAX, 9).unwrap(), db.next_due().unwrap()),
                db.keyed(&[key()]).unwrap(),
                [Side::Dependency, Side::Dependent].map(|side| db.edges(&seqs, side).unwrap()),
                seqs.iter().map(|seq| db.job_data(query(*seq)).unwrap()).collect::<Vec<_>>(),
                DocumentKind::ALL.map(|kind| db.documents(kind).unwrap()),
                db.counts().unwrap().clone(),
            )
        )
    })
    .unwrap()
}

/// Model: atomic-changes. A commit that fails halfway leaves nothing, however much of it was written already.
#[test]
fn work_that_panics_after_it_wrote_leaves_nothing() {
    let (engine, _) = engine();
    write(&engine, add).unwrap();
    let before = contents(&engine);
    let outcome = write(&engine, |tx| {
        add(tx);
        let running = JobRecord { state: JobState::Running, ..tx.job(Seq(1)).unwrap().unwrap().clone() };
        tx.put(running);
        tx.set_metadata(Seq(1), JobMetadata { correlation_id: Some("x".into()), ..JobMetadata::default() });
        tx.put_document(DocumentKind::Cost, "a", Some(b"1"), |_| ()).unwrap();
        tx.flush().unwrap();
        tx.remove(Seq(1));
        tx.flush().unwrap();
        panic!("a bug in a command");
    });
    assert!(matches!(outcome, Err(StoreError::Database(_))), "{outcome:?}");
    assert_eq!(contents(&engine), before);
    write(&engine, add).expect("the engine continues");
}

/// Model: retention. Job data is removed with its job, but not the key that another job has taken since.
#[test]
fn removing_a_job_takes_along_what_is_its_own() {
    let (engine, _) = engine();
    write(&engine, add).unwrap();
    write(&engine, add).unwrap();
    write(&engine, |tx| {
        tx.load(&[Seq(1)]).unwrap();
        tx.remove(Seq(1));
    })
    .unwrap();
    read(&engine, |tx| {
        assert_eq!(tx.db.keyed(&[key()]).unwrap()[0].map(|holder| holder.seq), Some(Seq(2)));
        assert!(tx.db.edges(&[Seq(1)], Side::Dependency).unwrap().is_empty());
        assert!(tx.db.edges(&[Seq(1), Seq(2)], Side::Dependent).unwrap().is_empty());
        assert_eq!(tx.db.counts().unwrap().sum(JobState::Scheduled, |_| true), 1);
    })
    .unwrap();
    write(&engine, |tx| {
        tx.load(&[Seq(2)]).unwrap();
        tx.remove(Seq(2));
    })
    .unwrap();
    read(&engine, |tx| {
        assert_eq!(tx.db.keyed(&[key()]).unwrap(), [None]);
        assert_eq!((tx.db.next_due().unwrap(), tx.db.counts().unwrap().lanes.len()), (None, 0));
    })
    .unwrap();
}

/// Model: timer-precision. The indexes follow every change of a job.
#[test]
fn a_job_is_found_where_its_record_says() {
    let (engine, _) = engine();
    write(&engine, add).unwrap();
    let found = |engine: &MemoryEngine| {
        read(engine, |tx| {
            let ready = tx.db.ready(&[LaneCursor { lane: lane(), after: None }], 9).unwrap();
            (ready[0].len(), tx.db.next_due().unwrap())
        })
        .unwrap()
    };
    let end = acts_at(&job(Seq(1), Timestamp::from_millis(1000)));
    assert_eq!(found(&engine), (1, end));
    for (state, is_blocked, ready) in
        [(JobState::Scheduled, true, 0), (JobState::Scheduled, false, 1), (JobState::Pending, false, 0)]
    {
        write(&engine, move |tx| {
            let changed = JobRecord { state, is_blocked, ..tx.job(Seq(1)).unwrap().unwrap().clone() };
            tx.put(changed);
        })
        .unwrap();
        assert_eq!(found(&engine), (ready, end), "{state}");
    }
    write(&engine, |tx| {
        let done = JobRecord { state: JobState::Completed, ..tx.job(Seq(1)).unwrap().unwrap().clone() };
        tx.put(done);
    })
    .unwrap();
    assert_eq!(found(&engine), (0, None));
}

/// Model: store-time. A clock that is set back does not affect the store.
#[test]
fn time_never_runs_backwards() {
    let (engine, clock) = engine();
    assert_eq!(read(&engine, |tx| tx.now), Ok(Timestamp::from_millis(1000)));
    clock.0.store(500, Ordering::SeqCst);
    assert_eq!(read(&engine, |tx| tx.now), Ok(Timestamp::from_millis(1000)));
    write(&engine, |tx| assert_eq!(tx.now, Timestamp::from_millis(1000))).unwrap();
    clock.0.store(2000, Ordering::SeqCst);
    assert_eq!(read(&engine, |tx| tx.now), Ok(Timestamp::from_millis(2000)));
}

/// A refused task changed nothing, so a caller may safely retry it on another store.
#[test]
fn a_closed_engine_refuses_everything() {
    let (engine, _) = engine();
    write(&engine, add).unwrap();
    engine.close();
    assert!(matches!(write(&engine, |_| ()), Err(StoreError::Closed)));
    assert!(matches!(read(&engine, |_| ()), Err(StoreError::Closed)));
}

/// Model: audit-chain. Audit records are numbered without gaps, also after a commit that failed.
#[test]
fn audit_numbers_have_no_gap() {
    let mut tables = Tables::default();
    let record = crate::audit::Record {
        seq: 0,
        event: crate::audit::AuditEvent::Submitted,
        alias: None,
        at: Timestamp::MIN,
        actor_type: "user".into(),
        actor_id: "ann".into(),
        tenant: Tenant::default(),
        job: None,
        queue: None,
        job_type: None,
        trace_id: None,
        context: "{}".into(),
    };
    let append = |tables: &mut Tables| {
        let mut records = [record.clone(), record.clone()];
        tables.append(&mut records).unwrap();
        records.map(|record| record.seq)
    };
    assert_eq!(append(&mut tables), [1, 2]);
    tables.commit(Timestamp::MIN);
    assert_eq!(append(&mut tables), [3, 4]);
    tables.roll_back();
    assert_eq!(append(&mut tables), [3, 4]);
}

#[test]
fn a_fork_has_the_same_content_and_continues_separately() {
    let (engine, _) = engine();
    write(&engine, add).unwrap();
    let before = contents(&engine);
    let fork = engine.fork(engine.env.clone());
    assert_eq!(contents(&fork), before);
    write(&fork, add).unwrap();
    assert_ne!(contents(&fork), before);
    assert_eq!(contents(&engine), before, "what happens to the fork is not seen here");
    // Each continues as if it were alone.
    write(&engine, add).unwrap();
    assert_eq!(contents(&engine), contents(&fork));
}
