//! `windlass submit`: submits one job, and optionally waits for its result.

use std::io::{IsTerminal, Read};
use std::process::ExitCode;

use anyhow::Context;
use base64::Engine as _;
use clap::Args;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use windlass_api::time::Span;

use crate::connection::client::{Call, Client};
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
    job_type: String,
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
    queue: Option<String>,
    /// Priority: 0 to 100, or low, normal, high, critical
    #[arg(long, value_name = "PRIORITY")]
    priority: Option<String>,
    /// Run it after this time, such as 10s or 1h30m
    #[arg(long, value_name = "DURATION", conflicts_with = "at")]
    delay: Option<Span>,
    /// Run it at this time, RFC 3339
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// Create it without scheduling it, until it is submitted by id
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
    tenant: Option<String>,
}

impl JobOptions {
    /// The submission without its payload.
    pub(crate) fn body(&self, job_type: &str) -> anyhow::Result<Map<String, Value>> {
        let mut body = Map::from_iter([("type".to_owned(), job_type.into())]);
        let texts = [
            ("queue", &self.queue),
            ("run_at", &self.at),
            ("idempotency_key", &self.idempotency_key),
            ("unique_key", &self.unique_key),
            ("concurrency_key", &self.concurrency_key),
            ("correlation_id", &self.correlation_id),
            ("callback_url", &self.callback),
            ("tenant", &self.tenant),
        ];
        for (name, text) in texts {
            body.extend(text.iter().map(|text| (name.to_owned(), text.clone().into())));
        }
        let spans = [("delay", &self.delay), ("idempotency_window", &self.idempotency_window)];
        for (name, span) in spans {
            body.extend(span.iter().map(|span| (name.to_owned(), span.to_string().into())));
        }
        if let Some(priority) = &self.priority {
            body.insert("priority".into(), urgency(priority));
        }
        if self.hold {
            body.insert("hold".into(), true.into());
        }
        let timeouts = [
            ("execution", &self.timeout),
            ("lease", &self.lease),
            ("lifetime", &self.lifetime),
            ("start", &self.start_timeout),
        ];
        let timeouts =
            timeouts.into_iter().filter_map(|(name, span)| Some((name, span.as_ref()?.to_string())));
        let timeouts: Map<String, Value> = timeouts.map(|(name, span)| (name.into(), span.into())).collect();
        let lists = [("after", &self.after), ("after_any", &self.after_any)];
        for (name, ids) in lists.into_iter().filter(|(_, ids)| !ids.is_empty()) {
            body.insert(name.into(), ids.clone().into());
        }
        let mut tags = Map::new();
        for tag in &self.tags {
            let pair = tag.split_once(':').or_else(|| tag.split_once('='));
            let (name, value) =
                pair.ok_or_else(|| Failure::usage(format!("the tag `{tag}` is not NAME:VALUE")))?;
            tags.insert(name.to_owned(), value.into());
        }
        for (name, fields) in [("timeouts", timeouts), ("tags", tags)] {
            if !fields.is_empty() {
                body.insert(name.into(), fields.into());
            }
        }
        if let Some(retry) = retry_policy(self.retry.as_deref(), self.attempts)? {
            body.insert("retry".into(), retry);
        }
        Ok(body)
    }
}

/// A retry policy: a preset or an object, and the number of attempts.
pub(crate) fn retry_policy(retry: Option<&str>, attempts: Option<u32>) -> anyhow::Result<Option<Value>> {
    let mut policy = match retry {
        None => Map::new(),
        Some(text) if text.trim_start().starts_with('{') => serde_json::from_str(text)
            .map_err(|error| Failure::usage(format!("--retry is not a policy in JSON: {error}")))?,
        Some(preset) => Map::from_iter([("preset".to_owned(), preset.into())]),
    };
    if let Some(attempts) = attempts {
        policy.insert("max_attempts".into(), attempts.into());
    }
    Ok((!policy.is_empty()).then(|| policy.into()))
}

