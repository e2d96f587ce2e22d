//! The settings of a queue: of all tenants, or those of the visitor's tenant, which apply as well.

use axum::extract::Path;
use axum::response::Response;
use windlass::audit::AuditLevel;
use windlass::job::{QueueName, Tenant};
use windlass::settings::patch::{Field, QueuePatch, SettingsPatch};
use windlass::settings::preview::ProposedLimit;
use windlass::settings::{FairBy, Push, QueueSettings};
use windlass::store::Config;

use super::name_of;
use crate::dashboard::page::PageError;
use crate::dashboard::pages::types::type_settings::{priority, retry};
use crate::dashboard::parts::format::exact;
use crate::dashboard::requests::context::FormContext;
use crate::dashboard::requests::form::{Fields, segment};
use crate::dashboard::requests::settings_form::fields::{
    Kind, SettingField, SettingGroup, kept, number, rate, retries, text, tick, times,
};
use crate::dashboard::requests::settings_form::{self, is_touched, parse_integer};
use crate::dashboard::requests::undo::PageAddress;

/// What the audit trail of a queue has.
const AUDIT_LEVELS: &[(&str, &str)] = &[
    ("", "default: outcomes"),
    ("all", "every transition"),
    ("outcomes", "actions and final states"),
    ("operators", "actions by people only"),
];

/// Fields whose values may contain a secret.
const PRIVATE: &[&str] = &["push_url"];

/// The settings as groups of fields.
pub(in crate::dashboard) struct QueueSettingsView {
    pub(in crate::dashboard) groups: Vec<SettingGroup>,
}

/// The settings of a queue, of all tenants or of one.
fn set(queue: &QueueName, tenant: Option<&Tenant>, config: &Config) -> QueueSettings {
    config.queues.get(&(queue.clone(), tenant.cloned())).cloned().unwrap_or_default()
}

impl QueueSettingsView {
    /// The settings of a tenant, which apply in addition to the general ones; or the general ones.
    pub(super) fn new(queue: &QueueName, tenant: Option<&Tenant>, config: &Config) -> QueueSettingsView {
        let (own, shared) = (set(queue, tenant, config), tenant.map(|_| set(queue, None, config)));
        let all = |text: &dyn Fn(&QueueSettings) -> Option<String>, none: &str| {
            let value = shared.as_ref().and_then(text);
            value.map_or_else(|| none.to_owned(), |value| format!("{value} for all tenants"))
        };
        let number = |name: &str, label: &str, of: &dyn Fn(&QueueSettings) -> Option<u64>, none: &str| {
            number(name, label, of(&own), all(&|set| of(set).map(|value| value.to_string()), none))
        };
        let mut limits = vec![
            number("max_running", "Max running", &|set| set.max_running, "no limit")
                .hinted("jobs that run at once, on all workers"),
            number("max_running_per_key", "Max running per key", &|set| set.max_running_per_key, "1")
                .hinted("jobs with one concurrency key that run at once"),
        ];
        let none =
            all(&|set| set.rate.map(|rate| format!("{} per {}", rate.count, exact(rate.per))), "no limit");
        limits.extend(rate(["rate_count", "rate_per"], "Max starts", own.rate, &none));
        let names = ["key_rate_count", "key_rate_per"];
        limits.extend(rate(names, "Max starts per key", own.rate_per_key, "no limit"));
        limits.push(
            number("max_depth", "Max unfinished jobs", &|set| set.max_depth, "no limit")
                .hinted("further submissions are refused"),
        );
        let aging =
            text("aging", "Priority aging", own.aging.map(exact), all(&|set| set.aging.map(exact), "never"));
        let mut order = vec![aging.hinted("a waiting job's priority rises by 1 in each such time")];
        let is_fair = shared.as_ref().unwrap_or(&own).fair_by == Some(FairBy::Tenant);
        if shared.is_none() {
            let fair = tick("fair", "Fair between tenants", is_fair);
            order.push(fair.hinted("tenants take turns: one with many jobs does not delay the others"));
        }
        let others = if shared.is_some() { "as for all tenants" } else { "" };
        QueueSettingsView {
            groups: vec![
                SettingGroup { title: "Limits", fields: limits },
                SettingGroup { title: "Order", fields: order },
                retries(own.retry.as_ref(), own.priority.map(|value| value.to_string())),
                times(&own.timeouts, ""),
                push(own.push.as_ref(), others),
                kept(&own.retention, "server default"),
                SettingGroup { title: "Audit trail", fields: vec![audit(own.audit)] },
            ],
        }
    }
}

/// The limits on starts that are set.
pub(super) fn limit_of(queue: &QueueName, tenant: Option<&Tenant>, config: &Config) -> ProposedLimit {
    let set = set(queue, tenant, config);
    ProposedLimit { max_running: set.max_running, rate: set.rate }
}

fn audit(level: Option<AuditLevel>) -> SettingField {
    let word = level.map(|level| match level {
        AuditLevel::All => "all",
        AuditLevel::Operators => "operators",
        _ => "outcomes",
    });
    let field = text("audit", "It contains", word.map(str::to_owned), "");
    SettingField { kind: Kind::Choice(AUDIT_LEVELS), ..field }
}

