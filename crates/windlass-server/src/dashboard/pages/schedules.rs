//! Schedules: next runs; trigger, edit, pause, delete and restore.

pub(in crate::dashboard) mod calendar;
pub(in crate::dashboard) mod schedule_form;

use askama::Template;
use axum::extract::Path;
use axum::response::{IntoResponse, Redirect, Response};
use windlass::clock::Timestamp;
use windlass::job::{JobId, ScheduleName, Tenant};
use windlass::schedule::{CatchUp, Overlap, ScheduleSpec};
use windlass::store::caller::Permission;
use windlass::store::{DeletedSchedule, PauseOptions, Schedule, ScheduleRef};

use crate::dashboard::page::{Layout, PageError, show};
use crate::dashboard::pages::limits;
use crate::dashboard::pages::overview::moment;
use crate::dashboard::pages::schedules::calendar::{Day, calendar, own_time};
use crate::dashboard::pages::schedules::schedule_form::edit_link;
use crate::dashboard::parts::components::JobLink;
use crate::dashboard::parts::format::{Moment, count, local, span, zone_at};
use crate::dashboard::requests::context::{FormContext, PageContext};
use crate::dashboard::requests::form::{Query, address, segment};

/// Next runs shown; the calendar shows the others.
const NEXT_SHOWN: usize = 3;

/// What undoes an action on a schedule.
const UNDONE_BY: &[(&str, &str)] =
    &[("removed", "restore"), ("restored", "delete"), ("paused", "resume"), ("unpaused", "pause")];

/// A schedule.
struct ScheduleView {
    name: String,
    tenant: String,
    /// The action of its forms.
    act: String,
    /// The page to edit it.
    edit: String,
    /// The id of its pause dialog.
    pop: String,
    timing: String,
    job_type: String,
    queue: String,
    next: Vec<Moment>,
    last: Option<Moment>,
    last_job: Option<JobLink>,
    /// The first of its next runs in its time zone, if that is not UTC.
    own_time: Option<String>,
    submitted: String,
    policy: String,
    paused: Option<PausedView>,
    refused: Option<RefusedView>,
    /// Number of permanently rejected runs, if there were any.
    refusals: Option<String>,
}

/// The latest run whose job was rejected.
struct RefusedView {
    run: Moment,
    reason: String,
    retried_until: Option<Moment>,
}

/// A pause of a schedule.
struct PausedView {
    by: String,
    since: Moment,
    reason: Option<String>,
    until: Option<Moment>,
}

/// A deleted schedule that can be restored.
struct DeletedView {
    name: String,
    tenant: String,
    act: String,
    timing: String,
    job_type: String,
    at: Moment,
    by: String,
    until: Moment,
}

#[derive(Template)]
#[template(path = "schedules/schedules.html")]
struct SchedulesPage {
    layout: Layout,
    schedules: Vec<ScheduleView>,
    /// The total number, and the range on this page.
    range: String,
    previous: Option<String>,
    next: Option<String>,
    days: Vec<Day>,
    deleted: Vec<DeletedView>,
    can_act: bool,
    show_tenant: bool,
}

/// `GET /schedules`
pub(in crate::dashboard) async fn page(context: PageContext) -> Result<Response, PageError> {
    let PageContext { board, visitor, query, .. } = &context;
    let (store, caller, now) = (board.store(), &visitor.caller, board.now());
    let found = store.schedules(caller).await?;
    let pages = found.len().div_ceil(limits::SCHEDULES_PER_PAGE).max(1);
    let number = query.get("page").and_then(|text| text.parse().ok()).unwrap_or(1_usize).clamp(1, pages);
    let first = (number - 1) * limits::SCHEDULES_PER_PAGE;
    let shown = &found[first..found.len().min(first + limits::SCHEDULES_PER_PAGE)];
    let link = |number: usize| address("/schedules", [("page", number.to_string())]);
    let deleted = store.deleted_schedules(caller).await?;
    let is_meant = |schedule: &Schedule| query.get("about") == Some(&about(schedule));
    let meant = found.iter().find(|schedule| is_meant(schedule));
    let gone = deleted.iter().map(|deleted| &deleted.schedule).find(|schedule| is_meant(schedule));
    let acted_on = meant.or(gone);
    let name = acted_on.map(|schedule| schedule.name.to_string());
    let layout = context.layout("schedules", "Schedules");
    let mut layout = layout.saying_of(query, name.as_deref());
    if let Some(schedule) = acted_on.filter(|_| visitor.may(Permission::Schedule)) {
        layout = layout.undone_by(query, &act_link(schedule), UNDONE_BY);
    }
    let started: Option<JobId> = query.get("job").and_then(|id| id.parse().ok());
    if layout.done.is_some() && started.is_some() {
        layout.done_job =
            meant.and_then(|schedule| schedule.last_job).filter(|id| Some(*id) == started).map(JobLink);
    }
    let page = SchedulesPage {
        layout,
        schedules: shown.iter().map(|schedule| view(schedule, number, now)).collect(),
        range: if pages > 1 {
            format!("{}–{} of {}", first + 1, first + shown.len(), count(found.len() as u64))
        } else {
            String::new()
        },
        previous: (number > 1).then(|| link(number - 1)),
        next: (number < pages).then(|| link(number + 1)),
        days: calendar(&found, now),
        deleted: deleted
            .iter()
            .take(limits::DELETED_SCHEDULES_SHOWN)
            .map(|one| deleted_view(one, now))
            .collect(),
        can_act: visitor.may(Permission::Schedule),
        show_tenant: found.iter().any(|schedule| schedule.tenant != Tenant::default()),
    };
    show(&page)
}

