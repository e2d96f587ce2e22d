//! Alerts.

use windlass_api::alert::{AlertPauseView, AlertView, ConditionFields};
use windlass_api::text::Text;
use windlass_api::time::{Moment, Span};

use crate::alert::message::scope;
use crate::clock::Timestamp;
use crate::store::documents::alerts::Alert;
use crate::store::documents::tenant_object::ObjectPause;

/// The alert at this time.
pub fn alert(alert: &Alert, now: Timestamp) -> AlertView {
    let (rule, state) = (&alert.rule, &alert.state);
    let fields = ConditionFields::from(&rule.condition);
    let ConditionFields { condition, more_than, longer_than, within, min_attempts } = fields;
    AlertView {
        name: Text(alert.name.clone()),
        tenant: alert.tenant.clone().map(Text),
        condition,
        more_than,
        longer_than,
        within,
        min_attempts,
        queue: rule.queue.clone().map(Text),
        r#type: rule.job_type.clone().map(Text),
        description: describe(alert),
        url: rule.url.clone(),
        redacted: alert.is_redacted,
        format: rule.format,
        pending_for: Span(rule.pending_for),
        keep_firing_for: Span(rule.keep_firing_for),
        repeat_interval: rule.repeat_interval.map(Span),
        state: state.status,
        since: state.since.into(),
        turning_since: state.turning_since.map(Moment),
        value: state.value.map(|value| value.to_string()),
        notified_at: state.notified_at.map(Moment),
        last_delivery: alert.last_delivery.map(Text),
        paused: alert.pause_now(now).map(pause),
        created_at: alert.created_at.into(),
        updated_at: alert.updated_at.into(),
        updated_by: alert.updated_by.clone(),
    }
}

/// What an alert watches, in words.
pub fn describe(alert: &Alert) -> String {
    let rule = &alert.rule;
    let scope = scope(rule.queue.as_ref(), rule.job_type.as_ref(), alert.tenant.as_ref());
    format!("{}{scope}", rule.condition)
}

fn pause(pause: &ObjectPause) -> AlertPauseView {
    AlertPauseView {
        by: pause.by.clone(),
        at: pause.since.into(),
        reason: pause.reason.clone(),
        expires_at: pause.expires_at.map(Moment),
    }
}
