//! `windlass batch`: submits many jobs from JSON lines. Rejected lines are reported by number and the others are submitted.
//! Every line has its own idempotency key, so the command can be repeated after any error without submitting a job twice.

mod lines;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use windlass_api::client::error::ErrorResponse;
use windlass_api::job::SubmittedJobs;

use self::lines::{Line, Waiting};
use crate::connection::client::{Call, ServerClient};
use crate::connection::connect::ConnectArgs;
use crate::error::Failure;
use crate::exit_code::Exit;
use crate::limits::{BATCH_BYTES, BATCH_JOBS, BATCH_JOBS_CAREFUL};
use crate::output::progress::{Progress, rate};
use crate::output::text::counted;
use crate::output::{self, escaped};

/// Arguments of `batch`.
#[derive(Args)]
pub(crate) struct BatchArgs {
    /// A file of JSON lines, each a submission as for POST /jobs; - is standard input
    #[arg(value_name = "FILE")]
    file: String,
    /// A run name: a second run over the same lines submits them again only if this differs
    #[arg(long, value_name = "NAME", default_value = "")]
    run: String,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Counts of submitted, duplicate and rejected lines.
#[derive(Default)]
struct BatchTotals {
    submitted: u64,
    duplicates: u64,
    refused: Vec<Value>,
}

impl BatchTotals {
    fn refuse(&mut self, number: u64, code: &str, message: &str) {
        output::complain(&format!("line {number}: {}", escaped(message)));
        self.refused.push(json!({"line": number, "code": code, "message": message}));
    }
}

pub(crate) async fn batch(args: &BatchArgs) -> anyhow::Result<ExitCode> {
    let client = args.connect.client()?;
    let refused = |error: std::io::Error| Failure::usage(format!("cannot read {}: {error}", args.file));
    let (lines, total): (Box<dyn BufRead>, _) = if args.file == "-" {
        (Box::new(std::io::stdin().lock()), None)
    } else {
        let file = File::open(&args.file).map_err(refused)?;
        // Only a file can be read twice; a pipe cannot.
        let is_file = file.metadata().is_ok_and(|facts| facts.is_file());
        let count =
            is_file.then(|| File::open(&args.file).map(|file| BufReader::new(file).split(b'\n').count()));
        let count = count.transpose().map_err(refused)?;
        (Box::new(BufReader::new(file)), count.and_then(|count| u64::try_from(count).ok()))
    };
    let mut progress = Progress::start("lines", total).unless(args.connect.json);
    let mut totals = BatchTotals::default();
    let done = send_all(&client, args, lines, &mut totals, &mut progress).await;
    progress.clear();
    if done.is_err() {
        let taken = counted(totals.submitted, "job");
        output::note(&format!(
            "{taken} submitted; run the same command again to continue, no job is submitted twice"
        ));
    }
    done?;
    let BatchTotals { submitted, duplicates, refused } = &totals;
    if args.connect.json {
        output::json(&json!({"submitted": submitted, "duplicates": duplicates, "refused": refused}))?;
    } else {
        let before =
            if *duplicates > 0 { format!(", {duplicates} were submitted before") } else { String::new() };
        let bad = if refused.is_empty() { String::new() } else { format!(", {} refused", refused.len()) };
        output::line(&format!("submitted {}{before}{bad}", counted(*submitted, "job")))?;
        output::note(&format!("{}/s", rate(submitted + duplicates, progress.elapsed())));
    }
    Ok(if refused.is_empty() { Exit::Done } else { Exit::Refused }.into())
}

async fn send_all(
    client: &ServerClient,
    args: &BatchArgs,
    lines: Box<dyn BufRead>,
    totals: &mut BatchTotals,
    progress: &mut Progress,
) -> anyhow::Result<()> {
    let (mut waiting, mut bytes, mut number) = (Waiting::default(), 0, 0);
    for line in lines.lines() {
        let line = line.context("cannot continue reading")?;
        number += 1;
        if line.trim().is_empty() {
            continue;
        }
        let read = keyed(&line, number, &args.run).and_then(|text| Line::read(number, text));
        let taken = read.map_err(|problem| ("not_json", problem)).and_then(|line| {
            bytes += line.text.len();
            waiting.add(line).map_err(|problem| ("name_taken", problem))
        });
        if let Err((code, problem)) = taken {
            progress.clear();
            totals.refuse(number, code, &problem);
        }
        if waiting.len() >= BATCH_JOBS || bytes >= BATCH_BYTES {
            send(client, &mut waiting, More::Follows, totals, progress).await?;
            bytes = waiting.bytes();
            progress.set(number);
        }
    }
    send(client, &mut waiting, More::None, totals, progress).await
}

/// Whether there are lines left to read, which waiting lines may refer to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum More {
    Follows,
    None,
}

