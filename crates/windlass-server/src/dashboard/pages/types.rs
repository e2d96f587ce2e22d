//! Job types: throughput, durations, failures and their causes.

pub(in crate::dashboard) mod type_settings;

use askama::Template;
use axum::extract::Path;
use axum::response::Response;
use windlass::clock::Timestamp;
use windlass::job::{JobState, JobType};
use windlass::store::caller::Permission;
use windlass::store::{Filter, HistorySubject, ListRequest, ObjectName, Order, PauseTarget, TypeInfo};

use crate::dashboard::page::{Layout, PageError, PauseView, name_in_url, show};
use crate::dashboard::pages::limits;
use crate::dashboard::pages::queues::{Depth, Unknown, depths};
use crate::dashboard::pages::types::type_settings::TypeSettingsView;
use crate::dashboard::parts::chart;
use crate::dashboard::parts::failure::open::OpenFailures;
use crate::dashboard::parts::failure::{self, Group};
use crate::dashboard::parts::format::{at_most, compact, percent, real};
use crate::dashboard::parts::history::HistoryView;
use crate::dashboard::parts::job_row::Row;
use crate::dashboard::parts::pager::{self, Pager};
use crate::dashboard::parts::sorting::Sorting;
use crate::dashboard::requests::context::{FormContext, PageContext};
use crate::dashboard::requests::form::segment;
use crate::dashboard::requests::resume;
use crate::dashboard::requests::undo::PageAddress;

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
    /// Whether some of them are open: they were not retried.
    has_open: bool,
    half: String,
    most: String,
    longest: String,
    dead: String,
    paused: Option<PauseView>,
}

#[derive(Template)]
#[template(path = "types/types.html")]
struct Types {
    layout: Layout,
    sorting: Sorting,
    lines: Vec<TypeRow>,
    total: usize,
    pager: Pager,
}

fn time(time: Option<std::time::Duration>) -> String {
    time.map_or("–".to_owned(), at_most)
}

/// The columns that the list can be sorted by.
const COLUMNS: [&str; 9] = ["open", "running", "rate", "failing", "p50", "p95", "p99", "failed", "dead"];

/// What a type has in a column. A type without runs comes last.
fn sort_value(info: &TypeInfo, column: &str, now: Timestamp) -> f64 {
    let hour = chart::hour(&info.minutes, now);
    let sum = chart::total(&hour);
    let of = |state: JobState| info.depth.get(&state).copied().unwrap_or(0);
    let ran = |share| sum.ran.percentile(share).map_or(-1.0, |time| time.as_secs_f64());
    match column {
        "open" => {
            real(info.depth.iter().filter(|(state, _)| !state.is_final()).map(|(_, number)| *number).sum())
        }
        "running" => real(of(JobState::Running)),
        "rate" => real(chart::ended(&chart::total(hour.iter().rev().skip(1).take(5)))),
        "failing" => percent(chart::bad(&sum), chart::ended(&sum)).unwrap_or(-1.0),
        "p50" => ran(0.5),
        "p95" => ran(0.95),
        "p99" => ran(0.99),
        "failed" => real(sum.failed + sum.dead_letter),
        _ => real(of(JobState::DeadLetter)),
    }
}

fn line(info: &TypeInfo, open_failures: &OpenFailures, now: Timestamp) -> TypeRow {
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
        has_open: sum.failed + sum.dead_letter > 0 && open_failures.of_type(&info.name),
        half: time(sum.ran.percentile(0.5)),
        most: time(sum.ran.percentile(0.95)),
        longest: time(sum.ran.percentile(0.99)),
        dead: compact(of(JobState::DeadLetter)),
        paused: info.paused.as_ref().map(|hold| PauseView::new(hold, now)),
    }
}