fn deleted_view(deleted: &DeletedSchedule, now: Timestamp) -> DeletedView {
    let schedule = &deleted.schedule;
    DeletedView {
        name: schedule.name.to_string(),
        tenant: schedule.tenant.to_string(),
        act: act_link(schedule),
        timing: timing(&schedule.timing),
        job_type: schedule.job.job_type.to_string(),
        at: Moment::new(deleted.at, now),
        by: deleted.by.clone(),
        until: Moment::new(deleted.restorable_until(), now),
    }
}

/// The name of a schedule in URLs.
fn about(schedule: &Schedule) -> String {
    format!("{} {}", schedule.tenant, schedule.name)
}

/// The action of a schedule's forms.
pub(in crate::dashboard) fn act_link(schedule: &Schedule) -> String {
    format!("/schedules/{}/{}/act", segment(schedule.tenant.as_str()), segment(schedule.name.as_str()))
}

fn timing(timing: &ScheduleSpec) -> String {
    match timing {
        ScheduleSpec::Cron { cron, timezone } => format!("{cron} ({timezone})"),
        ScheduleSpec::Every(every) => format!("every {}", span(*every)),
        ScheduleSpec::At(at) => format!("once, {} {}", local(*at), zone_at(*at)),
    }
}

fn view(schedule: &Schedule, page: usize, now: Timestamp) -> ScheduleView {
    let missed = match schedule.missed {
        CatchUp::Skip => "missed runs are skipped",
        CatchUp::Once => "missed runs are made up once",
        CatchUp::All => "all missed runs are made up",
    };
    let overlap = match schedule.overlap {
        Overlap::Allow => "runs may overlap",
        Overlap::Skip => "one run at a time",
        Overlap::Cancel => "each run cancels the previous one",
    };
    let paused = schedule.pause_now(now).map(|pause| PausedView {
        by: pause.by.clone(),
        since: Moment::new(pause.since, now),
        reason: pause.reason.clone(),
        until: moment(pause.expires_at, now),
    });
    ScheduleView {
        name: schedule.name.to_string(),
        tenant: schedule.tenant.to_string(),
        // With the page number, so that the visitor returns to the page.
        act: if page > 1 { format!("{}?page={page}", act_link(schedule)) } else { act_link(schedule) },
        edit: edit_link(schedule),
        pop: format!("pause-{}-{}", schedule.tenant, schedule.name),
        timing: timing(&schedule.timing),
        job_type: schedule.job.job_type.to_string(),
        queue: schedule.job.queue.to_string(),
        next: schedule.next_runs().into_iter().take(NEXT_SHOWN).map(|run| Moment::new(run, now)).collect(),
        last: moment(schedule.last_run, now),
        last_job: schedule.last_job.map(JobLink),
        own_time: schedule.next_at.and_then(|next| own_time(schedule, next)),
        submitted: count(schedule.submitted),
        policy: format!("{overlap}, {missed}"),
        paused,
        refused: schedule.refused.as_ref().map(|refused| RefusedView {
            run: Moment::new(refused.run, now),
            reason: refused.message.clone(),
            retried_until: moment(schedule.retry.map(|retry| retry.until), now),
        }),
        refusals: (schedule.refusals > 0).then(|| count(schedule.refusals)),
    }
}

/// `POST /schedules/{tenant}/{name}/act`
pub(in crate::dashboard) async fn act(
    Path((tenant, name)): Path<(String, String)>,
    Query(query): Query,
    FormContext { board, visitor, form }: FormContext,
) -> Result<Response, PageError> {
    let missing = || PageError::not_found(format!("no schedule {name}"));
    let which = ScheduleRef {
        tenant: Some(Tenant::new(&tenant).map_err(|_| missing())?),
        name: ScheduleName::new(&name).map_err(|_| missing())?,
    };
    let (store, caller) = (board.store(), &visitor.caller);
    let mut started = None;
    let about = format!("{tenant} {name}");
    let done = match form.need("action")? {
        "pause" => {
            let how = PauseOptions { reason: form.text("reason"), expires: form.duration("expires")? };
            if store.pause_schedule(caller, which, how).await? { "paused" } else { "unchanged" }
        }
        "resume" => {
            if store.resume_schedule(caller, which).await? {
                "unpaused"
            } else {
                "unchanged"
            }
        }
        "trigger" => {
            started = Some(store.trigger_schedule(caller, which).await?);
            "triggered"
        }
        "delete" => {
            store.delete_schedule(caller, which).await?;
            "removed"
        }
        "restore" => {
            store.restore_schedule(caller, which).await?;
            "restored"
        }
        _ => return Err(PageError::invalid("unknown action")),
    };
    let path = if form.get("from") == Some("overview") { "/" } else { "/schedules" };
    let job = started.map(|job| ("job", job.id.to_string()));
    let page = query.text("page").map(|page| ("page", page));
    let pairs = [("done", done.to_owned()), ("about", about)].into_iter().chain(job).chain(page);
    Ok(Redirect::to(&address(path, pairs)).into_response())
}
