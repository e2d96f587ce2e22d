//! `windlass export`: jobs as JSON lines that `windlass import` submits again, to this server or another.
//!
//! A job that waits for another exported job refers to it by name, since the other gets a new id. The names needed are found
//! in a first pass over the list, without payloads.

use std::collections::HashSet;
use std::process::ExitCode;

use clap::Args;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use windlass::clock::Timestamp;
use windlass::job::JobId;
use windlass_api::filter::{ListOrder, ListQuery};
use windlass_api::text::Text;
use windlass_api::time::Moment;

use crate::commands::jobs::filter::FilterArgs;
use crate::connection::client::{Call, Fields, ServerClient, read_known};
use crate::connection::connect::ConnectArgs;
use crate::exit_code::Exit;
use crate::limits::LIST_PAGE_JOBS;
use crate::output;
use crate::output::text::counted;

/// Arguments of `export`.
#[derive(Args)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// The fields of a job that a submission has under the same name.
const FIELDS: [&str; 17] = [
    "type",
    "payload",
    "payload_base64",
    "queue",
    "requires_version",
    "priority",
    "unique_key",
    "concurrency_key",
    "retry",
    "timeouts",
    "tags",
    "correlation_id",
    "callback_url",
    "tenant",
    "traceparent",
    "tracestate",
    "baggage",
];
/// The fields that refer to other jobs.
const LINKS: [&str; 2] = ["after", "after_any"];

pub(crate) async fn export(args: &ExportArgs) -> anyhow::Result<ExitCode> {
    let client = args.connect.client()?;
    let query = ListQuery {
        order: Some(ListOrder::Oldest),
        limit: Some(LIST_PAGE_JOBS),
        ..ListQuery::from(args.filter.filter(&client).await?)
    };
    let named = named(&client, &query).await?;
    let (mut count, mut left_out) = (0, 0);
    let query = ListQuery { payload: Some(true), ..query };
    each_page(&client, &query, |jobs| {
        for job in jobs {
            match serde_json::from_str(job.get()).ok().and_then(|job| submission(&job, &named, client.now()))
            {
                Some(line) => {
                    output::line(&output::raw::compact(&line))?;
                    count += 1;
                }
                None => left_out += 1,
            }
        }
        Ok(())
    })
    .await?;
    output::note(&format!("{} exported", counted(count, "job")));
    if left_out > 0 {
        let jobs = counted(left_out, "job");
        output::note(&format!("{jobs} left out: your key may not read their payload"));
        return Ok(Exit::No.into());
    }
    Ok(Exit::Done.into())
}

/// Reads a list to its end.
async fn each_page(
    client: &ServerClient,
    query: &ListQuery,
    mut take: impl FnMut(Vec<Box<RawValue>>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut cursor = None;
    loop {
        let query = ListQuery { cursor: cursor.take(), ..query.clone() };
        let page = client.page(Call::get(&["jobs"]).queries(&query), "jobs").await?;
        take(page.items)?;
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(());
        }
    }
}

/// What a job says about others.
#[derive(Deserialize)]
struct Links {
    id: Text<JobId>,
    #[serde(default)]
    after: Vec<Text<JobId>>,
    #[serde(default)]
    after_any: Vec<Text<JobId>>,
}

/// The exported jobs that others of them wait for.
async fn named(client: &ServerClient, query: &ListQuery) -> anyhow::Result<HashSet<JobId>> {
    let (mut all, mut awaited) = (HashSet::new(), HashSet::new());
    each_page(client, query, |jobs| {
        for job in read_known::<Links>(jobs).0 {
            all.insert(job.id.0);
            awaited.extend(job.after.into_iter().chain(job.after_any).map(|id| id.0));
        }
        Ok(())
    })
    .await?;
    awaited.retain(|id| all.contains(id));
    Ok(awaited)
}

