//! Creating and editing a schedule, with a preview of its next runs.

use askama::Template;
use axum::extract::{Path, State as AxumState};
use axum::response::{IntoResponse, Redirect, Response};
use windlass::clock::Timestamp;
use windlass::error::FieldError;
use windlass::job::{JobType, NewJob, QueueName, ScheduleName, Tenant};
use windlass::schedule::{CatchUp, Overlap, ScheduleSpec, Zone};
use windlass::store::caller::Permission;
use windlass::store::{NewSchedule, Schedule, ScheduleRef};
use windlass_api::schedule::TimingFields;
use windlass_api::time::{Moment as ApiMoment, Span};

use crate::dashboard::page::{Layout, PageError, show};
use crate::dashboard::pages::jobs::job::{draft, draft_of};
use crate::dashboard::pages::jobs::new_job::{job_fields, model, name};
use crate::dashboard::pages::settings::offered;
use crate::dashboard::parts::filter::{moment, shown_locally};
use crate::dashboard::parts::format::{Moment, from_local, local, zone_at};
use crate::dashboard::requests::context::{FormContext, PageContext};
use crate::dashboard::requests::form::{Fields, Query, address, segment};
use crate::dashboard::requests::job_actions::edited_payload;
use crate::dashboard::requests::middleware::Visitor;
use crate::dashboard::{Dashboard, pages::limits};

/// The next runs of a timing, or what is wrong with it.
#[derive(Template, Default)]
#[template(path = "schedules/schedule_preview.html")]
struct Preview {
    runs: Vec<PreviewRun>,
    problem: Option<String>,
}

/// One run.
struct PreviewRun {
    at: Moment,
    /// In the visitor's time zone, such as `2030-01-31 12:00 UTC`.
    local: String,
    /// The same time in the schedule's time zone, if it is not UTC.
    own: Option<String>,
}

#[derive(Template)]
#[template(path = "schedules/schedule_form.html")]
struct SchedulePage {
    layout: Layout,
    is_new: bool,
    name: String,
    tenant: String,
    /// Whether the visitor can choose the tenant.
    has_tenants: bool,
    /// When the schedule that is edited was last changed.
    was: String,
    values: Values,
    preview: Preview,
    types: Vec<String>,
    queues: Vec<String>,
}

/// The values of the fields.
struct Values {
    cron: String,
    timezone: String,
    every: String,
    at: String,
    job_type: String,
    queue: String,
    payload: String,
    priority: String,
    missed: &'static str,
    overlap: &'static str,
}

impl Values {
    fn new(schedule: &Schedule) -> Result<Values, PageError> {
        let timing = TimingFields::from(&schedule.timing);
        let payload = draft_of(&schedule.job.payload).filter(|_| !schedule.is_redacted);
        let payload = payload.ok_or_else(|| {
            PageError::invalid(
                "the payload of this schedule is not JSON, or too large to edit here; use the API",
            )
        })?;
        Ok(Values {
            cron: timing.cron.unwrap_or_default(),
            timezone: timing.timezone.unwrap_or_default(),
            every: timing.every.map(|span| span.to_string()).unwrap_or_default(),
            at: timing.at.map(|at| shown_locally(&at.0.to_string())).unwrap_or_default(),
            job_type: schedule.job.job_type.to_string(),
            queue: schedule.job.queue.to_string(),
            payload,
            priority: schedule.job.priority.map(|priority| priority.value().to_string()).unwrap_or_default(),
            missed: missed_word(schedule.missed),
            overlap: overlap_word(schedule.overlap),
        })
    }
}

fn missed_word(missed: CatchUp) -> &'static str {
    match missed {
        CatchUp::Skip => "skip",
        CatchUp::Once => "once",
        CatchUp::All => "all",
    }
}

fn overlap_word(overlap: Overlap) -> &'static str {
    match overlap {
        Overlap::Allow => "allow",
        Overlap::Skip => "skip",
        Overlap::Cancel => "cancel",
    }
}

/// The choice that a field names; the first if it is empty.
fn choice<T: Copy>(
    form: &Fields,
    field: &str,
    all: [T; 3],
    word: fn(T) -> &'static str,
) -> Result<T, PageError> {
    let Some(text) = form.get(field) else { return Ok(all[0]) };
    let found = all.into_iter().find(|one| word(*one) == text);
    found.ok_or_else(|| PageError::invalid(format!("{field}: must be one of {}", all.map(word).join(", "))))
}

