//! What bare SQLite does with the same rows: the same columns, the same indexes, the same disk writes, no Windlass.

use std::time::Instant;

use rusqlite::{Connection, params};

/// Rates of bare SQLite, in jobs a second.
pub(crate) struct Floor {
    pub(crate) insert: f64,
    pub(crate) claim_and_finish: f64,
}

const SCHEMA: &str = include_str!("../../src/store/sqlite/migrations/0001_foundation.sql");
const JOBS: i64 = 200_000;
const BATCH: i64 = 1_000;
const CLAIM: i64 = 100;
/// What a packed job record takes.
const RECORD: [u8; 200] = [7; 200];

#[allow(clippy::disallowed_methods, clippy::cast_precision_loss, reason = "a benchmark reads the clock")]
pub(crate) fn measure(payload: usize) -> Floor {
    let files = tempfile::tempdir_in(".").expect("a directory on the disk to be measured");
    let db = Connection::open(files.path().join("floor.db")).expect("a new file opens");
    db.execute_batch(
        "PRAGMA page_size = 8192; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
         PRAGMA cache_size = -16384; PRAGMA wal_autocheckpoint = 4000;",
    )
    .expect("pragmas");
    db.execute_batch(SCHEMA).expect("the schema");
    let payload = vec![b'x'; payload];
    let start = Instant::now();
    for first in (0..JOBS).step_by(usize::try_from(BATCH).expect("fits")) {
        insert(&db, first, &payload);
    }
    let insert_rate = JOBS as f64 / start.elapsed().as_secs_f64();
    let start = Instant::now();
    for first in (0..JOBS).step_by(usize::try_from(CLAIM).expect("fits")) {
        claim(&db);
        finish(&db, first);
    }
    Floor { insert: insert_rate, claim_and_finish: JOBS as f64 / start.elapsed().as_secs_f64() }
}

fn insert(db: &Connection, first: i64, payload: &[u8]) {
    db.execute_batch("BEGIN IMMEDIATE").expect("begins");
    let mut job = db
        .prepare_cached("INSERT INTO jobs (seq, owner, \"check\", payload) VALUES (?1, 'local', 1, ?2)")
        .expect("sql");
    let mut hot = db
        .prepare_cached(
            "INSERT INTO hot (seq, id, lane, policy, state, order_key, rank, at, expires_at, created_at, record) \
             VALUES (?1, ?2, 1, 1, 3, 1, 50, ?1, ?1, ?1, ?3)",
        )
        .expect("sql");
    for seq in first..first + BATCH {
        job.execute(params![seq, payload]).expect("inserts");
        hot.execute(params![seq, i128::from(seq).to_be_bytes(), RECORD]).expect("inserts");
    }
    db.execute_batch("COMMIT").expect("commits");
}

fn claim(db: &Connection) {
    db.execute_batch("BEGIN IMMEDIATE").expect("begins");
    let mut ready = db
        .prepare_cached(
            "SELECT seq, id, record FROM hot INDEXED BY hot_order \
             WHERE state = 3 AND order_key = 1 ORDER BY rank, at, seq LIMIT ?1",
        )
        .expect("sql");
    let seqs: Vec<i64> = ready
        .query_map([CLAIM], |row| {
            let _record: Vec<u8> = row.get(2)?;
            row.get(0)
        })
        .expect("reads")
        .collect::<Result<_, _>>()
        .expect("reads");
    let mut payload = db.prepare_cached("SELECT owner, payload FROM jobs WHERE seq = ?1").expect("sql");
    for seq in &seqs {
        let _payload: Vec<u8> = payload.query_row([seq], |row| row.get(1)).expect("reads");
    }
    for seq in &seqs {
        update(db, *seq, 4, seq + 300_000);
    }
    db.execute_batch("COMMIT").expect("commits");
}

fn update(db: &Connection, seq: i64, state: i64, at: i64) {
    let sql = "UPDATE hot SET state = ?2, order_key = 0, rank = 0, at = ?3, record = ?4 WHERE seq = ?1";
    db.prepare_cached(sql).expect("sql").execute(params![seq, state, at, RECORD]).expect("updates");
}

fn finish(db: &Connection, first: i64) {
    db.execute_batch("BEGIN IMMEDIATE").expect("begins");
    let mut find = db.prepare_cached("SELECT seq, record FROM hot WHERE id = ?1").expect("sql");
    let mut attempt = db.prepare_cached("INSERT INTO facets VALUES (?1, 0, '', 1, 1, ?2)").expect("sql");
    let mut audit = db
        .prepare_cached(
            "INSERT INTO audit (event, at, actor_type, actor_id, tenant, job, context) \
             VALUES (2, ?1, 'worker', '0123456789abcdef0123456789abcdef0123', 'default', ?2, ?3)",
        )
        .expect("sql");
    for seq in first..first + CLAIM {
        let id = i128::from(seq).to_be_bytes();
        let _record: Vec<u8> = find.query_row([id], |row| row.get(1)).expect("reads");
        update(db, seq, 8, 0);
        attempt.execute(params![seq, [7u8; 120]]).expect("inserts");
        let context = r#"{"previous_state":"running","state":"completed","attempt":1}"#;
        audit.execute(params![seq, id, context]).expect("inserts");
    }
    db.execute_batch("COMMIT").expect("commits");
}
