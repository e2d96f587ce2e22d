//! One action on all jobs that fit a filter.

use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass::job::SuspendMode;
use windlass::limits::REASON_CHARS_MAX;
use windlass::store::command::act::{Act, Suspend};
use windlass::store::command::bulk::BulkAct;
use windlass::store::command::redrive::Redrive;

use super::act::SuspendWord;
use crate::http::app::App;
use crate::http::auth::Who;
use crate::http::json::Body;
use crate::http::problem::Problem;
use crate::http::reply::Done;
use crate::http::wire::filter::JobFilter;
use crate::http::wire::priority::Urgency;

/// What is to be done, and to which jobs.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BulkBody {
    action: BulkWord,
    /// Which jobs, as in the list of jobs; `{}` means all.
    filter: JobFilter,
    /// The priority, for that action.
    value: Option<Urgency>,
    reason: Option<String>,
    /// What happens to running attempts that are to be suspended.
    mode: Option<SuspendWord>,
    /// Whether only to count the jobs that fit.
    #[serde(default)]
    dry_run: bool,
}

/// What can be done in bulk.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum BulkWord {
    Suspend,
    Resume,
    Cancel,
    Priority,
    Redrive,
    Delete,
}

/// What a bulk action came to.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BulkAnswer {
    /// Jobs that fit the filter.
    matched: u64,
    /// Jobs that were changed; the others could not be, or were so already.
    changed: u64,
}

impl BulkBody {
    fn act(&self) -> Result<BulkAct, Problem> {
        let reason = self.reason.clone();
        let is_given = |field: &str, given: bool, wanted: bool| {
            if given && !wanted {
                return Err(Problem::invalid(field, "does not belong to this action"));
            }
            Ok(())
        };
        let length = reason.as_deref().map_or(0, |reason| reason.chars().count());
        if length > REASON_CHARS_MAX {
            let message = format!("has length {length}, the limit is {REASON_CHARS_MAX}");
            return Err(Problem::invalid("reason", message));
        }
        is_given("value", self.value.is_some(), matches!(self.action, BulkWord::Priority))?;
        is_given("mode", self.mode.is_some(), matches!(self.action, BulkWord::Suspend))?;
        Ok(match self.action {
            BulkWord::Suspend => {
                let mode = self.mode.map_or(SuspendMode::IdleOnly, SuspendMode::from);
                BulkAct::Act(Act::Suspend(Suspend { mode, reason, expires: None }))
            }
            BulkWord::Resume => BulkAct::Act(Act::Resume { reason }),
            BulkWord::Cancel => BulkAct::Act(Act::Cancel { reason }),
            BulkWord::Priority => match self.value {
                Some(value) => BulkAct::Act(Act::Priority(value.0)),
                None => return Err(Problem::invalid("value", "is required")),
            },
            BulkWord::Redrive => BulkAct::Redrive(Redrive::default()),
            BulkWord::Delete => BulkAct::Delete,
        })
    }
}

/// `POST /jobs/bulk`
pub(crate) async fn bulk(
    State(app): State<App>,
    Who(caller): Who,
    Body(body): Body<BulkBody>,
) -> Result<Done<BulkAnswer>, Problem> {
    let act = body.act()?;
    let filter = body.filter.into_filter().map_err(|problem| problem.within("filter"))?;
    if body.dry_run {
        let matched = app.store().bulk_dry_run(&caller, &filter).await?;
        return Ok(Done(BulkAnswer { matched, changed: 0 }));
    }
    // In a task of its own: a caller that hangs up half-way must not leave half of it undone.
    let store = app.store().clone();
    let done = tokio::spawn(async move { store.bulk(&caller, &filter, act).await }).await;
    let done = done.expect("a bulk action does not panic")?;
    Ok(Done(BulkAnswer { matched: done.matched, changed: done.changed }))
}
