//! Invariants of the audit trail: legal transitions, one end per job, an unbroken chain.

use std::collections::{BTreeMap, HashMap};

use rustc_hash::FxHashMap;
use serde_json::Value;

use super::{VerifyFinding, VerifyReport};
use crate::audit::{AuditEvent, Record, Seal, SealPoint};
use crate::error::StoreError;
use crate::job::{JobId, JobState, LIFECYCLE};
use crate::limits;
use crate::store::command::maintenance::audit_chain::kept_head;
use crate::store::documents::config::parse;
use crate::store::engine::{DocumentKind, RecordQuery};
use crate::store::tx::read_tx::ReadTx;
use crate::ticket::TicketPublicKey;

/// Calls `each` for every record, oldest first.
fn walk(
    tx: &mut ReadTx<'_>,
    progress: &mut VerifyFinding<'_>,
    mut each: impl FnMut(&Record),
) -> Result<(), StoreError> {
    let mut after = 0;
    loop {
        tx.is_wanted()?;
        let query = RecordQuery { after, limit: limits::PAGE_RECORDS_MAX, ..RecordQuery::default() };
        let page = tx.db.records(&query)?;
        let Some(last) = page.last() else { return Ok(()) };
        after = last.seq;
        page.iter().for_each(&mut each);
        progress.more(page.len());
    }
}

/// Recorded transitions are legal, and a job ends once, as `jobs` are stored.
pub(super) fn records(
    tx: &mut ReadTx<'_>,
    progress: &mut VerifyFinding<'_>,
    jobs: &FxHashMap<JobId, JobState>,
) -> Result<Vec<VerifyReport>, StoreError> {
    let mut legal = VerifyReport::new("transitions", "every recorded step is one the lifecycle allows");
    let mut ends = VerifyReport::new("ends", "a job's end is recorded once, and nothing happens to it after");
    let mut stored = VerifyReport::new("recorded_ends", "a job whose end is recorded is stored as it ended");
    let mut ended: HashMap<JobId, AuditEvent> = HashMap::new();
    walk(tx, progress, |record| {
        let Some(job) = record.job else { return };
        let steps = step_of(record);
        if let Some((from, to)) = steps {
            let is_legal = from == to || is_in_table(from, to);
            legal.count_finding(
                (!is_legal).then(|| format!("record {}: {from} to {to} of job {job}", record.seq)),
            );
            let before = ended.get(&job).copied();
            ends.count_finding(
                before.filter(|_| from != to || !to.is_final()).map(|event| {
                    format!("record {}: {} of job {job} after {event}", record.seq, record.event)
                }),
            );
            if to.is_final() && from != to {
                ended.insert(job, record.event);
                // A job may have been deleted since.
                let other = jobs.get(&job).filter(|state| **state != to);
                stored.count_finding(
                    other.map(|state| {
                        format!("record {}: job {job} ended as {to}, and is {state}", record.seq)
                    }),
                );
            }
        }
    })?;
    Ok(vec![legal, ends, stored])
}

fn step_of(record: &Record) -> Option<(JobState, JobState)> {
    // An expired lease is recorded in addition to its consequence; the transition itself is recorded once.
    if record.event == AuditEvent::Reaped {
        return None;
    }
    let context: Value = serde_json::from_str(&record.context).ok()?;
    let state = |name: &str| context.get(name)?.as_str()?.parse().ok();
    Some((state("previous_state")?, state("state")?))
}

fn is_in_table(from: JobState, to: JobState) -> bool {
    LIFECYCLE.iter().any(|(_, states, ends)| states.contains(&from) && ends.contains(&to))
}

/// What an audit trail is compared with besides its own seals.
#[derive(Debug, Clone, Default)]
pub struct AuditCheck {
    /// An externally stored head: the record with its number must still have its hash.
    pub expected_head: Option<Seal>,
    /// Keys whose signatures on seals are accepted. If any are given, the newest seal must be signed by
    /// one; if none are, any key is accepted.
    pub trusted: Vec<TicketPublicKey>,
}

/// The settings of the store for seals.
pub(super) fn own_check(tx: &ReadTx<'_>) -> AuditCheck {
    let tickets = tx.env.options.tickets.iter();
    let trusted = tickets.flat_map(|tickets| {
        std::iter::once(tickets.key.public()).chain(tickets.trusted.iter().cloned()).collect::<Vec<_>>()
    });
    AuditCheck { expected_head: None, trusted: trusted.collect() }
}

