//! Settings of queues, types and tenants as flags and as text: given values are changed, `none` clears one, the others
//! stay.

use clap::Args;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use windlass::job::RetryPolicy;
use windlass::settings::patch::Field;
use windlass_api::priority::PriorityInput;
use windlass_api::push::PushWire;
use windlass_api::retention::{RetentionBody, RetentionView};
use windlass_api::retry::{EffectiveRetry, Retry};
use windlass_api::settings::{RateWire, TimeoutsBody, TimeoutsView};

use crate::commands::jobs::submit::retry_policy;
use crate::error::Failure;
use crate::output::escaped;
use crate::output::text::api_name;
use windlass_api::time::Span;

/// The word that clears a setting.
const NONE: &str = "none";

/// Defaults for jobs that do not set the value themselves.
#[derive(Args)]
#[command(next_help_heading = "Job defaults")]
pub(crate) struct DefaultsArgs {
    /// Retry policy: standard, fixed, backoff, or a policy in JSON
    #[arg(long, value_name = "POLICY")]
    retry: Option<String>,
    /// Maximum number of attempts, including the first
    #[arg(long, value_name = "COUNT")]
    attempts: Option<u32>,
    /// Maximum duration of an attempt
    #[arg(long, value_name = "DURATION")]
    timeout: Option<String>,
    /// How long a lease lasts without a heartbeat
    #[arg(long, visible_alias = "visibility", value_name = "DURATION")]
    lease: Option<String>,
    /// Maximum time from submission to a final state
    #[arg(long, value_name = "DURATION")]
    lifetime: Option<String>,
    /// Maximum time from when a job can be claimed to its first start
    #[arg(long, value_name = "DURATION")]
    start_timeout: Option<String>,
    /// Priority: 0 to 100, or low, normal, high, critical
    #[arg(long, value_name = "PRIORITY")]
    priority: Option<String>,
    /// Upper limit for the duration of an attempt, whatever the job sets
    #[arg(long, value_name = "DURATION", help_heading = "Limits that override jobs")]
    max_execution: Option<String>,
    #[command(flatten)]
    retention: RetentionArgs,
}

/// How long final jobs are kept.
#[derive(Args)]
#[command(next_help_heading = "Retention of final jobs")]
#[allow(clippy::struct_field_names, reason = "the names are those of the flags")]
struct RetentionArgs {
    /// Completed jobs
    #[arg(long, value_name = "DURATION")]
    retention_completed: Option<String>,
    /// Failed jobs
    #[arg(long, value_name = "DURATION")]
    retention_failed: Option<String>,
    /// Dead letters
    #[arg(long, value_name = "DURATION")]
    retention_dead_letter: Option<String>,
    /// Cancelled jobs
    #[arg(long, value_name = "DURATION")]
    retention_cancelled: Option<String>,
}

/// A change of a setting: none if the flag is not given, and `none` clears it.
fn change<T>(text: Option<&String>, read: impl Fn(&str) -> anyhow::Result<T>) -> anyhow::Result<Field<T>> {
    match text {
        None => Ok(Field::Keep),
        Some(text) if text == NONE => Ok(Field::Clear),
        Some(text) => read(text).map(Field::Set),
    }
}

/// A number.
pub(crate) fn number<T: TryFrom<u64>>(text: Option<&String>) -> anyhow::Result<Field<T>> {
    change(text, |text| {
        let number =
            text.replace([',', '_'], "").parse::<u64>().ok().and_then(|number| number.try_into().ok());
        number.ok_or_else(|| wrong(text, "a number, or `none`"))
    })
}

/// A duration.
pub(crate) fn span(text: Option<&String>) -> anyhow::Result<Field<Span>> {
    change(text, |text| text.parse().map_err(|_| wrong(text, "a duration such as 30s, or `none`")))
}

/// A text.
pub(crate) fn text(text: Option<&String>) -> anyhow::Result<Field<String>> {
    change(text, |text| Ok(text.to_owned()))
}

