//! Baseline benchmark of bare SQLite with the same rows: the same columns, the same indexes, the same disk writes,
//! without Windlass.

use std::path::Path;

use rusqlite::{Connection, Result, params};

use crate::clock::Stopwatch;
use crate::store::engines::baseline::Baseline;

const SCHEMA: &str = include_str!("migrations/0001_foundation.sql");
const BATCH: i64 = 1_000;
const CLAIM: i64 = 100;
/// The typical size of an encoded job record.
const RECORD: [u8; 200] = [7; 200];

/// Measures with this many jobs in a new file of this folder, with payloads of this size.
///
/// # Errors
/// If SQLite returns an error, such as a full disk.
pub fn measure(folder: &Path, jobs: u32, payload: usize) -> Result<Baseline> {
    let jobs = i64::from(jobs);
    let db = Connection::open(folder.join("floor.db"))?;
    db.execute_batch(
        "PRAGMA page_size = 8192; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
         PRAGMA cache_size = -16384; PRAGMA wal_autocheckpoint = 4000;",
    )?;
    db.execute_batch(SCHEMA)?;
    let payload = vec![b'x'; payload];
    let watch = Stopwatch::start();
    for first in (0..jobs / BATCH).map(|batch| batch * BATCH) {
        insert(&db, first, &payload)?;
    }
    let inserted = rate(jobs, watch);
    let watch = Stopwatch::start();
    for first in (0..jobs / CLAIM).map(|claim| claim * CLAIM) {
        claim(&db)?;
        finish(&db, first)?;
    }
    Ok(Baseline { insert: inserted, claim_and_finish: rate(jobs, watch) })
}

#[allow(clippy::cast_precision_loss, reason = "three digits are shown")]
fn rate(jobs: i64, watch: Stopwatch) -> f64 {
    jobs as f64 / watch.elapsed().as_secs_f64()
}

fn insert(db: &Connection, first: i64, payload: &[u8]) -> Result<()> {
    db.execute_batch("BEGIN IMMEDIATE")?;
    let mut job =
        db.prepare_cached("INSERT INTO jobs (seq, owner, \"check\", payload) VALUES (?1, 'local', 1, ?2)")?;
    let mut hot = db.prepare_cached(
        "INSERT INTO hot (seq, id, lane, policy, state, order_key, rank, at, expires_at, created_at, record) \
             VALUES (?1, ?2, 1, 1, 3, 1, 50, ?1, ?1, ?1, ?3)",
    )?;
    for seq in first..first + BATCH {
        job.execute(params![seq, payload])?;
        hot.execute(params![seq, i128::from(seq).to_be_bytes(), RECORD])?;
    }
    db.execute_batch("COMMIT")
}

fn claim(db: &Connection) -> Result<()> {
    db.execute_batch("BEGIN IMMEDIATE")?;
    let mut ready = db.prepare_cached(
        "SELECT seq, id, record FROM hot INDEXED BY hot_order \
             WHERE state = 3 AND order_key = 1 ORDER BY rank, at, seq LIMIT ?1",
    )?;
    let seqs: Vec<i64> = ready
        .query_map([CLAIM], |row| {
            let _record: Vec<u8> = row.get(2)?;
            row.get(0)
        })?
        .collect::<Result<_, _>>()?;
    let mut payload = db.prepare_cached("SELECT owner, payload FROM jobs WHERE seq = ?1")?;
    for seq in &seqs {
        let _payload: Vec<u8> = payload.query_row([seq], |row| row.get(1))?;
    }
    for seq in &seqs {
        update(db, *seq, 4, seq + 300_000)?;
    }
    db.execute_batch("COMMIT")
}

fn update(db: &Connection, seq: i64, state: i64, at: i64) -> Result<()> {
    let sql = "UPDATE hot SET state = ?2, order_key = 0, rank = 0, at = ?3, record = ?4 WHERE seq = ?1";
    db.prepare_cached(sql)?.execute(params![seq, state, at, RECORD])?;
    Ok(())
}

fn finish(db: &Connection, first: i64) -> Result<()> {
    db.execute_batch("BEGIN IMMEDIATE")?;
    let mut find = db.prepare_cached("SELECT seq, record FROM hot WHERE id = ?1")?;
    let mut attempt = db.prepare_cached("INSERT INTO facets VALUES (?1, 0, '', 1, 1, ?2)")?;
    let mut audit = db.prepare_cached(
        "INSERT INTO audit (event, at, actor_type, actor_id, tenant, job, context) \
             VALUES (2, ?1, 'worker', '0123456789abcdef0123456789abcdef0123', 'default', ?2, ?3)",
    )?;
    for seq in first..first + CLAIM {
        let id = i128::from(seq).to_be_bytes();
        let _record: Vec<u8> = find.query_row([id], |row| row.get(1))?;
        update(db, seq, 8, 0)?;
        attempt.execute(params![seq, [7u8; 120]])?;
        let context = r#"{"previous_state":"running","state":"completed","attempt":1}"#;
        audit.execute(params![seq, id, context])?;
    }
    db.execute_batch("COMMIT")
}
