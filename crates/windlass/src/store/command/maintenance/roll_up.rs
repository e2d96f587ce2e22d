//! Rolling statistics up: once a minute the numbers of ready and running jobs are sampled, and every ten minutes the
//! minutes that are over are added up. All of it is read and added on a snapshot, concurrently with writes; the commit
//! only stores the result, and only if no other process has done the same meanwhile.

use std::collections::BTreeMap;

use crate::error::StoreError;
use crate::job::{JobState, Tenant};
use crate::limits;
use crate::ordered::CollectOrdered;
use crate::store::documents::config::{encode, parse};
use crate::store::documents::error_stats::{ERROR_HISTORY, ErrorCounts, ErrorHistory, lane_of, minute_start};
use crate::store::documents::history::{
    HistoryScope, Periods, Point, Progress, Resolution, Sample, Sums, is_expired,
};
use crate::store::documents::minute_stats::minute_of;
use crate::store::documents::stats_cache::LaneMinute;
use crate::store::engine::{Document, DocumentKind, DocumentRange, Read};
use crate::store::tx::read_tx::ReadTx;
use crate::store::tx::write_tx::WriteTx;

/// Minutes in the shortest stored period.
const TEN: i64 = 10;

/// The result of one round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RollUpReport {
    /// Whether a minute was sampled.
    pub is_sampled: bool,
    /// Whether ten minutes were added up.
    pub is_rolled: bool,
    /// Whether there is more to do immediately.
    pub has_more: bool,
}

/// What a round is to write.
#[derive(Debug, Clone, Default)]
pub(crate) struct RollUp {
    before: Progress,
    after: Progress,
    written: Vec<Document>,
    removed: Vec<(DocumentKind, String)>,
    report: RollUpReport,
}

impl RollUp {
    /// Whether there is something to write.
    pub(crate) fn is_due(&self) -> bool {
        self.report.is_sampled || self.report.is_rolled || !self.removed.is_empty()
    }

    pub(crate) fn report(&self) -> RollUpReport {
        self.report
    }
}

/// How far statistics are rolled up.
pub(crate) fn progress(db: &mut dyn Read) -> Result<Progress, StoreError> {
    let stored = db.document(DocumentKind::History, Progress::KEY)?;
    Ok(stored.map(|stored| parse(&stored.body)).transpose()?.unwrap_or_default())
}

/// The samples from a minute on, up to another.
pub(crate) fn samples(
    db: &mut dyn Read,
    from: i64,
    before: i64,
) -> Result<BTreeMap<i64, Sample>, StoreError> {
    let (start, end) = (Sample::key(from), Sample::key(before));
    let range = DocumentRange { before: Some(&end), ..DocumentRange::from(&start) };
    let mut found = BTreeMap::new();
    for document in db.documents_in(DocumentKind::History, range)? {
        let minute = document.key.rsplit(' ').next().and_then(|minute| minute.parse().ok());
        if let Some(minute) = minute {
            found.insert(minute, parse(&document.body)?);
        }
    }
    Ok(found)
}

/// Reads what is due, in one bounded round.
pub(crate) fn read_due(tx: &mut ReadTx<'_>) -> Result<RollUp, StoreError> {
    let before = progress(tx.db)?;
    let minute = minute_of(tx.now);
    let mut due = RollUp { after: before.clone(), before, ..RollUp::default() };
    if minute > due.before.sampled {
        let sample = sample(tx)?;
        due.written.push(Document { key: Sample::key(minute), body: encode(&sample) });
        due.after.sampled = minute;
        due.report.is_sampled = true;
    }
    if let Some(period) = next_period(tx.db, &due.before)?
        && (period + 1) * TEN + limits::HISTORY_SETTLED_MINUTES <= minute
    {
        roll(tx, period, &mut due)?;
    }
    find_old(tx.db, minute, &mut due)?;
    Ok(due)
}

/// The numbers of jobs now.
fn sample(tx: &mut ReadTx<'_>) -> Result<Sample, StoreError> {
    let mut sums = Sums::default();
    for (lane, counts) in &tx.db.counts()?.lanes {
        let (ready, running) = (counts[JobState::Scheduled as usize], counts[JobState::Running as usize]);
        if ready + running > 0 {
            sums.add_jobs(lane, ready, running);
        }
    }
    let jobs = sums
        .into_busiest()
        .into_iter()
        .map(|(scope, point)| (scope.key(), (point.ready.sum, point.running.sum)));
    let config = tx.config()?;
    let live = config.workers.values().filter(|worker| !worker.is_lost);
    Ok(Sample { jobs: jobs.collect_ordered(), slots: live.map(|worker| u64::from(worker.concurrency)).sum() })
}

