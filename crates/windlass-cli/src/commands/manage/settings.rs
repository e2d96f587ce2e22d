//! Settings of queues, types and tenants as flags and as text: given values are changed, `none` clears one, the others
//! stay. The server validates values.

use std::fmt::Write as _;

use clap::Args;
use serde_json::{Map, Value, json};
use windlass_api::time::Span;
use windlass_server::number::grouped;

use crate::commands::jobs::submit::{retry_policy, urgency};
use crate::connection::client::{Call, Client};
use crate::error::Failure;
use crate::output::color::Paint;
use crate::output::escaped;
use crate::output::text::{field, short_text, spent};

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

/// Changes of settings, as the API takes them.
#[derive(Default)]
pub(crate) struct Changes(Map<String, Value>);

impl Changes {
    fn put(
        &mut self,
        name: &str,
        text: Option<&String>,
        read: impl Fn(&str) -> anyhow::Result<Value>,
    ) -> anyhow::Result<()> {
        if let Some(text) = text {
            let value = if text == NONE { Value::Null } else { read(text)? };
            self.0.insert(name.to_owned(), value);
        }
        Ok(())
    }

    /// Adds a number.
    pub(crate) fn number(&mut self, name: &str, text: Option<&String>) -> anyhow::Result<()> {
        self.put(name, text, |text| {
            let number = text.replace([',', '_'], "").parse::<u64>();
            number.map(Value::from).map_err(|_| wrong(text, "a number, or `none`"))
        })
    }

    /// Adds a rate.
    pub(crate) fn rate(&mut self, name: &str, text: Option<&String>) -> anyhow::Result<()> {
        self.put(name, text, rate)
    }

    /// Adds a duration.
    pub(crate) fn span(&mut self, name: &str, text: Option<&String>) -> anyhow::Result<()> {
        self.put(name, text, span)
    }

    /// Adds a string.
    pub(crate) fn word(&mut self, name: &str, text: Option<&String>) -> anyhow::Result<()> {
        self.put(name, text, |text| Ok(text.into()))
    }

    /// Adds a web address, or an object with one.
    pub(crate) fn target(&mut self, name: &str, text: Option<&String>) -> anyhow::Result<()> {
        self.put(name, text, |text| {
            if text.starts_with('{') {
                serde_json::from_str(text).map_err(|_| wrong(text, "an address or JSON, or `none`"))
            } else {
                Ok(json!({"url": text}))
            }
        })
    }

    /// Adds the job defaults.
    pub(crate) fn defaults(&mut self, args: &DefaultsArgs) -> anyhow::Result<()> {
        if args.retry.as_deref() == Some(NONE) {
            if args.attempts.is_some() {
                return Err(Failure::usage(
                    "--retry none restores the default policy and --attempts changes the policy: give only \
                     one of them",
                ));
            }
            self.0.insert("retry".into(), Value::Null);
        } else if let Some(policy) = retry_policy(args.retry.as_deref(), args.attempts)? {
            self.0.insert("retry".into(), policy);
        }
        let mut timeouts = Changes::default();
        timeouts.span("execution", args.timeout.as_ref())?;
        timeouts.span("lease", args.lease.as_ref())?;
        timeouts.span("lifetime", args.lifetime.as_ref())?;
        timeouts.span("start", args.start_timeout.as_ref())?;
        timeouts.span("max_execution", args.max_execution.as_ref())?;
        let mut retention = Changes::default();
        retention.span("completed", args.retention.retention_completed.as_ref())?;
        retention.span("failed", args.retention.retention_failed.as_ref())?;
        retention.span("dead_letter", args.retention.retention_dead_letter.as_ref())?;
        retention.span("cancelled", args.retention.retention_cancelled.as_ref())?;
        for (name, changes) in [("timeouts", timeouts), ("retention", retention)] {
            if !changes.0.is_empty() {
                self.0.insert(name.into(), changes.0.into());
            }
        }
        self.put("priority", args.priority.as_ref(), |text| Ok(urgency(text)))
    }

