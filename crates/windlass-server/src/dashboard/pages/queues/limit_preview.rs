//! What the limits in a settings form, of a queue, a type or a tenant, would have held back in the last hour.

use std::collections::BTreeMap;
use std::time::Duration;

use askama::Template;
use axum::extract::{Path, State as AxumState};
use axum::response::Response;
use windlass::job::{JobState, QueueName, Tenant};
use windlass::settings::Rate;
use windlass::settings::preview::{LimitPreview, PastRun, ProposedLimit};
use windlass::store::caller::{Caller, Permission};
use windlass::store::{Filter, HistoryRequest, HistorySubject, ListRequest, Minute, Order};

use crate::dashboard::Dashboard;
use crate::dashboard::page::{PageError, show};
use crate::dashboard::pages::{limits, queues, tenants, types};
use crate::dashboard::parts::chart;
use crate::dashboard::parts::format::{count, span};
use crate::dashboard::requests::form::{Fields, Query};
use crate::dashboard::requests::middleware::Visitor;
use crate::dashboard::requests::settings_form::parse_integer;

/// The preview as a part of a page.
#[derive(Template, Default)]
#[template(path = "queues/limit_preview.html")]
pub(in crate::dashboard) struct PreviewView {
    problem: Option<String>,
    text: String,
    started: String,
    mean: Option<String>,
    /// Of the limits per key; they are previewed while they are edited.
    per_key: Option<String>,
}

/// The preview of these limits in this hour.
pub(in crate::dashboard) fn of_limit(limit: &ProposedLimit, hour: &[Minute]) -> PreviewView {
    let sum = chart::total(hour);
    let runs = sum.ran.count();
    let mean = sum.ran_ms.checked_div(runs).map(Duration::from_millis);
    let starts: Vec<u64> = hour.iter().map(|minute| minute.claimed).collect();
    let preview = limit.preview(&starts, mean);
    PreviewView {
        problem: None,
        text: text(limit, &preview, mean.is_some()),
        started: count(preview.started),
        mean: mean.map(span),
        per_key: None,
    }
}

fn text(limit: &ProposedLimit, preview: &LimitPreview, has_runs: bool) -> String {
    if limit.max_running.is_none() && limit.rate.is_none() {
        return "No limit on starts: nothing would have waited for one.".to_owned();
    }
    if preview.started == 0 {
        return "No attempt started in the last hour, so there is nothing to compare with.".to_owned();
    }
    if limit.max_running.is_some() && limit.rate.is_none() && !has_runs {
        return "No attempt ended in the last hour, so it is not known how long runs take.".to_owned();
    }
    if preview.delayed == 0 {
        return "Nothing would have been held back.".to_owned();
    }
    held_back(preview)
}

fn held_back(preview: &LimitPreview) -> String {
    let (delayed, started) = (count(preview.delayed), count(preview.started));
    let longest = match preview.longest {
        Some(longest) => format!(", the last of them by about {}", span(longest)),
        None => " permanently".to_owned(),
    };
    let waiting = match preview.waiting {
        0 => String::new(),
        waiting => format!(" {} would still be waiting.", count(waiting)),
    };
    format!("About {delayed} of {started} starts would have been held back{longest}.{waiting}")
}

/// The limits in a form; the values that the page showed are not needed.
fn proposed(fields: &Fields, names: [&str; 3]) -> Result<ProposedLimit, PageError> {
    let [running, rate_count, rate_per] = names;
    let number = |name: &str| fields.get(name).map(|text| parse_integer(name, text)).transpose();
    let rate = match (number(rate_count)?, fields.duration(rate_per)?) {
        (Some(count), Some(per)) => Some(Rate::new(count, per)),
        (Some(_), None) => {
            return Err(PageError::invalid("max starts: the period is missing, such as 1s or 1m"));
        }
        _ => None,
    };
    Ok(ProposedLimit { max_running: number(running)?, rate })
}

/// The fields of the limits of a queue, type or tenant, and of those per key.
const FIELDS: [&str; 3] = ["max_running", "rate_count", "rate_per"];
const KEY_FIELDS: [&str; 3] = ["max_running_per_key", "key_rate_count", "key_rate_per"];

fn view(fields: &Fields, hour: &[Minute]) -> PreviewView {
    proposed(fields, FIELDS).map_or_else(|problem| invalid(&problem), |limit| of_limit(&limit, hour))
}

fn invalid(problem: &PageError) -> PreviewView {
    PreviewView { problem: Some(problem.message().to_owned()), ..PreviewView::default() }
}

