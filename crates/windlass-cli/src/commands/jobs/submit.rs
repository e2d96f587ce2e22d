//! `windlass submit`: submits one job, and optionally waits for its result.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Read};
use std::process::ExitCode;

use anyhow::Context;
use base64::Engine as _;
use clap::Args;
use serde_json::Map;
use serde_json::value::RawValue;
use windlass::job::{JobState, JobType, QueueName, Tenant, WorkerVersion};
use windlass_api::job::{Job, SubmittedJob};
use windlass_api::json::Json;
use windlass_api::priority::PriorityInput;
use windlass_api::retry::{Retry, SomeTimeouts};
use windlass_api::submission::{Debouncing, Submission};
use windlass_api::tags::Tags;
use windlass_api::text::Text;
use windlass_api::time::{Moment, Span};

use crate::connection::client::{Call, JsonReply, ServerClient};
use crate::connection::connect::ConnectArgs;
use crate::connection::reconnect::JobEventStream;
use crate::error::Failure;
use crate::exit_code::Exit;
use crate::limits::JOB_POLL_INTERVAL;
use crate::output::color::Paint;
use crate::output::{self, escaped};

/// Arguments of `submit`.
#[derive(Args)]
pub(crate) struct SubmitArgs {
    /// Job type: selects the handler
    #[arg(value_name = "TYPE")]
    job_type: Text<JobType>,
    /// Payload: JSON, or @FILE, or - for standard input
    payload: Option<String>,
    #[command(flatten)]
    options: JobOptions,
    /// Content type of a payload that is not JSON
    #[arg(long, value_name = "MIME", requires = "payload")]
    content_type: Option<String>,
    /// Wait until the job is final, and print its result
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// The other options of a submission.
#[derive(Args, Clone)]
pub(crate) struct JobOptions {
    /// Queue
    #[arg(long, value_name = "QUEUE")]
    queue: Option<Text<QueueName>>,
    /// Priority: 0 to 100, or low, normal, high, critical
    #[arg(long, value_name = "PRIORITY")]
    priority: Option<PriorityInput>,
    /// Only workers of exactly this version receive it
    #[arg(long, value_name = "VERSION")]
    requires_version: Option<Text<WorkerVersion>>,
    /// Run it after this time, such as 10s or 1h30m
    #[arg(long, value_name = "DURATION", conflicts_with = "at")]
    delay: Option<Span>,
    /// Run it at this time, RFC 3339
    #[arg(long, value_name = "TIME")]
    at: Option<Moment>,
    /// Create it without scheduling it, until `windlass release ID`
    #[arg(long)]
    hold: bool,
    /// A second submission with the same key returns the same job
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// How long the idempotency key applies
    #[arg(long, value_name = "DURATION", requires = "idempotency_key")]
    idempotency_window: Option<Span>,
    /// At most one unfinished job with this key at a time
    #[arg(long, value_name = "KEY")]
    unique_key: Option<String>,
    /// Key for concurrency limits across jobs
    #[arg(long, value_name = "KEY")]
    concurrency_key: Option<String>,
    /// Until the job has started, a later submission with this key replaces its payload and delay
    #[arg(long, value_name = "KEY", requires = "debounce_delay")]
    debounce_key: Option<String>,
    /// How long to wait for another submission with the debounce key
    #[arg(long, value_name = "DURATION", requires = "debounce_key")]
    debounce_delay: Option<Span>,
    /// Tag, NAME:VALUE; may be repeated
    #[arg(long = "tag", value_name = "NAME:VALUE")]
    tags: Vec<String>,
    /// Your id for the operation it belongs to
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,
    /// Maximum duration of an attempt
    #[arg(long, value_name = "DURATION")]
    timeout: Option<Span>,
    /// How long a lease lasts without a heartbeat
    #[arg(long, visible_alias = "visibility", value_name = "DURATION")]
    lease: Option<Span>,
    /// Maximum time from submission to a final state
    #[arg(long, value_name = "DURATION")]
    lifetime: Option<Span>,
    /// Maximum time from when it can be claimed to its first start; it fails if it is not started in time
    #[arg(long, value_name = "DURATION")]
    start_timeout: Option<Span>,
    /// Maximum number of attempts, including the first
    #[arg(long, value_name = "COUNT")]
    attempts: Option<u32>,
    /// Retry policy: standard, fixed, backoff, or a policy in JSON
    #[arg(long, value_name = "POLICY")]
    retry: Option<String>,
    /// Job that must complete first; may be repeated
    #[arg(long, value_name = "ID")]
    after: Vec<String>,
    /// Jobs of which one must be final first; may be repeated
    #[arg(long, value_name = "ID")]
    after_any: Vec<String>,
    /// URL to call when the job is final
    #[arg(long, value_name = "URL")]
    callback: Option<String>,
    /// Tenant, for keys that may choose it
    #[arg(long, value_name = "TENANT")]
    tenant: Option<Text<Tenant>>,
    /// The trace it belongs to, in the format of W3C Trace Context
    #[arg(long, value_name = "TRACEPARENT")]
    traceparent: Option<String>,
    /// The `tracestate` of that trace
    #[arg(long, value_name = "TRACESTATE")]
    tracestate: Option<String>,
    /// Data for everything that the job causes, in the format of W3C Baggage
    #[arg(long, value_name = "BAGGAGE")]
    baggage: Option<String>,
}

impl JobOptions {
    /// The submission without its payload.
    fn submission(&self, job_type: &Text<JobType>) -> anyhow::Result<Submission> {
        let list = |ids: &Vec<String>| (!ids.is_empty()).then(|| ids.clone());
        let timeouts = SomeTimeouts {
            execution: self.timeout,
            lease: self.lease,
            visibility: None,
            lifetime: self.lifetime,
            start: self.start_timeout,
        };
        let mut tags = BTreeMap::new();
        for tag in &self.tags {
            let pair = tag.split_once(':').or_else(|| tag.split_once('='));
            let (name, value) =
                pair.ok_or_else(|| Failure::usage(format!("the tag `{tag}` is not NAME:VALUE")))?;
            tags.insert(name.to_owned(), value.to_owned());
        }
        Ok(Submission {
            queue: self.queue.clone(),
            requires_version: self.requires_version.clone(),
            priority: self.priority,
            delay: self.delay,
            run_at: self.at,
            hold: self.hold.then_some(true),
            idempotency_key: self.idempotency_key.clone(),
            idempotency_window: self.idempotency_window,
            unique_key: self.unique_key.clone(),
            concurrency_key: self.concurrency_key.clone(),
            retry: retry_policy(self.retry.as_deref(), self.attempts)?,
            timeouts: (timeouts != SomeTimeouts::default()).then_some(timeouts),
            after: list(&self.after),
            after_any: list(&self.after_any),
            tags: (!tags.is_empty()).then_some(Tags(tags)),
            correlation_id: self.correlation_id.clone(),
            callback_url: self.callback.clone(),
            tenant: self.tenant.clone(),
            traceparent: self.traceparent.clone(),
            tracestate: self.tracestate.clone(),
            baggage: self.baggage.clone(),
            debounce: self
                .debounce_key
                .clone()
                .zip(self.debounce_delay)
                .map(|(key, delay)| Debouncing { key, delay }),
            ..Submission::new(job_type.clone())
        })
    }
}

/// A retry policy: a preset or an object, and the number of attempts.
pub(crate) fn retry_policy(retry: Option<&str>, attempts: Option<u32>) -> anyhow::Result<Option<Retry>> {
    let wrong = |error| Failure::usage(format!("--retry is not a policy in JSON: {error}"));
    let mut policy = match retry {
        None => Map::new(),
        Some(text) if text.trim_start().starts_with('{') => serde_json::from_str(text).map_err(wrong)?,
        Some(preset) => Map::from_iter([("preset".to_owned(), preset.into())]),
    };
    if let Some(attempts) = attempts {
        policy.insert("max_attempts".into(), attempts.into());
    }
    if policy.is_empty() {
        return Ok(None);
    }
    serde_json::from_value(policy.into()).map(Some).map_err(wrong)
}

/// The content of an argument: the text itself, a file, or standard input.
pub(crate) fn content(argument: &str) -> anyhow::Result<Vec<u8>> {
    if argument == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes).context("cannot read standard input")?;
        return Ok(bytes);
    }
    match argument.strip_prefix('@') {
        Some(path) => {
            std::fs::read(path).map_err(|error| Failure::usage(format!("cannot read {path}: {error}")))
        }
        None => Ok(argument.as_bytes().to_vec()),
    }
}