    /// Completes a change of `attempts` alone with the current policy, since the API takes only whole policies.
    pub(crate) async fn keep_retry(
        body: &mut Value,
        args: &DefaultsArgs,
        client: &Client,
        path: &[&str],
    ) -> anyhow::Result<()> {
        let (Some(attempts), None) = (args.attempts, &args.retry) else { return Ok(()) };
        let known = client.value(Call::get(path)).await?;
        if let Value::Object(policy) = &known["retry"] {
            let mut policy = policy.clone();
            // The other spelling of the same number.
            policy.remove("max_retries");
            policy.insert("max_attempts".into(), attempts.into());
            body["retry"] = policy.into();
        }
        Ok(())
    }

    /// The body of the request; fails if there is no change.
    pub(crate) fn body(self, kind: &str) -> anyhow::Result<Value> {
        if self.0.is_empty() {
            return Err(Failure::usage(format!(
                "nothing to set; `windlass {kind} set --help` lists the settings"
            )));
        }
        Ok(self.0.into())
    }
}

fn wrong(text: &str, wanted: &str) -> anyhow::Error {
    Failure::usage(format!("`{}` is not {wanted}", escaped(text)))
}

fn span(text: &str) -> anyhow::Result<Value> {
    let span = text.parse::<Span>().map_err(|_| wrong(text, "a duration such as 30s, or `none`"))?;
    Ok(span.to_string().into())
}

/// `100/s`, `5/10m`.
fn rate(text: &str) -> anyhow::Result<Value> {
    let refused = || wrong(text, "a rate such as 100/s or 5/10m, or `none`");
    let (count, per) = text.split_once('/').ok_or_else(refused)?;
    let count = count.trim().parse::<u64>().map_err(|_| refused())?;
    // A unit without a number means one.
    let has_number = per.trim().starts_with(|c: char| c.is_ascii_digit());
    let per = if has_number { per.trim().to_owned() } else { format!("1{}", per.trim()) };
    let per = per.parse::<Span>().map_err(|_| refused())?;
    Ok(json!({"count": count, "per": per.to_string()}))
}

/// A setting: its name in the API, and its flag.
pub(crate) type Named = (&'static str, &'static str);

/// Settings that queues and types share.
pub(crate) const DEFAULTS: [Named; 4] =
    [("priority", "priority"), ("retry", "retry"), ("timeouts", ""), ("retention", "")];

/// The flags of settings that are nested in another.
const WITHIN: [(&str, &[Named]); 2] = [
    (
        "timeouts",
        &[
            ("execution", "timeout"),
            ("lease", "lease"),
            ("lifetime", "lifetime"),
            ("start", "start-timeout"),
            ("max_execution", "max-execution"),
        ],
    ),
    (
        "retention",
        &[
            ("completed", "retention-completed"),
            ("failed", "retention-failed"),
            ("dead_letter", "retention-dead-letter"),
            ("cancelled", "retention-cancelled"),
        ],
    ),
];

/// The settings that are set, one per line, named by their flags.
pub(crate) fn describe(settings: &Value, names: &[Named], paint: Paint) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let name = paint.faint(&format!("{name:>20}"));
        let _always_fits = writeln!(text, "{name}  {}", escaped(value));
    };
    for (name, flag) in names {
        let within = WITHIN.iter().find(|(outer, _)| outer == name);
        match (&settings[*name], within) {
            (Value::Null, _) => {}
            (Value::Object(set), Some((_, flags))) => {
                for (name, flag) in *flags {
                    if let Some(span) = set.get(*name).and_then(Value::as_str) {
                        line(flag, span);
                    }
                }
            }
            (value, _) => line(flag, &display(name, value)),
        }
    }
    text
}