fn push(push: Option<&Push>, none: &str) -> SettingGroup {
    let fields = vec![
        text(
            "push_url",
            "Push jobs to",
            push.map(|push| push.url.clone()),
            if none.is_empty() { "none; https://…" } else { none },
        )
        .hinted("the server posts each job to this URL; then no worker is needed"),
        number(
            "push_concurrency",
            "Requests at once",
            push.map(|push| u64::from(push.concurrency)),
            "default",
        )
        .hinted("of each server process"),
        text("push_timeout", "Response timeout", push.and_then(|push| push.timeout).map(exact), "default"),
        tick("push_durable", "Durable steps", push.is_some_and(|push| push.durable))
            .hinted("the receiver may answer with any outcome, and gets the checkpoints"),
    ];
    SettingGroup { title: "Push target", fields }
}

/// The push target: fields that are not touched stay; without a URL there is none.
fn read_push(form: &Fields, current: Option<&Push>) -> Result<Field<Push>, PageError> {
    let durable = settings_form::tick(form, "push_durable");
    let names = ["push_url", "push_concurrency", "push_timeout"];
    if durable.is_none() && !names.iter().any(|name| is_touched(form, name)) {
        return Ok(Field::Keep);
    }
    let shown = current.map(|push| push.url.as_str());
    let url = if is_touched(form, "push_url") { form.get("push_url") } else { shown };
    let Some(url) = url else { return Ok(Field::Clear) };
    let mut push = current.cloned().unwrap_or_else(|| Push::to(url));
    url.clone_into(&mut push.url);
    if is_touched(form, "push_concurrency") {
        let number =
            form.get("push_concurrency").map(|text| parse_integer("push_concurrency", text)).transpose()?;
        push.concurrency =
            number.map_or(Push::to("").concurrency, |number| u32::try_from(number).unwrap_or(u32::MAX));
    }
    if is_touched(form, "push_timeout") {
        push.timeout = form.duration("push_timeout")?;
    }
    push.durable = durable.unwrap_or(push.durable);
    Ok(Field::Set(push))
}

fn level(form: &Fields) -> Result<Field<AuditLevel>, PageError> {
    settings_form::field(form, "audit", |word| match word {
        "all" => Ok(AuditLevel::All),
        "outcomes" => Ok(AuditLevel::Outcomes),
        "operators" => Ok(AuditLevel::Operators),
        _ => Err(PageError::invalid("audit: must be all, outcomes or operators")),
    })
}

/// `POST /queues/{name}/settings`
pub(in crate::dashboard) async fn configure(
    Path(name): Path<String>,
    context: FormContext,
) -> Result<Response, PageError> {
    let FormContext { board, visitor, form } = &context;
    let queue = name_of(&name)?;
    let current = set(&queue, visitor.caller.tenant.as_ref(), &board.store().config(&visitor.caller).await?);
    let fair = settings_form::tick(form, "fair");
    let patch = QueuePatch {
        max_running: settings_form::number(form, "max_running")?,
        max_running_per_key: settings_form::number(form, "max_running_per_key")?,
        max_depth: settings_form::number(form, "max_depth")?,
        rate: settings_form::rate(form, ["rate_count", "rate_per"], "max starts")?,
        rate_per_key: settings_form::rate(form, ["key_rate_count", "key_rate_per"], "max starts per key")?,
        fair_by: fair.map_or(Field::Keep, |is_fair| is_fair.then_some(FairBy::Tenant).into()),
        aging: settings_form::duration(form, "aging")?,
        audit: level(form)?,
        retry: retry(form, current.retry.as_ref())?,
        priority: priority(form)?,
        timeouts: settings_form::timeouts(form)?,
        push: read_push(form, current.push.as_ref())?,
        retention: settings_form::retention(form)?,
    };
    let page = format!("/queues/{}", segment(&name));
    let to = format!("{page}/settings");
    context.save(SettingsPatch::Queue(queue, patch), (&to, PageAddress::new(page, &[])), PRIVATE).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_push_target_keeps_what_is_not_touched() {
        let current = Push { concurrency: 4, durable: true, ..Push::to("https://a.example/jobs") };
        let read = |text: &str| read_push(&Fields::parse(text.as_bytes()), Some(&current)).ok();
        let shown =
            "was_push_url=https://a.example/jobs&was_push_concurrency=4&was_push_timeout=&was_push_durable=1";
        let same = "push_url=https://a.example/jobs&push_concurrency=4&push_timeout=&push_durable=1";
        assert_eq!(read(&format!("{shown}&{same}")), Some(Field::Keep));
        let moved = Push { url: "https://b.example".into(), ..current.clone() };
        assert_eq!(
            read(&format!(
                "{shown}&push_url=https://b.example&push_concurrency=4&push_timeout=&push_durable=1"
            )),
            Some(Field::Set(moved))
        );
        let plain = Push { durable: false, ..current.clone() };
        assert_eq!(
            read(&format!("{shown}&push_url=https://a.example/jobs&push_concurrency=4&push_timeout=")),
            Some(Field::Set(plain))
        );
        assert_eq!(
            read(&format!("{shown}&push_url=&push_concurrency=4&push_timeout=&push_durable=1")),
            Some(Field::Clear)
        );
    }
}