/// A priority as the API takes it: a number or a word.
pub(crate) fn urgency(text: &str) -> Value {
    text.parse::<i64>().map_or_else(|_| text.into(), Value::from)
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

/// The payload fields of a body: JSON byte for byte, other content in base64.
pub(crate) fn payload_field(bytes: &[u8], content_type: Option<&str>) -> anyhow::Result<String> {
    if let Some(content_type) = content_type {
        let text = base64::engine::general_purpose::STANDARD.encode(bytes);
        return Ok(format!(r#""payload_base64":{},"content_type":{}"#, json!(text), json!(content_type)));
    }
    let raw: Box<RawValue> = serde_json::from_slice(bytes).map_err(|error| {
        Failure::usage(format!(
            "the payload is not JSON ({error}); quote a JSON string as '\"like this\"', and use \
             --content-type for other content"
        ))
    })?;
    Ok(format!(r#""payload":{}"#, raw.get()))
}

/// A body with its payload, which is not changed.
pub(crate) fn with_payload(body: &Map<String, Value>, payload: Option<&str>) -> String {
    let text = Value::Object(body.clone()).to_string();
    match payload {
        Some(payload) => format!("{},{payload}}}", &text[..text.len() - 1]),
        None => text,
    }
}

pub(crate) async fn submit(args: &SubmitArgs) -> anyhow::Result<ExitCode> {
    let body = args.options.body(&args.job_type)?;
    let payload = args.payload.as_deref().map(content).transpose()?;
    let payload = payload.map(|bytes| payload_field(&bytes, args.content_type.as_deref())).transpose()?;
    let client = args.connect.client()?;
    let job = client.value(Call::post(&["jobs"]).raw(with_payload(&body, payload.as_deref()))).await?;
    let id = job["id"].as_str().unwrap_or_default();
    if job["duplicate"] == true {
        let differs = if job["payload_differs"] == true { " with another payload" } else { "" };
        let gone = if job["deleted"] == true { " and has been deleted" } else { "" };
        output::note(&format!("it was submitted before{differs}{gone}; no new job was created"));
        if job["deleted"] == true && args.wait {
            return Err(Failure::usage(format!("job {id} was deleted: cannot wait for it")));
        }
    }
    if args.wait {
        output::note(&format!("submitted {id}"));
        return wait(&client, id, args.connect.json).await;
    }
    if args.connect.json {
        output::json(&job)?;
    } else {
        output::line(id)?;
    }
    Ok(Exit::Done.into())
}

/// Waits until a job is final, shows its progress, and prints its result.
async fn wait(client: &Client, id: &str, is_json: bool) -> anyhow::Result<ExitCode> {
    let job = ended(client, id).await?;
    let state = job["state"].as_str().unwrap_or_default();
    if is_json {
        output::json(&job)?;
    } else if state == "completed" {
        output::json(&job["result"])?;
    } else {
        let error = job["error"]["message"].as_str().map(|error| format!(": {}", escaped(error)));
        let state = Paint::for_talk().state(state);
        output::note(&format!("{state}{}; see `windlass show {id}`", error.unwrap_or_default()));
    }
    Ok(if state == "completed" { Exit::Done } else { Exit::No }.into())
}

/// Waits until the job is final and returns it. Its events tell when to read it. The progress of a running job is polled,
/// and only if there is a terminal to show it on.
async fn ended(client: &Client, id: &str) -> anyhow::Result<Value> {
    let is_watched = std::io::stderr().is_terminal();
    let mut changes = JobEventStream::open(client, id).await?;
    let mut last = String::new();
    loop {
        let looked = client.value(Call::get(&["jobs", id])).await;
        let Some(job) = changes.retry_while_away(looked).await? else { continue };
        if job["completed_at"].is_string() {
            return Ok(job);
        }
        let progress = job["progress"]["percent"].as_f64().map(|percent| format!(" {percent:.0}%"));
        let said = job["progress"]["message"].as_str().or_else(|| job["why"]["message"].as_str());
        let state = job["state"].as_str().unwrap_or_default();
        let now = format!("{state}{} {}", progress.unwrap_or_default(), escaped(said.unwrap_or_default()));
        if now != last {
            output::note(now.trim_end());
            last = now;
        }
        let is_moving = is_watched && state == "running";
        changes.wait(is_moving.then_some(JOB_POLL_INTERVAL)).await?;
    }
}