/// The submission that repeats a job, as JSON; None if its payload was not sent. Jobs that are `named` get their id as name.
fn submission(job: &Fields, named: &HashSet<JobId>, now: Timestamp) -> Option<String> {
    let is_bytes = job.contains_key("payload_base64");
    let is_redacted = read::<bool>(job, "redacted") == Some(true);
    if is_redacted || !(is_bytes || job.contains_key("payload")) {
        return None;
    }
    let mut line = Vec::new();
    let mut add = |name: &str, value: &str| line.push(format!("\"{name}\":{value}"));
    let content_type = is_bytes.then_some("content_type");
    for name in FIELDS.into_iter().chain(content_type) {
        let is_said = |value: &str| name == "payload" || !["null", "{}"].contains(&value);
        if let Some(value) = job.get(name).map(|value| value.get()).filter(|value| is_said(value)) {
            add(name, value);
        }
    }
    if read::<String>(job, "state").as_deref() == Some("created") {
        add("hold", "true");
    }
    if let Some(Moment(at)) = read(job, "run_at").filter(|Moment(at)| *at > now) {
        add("run_at", &serde_json::to_string(&Moment(at)).ok()?);
    }
    if let Some(Text(id)) = read::<Text<JobId>>(job, "id").filter(|Text(id)| named.contains(id)) {
        add("name", &format!("\"{id}\""));
    }
    for name in LINKS {
        let ids: Vec<Text<JobId>> = read(job, name).unwrap_or_default();
        let sign = |id: &JobId| if named.contains(id) { "@" } else { "" };
        let ids: Vec<String> = ids.iter().map(|Text(id)| format!("\"{}{id}\"", sign(id))).collect();
        if !ids.is_empty() {
            add(name, &format!("[{}]", ids.join(",")));
        }
    }
    Some(format!("{{{}}}", line.join(",")))
}

fn read<T: DeserializeOwned>(job: &Fields, name: &str) -> Option<T> {
    serde_json::from_str(job.get(name)?.get()).ok()
}

#[cfg(test)]
mod tests {
    use windlass_api::submission::Submission;

    use super::*;

    fn line(job: &str, named: &[JobId]) -> Option<String> {
        let now = "2030-01-01T00:00:00Z".parse::<Moment>().unwrap().0;
        submission(&serde_json::from_str(job).unwrap(), &named.iter().copied().collect(), now)
    }

    #[test]
    fn a_job_becomes_what_was_submitted() {
        let job = r#"{"id": "1", "type": "a", "payload": null, "content_type": "application/json", "queue": "q",
            "priority": 50, "tags": {}, "state": "failed", "unique_key": null, "tenant": "t", "run_at": "2029-12-31T00:00:00Z"}"#;
        let wanted = r#"{"type":"a","payload":null,"queue":"q","priority":50,"tenant":"t"}"#;
        assert_eq!(line(job, &[]).unwrap(), wanted);
        let held = r#"{"type":"a","payload":1e999,"state":"created","run_at":"2030-01-01T00:00:01Z"}"#;
        let wanted = r#"{"type":"a","payload":1e999,"hold":true,"run_at":"2030-01-01T00:00:01.000Z"}"#;
        assert_eq!(line(held, &[]).unwrap(), wanted);
        let bytes = r#"{"type":"a","payload_base64":"AA==","content_type":"image/png"}"#;
        assert_eq!(line(bytes, &[]).unwrap(), bytes);
        assert_eq!(line(r#"{"type": "a", "redacted": true, "payload": 1}"#, &[]), None);
        assert_eq!(line(r#"{"type": "a"}"#, &[]), None);
    }

    #[test]
    fn jobs_of_the_same_export_refer_to_each_other_by_name() {
        let [first, other] = ["01990000-0000-7000-8000-000000000001", "01990000-0000-7000-8000-000000000002"];
        let ids = [first.parse().unwrap()];
        let awaited =
            line(&format!(r#"{{"id":"{first}","type":"a","payload":1,"after":[]}}"#), &ids).unwrap();
        assert_eq!(awaited, format!(r#"{{"type":"a","payload":1,"name":"{first}"}}"#));
        let waits = format!(
            r#"{{"id":"{other}","type":"a","payload":1,"after":["{first}","{other}"],"after_any":[]}}"#
        );
        assert_eq!(
            line(&waits, &ids).unwrap(),
            format!(r#"{{"type":"a","payload":1,"after":["@{first}","{other}"]}}"#)
        );
    }

    /// What a job does not show cannot be exported, and an import must not find a job that it is a copy of.
    #[test]
    fn every_field_of_a_submission_is_exported_or_has_a_reason_not_to_be() {
        let written = ["hold", "run_at", "name", "content_type"];
        let mut known: std::collections::BTreeSet<String> =
            FIELDS.into_iter().chain(LINKS).chain(written).map(str::to_owned).collect();
        // `run_at` says when; the lines get keys of their own; a debounced job is exported as it will run.
        known.extend(["delay", "idempotency_key", "idempotency_window", "debounce"].map(str::to_owned));
        assert_eq!(known, Submission::field_names());
    }
}