/// `GET /types`
pub(in crate::dashboard) async fn page(context: PageContext) -> Result<Response, PageError> {
    let PageContext { board, visitor, query, .. } = &context;
    let infos = board.store().job_types(&visitor.caller).await?;
    let now = board.now();
    let sorting = Sorting::from_query(query, "/types", &COLUMNS);
    let sorted = (&sorting, |info: &TypeInfo, column: &str| sort_value(info, column, now));
    let infos = pager::sortable(infos, |info| info.name.as_str(), query, ("/types", "type"), sorted);
    let open = OpenFailures::read(board, visitor).await?;
    let page = Types {
        sorting,
        layout: context.layout("types", "Types"),
        lines: infos.shown.iter().map(|info| line(info, &open, now)).collect(),
        total: infos.total,
        pager: infos.pager,
    };
    show(&page)
}

#[derive(Template)]
#[template(path = "types/type.html")]
#[allow(clippy::struct_excessive_bools, reason = "independent flags, each with its own name")]
struct TypePage {
    layout: Layout,
    name: String,
    link: String,
    line: TypeRow,
    depths: Vec<Depth>,
    history: HistoryView,
    waited: String,
    groups: Vec<Group>,
    /// How many failures were read, if there are more.
    sampled: Option<usize>,
    recent: Vec<Row>,
    settings: TypeSettingsView,
    can_configure: bool,
    can_pause: bool,
    can_submit: bool,
    can_schedule: bool,
    /// Whether this visitor can resume its pause.
    can_resume: bool,
}

/// `GET /types/{name}`
pub(in crate::dashboard) async fn type_page(
    context: PageContext,
    Path(name): Path<String>,
) -> Result<Response, PageError> {
    let PageContext { board, visitor, query, .. } = &context;
    let (store, caller, now) = (board.store(), &visitor.caller, board.now());
    let job_type = name_of(&name)?;
    let infos = store.job_types(caller).await?;
    let info = infos.into_iter().find(|info| info.name == job_type);
    let Some(info) = info else {
        let unknown = Unknown::find(board, visitor, ObjectName::Type(job_type)).await?;
        let similar = unknown.map(|unknown| unknown.similar).unwrap_or_default();
        let hint = if similar.is_empty() {
            String::new()
        } else {
            format!("; did you mean {}?", similar.join(", "))
        };
        return Err(PageError::not_found(format!("no jobs of type {name}{hint}")));
    };
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
    let link = format!("/types/{}", segment(&name));
    let page = TypePage {
        layout: context.layout("types", format!("Type {name}")),
        link: link.clone(),
        line: line(&info, &OpenFailures::default(), now),
        depths: depths(board, visitor, &info.depth, part, ("type", &name)).await?,
        history: HistoryView::load(board, visitor, HistorySubject::Type(job_type.clone()), &link, query)
            .await?,
        waited: time(chart::total(&hour).waited.percentile(0.95)),
        groups: failure::group(failed.iter().map(|snapshot| &snapshot.job), now),
        sampled: (failed.len() == limits::FAILURES_OF_TYPE_SAMPLED).then_some(failed.len()),
        recent: recent.iter().map(|snapshot| Row::new(snapshot, now)).collect(),
        settings: TypeSettingsView::new(&info.settings, &hour),
        can_configure: visitor.may(Permission::Administer),
        can_submit: visitor.may(Permission::Submit),
        can_schedule: visitor.may(Permission::Schedule),
        can_pause: visitor.may(Permission::Pause),
        can_resume: info.paused.as_ref().is_some_and(|hold| resume::is_theirs(hold, visitor)),
        name,
    };
    show(&page)
}

/// A type's name in a URL.
pub(in crate::dashboard) fn name_of(text: &str) -> Result<JobType, PageError> {
    name_in_url("type", JobType::new(text))
}

/// `POST /types/{name}/act`
pub(in crate::dashboard) async fn act(
    Path(name): Path<String>,
    context: FormContext,
) -> Result<Response, PageError> {
    let target = PauseTarget::Type(name_of(&name)?);
    context.pause_or_resume(&context.visitor.caller, target, &place(&name)).await
}

/// The page of a type.
fn place(name: &str) -> PageAddress {
    PageAddress::new(format!("/types/{}", segment(name)), &[])
}