/// The first period that has statistics and is not rolled up.
fn next_period(db: &mut dyn Read, progress: &Progress) -> Result<Option<i64>, StoreError> {
    let next = progress.next_minute();
    let (rate, sample) = (format!("{next:012}"), Sample::key(next));
    let mut first: Option<i64> = None;
    for (kind, start, end) in
        [(DocumentKind::Rate, rate.as_str(), "~"), (DocumentKind::History, sample.as_str(), "s ~")]
    {
        let range = DocumentRange { before: Some(end), limit: 1, ..DocumentRange::from(start) };
        let found = db.documents_in(kind, range)?;
        let word = found.first().and_then(|found| found.key.trim_start_matches("s ").split(' ').next());
        if let Some(minute) = word.and_then(|word| word.parse::<i64>().ok()) {
            first = Some(first.map_or(minute, |first| first.min(minute)));
        }
    }
    Ok(first.map(|minute| minute.div_euclid(TEN)))
}

/// Adds up one period, for both resolutions.
fn roll(tx: &mut ReadTx<'_>, period: i64, due: &mut RollUp) -> Result<(), StoreError> {
    let (from, before) = (period * TEN, (period + 1) * TEN);
    let (start, end) = (format!("{from:012}"), format!("{before:012}"));
    let range = DocumentRange { before: Some(&end), ..DocumentRange::from(&start) };
    let mut sums = Sums::default();
    for document in tx.db.documents_in(DocumentKind::Rate, range)? {
        if let Some(one) = LaneMinute::read(&document)? {
            sums.add(&one.lane, &Point { counts: one.counts, ..Point::default() });
        }
    }
    let samples = samples(tx.db, from, before)?;
    let mut scopes = sums.into_busiest();
    for scope in
        samples.values().flat_map(|sample| sample.jobs.keys()).filter_map(|key| HistoryScope::parse(key))
    {
        scopes.entry(scope).or_default();
    }
    for (scope, point) in &mut scopes {
        for sample in samples.values() {
            point.merge(&sample.get(scope));
        }
    }
    for (scope, point) in &scopes {
        tx.is_wanted()?;
        for resolution in Resolution::ALL {
            let key = resolution.key(scope, from);
            let stored = tx.db.document(DocumentKind::History, &key)?;
            let mut periods: Periods =
                stored.map(|stored| parse(&stored.body)).transpose()?.unwrap_or_default();
            periods.entry(from.div_euclid(resolution.minutes())).or_default().merge(point);
            due.written.push(Document { key, body: encode(&periods) });
        }
    }
    roll_errors(tx, (from, before), due)?;
    due.after.rolled = Some(period);
    due.report.is_rolled = true;
    due.report.has_more = true;
    Ok(())
}

/// The errors of some minutes, of each tenant.
pub(crate) fn errors_by_minute(
    db: &mut dyn Read,
    (from, before): (i64, i64),
    sees: impl Fn(&Tenant) -> bool,
) -> Result<Vec<(i64, Tenant, ErrorCounts)>, StoreError> {
    let (start, end) = (minute_start(from), minute_start(before));
    let limit = limits::ERROR_MINUTES_READ_MAX;
    let range = DocumentRange { before: Some(&end), limit, ..DocumentRange::from(&start) };
    let mut found = Vec::new();
    for document in db.documents_in(DocumentKind::History, range)? {
        if let Some((minute, lane)) = lane_of(&document.key)
            && sees(&lane.tenant)
        {
            found.push((minute, lane.tenant, parse(&document.body)?));
        }
    }
    Ok(found)
}

/// The stored errors of a tenant, or of all tenants.
pub(crate) fn error_history(db: &mut dyn Read, tenant: Option<&Tenant>) -> Result<ErrorHistory, StoreError> {
    let stored = db.document(DocumentKind::History, &ErrorHistory::key(tenant))?;
    Ok(stored.map(|stored| parse(&stored.body)).transpose()?.unwrap_or_default())
}