/// Sets the payload of a submission: JSON byte for byte, other content in base64.
pub(crate) fn set_payload(
    job: &mut Submission,
    bytes: &[u8],
    content_type: Option<&str>,
) -> anyhow::Result<()> {
    (job.payload, job.payload_base64) = (None, None);
    job.content_type = content_type.map(str::to_owned);
    if content_type.is_some() {
        job.payload_base64 = Some(base64::engine::general_purpose::STANDARD.encode(bytes));
        return Ok(());
    }
    job.payload = Some(Json(json_payload(bytes)?));
    Ok(())
}

/// The payload as JSON, byte for byte.
pub(crate) fn json_payload(bytes: &[u8]) -> anyhow::Result<Box<RawValue>> {
    serde_json::from_slice(bytes).map_err(|error| {
        Failure::usage(format!(
            "the payload is not JSON ({error}); quote a JSON string as '\"like this\"', and use \
             --content-type for other content"
        ))
    })
}

pub(crate) async fn submit(args: &SubmitArgs) -> anyhow::Result<ExitCode> {
    let mut job = args.options.submission(&args.job_type)?;
    if let Some(payload) = &args.payload {
        set_payload(&mut job, &content(payload)?, args.content_type.as_deref())?;
    }
    let client = args.connect.client()?;
    for id in job.after.iter_mut().chain(&mut job.after_any).flatten() {
        *id = client.job_id(id).await?;
    }
    let answer = client.send(Call::post(&["jobs"]).json(&job)).await?;
    let submitted: SubmittedJob = answer.read()?;
    let id = submitted.job.id.to_string();
    if submitted.duplicate {
        let differs = if submitted.payload_differs { " with another payload" } else { "" };
        let gone = if submitted.deleted { " and has been deleted" } else { "" };
        output::note(&format!("it was submitted before{differs}{gone}; no new job was created"));
        if submitted.deleted && args.wait {
            return Err(Failure::usage(format!("job {id} was deleted: cannot wait for it")));
        }
    }
    if submitted.debounced {
        output::note(&debounced(&id, &job)?);
    }
    if args.wait {
        output::note(&format!("submitted {id}"));
        return wait(&client, &id, args.connect.json).await;
    }
    if args.connect.json {
        answer.print()?;
    } else {
        output::line(&id)?;
    }
    Ok(Exit::Done.into())
}

