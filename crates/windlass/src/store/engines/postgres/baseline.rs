//! Baseline benchmark of bare PostgreSQL with the same rows: the engine's own statements sent directly over one
//! connection, the same commits, without Windlass.

pub mod endpoint;
pub mod plain;

use super::connection::address::Address;
use super::connection::waits::Waits;
use super::parameter::{Column, Parameter};
use super::tables::row::TupleId;
use super::tables::{advance, audit, insert};
use super::{connection, migrate, prefetch, writer};
use crate::clock::Stopwatch;
use crate::error::OpenError;
use crate::store::engine::EngineResult;
use crate::store::engines::baseline::Baseline;

const JOBS: i64 = 100_000;
const BATCH: i64 = 1_000;
const CLAIM: i64 = 100;
/// The typical size of an encoded job record.
const RECORD: [u8; 160] = [7; 160];
/// The settings of every transaction of the engine.
const SETTINGS: &str = "SET jit = off; SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; \
     SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_bitmapscan = off; SET enable_memoize = off; \
     SET max_parallel_workers_per_gather = 0";

/// Measures with payloads of this size, in a new schema next to the one of the address, which is dropped afterwards.
///
/// # Errors
/// If the server cannot be reached or returns an error, or if such a schema already exists.
pub fn measure(address: &str, payload: usize) -> Result<Baseline, OpenError> {
    let mut address = Address::parse(address)?;
    address.schema.push_str("_floor");
    let mut link = writer::connect(&address, Waits::default())?;
    link.run(&format!("CREATE SCHEMA \"{}\"", address.schema))?;
    let floor = measure_in(&mut link, &address, payload);
    link.run(&format!("DROP SCHEMA \"{}\" CASCADE", address.schema))?;
    floor
}

fn measure_in(
    link: &mut connection::Connection,
    address: &Address,
    payload: usize,
) -> Result<Baseline, OpenError> {
    migrate::migrate(link, address)?;
    link.run(SETTINGS)?;
    let payload = vec![b'x'; payload];
    let watch = Stopwatch::start();
    for first in (1..=JOBS).step_by(1_000) {
        insert_some(link, first, &payload)?;
    }
    let inserted = rate(watch);
    let watch = Stopwatch::start();
    let mut after = 0;
    for first in (1..=JOBS).step_by(100) {
        after = claim(link, after)?;
        finish(link, first)?;
    }
    Ok(Baseline { insert: inserted, claim_and_finish: rate(watch) })
}

#[allow(clippy::cast_precision_loss, reason = "three digits are shown")]
fn rate(watch: Stopwatch) -> f64 {
    JOBS as f64 / watch.elapsed().as_secs_f64()
}

fn id(seq: i64) -> [u8; 16] {
    i128::from(seq).to_be_bytes()
}

fn ids(seqs: impl Iterator<Item = i64>) -> Parameter {
    let mut column = Column::ids();
    seqs.for_each(|seq| column.push(&id(seq)));
    column.into()
}

fn numbers(count: i64, number: impl Fn(i64) -> i64) -> Parameter {
    Column::from_numbers((0..count).map(number)).into()
}

fn bytes(count: i64, value: &[u8]) -> Parameter {
    let mut column = Column::bytes();
    (0..count).for_each(|_| column.push(value));
    column.into()
}

fn insert_some(link: &mut connection::Connection, first: i64, payload: &[u8]) -> EngineResult<()> {
    link.send_plain("BEGIN");
    let seqs = || numbers(BATCH, |at| first + at);
    let hot = vec![
        seqs(),
        ids(first..first + BATCH),
        numbers(BATCH, |_| 1),
        numbers(BATCH, |_| 1),
        seqs(),
        Column::ids().into(),
        numbers(BATCH, |_| 3),
        bytes(BATCH, &RECORD),
    ];
    link.send(insert::HOT, hot, None)?;
    let mut jobs = vec![seqs(), bytes(BATCH, b"local")];
    jobs.extend((0..10).map(|_| Parameter::from(Column::bytes())));
    jobs.extend([numbers(BATCH, |_| 1), bytes(BATCH, payload)]);
    link.send(insert::JOBS, jobs, None)?;
    let ready = vec![numbers(BATCH, |_| 1), numbers(BATCH, |_| 50), seqs(), seqs()];
    link.send(advance::ENTER_READY, ready, None)?;
    link.run("COMMIT")
}

fn claim(link: &mut connection::Connection, after: i64) -> EngineResult<i64> {
    link.send_plain("BEGIN");
    let front = prefetch::ClaimPrefetch {
        spots: vec![[1, 50, after, 0]],
        each: usize::try_from(CLAIM).unwrap_or(100),
    };
    let rows = link.fetch(front.sql(), front.values())?;
    let mut seqs = Vec::with_capacity(rows.len());
    let (mut rows_of_hot, mut places) = (Column::rows_themselves(), Column::rows_themselves());
    for row in &rows {
        seqs.push(connection::get::<i64>(row, 0)?);
        let _record: &[u8] = connection::get(row, 4)?;
        rows_of_hot.push(&connection::get::<TupleId>(row, 5)?.0);
        places.push(&connection::get::<TupleId>(row, 7)?.0);
        let _payload: Option<&[u8]> = connection::get(row, 20)?;
    }
    update(link, advance::UPDATE_ROWS, vec![rows_of_hot.into()], &seqs, 4)?;
    let rows = places.rows();
    link.send(advance::LEAVE_READY_ROWS, vec![places.into()], Some((rows, "ready")))?;
    link.run("COMMIT")?;
    Ok(seqs.into_iter().max().unwrap_or(after))
}

fn update(
    link: &mut connection::Connection,
    sql: &str,
    first: Vec<Parameter>,
    seqs: &[i64],
    state: i64,
) -> EngineResult<()> {
    let count = i64::try_from(seqs.len()).unwrap_or(0);
    let column = Column::from_numbers(seqs.iter().copied());
    let expected = (column.rows(), "hot");
    let values = [column.into(), numbers(count, |_| state), bytes(count, &RECORD)];
    link.send(sql, first.into_iter().chain(values).collect(), Some(expected))
}

fn finish(link: &mut connection::Connection, first: i64) -> EngineResult<()> {
    link.send_plain("BEGIN");
    let seqs: Vec<i64> = (first..first + CLAIM).collect();
    update(link, advance::UPDATE, Vec::new(), &seqs, 8)?;
    let mut tenants = Column::texts();
    for _ in &seqs {
        tenants.push(b"default");
    }
    let records = vec![
        numbers(CLAIM, |at| first + at),
        numbers(CLAIM, |_| 2),
        Column::bytes().into(),
        numbers(CLAIM, |at| first + at),
        bytes(CLAIM, b"worker"),
        bytes(CLAIM, b"0123456789abcdef0123456789abcdef0123"),
        tenants.into(),
        ids(first..first + CLAIM),
        Column::bytes().into(),
        bytes(CLAIM, br#"{"previous_state":"running","state":"completed","attempt":1}"#),
        Column::texts().into(),
        Column::texts().into(),
    ];
    link.send(audit::APPEND, records, None)?;
    link.run("COMMIT")
}
