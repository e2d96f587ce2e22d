//! Job data in a program's environment. The worker's own settings are not passed on, and its key only if requested: the
//! program is trusted with the job, not with the queue.

use std::ffi::OsString;

use tokio::process::Command;
use windlass::Cx;
use windlass::key::KeySecret;

use super::RunOptions;

/// The prefix of all variables.
const PREFIX: &str = "WINDLASS_";

/// Sets the variables of a job, replacing existing ones with the prefix.
pub(super) fn set_env(command: &mut Command, cx: &Cx, conduct: &RunOptions) {
    for name in own_names() {
        command.env_remove(name);
    }
    for (name, value) in facts(cx) {
        tell_one(command, &format!("{PREFIX}{name}"), &value);
    }
    let others = [("URL", conduct.url.as_deref()), ("KEY", conduct.key.as_ref().map(KeySecret::reveal))];
    for (name, value) in others.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        tell_one(command, &format!("{PREFIX}{name}"), value);
    }
    for (name, value) in
        [("TRACEPARENT", cx.traceparent()), ("TRACESTATE", cx.tracestate()), ("BAGGAGE", cx.baggage())]
    {
        // The worker's own context is not the job's.
        command.env_remove(name);
        if let Some(value) = value {
            tell_one(command, name, value);
        }
    }
}

/// Variables of the worker's own environment that could be mistaken for job data or contain secrets.
fn own_names() -> Vec<OsString> {
    let names = std::env::vars_os().map(|(name, _)| name);
    names.filter(|name| name.to_string_lossy().starts_with(PREFIX)).collect()
}

fn facts(cx: &Cx) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("JOB_ID", cx.job_id().to_string()),
        ("TYPE", cx.job_type().to_string()),
        ("QUEUE", cx.queue_name().to_string()),
        ("TENANT", cx.tenant().to_string()),
        ("PRIORITY", cx.priority().value().to_string()),
        ("ATTEMPT", cx.attempt().to_string()),
        ("ATTEMPT_ID", cx.attempt_id().to_string()),
        ("MAX_ATTEMPTS", cx.max_attempts().to_string()),
        ("FENCE", cx.fence().0.to_string()),
        ("DEADLINE", cx.deadline().to_string()),
        ("CONTENT_TYPE", cx.payload().content_type.to_string()),
    ];
    facts.extend(cx.previous_attempt().map(|attempt| ("PREVIOUS_ATTEMPT_ID", attempt.to_string())));
    facts.extend(cx.submitted_key().map(|key| ("IDEMPOTENCY_KEY", key.to_owned())));
    facts.extend(cx.metadata().correlation_id.clone().map(|id| ("CORRELATION_ID", id)));
    facts
}

/// A variable cannot contain a NUL; the program would not even start.
fn tell_one(command: &mut Command, name: &str, value: &str) {
    if !value.contains('\0') {
        command.env(name, value);
    }
}