/// What a submission did to the job that waits under the same debounce key, and what of it had no effect.
fn debounced(id: &str, job: &Submission) -> anyhow::Result<String> {
    let applied =
        ["type", "payload", "payload_base64", "content_type", "debounce", "tenant", "delay", "run_at"];
    let fields: Map<String, serde_json::Value> = serde_json::from_str(&serde_json::to_string(job)?)?;
    let ignored: Vec<&str> =
        fields.keys().map(String::as_str).filter(|name| !applied.contains(name)).collect();
    let ignored = if ignored.is_empty() {
        String::new()
    } else {
        format!(", and {} had no effect", ignored.join(", "))
    };
    Ok(format!(
        "{id} was waiting with this debounce key: it has this payload and delay now; the rest of it stays{ignored}"
    ))
}

/// Waits until a job is final, shows its progress, and prints its result.
async fn wait(client: &ServerClient, id: &str, is_json: bool) -> anyhow::Result<ExitCode> {
    let (answer, job) = ended(client, id).await?;
    let is_completed = job.state.0 == JobState::Completed;
    if is_json {
        answer.print()?;
    } else if is_completed {
        output::json(&job.result)?;
    } else {
        let error = job.error.map(|error| format!(": {}", escaped(&error.message)));
        let state = Paint::for_talk().state(job.state.0);
        output::note(&format!("{state}{}; see `windlass show {id}`", error.unwrap_or_default()));
    }
    Ok(if is_completed { Exit::Done } else { Exit::No }.into())
}

