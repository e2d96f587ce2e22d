//! The form for a new job, filled in with the latest job of its type or with a job to repeat.

use std::collections::BTreeMap;

use askama::Template;
use axum::response::{IntoResponse, Redirect, Response};
use windlass::error::SubmitError;
use windlass::job::{JobId, JobMetadata, JobType, NewJob, Payload, QueueName, RetryPolicy, Tenant};
use windlass::store::caller::Permission;
use windlass::store::{Config, Filter, ListRequest, Order, Snapshot, SubmitOptions};

use crate::dashboard::page::{Layout, PageError, show};
use crate::dashboard::pages::jobs::job::draft;
use crate::dashboard::pages::jobs::payload_form::{self, PayloadField};
use crate::dashboard::pages::settings::offered;
use crate::dashboard::parts::components::JobLink;
use crate::dashboard::parts::filter::moment;
use crate::dashboard::parts::format;
use crate::dashboard::requests::context::{FormContext, PageContext};
use crate::dashboard::requests::form::{Fields, address};
use crate::dashboard::requests::job_actions::edited_payload;
use crate::dashboard::requests::middleware::Visitor;
use crate::dashboard::requests::session;
use crate::dashboard::requests::settings_form::parse_integer;
use crate::dashboard::{Dashboard, pages::limits};

#[derive(Template)]
#[template(path = "jobs/new_job.html")]
struct NewJobPage {
    layout: Layout,
    job_type: String,
    queue: String,
    payload: String,
    /// The payload as fields, if the type's schema describes a flat object; then it is not edited as JSON.
    fields: Vec<PayloadField>,
    /// The form with the payload as JSON, or back to the fields.
    other: Option<(&'static str, String)>,
    /// `name:value`, separated by commas.
    tags: String,
    concurrency_key: String,
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
    let PageContext { board, visitor, query, config } = &context;
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
    let job_type = of.map_or(asked, |job| job.lane.job_type.to_string());
    let fields = fields_of(config, &job_type, payload.as_deref());
    let is_json = query.get("as") == Some("json");
    let here = |form: Option<&str>| {
        let pairs = ["type", "like"].into_iter().filter_map(|name| Some((name, query.text(name)?)));
        address("/jobs/new", pairs.chain(form.map(|form| ("as", form.to_owned()))))
    };
    let other = fields.is_some().then(|| {
        if is_json {
            ("Edit the payload in fields", here(None))
        } else {
            ("Edit the payload as JSON", here(Some("json")))
        }
    });
    // What a job to repeat was found by and limited by; the latest of a type is only an example.
    let repeated = model.as_ref().filter(|_| query.get("like").is_some()).map(|model| &model.spec);
    let tags = repeated.map(|spec| &spec.metadata.tags).into_iter().flatten();
    let page = NewJobPage {
        other,
        fields: fields.filter(|_| !is_json).unwrap_or_default(),
        tags: tags.map(|(name, value)| format!("{name}:{value}")).collect::<Vec<_>>().join(", "),
        concurrency_key: repeated.and_then(|spec| spec.concurrency_key.clone()).unwrap_or_default(),
        // Nothing on this page changes by itself.
        layout: Layout { live: String::new(), ..layout },
        job_type,
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

/// The payload of a type as fields, if its schema allows it.
fn fields_of(config: &Config, job_type: &str, payload: Option<&str>) -> Option<Vec<PayloadField>> {
    let settings = config.types.get(&JobType::new(job_type).ok()?)?;
    payload_form::fields(settings.payload_schema.as_ref()?.json(), payload)
}

/// The payload in a form: its fields, or JSON.
fn payload_in(config: &Config, form: &Fields) -> Result<Payload, PageError> {
    if form.get("fields").is_none() {
        return edited_payload(form.all("payload").next().unwrap_or_default());
    }
    let changed = || PageError::conflict("the schema of the type was changed: reload the page");
    let fields = fields_of(config, form.need("type")?, None).ok_or_else(changed)?;
    payload_form::read(&fields, form)
}

/// Tags as `name:value`, separated by commas or lines.
fn tags_in(form: &Fields) -> Result<BTreeMap<String, String>, PageError> {
    let text = form.get("tags").unwrap_or_default();
    let each = text.split([',', '\n']).map(str::trim).filter(|tag| !tag.is_empty());
    let read = |tag: &str| {
        let (name, value) = tag.split_once(':')?;
        Some((name.trim().to_owned(), value.trim().to_owned()))
    };
    let wrong = |tag: &str| PageError::invalid(format!("tags: `{tag}` must have the form name:value"));
    each.map(|tag| read(tag).ok_or_else(|| wrong(tag))).collect()
}

/// The retry policy, if any of its values is given.
fn retry_in(form: &Fields) -> Result<Option<RetryPolicy>, PageError> {
    let attempts = form.get("attempts").map(|text| parse_integer("attempts", text)).transpose()?;
    let (first, longest) = (form.duration("initial_delay")?, form.duration("max_delay")?);
    if attempts.is_none() && first.is_none() && longest.is_none() {
        return Ok(None);
    }
    let standard = RetryPolicy::default();
    Ok(Some(RetryPolicy {
        max_attempts: attempts
            .map_or(standard.max_attempts, |number| u32::try_from(number).unwrap_or(u32::MAX)),
        initial_delay: first.unwrap_or(standard.initial_delay),
        max_delay: longest.unwrap_or(standard.max_delay),
        ..standard
    }))
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
        priority: name("priority", priority)?,
        ..base
    })
}

/// `POST /jobs/new`
pub(in crate::dashboard) async fn submit(
    FormContext { board, visitor, form }: FormContext,
) -> Result<Response, PageError> {
    visitor.caller.require(Permission::Submit)?;
    let config = board.store().config(&visitor.caller).await?;
    let base = NewJob::new(name("type", JobType::new(form.need("type")?))?, payload_in(&config, &form)?);
    let tenant = form.get("tenant").map(Tenant::new).transpose();
    let run_at = |text: &str| format::from_local(text).map_or_else(|| moment("run at", text), Ok);
    let (delay, run_at) = (form.duration("delay")?, form.get("run_at").map(run_at).transpose()?);
    if delay.is_some() && run_at.is_some() {
        return Err(PageError::invalid("run at: contradicts `run after`: give one of them"));
    }
    let metadata = JobMetadata {
        tags: tags_in(&form)?,
        correlation_id: form.text("correlation_id"),
        callback_url: None,
    };
    let job = NewJob {
        delay,
        run_at,
        metadata,
        retry: retry_in(&form)?,
        execution_timeout: form.duration("execution")?,
        start_timeout: form.duration("start")?,
        lifetime: form.duration("lifetime")?,
        concurrency_key: form.text("concurrency_key"),
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
