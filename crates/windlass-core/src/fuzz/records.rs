//! What is stored as JSON, and the small values in requests: names, times, ids, versions, priorities, traces.

use std::fmt::{Debug, Display};

use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_fuzz::Family;

use super::{refused, same};
use crate::audit::AuditEvent;
use crate::caller::Role;
use crate::clock::Timestamp;
use crate::job::{
    Bucket, ChildGroup, ErrorRecord, Failure, JobId, JobMetadata, JobType, Lane, NewJob, Payload, Policy,
    Priority, Progress, QueueName, RareFields, RetryPolicy, ScheduleName, Tenant, Traceparent, Version, Wait,
    WorkerId, error_pattern, fingerprint,
};
use crate::limits;
use crate::schedule::ScheduleSpec;
use crate::settings::{QueueSettings, TenantSettings, TypeSettings};

/// What was read from these bytes is written and read again as itself.
fn stored<T: Serialize + DeserializeOwned + PartialEq + Debug>(bytes: &[u8]) -> Result<(), String> {
    let Ok(read) = serde_json::from_slice::<T>(bytes) else { return Ok(()) };
    let written = serde_json::to_vec(&read).map_err(|problem| format!("cannot be written: {problem}"))?;
    let again: T =
        serde_json::from_slice(&written).map_err(|problem| format!("cannot be read again: {problem}"))?;
    same("read again", again, read)
}

fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap()
}

#[test]
fn stored_values_are_read_as_they_were_written() {
    let lane = Lane::new(Tenant::default(), QueueName::default(), JobType::new("a").unwrap());
    let job = NewJob::new(JobType::new("a").unwrap(), Payload::bytes([0, 255], "application/octet-stream"));
    let seeds = [
        json(&Policy::default()),
        json(&RareFields::default()),
        json(&RetryPolicy::standard()),
        json(&lane),
        json(&job),
        json(&Failure::retry_after(std::time::Duration::from_secs(5), "x").with_code("c").with_cause("y")),
        json(&QueueSettings::default()),
        json(&TypeSettings::default()),
        json(&TenantSettings::default()),
        json(&JobMetadata::default()),
        json(&ScheduleSpec::Every(std::time::Duration::from_secs(9))),
        json(&ScheduleSpec::Cron {
            cron: "* * * * *".parse().unwrap(),
            timezone: "Asia/Tokyo".parse().unwrap(),
        }),
        r#"{"children":{"group":1}}"#.to_owned(),
        r#"{"any":{"of":[{"signal":{"name":"x","step":"s","until":5}},{"timer":{"until":7}}]}}"#.to_owned(),
        r#"{"percent":12.5,"message":"half"}"#.to_owned(),
        r#"{"tokens":0.5,"at":5}"#.to_owned(),
    ];
    let words = [
        "\"secs\":",
        "\"nanos\":4000000000",
        "1e308",
        "-9223372036854775808",
        "\"payload\":",
        "{\"any\":{\"of\":[",
    ];
    Family::new("stored-json").seeds(seeds).words(words).cases(6_000).bytes(|bytes| {
        stored::<Policy>(bytes)?;
        stored::<RareFields>(bytes)?;
        stored::<RetryPolicy>(bytes)?;
        stored::<Lane>(bytes)?;
        stored::<Failure>(bytes)?;
        stored::<ErrorRecord>(bytes)?;
        stored::<QueueSettings>(bytes)?;
        stored::<TypeSettings>(bytes)?;
        stored::<TenantSettings>(bytes)?;
        stored::<JobMetadata>(bytes)?;
        stored::<ScheduleSpec>(bytes)?;
        stored::<ChildGroup>(bytes)?;
        stored::<Wait>(bytes)?;
        stored::<Progress>(bytes)?;
        stored::<Bucket>(bytes)?;
        if let Ok(job) = serde_json::from_slice::<NewJob>(bytes) {
            job.check().or_else(|problem| refused(&problem))?;
        }
        Ok(())
    });
}

