//! `windlass export`: jobs as JSON lines that `windlass import` submits again, to this server or another.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Map, Value};
use windlass_api::filter::{ListOrder, ListQuery};

use crate::commands::jobs::filter::FilterArgs;
use crate::connection::client::Call;
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
const FIELDS: [&str; 13] = [
    "type",
    "payload",
    "payload_base64",
    "queue",
    "requires_version",
    "priority",
    "unique_key",
    "concurrency_key",
    "tags",
    "correlation_id",
    "callback_url",
    "tenant",
    "timeouts",
];

pub(crate) async fn export(args: &ExportArgs) -> anyhow::Result<ExitCode> {
    let client = args.connect.client()?;
    let query = ListQuery {
        order: Some(ListOrder::Oldest),
        payload: Some(true),
        limit: Some(LIST_PAGE_JOBS),
        ..ListQuery::from(args.filter.filter())
    };
    let (mut cursor, mut count, mut left_out) = (None, 0, 0);
    loop {
        let query = ListQuery { cursor: cursor.take(), ..query.clone() };
        let page = client.page(Call::get(&["jobs"]).queries(&query), "jobs").await?;
        for job in page.items {
            match submission(job) {
                Some(line) => {
                    output::line(&line.to_string())?;
                    count += 1;
                }
                None => left_out += 1,
            }
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    output::note(&format!("{} exported", counted(count, "job")));
    if left_out > 0 {
        let jobs = counted(left_out, "job");
        output::note(&format!("{jobs} left out: your key may not read their payload"));
        return Ok(Exit::No.into());
    }
    Ok(Exit::Done.into())
}

/// The submission that repeats a job; None if its payload was not sent.
fn submission(job: Value) -> Option<Value> {
    let Value::Object(mut job) = job else { return None };
    let is_bytes = job.contains_key("payload_base64");
    if job.get("redacted").and_then(Value::as_bool) == Some(true)
        || !(is_bytes || job.contains_key("payload"))
    {
        return None;
    }
    let mut line = Map::new();
    let content_type = is_bytes.then_some("content_type");
    for name in FIELDS.into_iter().chain(content_type) {
        let is_said =
            |value: &Value| name == "payload" || !(value.is_null() || *value == Value::Object(Map::new()));
        if let Some(value) = job.remove(name).filter(is_said) {
            line.insert(name.to_owned(), value);
        }
    }
    Some(line.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_job_becomes_what_was_submitted() {
        let job = json!({"id": "1", "type": "a", "payload": null, "content_type": "application/json", "queue": "q",
            "priority": 50, "tags": {}, "state": "failed", "unique_key": null, "tenant": "t"});
        let wanted = json!({"type": "a", "payload": null, "queue": "q", "priority": 50, "tenant": "t"});
        assert_eq!(submission(job), Some(wanted));
        let bytes = json!({"type": "a", "payload_base64": "AA==", "content_type": "image/png"});
        assert_eq!(submission(bytes.clone()), Some(bytes));
        assert_eq!(submission(json!({"type": "a", "redacted": true, "payload": 1})), None);
        assert_eq!(submission(json!({"type": "a"})), None);
    }
}
