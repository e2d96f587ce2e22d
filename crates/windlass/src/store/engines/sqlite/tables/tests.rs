//! Guarantees of the rows: everything is read back as it was written, in the order and selection of the reference
//! predicate, and a row that was tampered with is not served.

mod fields;
mod search;
mod side_tables;
mod whole_file;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rusqlite::Connection;

use super::super::migrate::{SCHEMA, migrate};
use super::*;
use crate::audit::{AuditEvent, Record};
use crate::error::OpenError;
use crate::job::{
    Category, ConcurrencyKey, ErrorCause, ErrorRecord, Fence, JobFlags, JobId, JobMetadata, JobRecord,
    JobState, JobType, Lane, Lease, Need, Parent, Payload, Policy, Priority, Progress, QueueName, RareFields,
    Seq, Spec, StreamTotals, SuspendMode, Suspension, Tenant, TraceId, Wait, WorkerId, acts_at,
};
use crate::store::engine::{
    AuditLog, AuditLogMut, ClaimOrder, CountChange, Counters, CountersMut, Document, DocumentKind,
    DocumentRange, Documents, DocumentsMut, Edge, Graph, GraphMut, JobData, JobDataKind, JobDataQuery,
    JobDataTable, JobDataTableMut, JobDataWrite, JobTable, JobTableMut, Key, KeyHolder, KeyKind, Keys,
    KeysMut, LaneCursor, NewRow, ReadyIndex, RecordQuery, Side,
};
use crate::store::filter::{Filter, Order, Scan};
use crate::ticket::{Subject, Ticket, TicketKey};

fn open(path: &Path) -> Tables {
    let mut connection = Connection::open(path).unwrap();
    connection.pragma_update(None, "journal_mode", "wal").unwrap();
    migrate(&mut connection).unwrap();
    Tables::new(connection).unwrap()
}

fn fresh() -> Tables {
    open(Path::new(":memory:"))
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn lane(tenant: &str, queue: &str, job_type: &str) -> Arc<Lane> {
    Arc::new(Lane::new(
        Tenant::new(tenant).unwrap(),
        QueueName::new(queue).unwrap(),
        JobType::new(job_type).unwrap(),
    ))
}

fn id(number: i64) -> JobId {
    JobId::from_bytes((0x1234_5678_0000_0000_u128 + u128::from(number.unsigned_abs())).to_be_bytes())
}

fn priority(value: i64) -> Priority {
    Priority::new(value).unwrap()
}

/// A job without optional parts.
fn plain_job(seq: i64) -> JobRecord {
    JobRecord {
        seq: Seq(seq),
        id: id(seq),
        lane: lane("default", "mail", "send"),
        policy: Arc::default(),
        state: JobState::Scheduled,
        priority: priority(50),
        inherited: priority(0),
        attempt: 0,
        failures: 0,
        crashes: 0,
        fence: Fence(0),
        created_at: at(1_000_000 + seq),
        updated_at: at(1_000_000 + seq),
        run_at: at(1_000_000 + seq),
        retry_at: None,
        eligible_at: Some(at(1_000_000 + seq)),
        scheduled_at: None,
        first_started_at: None,
        started_at: None,
        completed_at: None,
        expires_at: at(9_000_000),
        lease: None,
        completed_by: None,
        after_unmet: 0,
        any_unmet: false,
        depth: 1,
        concurrency: None,
        is_blocked: false,
        parent: None,
        trace: None,
        cost_cents: 0,
        has: JobFlags::default(),
        details: Arc::default(),
    }
}

fn plain_spec() -> Spec {
    Spec { payload: Payload::json("{}"), owner: "me".into(), ..Spec::unknown() }
}

fn metadata(correlation_id: &str, tags: &[(&str, &str)]) -> JobMetadata {
    JobMetadata {
        tags: tags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        correlation_id: Some(correlation_id.into()),
        callback_url: Some(format!("http://{correlation_id}")),
    }
}

fn key(kind: KeyKind, text: &str) -> Key {
    Key { kind, tenant: Tenant::default(), job_type: JobType::new("send").unwrap(), text: text.into() }
}

fn insert(tables: &mut Tables, job: &JobRecord, spec: &Spec, keys: Vec<(Key, Timestamp)>) {
    let held = |(key, expires_at)| (key, KeyHolder { seq: job.seq, expires_at, memory: None });
    let keys = keys.into_iter().map(held).collect();
    tables.insert(&[NewRow { job: job.clone(), spec: spec.clone(), keys }]).unwrap();
    tables.count(&[CountChange { lane: job.lane.clone(), state: job.state, by: 1 }]).unwrap();
}
