//! An action on all jobs that match a filter.

use axum::extract::State;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use windlass::job::{JobAction, SuspendMode};
use windlass::limits::REASON_CHARS_MAX;
use windlass::store::command::actions::{ActionRequest, Suspend};
use windlass::store::command::bulk::{BulkAction, BulkCursor, BulkReport};
use windlass::store::command::redrive::Redrive;
use windlass::store::filter::Filter;

use super::actions::SuspendWord;
use crate::http::app::App;
use crate::http::reply::error::ApiError;
use crate::http::reply::response::JsonOk;
use crate::http::request::auth::CurrentCaller;
use crate::http::request::json::Body;
use crate::http::wire::filter::JobFilter;
use crate::http::wire::priority::PriorityInput;
use crate::limits::BULK_JOBS_MAX;

/// The action and the jobs.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BulkBody {
    #[serde(deserialize_with = "bulk_action")]
    #[schemars(schema_with = "bulk_actions")]
    action: JobAction,
    /// The jobs, as in the list of jobs; `{}` means all.
    filter: JobFilter,
    /// The new priority, for the action `priority`.
    value: Option<PriorityInput>,
    reason: Option<String>,
    /// What happens to running attempts, for the action `suspend`.
    mode: Option<SuspendWord>,
    /// Only count the matching jobs.
    #[serde(default)]
    dry_run: bool,
    /// Maximum number of jobs per request, 1 to 10000; all matching jobs if not given.
    #[schemars(range(min = 1, max = 10_000))]
    limit: Option<u64>,
    /// `next_cursor` of the previous request; the other fields must not change.
    cursor: Option<String>,
}

/// One of [`JobAction::BULK`].
fn bulk_action<'de, D: Deserializer<'de>>(from: D) -> Result<JobAction, D::Error> {
    const WORDS: &[&str] = &["suspend", "resume", "cancel", "priority", "redrive", "delete"];
    let text = String::deserialize(from)?;
    let action = text.parse().ok().filter(|action| JobAction::BULK.contains(action));
    action.ok_or_else(|| D::Error::unknown_variant(&text, WORDS))
}

fn bulk_actions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": JobAction::BULK.map(JobAction::as_str)})
}

/// The result of a bulk action.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BulkAnswer {
    /// Number of matching jobs.
    matched: u64,
    /// Number of changed jobs; the others could not be changed or needed no change.
    changed: u64,
    /// Number of matching jobs that could not be changed, for example because of their state or because another job needs
    /// them. Left out if zero.
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(default)]
    skipped: u64,
    /// Cursor for the next request, if a limit was given and there are more jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl BulkBody {
    /// The start position and the number of jobs.
    fn part(&self) -> Result<(Option<BulkCursor>, u64), ApiError> {
        if let Some(limit) = self.limit.filter(|limit| !(1..=BULK_JOBS_MAX).contains(limit)) {
            return Err(ApiError::invalid("limit", format!("is {limit}, allowed is 1 to {BULK_JOBS_MAX}")));
        }
        let cursor = self.cursor.as_deref().map(str::parse::<BulkCursor>).transpose();
        let cursor = cursor.map_err(|problem| ApiError::invalid("cursor", problem.to_string()))?;
        Ok((cursor, self.limit.unwrap_or(u64::MAX)))
    }

    fn act(&self) -> Result<BulkAction, ApiError> {
        let reason = self.reason.clone();
        let is_given = |field: &str, given: bool, wanted: bool| {
            if given && !wanted {
                return Err(ApiError::invalid(field, "is not valid for this action"));
            }
            Ok(())
        };
        let length = reason.as_deref().map_or(0, |reason| reason.chars().count());
        if length > REASON_CHARS_MAX {
            let message = format!("has length {length}, the limit is {REASON_CHARS_MAX}");
            return Err(ApiError::invalid("reason", message));
        }
        is_given("value", self.value.is_some(), matches!(self.action, JobAction::Priority))?;
        is_given("mode", self.mode.is_some(), matches!(self.action, JobAction::Suspend))?;
        Ok(match self.action {
            JobAction::Suspend => {
                let mode = self.mode.map_or(SuspendMode::IdleOnly, SuspendMode::from);
                BulkAction::Act(ActionRequest::Suspend(Suspend { mode, reason, expires: None }))
            }
            JobAction::Resume => BulkAction::Act(ActionRequest::Resume { reason }),
            JobAction::Cancel => BulkAction::Act(ActionRequest::Cancel { reason }),
            JobAction::Priority => match self.value {
                Some(value) => BulkAction::Act(ActionRequest::Priority(value.0)),
                None => return Err(ApiError::invalid("value", "is required")),
            },
            JobAction::Redrive => BulkAction::Redrive(Redrive::default()),
            // No other action is accepted.
            _ => BulkAction::Delete,
        })
    }
}

/// `POST /jobs/bulk`
pub(crate) async fn bulk(
    State(app): State<App>,
    CurrentCaller(caller): CurrentCaller,
    Body(body): Body<BulkBody>,
) -> Result<JsonOk<BulkAnswer>, ApiError> {
    let (act, (from, most)) = (body.act()?, body.part()?);
    let filter = Filter::try_from(body.filter).map_err(|invalid| ApiError::from(invalid).within("filter"))?;
    if body.dry_run {
        let matched = app.store().bulk_dry_run(&caller, &filter).await?;
        return Ok(JsonOk(BulkAnswer { matched, changed: 0, skipped: 0, next_cursor: None }));
    }
    // Runs in its own task, so that the action completes even if the client disconnects.
    let store = app.store().clone();
    let done = tokio::spawn(async move { store.bulk_some(&caller, &filter, act, from, most).await }).await;
    let (done, next) = done.expect("a bulk action does not panic")?;
    let next_cursor = next.map(|cursor| cursor.to_string());
    let BulkReport { matched, changed, skipped } = done;
    Ok(JsonOk(BulkAnswer { matched, changed, skipped, next_cursor }))
}
