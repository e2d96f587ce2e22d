//! Job types: throughput, durations, failures and their causes.

use askama::Template;
use axum::extract::{Path, State as AxumState};
use axum::response::{IntoResponse, Redirect, Response};
use windlass::clock::Timestamp;
use windlass::job::{JobState, JobType};
use windlass::store::caller::Permission;
use windlass::store::command::pause::PauseTarget;
use windlass::store::filter::{Filter, Order};
use windlass::store::query::job_types::TypeInfo;
use windlass::store::query::known::Named;
use windlass::store::query::list::ListRequest;

use crate::dashboard::page::{Layout, PageError, PauseView, show};
use crate::dashboard::pages::queues::{Depth, Unknown, depths, pause_or_resume};
use crate::dashboard::parts::chart::{self, BarChart, LineChart};
use crate::dashboard::parts::failure::{self, Group};
use crate::dashboard::parts::format::{at_most, compact, percent, real, span};
use crate::dashboard::parts::job_row::Row;
use crate::dashboard::parts::pager::{self, Pager};
use crate::dashboard::requests::form::{Form, Query, segment};
use crate::dashboard::requests::middleware::Visitor;
use crate::dashboard::requests::resume;
use crate::dashboard::{Dashboard, pages::limits};

/// A type as a table row.
struct TypeRow {
    name: String,
    link: String,
    spark: String,
    rate: String,
    running: String,
    open: String,
    failure_share: String,
    is_failing: bool,
    /// Jobs that failed in the last hour.
    failed: String,
    half: String,
    most: String,
    longest: String,
    dead: String,
    paused: Option<PauseView>,
}

#[derive(Template)]
#[template(path = "types.html")]
struct Types {
    layout: Layout,
    lines: Vec<TypeRow>,
    total: usize,
    pager: Pager,
}

fn time(time: Option<std::time::Duration>) -> String {
    time.map_or("–".to_owned(), at_most)
}

fn line(info: &TypeInfo, now: Timestamp) -> TypeRow {
    let hour = chart::hour(&info.minutes, now);
    let sum = chart::total(&hour);
    let recent = chart::total(hour.iter().rev().skip(1).take(5));
    let of = |state: JobState| info.depth.get(&state).copied().unwrap_or(0);
    let open: u64 = info.depth.iter().filter(|(state, _)| !state.is_final()).map(|(_, number)| *number).sum();
    let share = percent(chart::bad(&sum), chart::ended(&sum));
    TypeRow {
        name: info.name.to_string(),
        link: format!("/types/{}", segment(info.name.as_str())),
        spark: chart::spark(&hour),
        rate: format!("{:.0}", real(chart::ended(&recent)) / 5.0),
        running: compact(of(JobState::Running)),
        open: compact(open),
        failure_share: share.map_or("–".to_owned(), |share| format!("{share:.1}%")),
        is_failing: share.is_some_and(|share| share >= 10.0),
        failed: compact(sum.failed + sum.dead_letter),
        half: time(sum.ran.percentile(0.5)),
        most: time(sum.ran.percentile(0.95)),
        longest: time(sum.ran.percentile(0.99)),
        dead: compact(of(JobState::DeadLetter)),
        paused: info.paused.as_ref().map(|hold| PauseView::of(hold, now)),
    }
}

/// `GET /types`
pub(in crate::dashboard) async fn page(
    AxumState(board): AxumState<Dashboard>,
    visitor: Visitor,
    Query(query): Query,
) -> Result<Response, PageError> {
    let infos = board.store().job_types(&visitor.caller).await?;
    let config = board.store().config(&visitor.caller).await?;
    let now = board.now();
    let place = ("/types", "type");
    let infos = pager::page(infos, |info| info.name.as_str(), &query, place, limits::NAMES_PER_PAGE);
    let page = Types {
        layout: Layout::of(&board, &visitor, &config, "types", "Types").with_flash(&query),
        lines: infos.shown.iter().map(|info| line(info, now)).collect(),
        total: infos.total,
        pager: infos.pager,
    };
    show(&page)
}

