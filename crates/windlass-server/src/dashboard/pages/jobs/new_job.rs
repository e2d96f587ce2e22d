//! The form for a new job, filled in with the latest job of its type or with a job to repeat.

use askama::Template;
use axum::response::{IntoResponse, Redirect, Response};
use windlass::error::SubmitError;
use windlass::job::{JobId, JobType, NewJob, QueueName, Tenant};
use windlass::store::caller::Permission;
use windlass::store::command::submit::SubmitOptions;
use windlass::store::filter::{Filter, Order};
use windlass::store::query::list::ListRequest;
use windlass::store::query::snapshot::Snapshot;

use crate::dashboard::page::{Layout, PageError, show};
use crate::dashboard::pages::jobs::job::draft;
use crate::dashboard::pages::settings::offered;
use crate::dashboard::parts::components::JobLink;
use crate::dashboard::requests::context::{FormContext, PageContext};
use crate::dashboard::requests::form::{Fields, address};
use crate::dashboard::requests::job_actions::edited_payload;
use crate::dashboard::requests::middleware::Visitor;
use crate::dashboard::requests::session;
use crate::dashboard::{Dashboard, pages::limits};

#[derive(Template)]
#[template(path = "jobs/new_job.html")]
struct NewJobPage {
    layout: Layout,
    job_type: String,
    queue: String,
    payload: String,
    priority: u8,
    /// The job that the values are from.
    from: Option<JobLink>,
    /// Types to start from, if none is chosen.
    starts: Vec<(String, String)>,
    types: Vec<String>,
    queues: Vec<String>,
    /// Shown to visitors who can submit for several tenants.
    tenant: Option<String>,
    /// Makes a form that is sent twice submit one job.
    once: String,
}

/// `GET /jobs/new`, `?type=` or `?like=` a job.
pub(in crate::dashboard) async fn page(context: PageContext) -> Result<Response, PageError> {
    let PageContext { board, visitor, query, .. } = &context;
    visitor.caller.require(Permission::Submit)?;
    let (store, caller) = (board.store(), &visitor.caller);
    let stats = store.totals(caller).await?;
    let model = model(board, visitor, query).await?;
    let asked = query.text("type").unwrap_or_default();
    let (mut types, queues) = (offered(stats.types.keys()), offered(stats.queues.keys()));
    types.retain(|name| name != windlass::callback::TYPE);
    let link = |name: &String| (name.clone(), address("/jobs/new", [("type", name.clone())]));
    let offers = types.iter().take(limits::NAMES_ALIKE_SHOWN).map(link);
    let payload = model.as_ref().and_then(|model| draft(visitor, model));
    let of = model.as_ref().map(|model| &model.job);
    let layout = context.layout("jobs", "New job");
    let page = NewJobPage {
        // Nothing on this page changes by itself.
        layout: Layout { live: String::new(), ..layout },
        job_type: of.map_or(asked, |job| job.lane.job_type.to_string()),
        queue: of.map_or_else(|| QueueName::default().to_string(), |job| job.lane.queue.to_string()),
        payload: payload.unwrap_or_else(|| "{}".to_owned()),
        priority: of.map_or(windlass::job::Priority::default().value(), |job| job.priority.value()),
        from: of.map(|job| JobLink(job.id)),
        starts: if model.is_none() && query.get("type").is_none() { offers.collect() } else { Vec::new() },
        types,
        queues,
        tenant: caller
            .tenant
            .is_none()
            .then(|| of.map_or_else(|| Tenant::default().to_string(), |job| job.lane.tenant.to_string())),
        once: session::token(&store.environment().entropy),
    };
    show(&page)
}

/// The job whose values the form starts with: the one to repeat, or the latest of the type.
pub(in crate::dashboard) async fn model(
    board: &Dashboard,
    visitor: &Visitor,
    query: &Fields,
) -> Result<Option<Snapshot>, PageError> {
    if let Some(id) = query.get("like").and_then(|text| text.parse::<JobId>().ok()) {
        return Ok(board.store().get(&visitor.caller, id).await?);
    }
    let Some(job_type) = query.get("type").and_then(|text| JobType::new(text).ok()) else { return Ok(None) };
    let filter = Filter { job_type: Some(job_type), ..Filter::default() };
    let request = ListRequest { filter, order: Order::Newest, cursor: None, limit: 1 };
    let latest = board.store().list(&visitor.caller, request).await?.jobs.into_iter().next();
    // A list may leave out large payloads; the job itself has it.
    match latest {
        Some(found) => Ok(board.store().get(&visitor.caller, found.job.id).await?),
        None => Ok(None),
    }
}

/// A name in a form.
pub(in crate::dashboard) fn name<T, E: std::fmt::Display>(
    field: &str,
    read: Result<T, E>,
) -> Result<T, PageError> {
    read.map_err(|problem| PageError::invalid(format!("{field}: {problem}")))
}

/// What the job fields of a form say, over the values of `base`.
pub(in crate::dashboard) fn job_fields(form: &Fields, base: NewJob) -> Result<NewJob, PageError> {
    let priority = form.get("priority").map(str::parse).transpose();
    Ok(NewJob {
        job_type: name("type", JobType::new(form.need("type")?))?,
        queue: form
            .get("queue")
            .map_or_else(|| Ok(QueueName::default()), |text| name("queue", QueueName::new(text)))?,
        payload: edited_payload(form.all("payload").next().unwrap_or_default())?,
        priority: name("priority", priority)?,
        ..base
    })
}

/// `POST /jobs/new`
pub(in crate::dashboard) async fn submit(
    FormContext { board, visitor, form }: FormContext,
) -> Result<Response, PageError> {
    visitor.caller.require(Permission::Submit)?;
    let base = NewJob::new(name("type", JobType::new(form.need("type")?))?, edited_payload("null")?);
    let tenant = form.get("tenant").map(Tenant::new).transpose();
    let job = NewJob {
        delay: form.duration("delay")?,
        hold: form.get("hold").is_some(),
        unique_key: form.text("unique_key"),
        idempotency_key: form.get("once").map(|once| format!("dashboard-{once}")),
        tenant: name("tenant", tenant)?,
        ..job_fields(&form, base)?
    };
    let receipts = board.store().submit(&visitor.caller, vec![job], SubmitOptions::default()).await?;
    let to = receipts.first().map_or_else(|| "/jobs".to_owned(), |one| format!("/jobs/{}", one.job.id));
    Ok(Redirect::to(&address(&to, [("done", "submitted".to_owned())])).into_response())
}

impl From<SubmitError> for PageError {
    fn from(error: SubmitError) -> PageError {
        match error {
            SubmitError::Store(error) => error.into(),
            SubmitError::Forbidden(denied) => denied.into(),
            SubmitError::UniqueKeyTaken { .. } | SubmitError::TooDeep { .. } => {
                PageError::conflict(error.to_string())
            }
            _ => PageError::invalid(error.to_string()),
        }
    }
}
