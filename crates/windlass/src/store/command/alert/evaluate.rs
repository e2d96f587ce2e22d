//! Deciding about all alerts: their numbers are read on a snapshot, concurrently with writes. The commit stores only what
//! changed, each with its audit record and the job that delivers its message, and only if no other process has changed the
//! alert meanwhile. So several processes that do this do it once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::record;
use crate::alert::{AlertCondition, AlertDecision, AlertNotice, Measurement, decide};
use crate::audit::AuditEvent;
use crate::clock::Timestamp;
use crate::error::{StoreError, SubmitError};
use crate::job::Lane;
use crate::limits;
use crate::store::command::effects::audit::RecordActor;
use crate::store::documents::alerts::Alert;
use crate::store::documents::config::parse;
use crate::store::documents::minute_stats::minute_of;
use crate::store::documents::schedules::Schedule;
use crate::store::engine::DocumentKind;
use crate::store::query::alerts::stored;
use crate::store::query::stats::{minutes_by_lane, oldest_by_lane};
use crate::store::tx::read_tx::ReadTx;
use crate::store::tx::write_tx::WriteTx;

/// The result of one round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct AlertReport {
    /// Messages that were submitted.
    pub messages: usize,
    /// Whether there is more to do immediately.
    pub has_more: bool,
}

/// What a round is to write.
#[derive(Debug, Clone, Default)]
pub(crate) struct AlertChanges {
    changes: Vec<(Alert, AlertDecision)>,
    has_more: bool,
}

impl AlertChanges {
    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

/// Reads the numbers of all alerts and decides, in one bounded round.
pub(crate) fn read_due(tx: &mut ReadTx<'_>) -> Result<AlertChanges, StoreError> {
    let now = tx.now;
    let mut alerts = stored(tx.db)?;
    alerts.retain(|alert| alert.pause_now(now).is_none());
    if alerts.is_empty() {
        return Ok(AlertChanges::default());
    }
    let numbers = Numbers::read(tx, &alerts)?;
    let mut changes = Vec::new();
    for alert in alerts {
        if let Some(decision) = decide(&alert.rule, &alert.state, &numbers.measure(&alert, now), now) {
            changes.push((alert, decision));
        }
    }
    let has_more = changes.len() > limits::ALERTS_PER_COMMIT;
    changes.truncate(limits::ALERTS_PER_COMMIT);
    Ok(AlertChanges { changes, has_more })
}

/// Attempts and dead letters of one minute.
#[derive(Debug, Clone, Copy)]
struct Attempts {
    minute: i64,
    dead_letters: u64,
    ended: u64,
    failed: u64,
}

/// The stored numbers that some alert needs, read once for all of them.
#[derive(Debug, Default)]
struct Numbers {
    attempts: BTreeMap<Lane, Vec<Attempts>>,
    oldest: BTreeMap<Arc<Lane>, Timestamp>,
    schedules: Vec<Arc<Schedule>>,
    clock_offset: Duration,
}

impl Numbers {
    fn read(tx: &mut ReadTx<'_>, alerts: &[Alert]) -> Result<Numbers, StoreError> {
        let mut numbers = Numbers::default();
        let counting: Vec<&Alert> = alerts.iter().filter(|alert| counts_attempts(alert)).collect();
        if !counting.is_empty() {
            for one in minutes_by_lane(tx, |lane| counting.iter().any(|alert| alert.watches(lane)))? {
                let counts = &one.counts;
                let failed = counts.failed + counts.dead_letter + counts.retried;
                let (dead_letters, ended) = (counts.dead_letter, counts.completed + failed);
                let one_minute = Attempts { minute: one.minute, dead_letters, ended, failed };
                numbers.attempts.entry(one.lane.clone()).or_default().push(one_minute);
            }
        }
        let aging = |alert: &&Alert| matches!(alert.rule.condition, AlertCondition::OldestReady { .. });
        let waiting: Vec<&Alert> = alerts.iter().filter(aging).collect();
        if !waiting.is_empty() {
            numbers.oldest = oldest_by_lane(tx, |lane| waiting.iter().any(|alert| alert.watches(lane)))?;
        }
        numbers.schedules = tx.config()?.schedules.values().cloned().collect();
        numbers.clock_offset = Duration::from_millis(tx.env.clock.report().ahead_ms.unsigned_abs());
        Ok(numbers)
    }

