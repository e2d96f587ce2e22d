//! A job's details as name and value; fields that are not set are left out.

use windlass::clock::Timestamp;
use windlass::job::{JitterMode, JobRecord, RetryPolicy, Strategy};
use windlass::store::{Config, Snapshot};

use crate::dashboard::parts::components::JobLink;
use crate::dashboard::parts::format::worker_name;
use crate::dashboard::parts::format::{Moment, cents, clock, span};

/// The value of a detail.
pub(in crate::dashboard) enum Value {
    Text(String),
    Code(String),
    /// A time of day, and relative to now.
    When(String, Moment),
    Job(JobLink),
    Jobs(Vec<JobLink>),
    Link(String, String),
}

/// One fact.
pub(in crate::dashboard) struct Detail {
    pub(in crate::dashboard) name: &'static str,
    pub(in crate::dashboard) value: Value,
}

struct JobDetails {
    found: Vec<Detail>,
    now: Timestamp,
}

impl JobDetails {
    fn put(&mut self, name: &'static str, value: Value) {
        self.found.push(Detail { name, value });
    }

    fn text(&mut self, name: &'static str, text: impl Into<String>) {
        self.put(name, Value::Text(text.into()));
    }

    fn code(&mut self, name: &'static str, text: Option<&String>) {
        if let Some(text) = text {
            self.put(name, Value::Code(text.clone()));
        }
    }

    fn when(&mut self, name: &'static str, at: Option<Timestamp>) {
        if let Some(at) = at {
            self.put(name, Value::When(clock(at, self.now), Moment::new(at, self.now)));
        }
    }
}

/// All details in display order.
pub(in crate::dashboard) fn facts(snapshot: &Snapshot, config: &Config, now: Timestamp) -> Vec<Detail> {
    let (job, spec) = (&snapshot.job, &snapshot.spec);
    let mut facts = JobDetails { found: Vec::new(), now };
    let priority = match job.effective_priority() {
        effective if effective == job.priority => effective.to_string(),
        effective => format!("{effective}, inherited; its own is {}", job.priority),
    };
    facts.text("Priority", priority);
    facts.text("Attempts", attempts(job));
    times(&mut facts, job);
    if let Some(lease) = &job.lease {
        let id = lease.worker.to_string();
        facts.put("Worker", Value::Link(format!("/workers/{id}"), worker_name(config, &id)));
        facts.when("Lease expires", Some(lease.ends_at()));
    }
    facts.code("Required worker version", job.lane.version.as_ref().map(ToString::to_string).as_ref());
    facts.text("Owner", spec.owner.clone());
    facts.text("Retry", retry(&job.policy.retry));
    let limits = &job.policy.timeouts;
    let start = limits.start.map_or_else(String::new, |start| format!("start within {}, ", span(start)));
    let (run, lease, life) = (span(limits.execution), span(limits.lease), span(limits.lifetime));
    facts.text("Time limits", format!("{start}run {run}, lease {lease}, expires after {life}"));
    if job.cost_cents != 0 {
        facts.text("Cost", cents(job.cost_cents));
    }
    facts.code("Correlation", spec.metadata.correlation_id.as_ref());
    facts.code("Idempotency key", spec.idempotency_key.as_ref());
    facts.code("Unique key", spec.unique_key.as_ref());
    facts.code("Concurrency key", spec.concurrency_key.as_ref());
    facts.code("Callback", spec.metadata.callback_url.as_ref());
    facts.code("Trace", spec.traceparent.as_ref());
    facts.code("Trace state", spec.tracestate.as_ref());
    facts.code("Baggage", spec.baggage.as_ref());
    add_relations(&mut facts, snapshot);
    facts.found
}

fn times(facts: &mut JobDetails, job: &JobRecord) {
    facts.when("Submitted", Some(job.created_at));
    if !job.state.is_final() && job.next_run_at() > facts.now {
        facts.when("Runs", Some(job.next_run_at()));
    }
    facts.when("First started", job.first_started_at);
    if job.started_at != job.first_started_at {
        facts.when("Last started", job.started_at);
    }
    facts.when("Ended", job.completed_at);
    if job.completed_at.is_none() {
        facts.when("Lifetime ends", Some(job.expires_at));
    }
    facts.when("Must start by", job.start_by());
    if let Some(requested) = &job.details.suspend_requested {
        let reason = requested.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
        facts.text(
            "Suspension requested by",
            format!("{}, {}{reason}", requested.by, requested.mode.as_str()),
        );
        facts.when("Suspension requested", Some(requested.at));
    }
    if let Some(by) = &job.details.suspended_by {
        facts.text("Suspended by", by.clone());
    }
    facts.when("Suspended", job.details.suspended_at);
    facts.when("Resumed", job.details.resumed_at);
}

fn add_relations(facts: &mut JobDetails, snapshot: &Snapshot) {
    let (job, spec) = (&snapshot.job, &snapshot.spec);
    if let Some(parent) = &job.parent {
        facts.put("Parent", Value::Job(JobLink(parent.id)));
    }
    if let Some(old) = job.details.retry_of {
        facts.put("Redrive of", Value::Job(JobLink(old)));
    }
    if let Some(new) = job.details.superseded_by {
        facts.put("Retried as", Value::Job(JobLink(new)));
    }
    // The graph shows all of them; a few are enough here.
    for (name, ids) in [("After", &spec.after), ("After any", &spec.after_any)] {
        if !ids.is_empty() {
            facts.put(name, Value::Jobs(ids.iter().take(5).copied().map(JobLink).collect()));
        }
    }
}

fn attempts(job: &JobRecord) -> String {
    let failures = match job.failures {
        0 => String::new(),
        1 => ", 1 failure".to_owned(),
        failures => format!(", {failures} failures"),
    };
    let crashes = if job.crashes > 0 { format!(" ({} crashes)", job.crashes) } else { String::new() };
    format!("{} of {}{failures}{crashes}", job.attempt, job.policy.retry.max_attempts)
}

fn retry(policy: &RetryPolicy) -> String {
    let (initial, max) = (span(policy.initial_delay), span(policy.max_delay));
    let hashed = if policy.jitter_mode == JitterMode::Hashed { " hashed" } else { "" };
    let jitter =
        if policy.jitter > 0.0 { format!(" ±{:.0}%{hashed}", policy.jitter * 100.0) } else { String::new() };
    match policy.strategy {
        Strategy::Constant => format!("every {initial}{jitter}"),
        Strategy::Linear => format!("{initial} more each time, at most {max}{jitter}"),
        Strategy::Exponential => format!("{initial} ×{} each time, at most {max}{jitter}", policy.multiplier),
        Strategy::Custom => "set by its worker".to_owned(),
    }
}
