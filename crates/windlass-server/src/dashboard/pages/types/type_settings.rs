//! The settings of a type, in the words of someone who runs jobs: how many at once, how often they are tried, how long they
//! may take and how long they are kept.

use axum::extract::Path;
use axum::response::Response;
use windlass::job::{Priority, RetryPolicy};
use windlass::settings::TypeSettings;
use windlass::settings::patch::{Field, SettingsPatch, TypePatch};
use windlass::settings::preview::ProposedLimit;
use windlass::store::Minute;

use super::{name_of, place};
use crate::dashboard::page::PageError;
use crate::dashboard::pages::queues::limit_preview::{PreviewView, of_limit};
use crate::dashboard::requests::context::FormContext;
use crate::dashboard::requests::form::{Fields, segment};
use crate::dashboard::requests::settings_form::fields::{SettingGroup, kept, number, rate, retries, times};
use crate::dashboard::requests::settings_form::{self, is_touched, parse_integer};

/// The settings of a type as form values.
pub(in crate::dashboard) struct TypeSettingsView {
    pub(in crate::dashboard) groups: Vec<SettingGroup>,
    /// The names of events, which the command line and the API set.
    pub(in crate::dashboard) events: Option<(String, String)>,
    pub(in crate::dashboard) preview: PreviewView,
}

impl TypeSettingsView {
    pub(in crate::dashboard) fn new(settings: &TypeSettings, hour: &[Minute]) -> TypeSettingsView {
        let running = number("max_running", "Max running", settings.max_running, "no limit")
            .hinted("jobs that run at once, on all workers");
        let starts = rate(["rate_count", "rate_per"], "Max starts", settings.rate, "no limit");
        let limits = [running].into_iter().chain(starts).collect();
        let limit = ProposedLimit { max_running: settings.max_running, rate: settings.rate };
        let event = |name: &Option<String>| name.clone().unwrap_or_default();
        let events = (event(&settings.success_event), event(&settings.exhausted_event));
        TypeSettingsView {
            groups: vec![
                SettingGroup { title: "Limits", fields: limits },
                retries(settings.retry.as_ref(), settings.priority.map(|value| value.to_string())),
                times(&settings.timeouts, "queue's or "),
                kept(&settings.retention, "queue's or server's"),
            ],
            events: (events != (String::new(), String::new())).then_some(events),
            preview: of_limit(&limit, hour),
        }
    }

    pub(in crate::dashboard) fn is_default(&self) -> bool {
        self.groups.iter().flat_map(|group| &group.fields).all(|field| field.value.is_empty())
    }
}

/// The retry policy: fields that are not touched stay; without any of its values there is none.
pub(in crate::dashboard) fn retry(
    form: &Fields,
    current: Option<&RetryPolicy>,
) -> Result<Field<RetryPolicy>, PageError> {
    let names = ["attempts", "initial_delay", "max_delay"];
    if !names.iter().any(|name| is_touched(form, name)) {
        return Ok(Field::Keep);
    }
    if names.iter().all(|name| form.get(name).is_none()) {
        return Ok(Field::Clear);
    }
    let mut policy = current.cloned().unwrap_or_default();
    if is_touched(form, "attempts") {
        let attempts = form.get("attempts").map(|text| parse_integer("attempts", text)).transpose()?;
        let attempts = attempts.unwrap_or(RetryPolicy::default().max_attempts.into());
        policy.max_attempts = u32::try_from(attempts).unwrap_or(u32::MAX);
    }
    if is_touched(form, "initial_delay") {
        policy.initial_delay =
            form.duration("initial_delay")?.unwrap_or(RetryPolicy::default().initial_delay);
    }
    if is_touched(form, "max_delay") {
        policy.max_delay = form.duration("max_delay")?.unwrap_or(RetryPolicy::default().max_delay);
    }
    Ok(Field::Set(policy))
}

pub(in crate::dashboard) fn priority(form: &Fields) -> Result<Field<Priority>, PageError> {
    settings_form::field(form, "priority", |text| {
        text.parse().map_err(|problem| PageError::invalid(format!("priority: {problem}")))
    })
}

/// `POST /types/{name}/settings`
pub(in crate::dashboard) async fn configure(
    Path(name): Path<String>,
    context: FormContext,
) -> Result<Response, PageError> {
    let FormContext { board, visitor, form } = &context;
    let job_type = name_of(&name)?;
    let config = board.store().config(&visitor.caller).await?;
    let current = config.types.get(&job_type).and_then(|settings| settings.retry.as_ref());
    let patch = TypePatch {
        max_running: settings_form::number(form, "max_running")?,
        rate: settings_form::rate(form, ["rate_count", "rate_per"], "max starts")?,
        retry: retry(form, current)?,
        priority: priority(form)?,
        timeouts: settings_form::timeouts(form)?,
        retention: settings_form::retention(form)?,
        ..TypePatch::default()
    };
    let to = format!("/types/{}/settings", segment(&name));
    context.save(SettingsPatch::Type(job_type, patch), (&to, place(&name)), &[]).await
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_retry_policy_keeps_what_is_not_touched() {
        let policy = RetryPolicy { jitter: 0.5, ..RetryPolicy::standard() };
        let read =
            |text: &str, current: Option<&RetryPolicy>| retry(&Fields::parse(text.as_bytes()), current).ok();
        let shown = "was_attempts=3&was_initial_delay=1s&was_max_delay=1h&initial_delay=1s&max_delay=1h";
        assert_eq!(read(&format!("{shown}&attempts=3"), Some(&policy)), Some(Field::Keep));
        let changed = RetryPolicy { max_attempts: 9, ..policy.clone() };
        assert_eq!(read(&format!("{shown}&attempts=9"), Some(&policy)), Some(Field::Set(changed)));
        let new = RetryPolicy { initial_delay: Duration::from_secs(5), ..RetryPolicy::standard() };
        assert_eq!(read("initial_delay=5s&was_initial_delay=", None), Some(Field::Set(new)));
        let emptied =
            "attempts=&was_attempts=3&initial_delay=&was_initial_delay=1s&max_delay=&was_max_delay=1h";
        assert_eq!(read(emptied, Some(&policy)), Some(Field::Clear));
        assert_eq!(read("attempts=many&was_attempts=3", Some(&policy)), None);
    }
}