/// The timing that the fields of a form name.
fn timing(form: &Fields) -> Result<ScheduleSpec, PageError> {
    let at = |text: &str| from_local(text).map_or_else(|| moment("at", text), Ok);
    let at = form.get("at").map(at).transpose()?;
    let cron = form.text("cron");
    let fields = TimingFields {
        // A time zone without a cron expression is the field's default.
        timezone: form.text("timezone").filter(|_| cron.is_some()),
        cron,
        every: form.duration("every")?.map(Span),
        at: at.map(ApiMoment),
    };
    let spec = ScheduleSpec::try_from(fields).map_err(|invalid| wrong(&invalid))?;
    spec.check().map_err(|invalid| wrong(&invalid))?;
    Ok(spec)
}

fn wrong(invalid: &FieldError) -> PageError {
    PageError::invalid(invalid.to_string())
}

fn preview(spec: Result<ScheduleSpec, PageError>, now: Timestamp) -> Preview {
    let spec = match spec {
        Ok(spec) => spec,
        Err(error) => return Preview { problem: Some(error.message().to_owned()), ..Preview::default() },
    };
    let first = spec.next_after(now, now);
    let later = first.map(|first| spec.next_runs(now, first, limits::PREVIEW_RUNS - 1)).unwrap_or_default();
    let own = |at: Timestamp| match &spec {
        ScheduleSpec::Cron { timezone, .. } if timezone.as_str() != "UTC" => {
            timezone.shown_at(at).map(|shown| format!("{shown} {timezone}"))
        }
        _ => None,
    };
    let runs: Vec<PreviewRun> = first
        .into_iter()
        .chain(later)
        .map(|at| PreviewRun {
            at: Moment::new(at, now),
            local: format!("{} {}", local(at).get(..16).unwrap_or_default(), zone_at(at)),
            own: own(at),
        })
        .collect();
    let problem = runs.is_empty().then(|| "it would never run".to_owned());
    Preview { runs, problem }
}

/// `GET /schedules/preview`: the next runs, for a form that is being filled in.
pub(in crate::dashboard) async fn show_preview(
    AxumState(board): AxumState<Dashboard>,
    visitor: Visitor,
    Query(query): Query,
) -> Result<Response, PageError> {
    visitor.caller.require(Permission::Schedule)?;
    show(&preview(timing(&query), board.now()))
}

/// `GET /schedules/new`, `?type=` of its jobs.
pub(in crate::dashboard) async fn new_page(context: PageContext) -> Result<Response, PageError> {
    let PageContext { board, visitor, query, .. } = &context;
    let model = model(board, visitor, query).await?;
    let of = model.as_ref().map(|model| &model.job);
    let values = Values {
        cron: "0 2 * * *".to_owned(),
        timezone: visitor.preferences.zone.as_ref().map_or("UTC", Zone::as_str).to_owned(),
        every: String::new(),
        at: String::new(),
        job_type: of
            .map_or_else(|| query.text("type").unwrap_or_default(), |job| job.lane.job_type.to_string()),
        queue: of.map_or_else(|| QueueName::default().to_string(), |job| job.lane.queue.to_string()),
        payload: model.as_ref().and_then(|model| draft(visitor, model)).unwrap_or_else(|| "{}".to_owned()),
        priority: String::new(),
        missed: missed_word(CatchUp::default()),
        overlap: overlap_word(Overlap::default()),
    };
    let tenant = visitor.caller.tenant.clone().unwrap_or_default().to_string();
    let named = (String::new(), tenant, String::new());
    form_page(&context, named, values).await
}

/// `GET /schedules/{tenant}/{name}`
pub(in crate::dashboard) async fn edit_page(
    context: PageContext,
    Path((tenant, schedule)): Path<(String, String)>,
) -> Result<Response, PageError> {
    let found = find(&context, &tenant, &schedule).await?;
    let values = Values::new(&found)?;
    let named = (found.name.to_string(), found.tenant.to_string(), found.updated_at.to_string());
    form_page(&context, named, values).await
}