/// The line to send, with an idempotency key added if it has none.
fn keyed(line: &str, number: u64, run: &str) -> Result<String, String> {
    // Only names are read: a payload may hold numbers of any size.
    let fields: BTreeMap<String, &RawValue> =
        serde_json::from_str(line).map_err(|error| format!("not a JSON object: {error}"))?;
    if fields.contains_key("idempotency_key") {
        return Ok(line.trim().to_owned());
    }
    let hash = Sha256::digest(format!("{run}\n{number}\n{}", line.trim()));
    let key: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
    // The rest of the line stays as it is, so that payloads are stored byte for byte.
    let rest = line.trim().strip_prefix('{').unwrap_or_default().trim_start();
    let comma = if fields.is_empty() { "" } else { "," };
    Ok(format!(r#"{{"idempotency_key":"batch-{key}"{comma}{rest}"#))
}

/// Sends lines. Lines that the server rejects are reported and left out. Lines that refer to a job of a later line wait for
/// it, as long as the buffer has space.
async fn send(
    client: &ServerClient,
    waiting: &mut Waiting,
    more: More,
    totals: &mut BatchTotals,
    progress: &mut Progress,
) -> anyhow::Result<()> {
    let mut most = BATCH_JOBS;
    loop {
        for (number, problem) in waiting.without_hope() {
            progress.clear();
            totals.refuse(number, "dependency_refused", &problem);
        }
        let mut chosen = waiting.sendable(most);
        if chosen.is_empty() {
            chosen = waiting.sendable(BATCH_JOBS);
        }
        if chosen.is_empty() {
            let has_room = waiting.len() < BATCH_JOBS && waiting.bytes() < BATCH_BYTES;
            if waiting.is_empty() || (more == More::Follows && has_room) {
                return Ok(());
            }
            // The names they refer to are not within reach; the server rejects each line.
            chosen = (0..waiting.len().min(most)).collect();
        }
        let texts: Vec<String> = chosen.iter().map(|at| waiting.text(*at)).collect();
        let body = format!(r#"{{"jobs":[{}]}}"#, texts.join(","));
        match client.ask::<SubmittedJobs>(Call::post(&["jobs", "batch"]).raw(body)).await {
            Ok(SubmittedJobs { jobs }) => {
                let before = jobs.iter().filter(|job| job.duplicate).count();
                totals.duplicates += before as u64;
                totals.submitted += (jobs.len() - before) as u64;
                let ids: Vec<String> = jobs.iter().map(|submitted| submitted.job.id.to_string()).collect();
                waiting.sent(&chosen, &ids);
                progress.add(chosen.len() as u64);
            }
            Err(failure) => {
                let (at, refusal) = named(&failure, chosen.len()).ok_or(failure)?;
                progress.clear();
                totals.refuse(waiting.refused(chosen[at]), &refusal.0, &refusal.1);
                // Every rejection costs a whole batch, and one is often followed by more: use smaller batches.
                most = BATCH_JOBS_CAREFUL;
            }
        }
    }
}

/// Which of the lines was rejected, and why, if the server names it.
fn named(failure: &Failure, count: usize) -> Option<(usize, (String, String))> {
    let ErrorResponse { code, message, details, .. } = failure.refusal()?;
    let index = details.get("index").and_then(Value::as_u64).and_then(|index| usize::try_from(index).ok());
    let index = index.filter(|index| *index < count)?;
    let own = message.strip_prefix(&format!("jobs.{index}.")).unwrap_or(message);
    Some((index, (code.clone(), own.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_may_hold_numbers_of_any_size() {
        assert!(keyed(r#"{"type":"a","payload":1e999}"#, 1, "").unwrap().ends_with(r#""payload":1e999}"#));
    }

    #[test]
    fn every_line_gets_a_key_of_its_own_and_the_same_one_next_time() {
        let line = r#" {"type":"a","payload":{"x":1.0}}"#;
        let sent = keyed(line, 1, "").unwrap();
        assert_eq!(sent, keyed(line, 1, "").unwrap());
        assert_ne!(sent, keyed(line, 2, "").unwrap());
        assert_ne!(sent, keyed(line, 1, "again").unwrap());
        assert!(sent.ends_with(r#"","type":"a","payload":{"x":1.0}}"#), "{sent}");
        serde_json::from_str::<Value>(&sent).unwrap();
        serde_json::from_str::<Value>(&keyed("{}", 1, "").unwrap()).unwrap();
        let own = r#"{"type":"a","idempotency_key":"mine"}"#;
        assert_eq!(keyed(own, 1, "").unwrap(), own);
        assert!(keyed("[1]", 1, "").is_err() && keyed("{", 1, "").is_err());
    }
}