fn display(name: &str, value: &Value) -> String {
    match (name, value) {
        ("rate" | "rate_per_key", rate) => format!("{} per {}", rate["count"], field(&rate["per"])),
        ("retry", policy) => format!(
            "{}, {} to {}, {} attempts, on {}",
            field(&policy["strategy"]),
            field(&policy["initial_delay"]),
            field(&policy["max_delay"]),
            policy["max_attempts"],
            policy["retry_on"].as_array().map_or_else(String::new, |kinds| {
                kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
            }),
        ),
        ("push", push) => format!("{}, {} at once", field(&push["url"]), push["concurrency"]),
        ("budget_cents", cents) => spent(cents),
        (_, other) => field(other),
    }
}

/// Counts of the last minute and hour, one line each.
pub(crate) fn rates(rates: &Value, paint: Paint) -> String {
    let mut text = String::new();
    for (name, key) in [("last minute", "last_minute"), ("last hour", "last_hour")] {
        let period = &rates[key];
        let words = ["submitted", "completed", "failed", "retried", "dead_letter", "cancelled", "reaped"];
        let counted = words.iter().filter(|word| period[**word].as_u64().unwrap_or(0) > 0);
        let counted: Vec<String> =
            counted.map(|word| format!("{} {word}", grouped(period[*word].as_u64().unwrap_or(0)))).collect();
        if counted.is_empty() {
            continue;
        }
        let _always_fits = writeln!(text, "{}  {}", paint.faint(&format!("{name:>20}")), counted.join(", "));
        for (name, key) in [("waited", "waited"), ("ran", "ran")] {
            let spread = &period[key];
            if spread["p50"].is_string() {
                let at = |share: &str| short_text(&spread[share]);
                let told = format!("{} median, {} p95, {} p99", at("p50"), at("p95"), at("p99"));
                let _always_fits = writeln!(text, "{}  {told}", paint.faint(&format!("{name:>20}")));
            }
        }
    }
    text
}

/// Counts by state, in one line.
pub(crate) fn depth(depth: &Value, paint: Paint) -> String {
    let all = depth.as_object().into_iter().flatten().filter(|(_, count)| count.as_u64().unwrap_or(0) > 0);
    let told = |(state, count): (&String, &Value)| {
        format!("{} {}", grouped(count.as_u64().unwrap_or(0)), paint.state(state))
    };
    let all: Vec<String> = all.map(told).collect();
    let all = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
    format!("{}  {all}\n", paint.faint(&format!("{:>20}", "jobs")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_number_per_time() {
        assert_eq!(rate("100/s").unwrap(), json!({"count": 100, "per": "1s"}));
        assert_eq!(rate("5 / 10m").unwrap(), json!({"count": 5, "per": "10m"}));
        for bad in ["100", "x/s", "1/", "1/x", "/s", "-1/s"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_not_given_stays_and_none_clears() {
        let text = |text: &str| Some(text.to_owned());
        let mut changes = Changes::default();
        changes.number("a", text("1,000").as_ref()).unwrap();
        changes.number("b", text("none").as_ref()).unwrap();
        changes.number("c", None).unwrap();
        changes.span("d", text("90s").as_ref()).unwrap();
        assert!(changes.number("e", text("many").as_ref()).is_err());
        assert_eq!(changes.body("queues").unwrap(), json!({"a": 1000, "b": null, "d": "1m30s"}));
        assert!(Changes::default().body("queues").is_err());
    }

    #[test]
    fn settings_are_told_by_the_names_of_their_flags() {
        let settings = json!({"max_running": 3, "rate": {"count": 5, "per": "1m"}, "aging": null,
            "timeouts": {"execution": "10m", "lease": null, "start": "5m"},
            "retention": {"completed": "1h", "failed": null}});
        let names =
            [("max_running", "max-running"), ("rate", "rate"), ("aging", "aging"), DEFAULTS[2], DEFAULTS[3]];
        let text = describe(&settings, &names, Paint::plain());
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let expected = ["max-running  3", "rate  5 per 1m", "timeout  10m", "start-timeout  5m"];
        assert_eq!(lines, [&expected[..], &["retention-completed  1h"]].concat());
    }
}
