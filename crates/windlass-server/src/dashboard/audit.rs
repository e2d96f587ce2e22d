//! The audit trail, newest first, with its filters.

use askama::Template;
use axum::extract::State as AxumState;
use axum::response::Response;
use windlass::audit::{AuditEvent, Record};
use windlass::clock::Timestamp;
use windlass::job::Tenant;
use windlass::store::engine::RecordQuery;

use super::Dashboard;
use super::form::{Fields, Query, address};
use super::format::{Moment, line};
use super::guard::Visitor;
use super::mark::{Gravity, JobLink};
use super::page::{Shell, Trouble, show};

/// A record as a line.
pub(super) struct RecordRow {
    pub(super) seq: u64,
    pub(super) name: String,
    pub(super) gravity: Gravity,
    pub(super) at: Moment,
    pub(super) actor: String,
    /// The same, cut where it is an id.
    pub(super) actor_short: String,
    pub(super) actor_kind: String,
    pub(super) tenant: String,
    pub(super) job: Option<JobLink>,
    /// What it says beside, without what stands in other columns.
    pub(super) context: String,
}

impl RecordRow {
    pub(super) fn of(record: &Record, now: Timestamp) -> RecordRow {
        RecordRow {
            seq: record.seq,
            name: record.name().to_owned(),
            gravity: Gravity(record.event.severity()),
            at: Moment::new(record.at, now),
            actor_short: if record.actor_type == "worker" {
                record.actor_id.get(24..).unwrap_or(&record.actor_id).to_owned()
            } else {
                record.actor_id.clone()
            },
            actor: record.actor_id.clone(),
            actor_kind: record.actor_type.clone(),
            tenant: record.tenant.to_string(),
            job: record.job.map(JobLink),
            context: context(&record.context),
        }
    }
}

/// The context as `name value` pairs.
fn context(json: &str) -> String {
    let parsed: Result<serde_json::Map<String, serde_json::Value>, _> = serde_json::from_str(json);
    let Ok(fields) = parsed else { return line(json, 300) };
    let told = fields.iter().filter(|(name, _)| !["job_id", "actor_id"].contains(&name.as_str()));
    let word = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let told: Vec<String> =
        told.map(|(name, value)| format!("{} {}", name.replace('_', " "), word(value))).collect();
    line(&told.join(" · "), 300)
}

#[derive(Template)]
#[template(path = "audit.html")]
struct Audit {
    shell: Shell,
    rows: Vec<RecordRow>,
    events: Vec<&'static str>,
    event: String,
    actor: String,
    job: String,
    tenant: String,
    next: Option<String>,
    first: Option<String>,
    show_tenant: bool,
}

const NAMES: [&str; 4] = ["event", "actor", "job", "tenant"];

/// `GET /audit`
pub(super) async fn page(
    AxumState(board): AxumState<Dashboard>,
    visitor: Visitor,
    Query(query): Query,
) -> Result<Response, Trouble> {
    let config = board.store().config(&visitor.caller).await?;
    let before: Option<u64> = query.get("before").and_then(|text| text.parse().ok());
    let wanted = wanted(&query)?;
    let found = board.0.tail.page(board.store(), &visitor.caller, &wanted, before).await?;
    let pairs = || NAMES.into_iter().filter_map(|name| Some((name, query.text(name)?)));
    let now = board.now();
    let text = |name: &str| query.text(name).unwrap_or_default();
    let shell = Shell::of(&board, &visitor, &config, "audit", "Audit trail");
    let page = Audit {
        shell: if before.is_some() { Shell { live: String::new(), ..shell } } else { shell },
        rows: found.records.iter().map(|record| RecordRow::of(record, now)).collect(),
        events: AuditEvent::ALL.iter().map(|event| event.as_str()).collect(),
        event: text("event"),
        actor: text("actor"),
        job: text("job"),
        tenant: text("tenant"),
        next: found.before.map(|before| address("/audit", pairs().chain([("before", before.to_string())]))),
        first: before.map(|_| address("/audit", pairs())),
        show_tenant: visitor.caller.tenant.is_none(),
    };
    show(&page)
}

fn wanted(query: &Fields) -> Result<RecordQuery, Trouble> {
    let event = query.get("event").map(str::parse).transpose();
    let job = query.get("job").map(str::parse).transpose();
    let tenant = query.get("tenant").map(Tenant::new).transpose();
    Ok(RecordQuery {
        event: event.map_err(|problem| Trouble::invalid(format!("event: {problem}")))?,
        job: job.map_err(|_| Trouble::invalid("job: that is not the id of a job"))?,
        tenant: tenant.map_err(|problem| Trouble::invalid(format!("tenant: {problem}")))?,
        actor: query.text("actor"),
        ..RecordQuery::default()
    })
}