async fn find(
    context: &PageContext,
    tenant: &str,
    schedule: &str,
) -> Result<std::sync::Arc<Schedule>, PageError> {
    let missing = || PageError::not_found(format!("no schedule {schedule}"));
    let which = ScheduleRef {
        tenant: Some(Tenant::new(tenant).map_err(|_| missing())?),
        name: ScheduleName::new(schedule).map_err(|_| missing())?,
    };
    context.board.store().schedule(&context.visitor.caller, which).await?.ok_or_else(missing)
}

async fn form_page(
    context: &PageContext,
    (name, tenant, was): (String, String, String),
    values: Values,
) -> Result<Response, PageError> {
    let (board, caller) = (&context.board, &context.visitor.caller);
    caller.require(Permission::Schedule)?;
    let stats = board.store().totals(caller).await?;
    let title = if was.is_empty() { "New schedule" } else { "Edit schedule" };
    let layout = context.layout("schedules", title);
    let pairs = [
        ("cron", &values.cron),
        ("timezone", &values.timezone),
        ("every", &values.every),
        ("at", &values.at),
    ];
    let asked = address("", pairs.map(|(name, value)| (name, value.clone())));
    let mut types = offered(stats.types.keys());
    types.retain(|name| name != windlass::callback::TYPE);
    let page = SchedulePage {
        layout: Layout { live: String::new(), ..layout },
        is_new: was.is_empty(),
        name,
        tenant,
        has_tenants: caller.tenant.is_none(),
        was,
        preview: preview(timing(&Fields::parse(asked.trim_start_matches('?').as_bytes())), board.now()),
        values,
        types,
        queues: offered(stats.queues.keys()),
    };
    show(&page)
}

/// `POST /schedules/save`
pub(in crate::dashboard) async fn save(
    FormContext { board, visitor, form }: FormContext,
) -> Result<Response, PageError> {
    visitor.caller.require(Permission::Schedule)?;
    let schedule = name("name", ScheduleName::new(form.need("name")?))?;
    let tenant = match &visitor.caller.tenant {
        Some(own) => own.clone(),
        None => name("tenant", form.get("tenant").map(Tenant::new).transpose())?.unwrap_or_default(),
    };
    let which = ScheduleRef { tenant: Some(tenant.clone()), name: schedule.clone() };
    let before = board.store().schedule(&visitor.caller, which).await?;
    let base = match (&before, form.get("was")) {
        (None, None) => NewJob::new(name("type", JobType::new(form.need("type")?))?, edited_payload("null")?),
        (Some(before), Some(was)) if before.updated_at.to_string() == was => before.job.clone(),
        (Some(before), Some(_)) => {
            let who = &before.updated_by;
            return Err(PageError::conflict(format!(
                "{who} changed this schedule meanwhile: reload the page"
            )));
        }
        (Some(_), None) => {
            return Err(PageError::conflict(format!("there is a schedule {schedule} already")));
        }
        (None, Some(_)) => return Err(PageError::conflict("this schedule was deleted meanwhile")),
    };
    let payload = edited_payload(form.all("payload").next().unwrap_or_default())?;
    let job = NewJob { tenant: Some(tenant.clone()), payload, ..job_fields(&form, base)? };
    let new = NewSchedule {
        missed: choice(&form, "missed", [CatchUp::Once, CatchUp::Skip, CatchUp::All], missed_word)?,
        overlap: choice(&form, "overlap", [Overlap::Allow, Overlap::Skip, Overlap::Cancel], overlap_word)?,
        ..NewSchedule::new(timing(&form)?, job)
    };
    let done = board.store().put_schedule(&visitor.caller, schedule.clone(), new).await?;
    let done = if done.is_changed { "saved" } else { "unchanged" };
    let pairs = [("done", done.to_owned()), ("about", format!("{tenant} {schedule}"))];
    Ok(Redirect::to(&address("/schedules", pairs)).into_response())
}

/// The page on which a schedule is edited.
pub(in crate::dashboard) fn edit_link(schedule: &Schedule) -> String {
    format!("/schedules/{}/{}", segment(schedule.tenant.as_str()), segment(schedule.name.as_str()))
}
