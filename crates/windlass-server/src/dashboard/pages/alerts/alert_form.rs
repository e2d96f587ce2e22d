//! Creating and editing an alert.

use std::time::Duration;

use askama::Template;
use axum::extract::Path;
use axum::response::{IntoResponse, Redirect, Response};
use windlass::alert::{AlertCondition, AlertFormat, AlertRule};
use windlass::job::{AlertName, JobType, QueueName, Tenant};
use windlass::store::AlertRef;
use windlass::store::caller::Permission;
use windlass_api::alert::{ConditionFields, ConditionParam};
use windlass_api::time::Span;

use super::{about, named};
use crate::dashboard::page::{Layout, PageError, show};
use crate::dashboard::pages::jobs::new_job::name;
use crate::dashboard::pages::settings::offered;
use crate::dashboard::requests::context::{FormContext, PageContext};
use crate::dashboard::requests::form::{Fields, address};

#[derive(Template)]
#[template(path = "alerts/alert_form.html")]
struct AlertPage {
    layout: Layout,
    is_new: bool,
    name: String,
    /// Empty for all tenants.
    tenant: String,
    /// Whether the visitor can choose the tenant.
    has_tenants: bool,
    /// When the alert that is edited was last changed.
    was: String,
    values: Values,
    types: Vec<String>,
    queues: Vec<String>,
}

/// The values of the fields.
struct Values {
    condition: &'static str,
    more_than: String,
    longer_than: String,
    within: String,
    min_attempts: String,
    queue: String,
    job_type: String,
    url: String,
    format: &'static str,
    pending_for: String,
    keep_firing_for: String,
    repeat_interval: String,
}

