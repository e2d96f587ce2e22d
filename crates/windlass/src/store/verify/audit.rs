//! Invariants of the audit trail: legal steps, one end per job, an unbroken chain.

use std::collections::HashMap;

use serde_json::Value;

use super::{Told, Verdict};
use crate::audit::{AuditEvent, Record, Seal};
use crate::error::StoreError;
use crate::job::{JobId, LIFECYCLE, State};
use crate::limits;
use crate::store::config::parse;
use crate::store::engine::{DocumentKind, RecordQuery};
use crate::store::view::View;

/// Calls `each` for every record, oldest first.
fn walk(view: &mut View<'_>, told: &mut Told<'_>, mut each: impl FnMut(&Record)) -> Result<(), StoreError> {
    let mut after = 0;
    loop {
        let query = RecordQuery { after, limit: limits::PAGE_RECORDS_MAX, ..RecordQuery::default() };
        let page = view.db.records(&query)?;
        let Some(last) = page.last() else { return Ok(()) };
        after = last.seq;
        page.iter().for_each(&mut each);
        told.more(page.len());
    }
}

/// I3 and I19: recorded steps are in the table, and a job ends once.
pub(super) fn records(view: &mut View<'_>, told: &mut Told<'_>) -> Result<Vec<Verdict>, StoreError> {
    let mut legal = Verdict::new("I3", "every recorded step is one the lifecycle allows");
    let mut ends = Verdict::new("I19", "a job's end is recorded once, and nothing happens to it after");
    let mut ended: HashMap<JobId, AuditEvent> = HashMap::new();
    walk(view, told, |record| {
        let Some(job) = record.job else { return };
        let steps = step_of(record);
        if let Some((from, to)) = steps {
            let is_legal = from == to || is_in_table(from, to);
            legal.look((!is_legal).then(|| format!("record {}: {from} to {to} of job {job}", record.seq)));
            let before = ended.get(&job).copied();
            ends.look(
                before.filter(|_| from != to || !to.is_final()).map(|event| {
                    format!("record {}: {} of job {job} after {event}", record.seq, record.event)
                }),
            );
            if to.is_final() && from != to {
                ended.insert(job, record.event);
            }
        }
    })?;
    Ok(vec![legal, ends])
}

fn step_of(record: &Record) -> Option<(State, State)> {
    // An expired lease is recorded beside what it led to; the step itself is told once.
    if record.event == AuditEvent::Reaped {
        return None;
    }
    let context: Value = serde_json::from_str(&record.context).ok()?;
    let state = |name: &str| context.get(name)?.as_str()?.parse().ok();
    Some((state("previous_state")?, state("state")?))
}

fn is_in_table(from: State, to: State) -> bool {
    LIFECYCLE.iter().any(|(_, states, ends)| states.contains(&from) && ends.contains(&to))
}

/// M93: no record was edited, removed, added or moved since it was sealed.
pub(super) fn chain(view: &mut View<'_>, told: &mut Told<'_>) -> Result<Verdict, StoreError> {
    let mut verdict = Verdict::new("M93", "the audit trail is as it was sealed");
    let mut points: HashMap<u64, Seal> = HashMap::new();
    for document in view.db.documents(DocumentKind::Seal)? {
        let seal: Seal = parse(&document.body)?;
        points.insert(seal.through, seal);
    }
    let sealed_through = points.keys().max().copied().unwrap_or(0);
    let (mut seal, mut expected) = (Seal::origin(), 1);
    walk(view, told, |record| {
        let gap = record.seq != expected;
        verdict.look(gap.then(|| format!("record {expected} is missing, {} follows", record.seq)));
        expected = record.seq + 1;
        seal = seal.extend(record);
        if let Some(point) = points.get(&record.seq)
            && *point != seal
        {
            verdict.look(Some(format!("a record up to {} is not as it was sealed", record.seq)));
            // Go on from what was sealed, so that one edit is told once.
            seal = point.clone();
        }
    })?;
    if sealed_through >= expected {
        verdict.look(Some(format!("records {expected} to {sealed_through} were sealed and are gone")));
    }
    Ok(verdict)
}