/// no record was edited, removed, added or moved since it was sealed, and none that was written is missing.
pub(super) fn chain(
    tx: &mut ReadTx<'_>,
    progress: &mut VerifyFinding<'_>,
    check: &AuditCheck,
) -> Result<VerifyReport, StoreError> {
    let mut report = VerifyReport::new("audit_chain", "the audit trail is as it was sealed");
    let mut points: BTreeMap<u64, SealPoint> = BTreeMap::new();
    for document in tx.db.documents(DocumentKind::Seal)? {
        let point: SealPoint = parse(&document.body)?;
        points.insert(point.seal.through, point);
    }
    let written = tx.db.numbers()?.record.saturating_sub(1);
    let head = kept_head(tx.db)?;
    let (mut seal, mut expected, mut is_head_found) = (Seal::origin(), 1, false);
    walk(tx, progress, |record| {
        let gap = record.seq != expected;
        report.count_finding(gap.then(|| format!("record {expected} is missing, {} follows", record.seq)));
        expected = record.seq + 1;
        seal = seal.extend(record);
        if let Some(head) = check.expected_head.as_ref().filter(|head| head.through == record.seq) {
            is_head_found = true;
            let differs = *head != seal;
            report.count_finding(
                differs
                    .then(|| format!("up to record {} the audit trail is not the expected one", record.seq)),
            );
        }
        if let Some(point) = points.get(&record.seq)
            && point.seal != seal
        {
            report.count_finding(Some(format!("a record up to {} is not as it was sealed", record.seq)));
            // Continue from what was sealed, so that one edit is reported once.
            seal = point.seal.clone();
        }
    })?;
    let ends = Ends { last: expected - 1, written, head };
    ends.check(&mut report, &points);
    check_signatures(&mut report, &points, &check.trusted);
    if let Some(head) = check.expected_head.as_ref().filter(|_| !is_head_found) {
        let missing = format!("the expected head is record {}, which does not exist", head.through);
        report.count_finding(Some(missing));
    }
    Ok(report)
}

/// The end of the audit trail, by the records and by the store's own number.
struct Ends {
    last: u64,
    written: u64,
    head: Option<Seal>,
}

impl Ends {
    fn check(&self, report: &mut VerifyReport, points: &BTreeMap<u64, SealPoint>) {
        let newest = points.last_key_value().map(|(_, point)| &point.seal);
        let sealed = newest.into_iter().chain(&self.head).map(|seal| seal.through).max().unwrap_or(0);
        let first_gone = self.last + 1;
        report.count_finding(
            (sealed > self.last)
                .then(|| format!("records {first_gone} to {sealed} were sealed and are missing")),
        );
        let unsealed_gone = first_gone.max(sealed + 1);
        report
            .count_finding((self.written >= unsealed_gone).then(|| {
                format!("records {unsealed_gone} to {} were written and are missing", self.written)
            }));
        let first_foreign = self.written + 1;
        report.count_finding((self.last > self.written).then(|| {
            format!("records {first_foreign} to {} are there, but the store has not written them", self.last)
        }));
        let finding = match (&self.head, newest) {
            (Some(head), None) => Some(format!(
                "the audit trail was sealed up to record {}, but there is no seal",
                head.through
            )),
            (Some(head), Some(newest)) if head != newest => Some(format!(
                "the audit trail was sealed up to record {}, the newest seal is {newest}",
                head.through
            )),
            (None, Some(newest)) => {
                Some(format!("there is a seal up to record {}, but no head", newest.through))
            }
            _ => None,
        };
        report.count_finding(finding);
    }
}

/// Signatures are valid, and none is missing after the first signed seal.
fn check_signatures(
    report: &mut VerifyReport,
    points: &BTreeMap<u64, SealPoint>,
    trusted: &[TicketPublicKey],
) {
    let mut is_signed = false;
    for (through, point) in points {
        let is_newest = points.last_key_value().is_some_and(|(newest, _)| newest == through);
        if let Some(fault) = point.signature_fault(trusted) {
            report.count_finding(Some(format!("the signature on the seal up to record {through} {fault}")));
        }
        if point.signature.is_none() && (is_signed || (is_newest && !trusted.is_empty())) {
            let finding = format!("the seal up to record {through} is not signed, and should be");
            report.count_finding(Some(finding));
        }
        is_signed |= point.signature.is_some();
    }
}