/// A JSON Schema from a file.
pub(crate) fn schema(file: Option<&String>) -> anyhow::Result<Field<Value>> {
    change(file, |file| {
        let read =
            std::fs::read_to_string(file).map_err(|error| Failure::usage(format!("{file}: {error}")))?;
        serde_json::from_str(&read).map_err(|error| Failure::usage(format!("{file}: {error}")))
    })
}

/// One of the API's words.
pub(crate) fn choice<T: DeserializeOwned>(flag: &str, text: Option<&String>) -> anyhow::Result<Field<T>> {
    change(text, |text| {
        serde_json::from_value(text.into()).map_err(|error| Failure::usage(format!("{flag}: {error}")))
    })
}

/// A web address, or an object with one.
pub(crate) fn target(text: Option<&String>) -> anyhow::Result<Field<PushWire>> {
    change(text, |text| {
        let target =
            if text.starts_with('{') { serde_json::from_str(text).ok() } else { Some(json!({"url": text})) };
        let target = target.and_then(|target: Value| serde_json::from_value(target).ok());
        target.ok_or_else(|| wrong(text, "an address or JSON, or `none`"))
    })
}

/// A rate: `100/s`, `5/10m`.
pub(crate) fn rate(text: Option<&String>) -> anyhow::Result<Field<RateWire>> {
    change(text, |text| {
        let read = || {
            let (count, per) = text.split_once('/')?;
            // A unit without a number means one.
            let has_number = per.trim().starts_with(|c: char| c.is_ascii_digit());
            let per = if has_number { per.trim().to_owned() } else { format!("1{}", per.trim()) };
            Some(RateWire { count: count.trim().parse().ok()?, per: per.parse().ok()? })
        };
        read().ok_or_else(|| wrong(text, "a rate such as 100/s or 5/10m, or `none`"))
    })
}

fn wrong(text: &str, wanted: &str) -> anyhow::Error {
    Failure::usage(format!("`{}` is not {wanted}", escaped(text)))
}

/// The error if no setting is given.
pub(crate) fn nothing_to_set(command: &str) -> anyhow::Error {
    Failure::usage(format!("nothing to set; `windlass {command} set --help` lists the settings"))
}

/// Whether a body contains no change.
pub(crate) fn is_empty(body: &impl Serialize) -> bool {
    serde_json::to_value(body).is_ok_and(|body| body.as_object().is_some_and(serde_json::Map::is_empty))
}

/// The changes, if there are any.
fn given<T: Serialize>(changes: T) -> Field<T> {
    if is_empty(&changes) { Field::Keep } else { Field::Set(changes) }
}

impl DefaultsArgs {
    /// The change of the retry policy. The API takes only whole policies: a change of `attempts` alone keeps the rest of
    /// the `current` one.
    pub(crate) fn retry(&self, current: Option<EffectiveRetry>) -> anyhow::Result<Field<Retry>> {
        let policy = match (self.retry.as_deref(), self.attempts) {
            (None, None) => return Ok(Field::Keep),
            (Some(NONE), None) => return Ok(Field::Clear),
            (Some(NONE), Some(_)) => {
                return Err(Failure::usage(
                    "--retry none restores the default policy and --attempts changes the policy: give only \
                     one of them",
                ));
            }
            (retry, attempts) => match (retry, attempts, current) {
                (None, Some(max_attempts), Some(current)) => {
                    Some(Retry::from(&RetryPolicy { max_attempts, ..current.into() }))
                }
                _ => retry_policy(retry, attempts)?,
            },
        };
        Ok(policy.map_or(Field::Keep, Field::Set))
    }

    /// Whether the change needs the current retry policy.
    pub(crate) fn needs_policy(&self) -> bool {
        self.attempts.is_some() && self.retry.is_none()
    }

    pub(crate) fn timeouts(&self) -> anyhow::Result<Field<TimeoutsBody>> {
        Ok(given(TimeoutsBody {
            execution: span(self.timeout.as_ref())?,
            lease: span(self.lease.as_ref())?,
            visibility: Field::Keep,
            lifetime: span(self.lifetime.as_ref())?,
            start: span(self.start_timeout.as_ref())?,
            max_execution: span(self.max_execution.as_ref())?,
        }))
    }