#[derive(Template)]
#[template(path = "type.html")]
#[allow(clippy::struct_excessive_bools, reason = "independent flags, each with its own name")]
struct TypePage {
    layout: Layout,
    name: String,
    link: String,
    line: TypeRow,
    depths: Vec<Depth>,
    throughput: BarChart,
    failures: LineChart,
    waited: String,
    groups: Vec<Group>,
    /// How many failures were read, if there are more.
    sampled: Option<usize>,
    recent: Vec<Row>,
    settings: Vec<(&'static str, String)>,
    can_pause: bool,
    can_submit: bool,
    can_schedule: bool,
    /// Whether this visitor can resume its pause.
    can_resume: bool,
}

/// `GET /types/{name}`
pub(in crate::dashboard) async fn type_page(
    AxumState(board): AxumState<Dashboard>,
    visitor: Visitor,
    Path(name): Path<String>,
    Query(query): Query,
) -> Result<Response, PageError> {
    let (store, caller, now) = (board.store(), &visitor.caller, board.now());
    let job_type = name_of(&name)?;
    let infos = store.job_types(caller).await?;
    let info = infos.into_iter().find(|info| info.name == job_type);
    let Some(info) = info else {
        let unknown = Unknown::of(&board, &visitor, Named::Type(job_type)).await?;
        let similar = unknown.map(|unknown| unknown.similar).unwrap_or_default();
        let hint = if similar.is_empty() {
            String::new()
        } else {
            format!("; did you mean {}?", similar.join(", "))
        };
        return Err(PageError::not_found(format!("no jobs of type {name}{hint}")));
    };
    let config = store.config(caller).await?;
    let hour = chart::hour(&info.minutes, now);
    let part = Filter { job_type: Some(job_type.clone()), ..Filter::default() };
    let jobs = async |filter: Filter, limit: usize| {
        let request = ListRequest { filter, order: Order::Newest, cursor: None, limit };
        store.list(caller, request).await.map(|page| page.jobs)
    };
    let bad = vec![JobState::Failed, JobState::DeadLetter, JobState::Retrying];
    let bad = Filter { states: bad, is_redriven: Some(false), ..part.clone() };
    let failed = jobs(bad, limits::FAILURES_OF_TYPE_SAMPLED).await?;
    let recent = jobs(part.clone(), limits::GROUPS_SHOWN).await?;
    let page = TypePage {
        layout: Layout::of(&board, &visitor, &config, "types", format!("Type {name}")).with_flash(&query),
        link: format!("/types/{}", segment(&name)),
        line: line(&info, now),
        depths: depths(&board, &visitor, &info.depth, part, ("type", &name)).await?,
        throughput: chart::throughput(&hour),
        failures: chart::failure_rate(&hour),
        waited: time(chart::total(&hour).waited.percentile(0.95)),
        groups: failure::group(failed.iter().map(|snapshot| &snapshot.job), now),
        sampled: (failed.len() == limits::FAILURES_OF_TYPE_SAMPLED).then_some(failed.len()),
        recent: recent.iter().map(|snapshot| Row::of(snapshot, now)).collect(),
        settings: settings(&info),
        can_submit: visitor.may(Permission::Submit),
        can_schedule: visitor.may(Permission::Schedule),
        can_pause: visitor.may(Permission::Pause),
        can_resume: info.paused.as_ref().is_some_and(|hold| resume::is_theirs(hold, &visitor)),
        name,
    };
    show(&page)
}

/// Its settings.
fn settings(info: &TypeInfo) -> Vec<(&'static str, String)> {
    let settings = &info.settings;
    let mut found = Vec::new();
    found.extend(settings.max_running.map(|limit| ("Max running", limit.to_string())));
    found.extend(settings.rate.map(|rate| ("Starts", format!("{} in {}", rate.count, span(rate.per)))));
    found.extend(settings.retry.as_ref().map(|retry| ("Attempts", retry.max_attempts.to_string())));
    found.extend(settings.priority.map(|priority| ("Priority", priority.to_string())));
    found.extend(settings.timeouts.execution.map(|limit| ("Max attempt duration", span(limit))));
    found.extend(settings.timeouts.lease.map(|limit| ("Lease", span(limit))));
    found.extend(settings.timeouts.lifetime.map(|limit| ("Lifetime", span(limit))));
    found.extend(settings.timeouts.start.map(|limit| ("Start timeout", span(limit))));
    found.extend(settings.timeouts.max_execution.map(|limit| ("Execution limit", span(limit))));
    let kept = [
        "Keep completed jobs for",
        "Keep failed jobs for",
        "Keep dead letters for",
        "Keep cancelled jobs for",
    ];
    for (state, what) in JobState::FINAL.into_iter().zip(kept) {
        found.extend(settings.retention.of(state).map(|time| (what, span(time))));
    }
    found.extend(settings.success_event.clone().map(|name| ("Success event", name)));
    found.extend(settings.exhausted_event.clone().map(|name| ("Retries exhausted event", name)));
    found
}

fn name_of(text: &str) -> Result<JobType, PageError> {
    JobType::new(text).map_err(|problem| PageError::not_found(format!("type: {problem}")))
}

/// `POST /types/{name}/act`
pub(in crate::dashboard) async fn act(
    AxumState(board): AxumState<Dashboard>,
    visitor: Visitor,
    Path(name): Path<String>,
    Form(form): Form,
) -> Result<Response, PageError> {
    let done = pause_or_resume(&board, &visitor, PauseTarget::Type(name_of(&name)?), &form).await?;
    Ok(Redirect::to(&format!("/types/{}?done={done}", segment(&name))).into_response())
}