/// Adds the errors of a period to those of all tenants, and of the tenants with the most of them.
fn roll_errors(tx: &mut ReadTx<'_>, minutes: (i64, i64), due: &mut RollUp) -> Result<(), StoreError> {
    let mut sums: BTreeMap<Option<Tenant>, ErrorCounts> = BTreeMap::new();
    for (_, tenant, counts) in errors_by_minute(tx.db, minutes, |_| true)? {
        sums.entry(None).or_default().merge(&counts);
        sums.entry(Some(tenant)).or_default().merge(&counts);
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    // The sum of all is the largest.
    sums.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.total()));
    for (tenant, counts) in sums.into_iter().take(1 + limits::HISTORY_NAMES_MAX) {
        tx.is_wanted()?;
        let mut history = error_history(tx.db, tenant.as_ref())?;
        history.add(&counts, minutes.0);
        history.trim(minutes.0);
        due.written.push(Document { key: ErrorHistory::key(tenant.as_ref()), body: encode(&history) });
    }
    Ok(())
}

/// Whether a document has no error that is still kept.
fn has_no_errors(document: &Document, minute: i64) -> Result<bool, StoreError> {
    if !document.key.starts_with(ERROR_HISTORY) {
        return Ok(false);
    }
    let mut history: ErrorHistory = parse(&document.body)?;
    history.trim(minute);
    Ok(history.0.is_empty())
}

/// Finds minutes and samples that are rolled up and not shown by the minute any more, and expired periods: a bounded number.
fn find_old(db: &mut dyn Read, minute: i64, due: &mut RollUp) -> Result<(), StoreError> {
    let most = limits::TICK_JOBS_PER_COMMIT;
    let oldest = due.before.next_minute().min(minute - limits::RATE_MINUTES_KEPT);
    let (rate, sample) = (format!("{oldest:012}"), Sample::key(oldest));
    let rates = db.documents_in(DocumentKind::Rate, DocumentRange::before(&rate, most))?;
    due.report.has_more |= rates.len() == most;
    due.removed.extend(rates.into_iter().map(|old| (DocumentKind::Rate, old.key)));
    let range = DocumentRange { before: Some(&sample), limit: most, ..DocumentRange::from("s ") };
    let samples = db.documents_in(DocumentKind::History, range)?;
    due.removed.extend(samples.into_iter().map(|old| (DocumentKind::History, old.key)));
    let (start, end) = (minute_start(0), minute_start(oldest.max(0)));
    let range = DocumentRange { before: Some(&end), limit: most, ..DocumentRange::from(&start) };
    let errors = db.documents_in(DocumentKind::History, range)?;
    due.report.has_more |= errors.len() == most;
    due.removed.extend(errors.into_iter().map(|old| (DocumentKind::History, old.key)));
    // Only with a new period: then documents can have expired.
    if due.report.is_rolled {
        let after = Some(due.before.swept.as_str());
        let found = db.documents_in(
            DocumentKind::History,
            DocumentRange::after(after, limits::HISTORY_SWEEP_DOCUMENTS),
        )?;
        let is_end = found.len() < limits::HISTORY_SWEEP_DOCUMENTS;
        due.after.swept = found.last().filter(|_| !is_end).map(|last| last.key.clone()).unwrap_or_default();
        for found in found {
            // A document of errors that is written in this round is not old.
            let is_written = due.written.iter().any(|written| written.key == found.key);
            if !is_written && (is_expired(&found.key, minute) || has_no_errors(&found, minute)?) {
                due.removed.push((DocumentKind::History, found.key));
            }
        }
    }
    Ok(())
}

/// Stores what was read, unless another process has done so meanwhile.
pub(crate) fn put(tx: &mut WriteTx<'_>, due: &RollUp) -> Result<RollUpReport, StoreError> {
    let stored = tx.document(DocumentKind::History, Progress::KEY)?;
    let stored: Progress = stored.map(|stored| parse(&stored.body)).transpose()?.unwrap_or_default();
    if stored != due.before {
        return Ok(RollUpReport { has_more: true, ..RollUpReport::default() });
    }
    for (kind, key) in &due.removed {
        tx.put_document(*kind, key, None, |_| {})?;
    }
    let mut written = due.written.clone();
    written.push(Document { key: Progress::KEY.to_owned(), body: encode(&due.after) });
    tx.raw(|db| db.put_documents(DocumentKind::History, &written))?;
    Ok(due.report)
}