    pub(crate) fn retention(&self) -> anyhow::Result<Field<RetentionBody>> {
        Ok(given(RetentionBody {
            completed: span(self.retention.retention_completed.as_ref())?,
            failed: span(self.retention.retention_failed.as_ref())?,
            dead_letter: span(self.retention.retention_dead_letter.as_ref())?,
            cancelled: span(self.retention.retention_cancelled.as_ref())?,
        }))
    }

    pub(crate) fn priority(&self) -> anyhow::Result<Field<PriorityInput>> {
        change(self.priority.as_ref(), |text| {
            text.parse().map_err(|problem: String| Failure::usage(format!("--priority: {problem}")))
        })
    }
}

/// A setting for people: its flag, and its value if it is set.
pub(crate) type Line = (&'static str, Option<String>);

/// A setting that is shown as it is.
pub(crate) fn line(flag: &'static str, value: Option<impl ToString>) -> Line {
    (flag, value.map(|value| value.to_string()))
}

/// A rate.
pub(crate) fn rate_line(flag: &'static str, rate: Option<RateWire>) -> Line {
    (flag, rate.map(|rate| format!("{} per {}", rate.count, rate.per)))
}

/// The settings that queues and types share.
pub(crate) fn default_lines(
    priority: Option<PriorityInput>,
    retry: Option<&EffectiveRetry>,
    timeouts: &TimeoutsView,
    retention: &RetentionView,
) -> Vec<Line> {
    let retry = retry.map(|policy| {
        let on: Vec<String> = policy.retry_on.iter().map(api_name).collect();
        format!(
            "{}, {} to {}, {} attempts, on {}",
            api_name(&policy.strategy),
            policy.initial_delay,
            policy.max_delay,
            policy.max_attempts,
            on.join(", ")
        )
    });
    vec![
        ("priority", priority.map(|priority| priority.0.value().to_string())),
        ("retry", retry),
        line("timeout", timeouts.execution),
        line("lease", timeouts.lease),
        line("lifetime", timeouts.lifetime),
        line("start-timeout", timeouts.start),
        line("max-execution", timeouts.max_execution),
        line("retention-completed", retention.completed),
        line("retention-failed", retention.failed),
        line("retention-dead-letter", retention.dead_letter),
        line("retention-cancelled", retention.cancelled),
    ]
}

#[cfg(test)]
mod tests {
    use windlass_api::settings::QueueBody;

    use super::*;

    fn json(body: &impl Serialize) -> Value {
        serde_json::to_value(body).unwrap()
    }

    #[test]
    fn a_rate_is_a_number_per_time() {
        let read = |given: &str| rate(Some(&given.to_owned())).map(|rate| json(&rate));
        assert_eq!(read("100/s").unwrap(), json!({"count": 100, "per": "1s"}));
        assert_eq!(read("5 / 10m").unwrap(), json!({"count": 5, "per": "10m"}));
        for bad in ["100", "x/s", "1/", "1/x", "/s", "-1/s"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_not_given_stays_and_none_clears() {
        let some = |text: &str| Some(text.to_owned());
        let body = QueueBody {
            max_running: number(some("1,000").as_ref()).unwrap(),
            max_depth: number(some("none").as_ref()).unwrap(),
            max_running_per_key: number(None).unwrap(),
            aging: span(some("90s").as_ref()).unwrap(),
            fair_by: choice("--fair-by", some("tenant").as_ref()).unwrap(),
            push: target(some("http://a").as_ref()).unwrap(),
            ..QueueBody::default()
        };
        let mut sent = json(&body);
        assert_eq!(sent["push"].take()["url"], "http://a");
        let expected = json!({"max_running": 1000, "max_depth": null, "aging": "1m30s", "fair_by": "tenant", "push": null});
        assert_eq!(sent, expected);
        assert!(is_empty(&QueueBody::default()) && !is_empty(&body));
        assert!(number::<u64>(some("many").as_ref()).is_err());
        assert!(choice::<windlass::settings::FairBy>("--fair-by", some("moon").as_ref()).is_err());
    }
}