/// Settings that pass their own check can be used: no sum or product of theirs overflows.
#[test]
fn settings_that_are_taken_can_be_used() {
    let seeds = [
        r#"{"max_running":5,"rate":{"count":3,"per":{"secs":1,"nanos":0}},"aging":{"secs":60,"nanos":0}}"#,
        r#"{"retry":{"max_attempts":5},"timeouts":{"lease":{"secs":9,"nanos":0}}}"#,
    ];
    Family::new("stored-json").seeds(seeds).words(["18446744073709551615", "\"nanos\":999999999"]).bytes(
        |bytes| {
            if let Ok(policy) = serde_json::from_slice::<RetryPolicy>(bytes)
                && policy.check().is_ok()
            {
                for failures in [1, 2, 99, u32::MAX] {
                    let delay = policy.delay(failures, 0.999);
                    if delay > limits::DURATION_MAX {
                        return Err(format!("a delay of {delay:?}"));
                    }
                }
            }
            let checked = [
                serde_json::from_slice::<QueueSettings>(bytes).ok().map(|read| read.check()),
                serde_json::from_slice::<TenantSettings>(bytes).ok().map(|read| read.check()),
                serde_json::from_slice::<TypeSettings>(bytes).ok().map(|read| read.check()),
            ];
            checked.into_iter().flatten().try_for_each(|checked| checked.or_else(|problem| refused(&problem)))
        },
    );
}

/// A text that is taken is shown so that it is taken as the same.
fn shown<T>(text: &str) -> Result<(), String>
where
    T: std::str::FromStr<Err: Display> + Display + PartialEq + Debug,
{
    match text.parse::<T>() {
        Ok(read) => same("read again", read.to_string().parse::<T>().ok(), Some(read)),
        Err(problem) => refused(&problem),
    }
}

#[test]
fn small_values_are_read_as_they_are_shown() {
    let seeds = [
        "2030-01-31T12:00:00.123Z",
        "1970-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59.999999999Z",
        "-009999-01-01T00:00:00Z",
        "018f2f4e-7c00-7000-8000-000000000007",
        "critical",
        "50",
        "job.submitted",
        "worker",
        "email.send",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "1.2.3-4",
    ];
    Family::new("small-values")
        .seeds(seeds)
        .words(["-", "T", "+25:00", "[Europe/Berlin]", ".", ":"])
        .cases(6_000)
        .text(|text| {
            shown::<Timestamp>(text)?;
            shown::<JobId>(text)?;
            shown::<WorkerId>(text)?;
            shown::<Version>(text)?;
            shown::<AuditEvent>(text)?;
            shown::<Role>(text)?;
            match text.parse::<Priority>() {
                Ok(read) => same("priority", Priority::new(i64::from(read.value())), Ok(read))?,
                Err(problem) => refused(&problem)?,
            }
            if let Some(read) = Traceparent::parse(text) {
                same("trace", Traceparent::parse(read.as_str()), Some(read.clone()))?;
                let _never_panics = (read.trace_id(), read.span_id().len(), read.is_sampled());
            }
            for made in [
                Tenant::new(text).map(|name| name.as_str().to_owned()),
                QueueName::new(text).map(|name| name.as_str().to_owned()),
                JobType::new(text).map(|name| name.as_str().to_owned()),
                ScheduleName::new(text).map(|name| name.as_str().to_owned()),
            ] {
                match made {
                    Ok(name) => same("name", name.as_str(), text)?,
                    Err(problem) => refused(&problem)?,
                }
            }
            Ok(())
        });
}

/// Patterns group errors: one is short, and the pattern of itself.
#[test]
fn patterns_of_errors_are_bounded_and_stable() {
    let seeds =
        ["order 4711 not found", "GET https://api.example.com/v1/17: 502", "no mailbox 'a@b.c'", "a/b\nc"];
    Family::new("error-pattern").seeds(seeds).words(["://", "/", "@", "<path>", "#", "..", "'"]).text(
        |text| {
            let pattern = error_pattern(text);
            // A word of one character may become a mask of nine.
            if pattern.chars().count() > 10 * limits::FINGERPRINT_CHARS {
                return Err(format!("a pattern of {} characters", pattern.chars().count()));
            }
            let error: ErrorRecord = serde_json::from_value(serde_json::json!({
                "category": "temporary", "message": text, "at": 0, "attempt": 1, "retryable": true,
            }))
            .map_err(|problem| problem.to_string())?;
            same("length", fingerprint(&error).len(), 16)
        },
    );
}
