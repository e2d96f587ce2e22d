//! Bulk actions on the selected jobs, or on all jobs that match the list's filter. The first form leads to a confirmation
//! page with the number of jobs; only the second form acts, and on no more jobs than were counted.

use std::time::Duration;

use askama::Template;
use axum::response::{IntoResponse, Redirect, Response};
use windlass::clock::Timestamp;
use windlass::error::ActionError;
use windlass::internal::ReadSource;
use windlass::job::{JobAction, JobId, SuspendMode};
use windlass::store::caller::{Caller, Permission};
use windlass::store::{ActionRequest, BulkAction, BulkReport, Filter, Redrive, Suspend};

use crate::dashboard::page::{Layout, PageError, show};
use crate::dashboard::parts::components::Pill;
use crate::dashboard::parts::filter::{FilterChip, FilterInput};
use crate::dashboard::parts::format::count;
use crate::dashboard::requests::bulk_action::{BulkChoice, BulkTarget};
use crate::dashboard::requests::context::FormContext;
use crate::dashboard::requests::form::{Fields, address};
use crate::dashboard::requests::job_actions::{mode, priority};
use crate::dashboard::requests::middleware::Visitor;
use crate::dashboard::{Dashboard, pages::limits};

#[derive(Template)]
#[template(path = "jobs/bulk_confirm.html")]
struct Confirm {
    layout: Layout,
    choice: BulkChoice,
    is_all: bool,
    scope: BulkTarget,
    chips: Vec<FilterChip>,
    pairs: Vec<(&'static str, String)>,
    back: String,
    /// Jobs submitted after this time are not affected.
    asked_at: String,
}

impl Confirm {
    /// The number of jobs as text: `more than 10,000 jobs`.
    fn jobs(&self) -> String {
        let more = if self.scope.is_more { "more than " } else { "" };
        let noun = if self.scope.count == 1 { "job" } else { "jobs" };
        format!("{more}{} {noun}", count(self.scope.count))
    }

    /// Counts by state, if there are several states.
    fn states(&self) -> Vec<(Pill, String)> {
        self.scope.states.iter().map(|(state, number)| (Pill(*state), count(*number))).collect()
    }

