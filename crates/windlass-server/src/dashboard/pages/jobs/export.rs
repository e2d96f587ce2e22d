//! A list of jobs as a file, CSV or JSON: what the filter matches, up to a limit, without payloads.

use axum::extract::State as AxumState;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use windlass::store::{ListRequest, Snapshot};

use crate::dashboard::page::PageError;
use crate::dashboard::parts::filter::{FilterInput, order};
use crate::dashboard::requests::form::Query;
use crate::dashboard::requests::middleware::Visitor;
use crate::dashboard::{Dashboard, pages::limits};

/// One job of the file.
#[derive(Serialize)]
struct ExportedJob {
    id: String,
    state: &'static str,
    r#type: String,
    queue: String,
    tenant: String,
    priority: u8,
    attempt: u32,
    created_at: String,
    started_at: Option<String>,
    completed_at: Option<String>,
    error: Option<String>,
    tags: String,
}

/// The heads of the columns, in the order of [`ExportedJob::cells`].
const HEADS: [&str; 12] = [
    "id",
    "state",
    "type",
    "queue",
    "tenant",
    "priority",
    "attempt",
    "created_at",
    "started_at",
    "completed_at",
    "error",
    "tags",
];

impl ExportedJob {
    fn new(snapshot: &Snapshot) -> ExportedJob {
        let (job, tags) = (&snapshot.job, &snapshot.spec.metadata.tags);
        let tags: Vec<String> = tags.iter().map(|(name, value)| format!("{name}:{value}")).collect();
        ExportedJob {
            id: job.id.to_string(),
            state: job.state.as_str(),
            r#type: job.lane.job_type.to_string(),
            queue: job.lane.queue.to_string(),
            tenant: job.lane.tenant.to_string(),
            priority: job.priority.value(),
            attempt: job.attempt,
            created_at: job.created_at.to_string(),
            started_at: job.started_at.map(|at| at.to_string()),
            completed_at: job.completed_at.map(|at| at.to_string()),
            error: job.details.error.as_ref().map(|error| error.message.clone()),
            tags: tags.join(" "),
        }
    }

    fn cells(self) -> [String; 12] {
        let or_empty = Option::unwrap_or_default;
        [
            self.id,
            self.state.to_owned(),
            self.r#type,
            self.queue,
            self.tenant,
            self.priority.to_string(),
            self.attempt.to_string(),
            self.created_at,
            or_empty(self.started_at),
            or_empty(self.completed_at),
            or_empty(self.error),
            self.tags,
        ]
    }
}

/// A cell in quotes. A text that a spreadsheet would take for a formula begins with an apostrophe.
fn cell(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠']);
    format!("\"{}{}\"", if is_formula { "'" } else { "" }, text.replace('"', "\"\""))
}

fn csv(jobs: Vec<ExportedJob>) -> String {
    let mut text = HEADS.join(",") + "\r\n";
    for job in jobs {
        text += &(job.cells().map(|text| cell(&text)).join(",") + "\r\n");
    }
    text
}

/// `GET /jobs/export`
pub(in crate::dashboard) async fn export(
    AxumState(board): AxumState<Dashboard>,
    visitor: Visitor,
    Query(query): Query,
) -> Result<Response, PageError> {
    let asked = FilterInput::read(&query)?;
    let (filter, order) = (asked.filter()?, order(&query, &asked));
    let (mut jobs, mut cursor) = (Vec::new(), None);
    for _ in 0..limits::EXPORTED_JOBS / limits::EXPORTED_PER_READ {
        let (filter, limit) = (filter.clone(), limits::EXPORTED_PER_READ);
        let page = board.store().list(&visitor.caller, ListRequest { filter, order, cursor, limit }).await?;
        jobs.extend(page.jobs.iter().map(ExportedJob::new));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    let (kind, disposition, body) = match query.get("format") {
        Some("json") => {
            let body = serde_json::to_string_pretty(&jobs).expect("text and numbers are JSON");
            ("application/json", "attachment; filename=\"jobs.json\"", body)
        }
        _ => ("text/csv; charset=utf-8", "attachment; filename=\"jobs.csv\"", csv(jobs)),
    };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CONTENT_DISPOSITION, HeaderValue::from_static(disposition)),
    ];
    Ok((headers, body).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_and_formulas_are_text() {
        assert_eq!(cell(r#"no "such" user, sorry"#), r#""no ""such"" user, sorry""#);
        assert_eq!(cell("=HYPERLINK(1)"), "\"'=HYPERLINK(1)\"");
        for start in ["+", "-", "@", "\t=", "\r=", "\n=", "＝", "＋", "－", "＠"] {
            assert!(cell(&format!("{start}HYPERLINK(1)")).starts_with("\"'"), "{start:?}");
        }
        assert_eq!(cell(""), "\"\"");
    }
}