/// The states of jobs that have started.
const STARTED: [JobState; 6] = [
    JobState::Running,
    JobState::Completed,
    JobState::Failed,
    JobState::DeadLetter,
    JobState::Retrying,
    JobState::Cancelled,
];

/// What limits per key would have done to the newest jobs of a queue that started in the last hour.
async fn per_key(
    board: &Dashboard,
    visitor: &Visitor,
    queue: QueueName,
    limit: &ProposedLimit,
) -> Result<String, PageError> {
    let now = board.now();
    let since = now.minus(Duration::from_secs(3600));
    let mut runs: BTreeMap<(Tenant, String), Vec<PastRun>> = BTreeMap::new();
    let (mut cursor, mut looked) = (None, 0);
    while looked < limits::KEYED_JOBS_READ {
        let filter = Filter { queue: Some(queue.clone()), states: STARTED.to_vec(), ..Filter::default() };
        let request =
            ListRequest { filter, order: Order::Newest, cursor, limit: limits::KEYED_JOBS_PER_READ };
        let page = board.store().list(&visitor.caller, request).await?;
        looked += limits::KEYED_JOBS_PER_READ;
        for found in page.jobs {
            let (job, spec) = (found.job, found.spec);
            let Some(started) = job.started_at.filter(|at| *at >= since) else { continue };
            let Some(key) = spec.concurrency_key else { continue };
            let length = job.completed_at.unwrap_or(now).since(started).as_millis();
            let started = started.since(since).as_millis();
            let run = |millis: u128| u64::try_from(millis).unwrap_or(u64::MAX);
            let run = PastRun { started: run(started), length: run(length) };
            runs.entry((job.lane.tenant.clone(), key)).or_default().push(run);
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    let mut sum = LimitPreview { longest: Some(Duration::ZERO), ..LimitPreview::default() };
    for runs in runs.values_mut() {
        sum.merge(&limit.preview_key(runs, 3_600_000));
    }
    let read =
        if cursor.is_some() { format!(", of the newest {}", count(looked as u64)) } else { String::new() };
    let of = format!("{} with {} keys{read}", count(sum.started), count(runs.len() as u64));
    Ok(match sum.delayed {
        _ if runs.is_empty() => {
            format!("Per key: no job with a concurrency key started in the last hour{read}.")
        }
        0 => format!("Per key: nothing would have been held back ({of})."),
        _ => format!("Per key: {} ({of}.)", held_back(&sum)),
    })
}

/// `GET /queues/{name}/preview`
pub(in crate::dashboard) async fn of_queue(
    AxumState(board): AxumState<Dashboard>,
    visitor: Visitor,
    Path(name): Path<String>,
    Query(query): Query,
) -> Result<Response, PageError> {
    visitor.caller.require(Permission::Configure)?;
    let queue = queues::name_of(&name)?;
    let info = board.store().queue(&visitor.caller, queue.clone()).await?;
    let mut view = view(&query, &chart::hour(&info.minutes, board.now()));
    match proposed(&query, KEY_FIELDS) {
        Ok(limit) if limit == ProposedLimit::default() => {}
        Ok(limit) => view.per_key = Some(per_key(&board, &visitor, queue, &limit).await?),
        Err(problem) => view = invalid(&problem),
    }
    show(&view)
}

/// `GET /tenants/{name}/preview`
pub(in crate::dashboard) async fn of_tenant(
    AxumState(board): AxumState<Dashboard>,
    visitor: Visitor,
    Path(name): Path<String>,
    Query(query): Query,
) -> Result<Response, PageError> {
    visitor.caller.require(Permission::Administer)?;
    let seen_by = Caller { tenant: Some(tenants::name_of(&name)?), ..visitor.caller.clone() };
    let request = HistoryRequest { part: HistorySubject::All, range: Duration::from_secs(3600), until: None };
    let history = board.store().history(&seen_by, request).await?;
    let hour: Vec<Minute> = history.points.into_iter().map(|point| point.counts).collect();
    show(&view(&query, &hour))
}

/// `GET /types/{name}/preview`
pub(in crate::dashboard) async fn of_type(
    AxumState(board): AxumState<Dashboard>,
    visitor: Visitor,
    Path(name): Path<String>,
    Query(query): Query,
) -> Result<Response, PageError> {
    visitor.caller.require(Permission::Administer)?;
    let name = types::name_of(&name)?;
    let found = board.store().job_types(&visitor.caller).await?.into_iter().find(|info| info.name == name);
    let minutes = found.map(|info| info.minutes).unwrap_or_default();
    show(&view(&query, &chart::hour(&minutes, board.now())))
}