    /// The numbers of one alert.
    fn measure(&self, alert: &Alert, now: Timestamp) -> Measurement {
        let mut measured = Measurement { clock_offset: self.clock_offset, ..Measurement::default() };
        let within = alert.rule.condition.within().unwrap_or_default();
        let from = now.minus(within);
        match alert.rule.condition {
            AlertCondition::DeadLetters { .. } | AlertCondition::FailureRate { .. } => {
                // Whole minutes that contain the time, so that nothing is missed.
                let first = minute_of(from);
                let own = self.attempts.iter().filter(|(lane, _)| alert.watches(lane));
                for one in own.flat_map(|(_, minutes)| minutes).filter(|one| one.minute >= first) {
                    measured.dead_letters += one.dead_letters;
                    measured.attempts += one.ended;
                    measured.failures += one.failed;
                }
            }
            AlertCondition::OldestReady { .. } => {
                let own = self.oldest.iter().filter(|(lane, _)| alert.watches(lane));
                let oldest = own.map(|(_, ready_at)| *ready_at).min();
                measured.oldest_ready = oldest.map_or(Duration::ZERO, |ready_at| now.since(ready_at));
            }
            AlertCondition::ScheduleMissed { .. } => {
                let own = self.schedules.iter().filter(|schedule| alert.watches(&schedule.lane()));
                measured.missed_schedules =
                    own.filter(|schedule| has_missed(schedule, from, now)).count() as u64;
            }
            AlertCondition::ClockOffset { .. } => {}
        }
        measured
    }
}

fn counts_attempts(alert: &Alert) -> bool {
    matches!(alert.rule.condition, AlertCondition::DeadLetters { .. } | AlertCondition::FailureRate { .. })
}

/// Whether a run was missed, or refused permanently, since `from`, or is overdue now.
fn has_missed(schedule: &Schedule, from: Timestamp, now: Timestamp) -> bool {
    let is_retried = |run: Timestamp| schedule.retry.is_some_and(|retry| retry.run == run);
    let refused = schedule.refused.as_ref().filter(|refused| !is_retried(refused.run));
    let is_overdue = schedule.next_at.is_some_and(|at| now.since(at) > limits::ALERT_SCHEDULE_OVERDUE);
    is_overdue
        || schedule.missed_at.is_some_and(|at| at >= from)
        || refused.is_some_and(|refused| refused.at >= from)
}

/// Stores what was decided about alerts that have not changed meanwhile.
pub(crate) fn put(tx: &mut WriteTx<'_>, found: &AlertChanges) -> Result<AlertReport, StoreError> {
    let mut report = AlertReport { messages: 0, has_more: found.has_more };
    for (before, decision) in &found.changes {
        let now = tx.document(DocumentKind::Alert, &before.key())?;
        let now: Option<Alert> = now.map(|document| parse(&document.body)).transpose()?;
        if now.as_ref() != Some(before) {
            continue;
        }
        let mut alert = Alert { state: decision.state, ..before.clone() };
        if let Some(notice) = decision.notice {
            match tx.deliver(&alert, notice, None) {
                Ok(job) => alert.last_delivery = Some(job.id),
                Err(SubmitError::Store(error)) => return Err(error),
                // Settings of the type may refuse it. The state is stored nevertheless, and shown.
                Err(refused) => {
                    tracing::error!(alert = %alert.name, %refused, "the message of an alert was refused");
                }
            }
            report.messages += 1;
            let event = match notice {
                AlertNotice::Firing => AuditEvent::AlertFired,
                AlertNotice::Repeated => AuditEvent::AlertRepeated,
                AlertNotice::Resolved => AuditEvent::AlertResolved,
                AlertNotice::Test => AuditEvent::AlertTested,
            };
            record(tx, event, &alert, &RecordActor::system());
        }
        tx.put_alert(&alert)?;
    }
    Ok(report)
}
