//! The settings of queues and types as fields of a form, in the words of someone who runs jobs. Both use the same labels for
//! the same settings.

use windlass::job::{JobState, RetryPolicy};
use windlass::settings::{PartialTimeouts, Rate, Retention};

use crate::dashboard::parts::format::exact;

/// How a field is filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::dashboard) enum Kind {
    Number,
    Text,
    /// One of these: value and label.
    Choice(&'static [(&'static str, &'static str)]),
    Tick,
}

/// A field of the form.
pub(in crate::dashboard) struct SettingField {
    pub(in crate::dashboard) name: String,
    pub(in crate::dashboard) label: String,
    /// `1` for a tick.
    pub(in crate::dashboard) value: String,
    /// What applies if it is empty.
    pub(in crate::dashboard) otherwise: String,
    /// What it does.
    pub(in crate::dashboard) hint: &'static str,
    pub(in crate::dashboard) kind: Kind,
}

impl SettingField {
    pub(in crate::dashboard) fn is_number(&self) -> bool {
        self.kind == Kind::Number
    }

    pub(in crate::dashboard) fn is_tick(&self) -> bool {
        self.kind == Kind::Tick
    }

    pub(in crate::dashboard) fn choices(&self) -> &'static [(&'static str, &'static str)] {
        match self.kind {
            Kind::Choice(choices) => choices,
            _ => &[],
        }
    }

    pub(in crate::dashboard) fn hinted(self, hint: &'static str) -> SettingField {
        SettingField { hint, ..self }
    }
}

/// Fields that belong together.
pub(in crate::dashboard) struct SettingGroup {
    pub(in crate::dashboard) title: &'static str,
    pub(in crate::dashboard) fields: Vec<SettingField>,
}

impl SettingGroup {
    /// How many of its fields have a value.
    pub(in crate::dashboard) fn number_set(&self) -> usize {
        self.fields.iter().filter(|field| !field.value.is_empty()).count()
    }
}

/// A text.
pub(in crate::dashboard) fn text(
    name: &str,
    label: &str,
    value: Option<String>,
    otherwise: impl Into<String>,
) -> SettingField {
    let (name, label, otherwise) = (name.to_owned(), label.to_owned(), otherwise.into());
    SettingField { name, label, value: value.unwrap_or_default(), otherwise, hint: "", kind: Kind::Text }
}

/// A whole number.
pub(in crate::dashboard) fn number(
    name: &str,
    label: &str,
    value: Option<u64>,
    otherwise: impl Into<String>,
) -> SettingField {
    SettingField { kind: Kind::Number, ..text(name, label, value.map(|value| value.to_string()), otherwise) }
}

/// A tick.
pub(in crate::dashboard) fn tick(name: &str, label: &str, is_set: bool) -> SettingField {
    SettingField { kind: Kind::Tick, ..text(name, label, is_set.then(|| "1".to_owned()), "") }
}

/// A rate: how many starts, and in how long. `names` are those of the two fields.
pub(in crate::dashboard) fn rate(
    names: [&str; 2],
    label: &str,
    rate: Option<Rate>,
    none: &str,
) -> [SettingField; 2] {
    [
        number(names[0], label, rate.map(|rate| rate.count), none)
            .hinted("attempts that start in one period"),
        text(names[1], "Period of that limit", rate.map(|rate| exact(rate.per)), "such as 1s, 1m"),
    ]
}

/// Retries and priority; `none` is what applies to a policy that is not set.
pub(in crate::dashboard) fn retries(retry: Option<&RetryPolicy>, priority: Option<String>) -> SettingGroup {
    let attempts = retry.map(|retry| u64::from(retry.max_attempts));
    let fields = vec![
        number("attempts", "Max attempts", attempts, "3").hinted("with the first one"),
        text("initial_delay", "First retry after", retry.map(|retry| exact(retry.initial_delay)), "1s"),
        text("max_delay", "Max time between retries", retry.map(|retry| exact(retry.max_delay)), "1h"),
        text("priority", "Priority", priority, "normal")
            .hinted("0 to 100, or bulk, low, normal, high, critical"),
    ];
    SettingGroup { title: "Retries and priority", fields }
}

/// Time limits; `others` names what applies without one.
pub(in crate::dashboard) fn times(timeouts: &PartialTimeouts, others: &str) -> SettingGroup {
    let or = |default: &str| format!("{others}{default}");
    let fields = vec![
        text("execution", "Max attempt duration", timeouts.execution.map(exact), or("30m"))
            .hinted("an attempt that takes longer fails"),
        text("max_execution", "Upper bound of it", timeouts.max_execution.map(exact), "no limit")
            .hinted("whatever a job asks for"),
        text("lease", "Lease", timeouts.lease.map(exact), or("5m"))
            .hinted("a job is taken from a worker that is silent for so long"),
        text("start", "Start timeout", timeouts.start.map(exact), "no limit")
            .hinted("a job that is ready must start within this time"),
        text("lifetime", "Lifetime", timeouts.lifetime.map(exact), or("7d"))
            .hinted("a job must be final within this time"),
    ];
    SettingGroup { title: "Times", fields }
}

/// How long final jobs are kept.
pub(in crate::dashboard) fn kept(retention: &Retention, otherwise: &str) -> SettingGroup {
    let fields = JobState::FINAL.map(|state| {
        let value = retention.get(state).map(exact);
        text(&format!("retention_{state}"), &format!("Keep {} for", plain(state)), value, otherwise)
    });
    SettingGroup { title: "After the end", fields: fields.into() }
}

/// The name of jobs in a final state.
fn plain(state: JobState) -> String {
    if state == JobState::DeadLetter { "dead letters".to_owned() } else { format!("{state} jobs") }
}
