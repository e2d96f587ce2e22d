//! The audit trail, counts over several connections, versions of the file, and damage.

use super::fields::{full_job, full_spec};
use super::*;

pub(super) fn record(job: Option<JobId>) -> Record {
    Record {
        seq: 0,
        event: AuditEvent::Completed,
        alias: Some("mail.sent".into()),
        at: at(5),
        actor_type: "worker".into(),
        actor_id: "w1".into(),
        tenant: Tenant::default(),
        job,
        queue: job.map(|_| crate::job::QueueName::default()),
        job_type: None,
        trace_id: Some("t".into()),
        context: "{}".into(),
    }
}

#[test]
fn audit_numbers_have_no_gap_after_a_rollback() {
    let mut tables = fresh();
    let mut records = [record(Some(id(1))), record(None)];
    tables.begin_write().unwrap();
    tables.append(&mut records).unwrap();
    tables.commit().unwrap();
    tables.begin_write().unwrap();
    tables.append(&mut [record(None)]).unwrap();
    tables.rollback();
    tables.begin_write().unwrap();
    let mut last =
        [Record { event: AuditEvent::Failed, at: at(9), actor_id: "w2".into(), ..record(Some(id(1))) }];
    tables.append(&mut last).unwrap();
    tables.commit().unwrap();
    let all = [records[0].clone(), records[1].clone(), last[0].clone()];
    assert_eq!(all.each_ref().map(|record| record.seq), [1, 2, 3]);
    let base = RecordQuery { limit: 10, ..RecordQuery::default() };
    assert_eq!(tables.records(&base).unwrap(), all);
    let mut numbers = |query: RecordQuery| -> Vec<u64> {
        tables.records(&query).unwrap().iter().map(|record| record.seq).collect()
    };
    assert_eq!(numbers(RecordQuery { after: 1, limit: 1, ..base.clone() }), [2]);
    assert_eq!(numbers(RecordQuery { job: Some(id(1)), ..base.clone() }), [1, 3]);
    assert_eq!(numbers(RecordQuery { job: Some(id(1)), after: 1, ..base.clone() }), [3]);
    assert_eq!(numbers(RecordQuery { event: Some(AuditEvent::Failed), ..base.clone() }), [3]);
    assert_eq!(numbers(RecordQuery { actor: Some("w1".into()), ..base.clone() }), [1, 2]);
    assert_eq!(numbers(RecordQuery { since: Some(at(6)), ..base.clone() }), [3]);
    assert_eq!(numbers(RecordQuery { until: Some(at(9)), ..base.clone() }), [1, 2]);
    assert!(numbers(RecordQuery { tenant: Some(Tenant::new("x").unwrap()), ..base }).is_empty());
}

#[test]
fn codes_of_audit_events_never_change() {
    let names: Vec<&str> = AuditEvent::ALL.iter().map(|event| event.as_str()).collect();
    assert_eq!(
        (names[0], names[11], names[20]),
        ("job.lifecycle.submitted", "job.lifecycle.reaped", "job.ops.woken")
    );
    assert_eq!(names[29], "gate.ops.opened");
    assert!(AuditEvent::ALL.iter().enumerate().all(|(place, event)| *event as usize == place));
}

#[test]
fn counts_and_places_follow_rollbacks_and_other_connections() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let (mut one, mut two) = (open(&path), open(&path));
    let add = |tables: &mut Tables, job: &JobRecord| {
        let first = tables.allocate(3).unwrap();
        insert(tables, job, &plain_spec(), Vec::new());
        first
    };
    let totals = |tables: &mut Tables| tables.counts().unwrap().sum(JobState::Scheduled, |_| true);
    one.begin_write().unwrap();
    assert_eq!(totals(&mut one), 0);
    assert_eq!(add(&mut one, &plain_job(1)), Seq(1));
    assert_eq!(totals(&mut one), 1);
    one.rollback();
    one.begin_write().unwrap();
    assert_eq!(totals(&mut one), 0);
    assert_eq!(add(&mut one, &plain_job(1)), Seq(1));
    assert_eq!(one.commit().unwrap(), 1);
    two.begin_write().unwrap();
    assert_eq!(totals(&mut two), 1);
    let job = JobRecord { lane: lane("default", "other", "send"), ..plain_job(2) };
    assert_eq!(add(&mut two, &job), Seq(4));
    assert_eq!(two.commit().unwrap(), 2);
    one.begin_read().unwrap();
    assert_eq!(totals(&mut one), 2);
    assert_eq!(one.load(&[Seq(2)]).unwrap(), [Some(job.clone())]);
    one.end_read();
    two.begin_write().unwrap();
    let by = |state, by| CountChange { lane: job.lane.clone(), state, by };
    two.count(&[by(JobState::Scheduled, -1), by(JobState::Completed, 1)]).unwrap();
    two.commit().unwrap();
    one.begin_read().unwrap();
    two.begin_read().unwrap();
    assert_eq!(one.counts().unwrap(), two.counts().unwrap());
    assert_eq!(totals(&mut one), 1);
}

#[test]
fn a_newer_file_is_refused_and_an_older_one_is_brought_up_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let opened: BTreeSet<Vec<u8>> = std::thread::scope(|scope| {
        let open = || {
            let mut connection = Connection::open(&path).unwrap();
            connection.busy_timeout(Duration::from_secs(10)).unwrap();
            migrate(&mut connection).unwrap();
            connection.query_row("SELECT store_id FROM meta", [], |row| row.get(0)).unwrap()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(opened.len(), 1);
    let mut connection = Connection::open(&path).unwrap();
    connection.pragma_update(None, "user_version", SCHEMA + 1).unwrap();
    let refused = OpenError::NewerSchema { found: SCHEMA + 1, known: SCHEMA };
    assert_eq!(migrate(&mut connection), Err(refused));
}

#[test]
fn a_row_that_was_tampered_with_is_not_served() {
    let attacks: BTreeMap<&str, &str> = [
        ("UPDATE hot SET record = CAST(substr(record, 1, 20) || x'55' || substr(record, 22) AS BLOB)", "hot"),
        ("UPDATE hot SET record = x''", "hot"),
        ("UPDATE hot SET record = 'text'", "hot"),
        ("UPDATE hot SET policy = policy + 1", "hot"),
        ("UPDATE hot SET id = zeroblob(16)", "hot"),
        ("UPDATE jobs SET payload = x'00'", "jobs"),
        ("UPDATE jobs SET owner = owner || 'x'", "jobs"),
        ("UPDATE jobs SET unique_key = NULL", "jobs"),
    ]
    .into();
    for (attack, table) in attacks {
        let mut tables = fresh();
        insert(&mut tables, &full_job(), &full_spec(), Vec::new());
        tables.connection().execute(attack, []).unwrap();
        let error = match table {
            "hot" => {
                assert_eq!(tables.load(&[Seq(77)]), Ok(vec![None]), "{attack}: it counts as missing");
                let id = if attack.contains("zeroblob") { JobId::from_bytes([0; 16]) } else { full_job().id };
                tables.find(&[id]).map(drop)
            }
            _ => tables.specs(&[Seq(77)]).map(drop),
        };
        let expected = format!("row 77 of {table} does not match its checksum");
        assert_eq!(error, Err(StoreError::Damaged(expected)), "{attack}");
    }
}