    fn is(&self, action: &str) -> bool {
        self.choice.0.as_str() == action
    }
}

/// `POST /jobs/act`
pub(in crate::dashboard) async fn act(
    FormContext { board, visitor, form }: FormContext,
) -> Result<Response, PageError> {
    visitor.caller.require(Permission::ManageJob)?;
    let choice: BulkChoice = form.need("action")?.parse()?;
    let asked = FilterInput::read(&form)?;
    let is_all = form.get("all").is_some();
    let ids = selected(&form)?;
    if !is_all && ids.is_empty() {
        return Err(PageError::invalid("no job was selected"));
    }
    if form.get("confirmed").is_some() {
        let bulk = perform(&board, &visitor, &form, is_all.then_some(&asked), (choice, ids)).await?;
        let pairs =
            asked.pairs().chain([("done", choice.done().to_owned()), ("n", bulk.changed.to_string())]);
        return Ok(Redirect::to(&address("/jobs", pairs)).into_response());
    }
    // Read before counting, so that no more jobs are affected than were counted; jobs of the current millisecond are
    // included.
    let asked_at = board.now().plus(Duration::from_millis(1)).to_string();
    let scope = if is_all {
        choice.scope_of_all(board.store(), &visitor.caller, &asked.filter()?).await?
    } else {
        choice.scope_of(board.store(), &visitor.caller, &ids).await?
    };
    let config = board.store().config(&visitor.caller).await?;
    let title = format!("{} jobs", choice.verb());
    let layout = Layout::new(&board, &visitor, &config, "jobs", title);
    let page = Confirm {
        layout: Layout { live: String::new(), ..layout },
        choice,
        is_all,
        scope,
        chips: asked.chips(),
        pairs: asked.pairs().collect(),
        back: asked.address(),
        asked_at,
    };
    show(&page)
}

/// The selected jobs, each once.
fn selected(form: &Fields) -> Result<Vec<JobId>, PageError> {
    let ids: Result<Vec<JobId>, _> = form.all("id_selected").map(str::parse).collect();
    let mut ids = ids.map_err(|_| PageError::invalid("a selected job has an invalid id"))?;
    ids.sort_unstable();
    ids.dedup();
    if ids.len() > limits::SELECTED_MAX {
        return Err(PageError::invalid(format!(
            "select at most {} jobs, or all matching jobs",
            limits::SELECTED_MAX
        )));
    }
    Ok(ids)
}

/// The action that the form describes.
fn act_of(choice: BulkChoice, form: &Fields) -> Result<BulkAction, PageError> {
    let reason = form.text("reason");
    Ok(match choice.0 {
        JobAction::Suspend => {
            let mode = form.get("mode").map_or(Ok(SuspendMode::IdleOnly), mode)?;
            BulkAction::Act(ActionRequest::Suspend(Suspend {
                mode,
                reason,
                expires: form.duration("expires")?,
            }))
        }
        JobAction::Resume => BulkAction::Act(ActionRequest::Resume { reason }),
        JobAction::Cancel => BulkAction::Act(ActionRequest::Cancel { reason }),
        JobAction::Priority => BulkAction::Act(ActionRequest::Priority(priority(form)?)),
        JobAction::Redrive => BulkAction::Redrive(Redrive { only_once: true, ..Redrive::default() }),
        _ => BulkAction::Delete,
    })
}

async fn perform(
    board: &Dashboard,
    visitor: &Visitor,
    form: &Fields,
    all: Option<&FilterInput>,
    (choice, ids): (BulkChoice, Vec<JobId>),
) -> Result<BulkReport, PageError> {
    let (action, store, caller) = (act_of(choice, form)?, board.store().clone(), visitor.caller.clone());
    let Some(asked) = all else {
        // Runs in its own task, so that the action completes even if the browser disconnects.
        let work = async move {
            let mut bulk = BulkReport::default();
            for id in ids {
                bulk.matched += 1;
                match act_on_job(&store, &caller, id, &action).await? {
                    Some(is_changed) => bulk.changed += u64::from(is_changed),
                    None => bulk.skipped += 1,
                }
            }
            Ok::<BulkReport, ActionError>(bulk)
        };
        return Ok(ReadSource::spawn(work).await.expect("acting on jobs does not panic")?);
    };
    let Some(filter) = choice.narrowed(&asked.filter()?) else { return Ok(BulkReport::default()) };
    let filter = as_confirmed(filter, form)?;
    // Jobs may have started to match since; the number is limited nevertheless.
    let most = form.get("most").map(str::parse).transpose();
    let most: u64 = most.map_err(|_| PageError::invalid("most: is not a number"))?.unwrap_or(u64::MAX);
    if most == 0 {
        return Ok(BulkReport::default());
    }
    let work = async move { store.bulk_some(&caller, &filter, action, None, most).await };
    let (bulk, _) = ReadSource::spawn(work).await.expect("acting on jobs does not panic")?;
    Ok(bulk)
}

/// The filter without jobs submitted after the confirmation page.
fn as_confirmed(filter: Filter, form: &Fields) -> Result<Filter, PageError> {
    let Some(asked_at) = form.get("asked_at") else { return Ok(filter) };
    let asked_at: Timestamp =
        asked_at.parse().map_err(|problem| PageError::invalid(format!("asked_at: {problem}")))?;
    let before = filter.created_before.map_or(asked_at, |before| before.min(asked_at));
    Ok(Filter { created_before: Some(before), ..filter })
}

/// Acts on one job. Returns whether it changed, None if it was refused. Jobs that cannot be acted on and jobs that were
/// redriven already are skipped.
async fn act_on_job(
    store: &windlass::Store,
    caller: &Caller,
    id: JobId,
    action: &BulkAction,
) -> Result<Option<bool>, ActionError> {
    let done = match action {
        BulkAction::Act(act) => store.act(caller, id, act.clone()).await.map(|acted| acted.is_changed),
        BulkAction::Redrive(how) => store.redrive(caller, id, how.clone()).await.map(|_| true),
        BulkAction::Delete => store.delete(caller, id).await.map(|()| true),
    };
    match done {
        Ok(is_changed) => Ok(Some(is_changed)),
        Err(ActionError::Store(error)) => Err(error.into()),
        Err(_) => Ok(None),
    }
}