fn text<T: ToString>(value: Option<T>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

impl Values {
    fn new(rule: &AlertRule) -> Values {
        let fields = ConditionFields::from(&rule.condition);
        Values {
            condition: rule.condition.as_str(),
            more_than: text(fields.more_than),
            longer_than: text(fields.longer_than),
            within: text(fields.within),
            min_attempts: text(fields.min_attempts),
            queue: text(rule.queue.as_ref()),
            job_type: text(rule.job_type.as_ref()),
            url: rule.url.clone(),
            format: rule.format.as_str(),
            pending_for: Span(rule.pending_for).to_string(),
            keep_firing_for: Span(rule.keep_firing_for).to_string(),
            repeat_interval: text(rule.repeat_interval.map(Span)),
        }
    }
}

/// `GET /alerts/new`
pub(in crate::dashboard) async fn new_page(context: PageContext) -> Result<Response, PageError> {
    let condition = AlertCondition::DeadLetters { more_than: 0, within: Duration::from_secs(600) };
    let values = Values::new(&AlertRule::new(condition, String::new()));
    let tenant = text(context.visitor.caller.tenant.as_ref());
    form_page(&context, (String::new(), tenant, String::new()), values).await
}

/// `GET /alerts/{tenant}/{name}`
pub(in crate::dashboard) async fn edit_page(
    context: PageContext,
    Path((tenant, alert)): Path<(String, String)>,
) -> Result<Response, PageError> {
    let which = named(&tenant, &alert)?;
    let found = context.board.store().alert(&context.visitor.caller, which.clone()).await?;
    let found = found.filter(|found| found.tenant == which.tenant);
    let found = found.ok_or_else(|| PageError::not_found(format!("no alert {alert}")))?;
    let names = (found.name.to_string(), text(found.tenant.as_ref()), found.updated_at.to_string());
    form_page(&context, names, Values::new(&found.rule)).await
}

async fn form_page(
    context: &PageContext,
    (name, tenant, was): (String, String, String),
    values: Values,
) -> Result<Response, PageError> {
    let caller = &context.visitor.caller;
    caller.require(Permission::Configure)?;
    let stats = context.board.store().totals(caller).await?;
    let title = if was.is_empty() { "New alert" } else { "Edit alert" };
    let layout = context.layout("alerts", title);
    let page = AlertPage {
        layout: Layout { live: String::new(), ..layout },
        is_new: was.is_empty(),
        name,
        tenant,
        has_tenants: caller.tenant.is_none(),
        was,
        values,
        types: offered(stats.types.keys()),
        queues: offered(stats.queues.keys()),
    };
    show(&page)
}

fn number(form: &Fields, field: &str) -> Result<Option<u64>, PageError> {
    name(field, form.get(field).map(str::parse).transpose())
}

/// A time that may be zero.
fn time(form: &Fields, field: &str) -> Result<Option<Duration>, PageError> {
    let read = name(field, form.get(field).map(str::parse::<Span>).transpose())?;
    Ok(read.map(|span| span.0))
}

/// The condition that the fields of a form name. Fields of other conditions are left out: the page has all of them.
fn condition(form: &Fields) -> Result<AlertCondition, PageError> {
    let word = form.need("condition")?;
    let condition: ConditionParam = serde_json::from_value(word.into())
        .map_err(|_| PageError::invalid(format!("condition: there is no {word}")))?;
    let is_rate = condition == ConditionParam::FailureRate;
    let is_counted = is_rate || condition == ConditionParam::DeadLetters;
    let is_within = is_counted || condition == ConditionParam::ScheduleMissed;
    let fields = ConditionFields {
        condition,
        more_than: number(form, "more_than")?.filter(|_| is_counted),
        longer_than: form.duration("longer_than")?.map(Span).filter(|_| !is_within),
        within: form.duration("within")?.map(Span).filter(|_| is_within),
        min_attempts: number(form, "min_attempts")?.filter(|_| is_rate),
    };
    AlertCondition::try_from(fields).map_err(|invalid| PageError::invalid(invalid.to_string()))
}

fn rule(form: &Fields) -> Result<AlertRule, PageError> {
    let new = AlertRule::new(condition(form)?, form.need("url")?);
    Ok(AlertRule {
        queue: name("queue", form.get("queue").map(QueueName::new).transpose())?,
        job_type: name("type", form.get("type").map(JobType::new).transpose())?,
        format: match form.get("format") {
            Some("slack") => AlertFormat::Slack,
            _ => AlertFormat::Webhook,
        },
        pending_for: time(form, "pending_for")?.unwrap_or(new.pending_for),
        keep_firing_for: time(form, "keep_firing_for")?.unwrap_or(new.keep_firing_for),
        repeat_interval: form.duration("repeat_interval")?,
        ..new
    })
}

/// `POST /alerts/save`
pub(in crate::dashboard) async fn save(
    FormContext { board, visitor, form }: FormContext,
) -> Result<Response, PageError> {
    visitor.caller.require(Permission::Configure)?;
    let alert = name("name", AlertName::new(form.need("name")?))?;
    let tenant = match &visitor.caller.tenant {
        Some(own) => Some(own.clone()),
        None => name("tenant", form.get("tenant").map(Tenant::new).transpose())?,
    };
    let which = AlertRef { tenant: tenant.clone(), name: alert.clone() };
    let before = board.store().alert(&visitor.caller, which.clone()).await?;
    let before = before.filter(|before| before.tenant == tenant);
    match (&before, form.get("was")) {
        (None, None) => {}
        (Some(before), Some(was)) if before.updated_at.to_string() == was => {}
        (Some(before), Some(_)) => {
            let who = &before.updated_by;
            return Err(PageError::conflict(format!("{who} changed this alert meanwhile: reload the page")));
        }
        (Some(_), None) => return Err(PageError::conflict(format!("there is an alert {alert} already"))),
        (None, Some(_)) => return Err(PageError::conflict("this alert was deleted meanwhile")),
    }
    let put = board.store().put_alert(&visitor.caller, which, rule(&form)?).await?;
    let done = if put.is_changed { "saved" } else { "unchanged" };
    let pairs = [("done", done.to_owned()), ("about", about(&put.alert))];
    Ok(Redirect::to(&address("/alerts", pairs)).into_response())
}