/// Waits until the job is final and returns it. Its events tell when to read it. The progress of a running job is polled,
/// and only if there is a terminal to show it on.
async fn ended(client: &ServerClient, id: &str) -> anyhow::Result<(JsonReply, Job)> {
    let is_watched = std::io::stderr().is_terminal();
    let mut changes = JobEventStream::open(client, id).await?;
    let mut last = String::new();
    loop {
        let looked = client.send(Call::get(&["jobs", id])).await;
        let looked = looked.and_then(|answer| answer.read::<Job>().map(|job| (answer, job)));
        let Some((answer, job)) = changes.retry_while_unavailable(looked).await? else { continue };
        if job.completed_at.is_some() {
            return Ok((answer, job));
        }
        let progress = job.progress.as_ref().map(|progress| format!(" {:.0}%", progress.percent));
        let said = job.progress.as_ref().and_then(|progress| progress.message.as_deref());
        let said = said.or_else(|| job.why.as_ref().map(|why| why.message.as_str())).unwrap_or_default();
        let now = format!("{}{} {}", job.state, progress.unwrap_or_default(), escaped(said));
        if now != last {
            output::note(now.trim_end());
            last = now;
        }
        let is_moving = is_watched && job.state.0 == JobState::Running;
        changes.wait(is_moving.then_some(JOB_POLL_INTERVAL)).await?;
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        submit: SubmitArgs,
    }

    fn sent(flags: &[&str]) -> anyhow::Result<String> {
        let args = Flags::try_parse_from([&["windlass"], flags].concat())?.submit;
        let mut job = args.options.submission(&args.job_type)?;
        if let Some(payload) = &args.payload {
            set_payload(&mut job, &content(payload)?, args.content_type.as_deref())?;
        }
        Ok(serde_json::to_string(&job)?)
    }

    #[test]
    fn flags_become_a_submission_and_the_payload_stays_byte_for_byte() {
        assert_eq!(sent(&["mail"]).unwrap(), r#"{"type":"mail"}"#);
        let payload = r#"{"b": 1.0,  "a":[]}"#;
        let flags =
            ["--queue", "q", "--priority", "high", "--delay", "90s", "--tag", "a:b", "--attempts", "3"];
        assert_eq!(
            sent(&[&["mail", payload], &flags[..]].concat()).unwrap(),
            format!(
                r#"{{"type":"mail","payload":{payload},"queue":"q","priority":80,"delay":"1m30s","retry":{{"max_attempts":3}},"tags":{{"a":"b"}}}}"#
            )
        );
        let bytes = sent(&["mail", "<a/>", "--content-type", "text/xml"]).unwrap();
        assert_eq!(bytes, r#"{"type":"mail","payload_base64":"PGEvPg==","content_type":"text/xml"}"#);
    }

    /// Every field of a submission has a flag.
    #[test]
    fn every_field_of_a_submission_can_be_given() {
        let flags = "mail {} --queue q --priority 5 --delay 1s --hold --idempotency-key a --idempotency-window 1h \
                     --unique-key b --concurrency-key c --debounce-key d --debounce-delay 1s --tag a:b \
                     --correlation-id e --timeout 1s --lease 1s --lifetime 1h --start-timeout 1s --attempts 2 \
                     --after x --after-any y --callback https://example.com --tenant t --traceparent z \
                     --tracestate v=1 --baggage u=1 --requires-version 1.2.3";
        let at = ["mail", "<a/>", "--content-type", "text/xml", "--at", "2030-01-01T00:00:00Z"];
        let mut given = std::collections::BTreeSet::new();
        for flags in [&flags.split_whitespace().collect::<Vec<_>>()[..], &at] {
            let job: Map<String, serde_json::Value> = serde_json::from_str(&sent(flags).unwrap()).unwrap();
            given.extend(job.into_iter().map(|(name, _)| name));
        }
        // Only jobs of a batch refer to each other by name.
        given.insert("name".to_owned());
        assert_eq!(given, Submission::field_names());
    }

    #[test]
    fn what_no_server_would_take_is_refused_here() {
        for bad in [
            &["no type"][..],
            &["mail", "{"],
            &["mail", "--queue", "a b"],
            &["mail", "--priority", "101"],
            &["mail", "--priority", "soon"],
            &["mail", "--at", "tomorrow"],
            &["mail", "--tag", "alone"],
            &["mail", "--retry", r#"{"max_attempts":"many"}"#],
        ] {
            assert!(sent(bad).is_err(), "{bad:?}");
        }
    }
}
