//! An action on all jobs that match a filter.

use windlass::internal::ReadSource;
use windlass::job::{JobAction, SuspendMode};
use windlass::limits::REASON_CHARS_MAX;
use windlass::store::{ActionRequest, BulkAction, BulkCursor, BulkReport, Filter, Redrive, Suspend};
use windlass_api::actions::{BulkAnswer, BulkBody};

use crate::http::reply::error::ApiError;
use crate::http::reply::response::JsonOk;
use crate::http::request::auth::Call;
use crate::http::request::json::Body;
use crate::limits::BULK_JOBS_MAX;

/// The start position and the number of jobs.
fn part(body: &BulkBody) -> Result<(Option<BulkCursor>, u64), ApiError> {
    if let Some(limit) = body.limit.filter(|limit| !(1..=BULK_JOBS_MAX).contains(limit)) {
        return Err(ApiError::invalid("limit", format!("is {limit}, allowed is 1 to {BULK_JOBS_MAX}")));
    }
    let cursor = body.cursor.as_deref().map(str::parse::<BulkCursor>).transpose();
    let cursor = cursor.map_err(|problem| ApiError::invalid("cursor", problem.to_string()))?;
    Ok((cursor, body.limit.unwrap_or(u64::MAX)))
}

fn action(body: &BulkBody) -> Result<BulkAction, ApiError> {
    let reason = body.reason.clone();
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
    is_given("value", body.value.is_some(), matches!(body.action, JobAction::Priority))?;
    is_given("mode", body.mode.is_some(), matches!(body.action, JobAction::Suspend))?;
    Ok(match body.action {
        JobAction::Suspend => {
            let mode = body.mode.map_or(SuspendMode::IdleOnly, SuspendMode::from);
            BulkAction::Act(ActionRequest::Suspend(Suspend { mode, reason, expires: None }))
        }
        JobAction::Resume => BulkAction::Act(ActionRequest::Resume { reason }),
        JobAction::Cancel => BulkAction::Act(ActionRequest::Cancel { reason }),
        JobAction::Priority => match body.value {
            Some(value) => BulkAction::Act(ActionRequest::Priority(value.0)),
            None => return Err(ApiError::invalid("value", "is required")),
        },
        JobAction::Redrive => BulkAction::Redrive(Redrive::default()),
        // No other action is accepted.
        _ => BulkAction::Delete,
    })
}

/// `POST /jobs/bulk`
pub(crate) async fn bulk(
    Call { app, caller }: Call,
    Body(body): Body<BulkBody>,
) -> Result<JsonOk<BulkAnswer>, ApiError> {
    let (act, (from, most)) = (action(&body)?, part(&body)?);
    let filter = Filter::try_from(body.filter).map_err(|invalid| ApiError::from(invalid).within("filter"))?;
    if body.dry_run {
        let matched = app.store().bulk_dry_run(&caller, &filter).await?;
        return Ok(JsonOk(BulkAnswer { matched, changed: 0, skipped: 0, next_cursor: None }));
    }
    // Runs in its own task, so that the action completes even if the client disconnects.
    let store = app.store().clone();
    let done =
        ReadSource::spawn(async move { store.bulk_some(&caller, &filter, act, from, most).await }).await;
    let (done, next) = done.expect("a bulk action does not panic")?;
    let next_cursor = next.map(|cursor| cursor.to_string());
    let BulkReport { matched, changed, skipped } = done;
    Ok(JsonOk(BulkAnswer { matched, changed, skipped, next_cursor }))
}
