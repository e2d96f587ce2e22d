//! Actions on many jobs: those that were ticked, or all that fit the list's filter. What is about to happen is shown first,
//! with its number; only the second form does it.

use askama::Template;
use axum::extract::State as AxumState;
use axum::response::{IntoResponse, Redirect, Response};
use windlass::error::ActError;
use windlass::job::{JobId, SuspendMode};
use windlass::store::caller::Permission;
use windlass::store::command::act::{Act, Suspend};
use windlass::store::command::bulk::{Bulk, BulkAct};
use windlass::store::command::redrive::Redrive;

use super::filter::{Asked, Chip};
use super::form::{Fields, Form, address};
use super::format::count;
use super::guard::Visitor;
use super::operate::{mode, priority};
use super::page::{Shell, Trouble, show};
use super::{Dashboard, limits};

#[derive(Template)]
#[template(path = "bulk.html")]
struct Confirm {
    shell: Shell,
    verb: &'static str,
    action: String,
    count: u64,
    count_text: String,
    is_all: bool,
    chips: Vec<Chip>,
    ids: Vec<String>,
    pairs: Vec<(&'static str, String)>,
    back: String,
    is_grave: bool,
}

/// `POST /jobs/act`
pub(super) async fn act(
    AxumState(board): AxumState<Dashboard>,
    visitor: Visitor,
    Form(form): Form,
) -> Result<Response, Trouble> {
    visitor.caller.must(Permission::ManageJob)?;
    let action = form.need("action")?;
    let verb = verb(action)?;
    let asked = Asked::read(&form);
    let is_all = form.get("all").is_some();
    let ids = selected(&form)?;
    if !is_all && ids.is_empty() {
        return Err(Trouble::invalid("no job was selected"));
    }
    if form.get("confirmed").is_some() {
        let bulk = perform(&board, &visitor, &form, is_all.then_some(&asked), ids).await?;
        let pairs = asked.pairs().chain([("done", done(action).to_owned()), ("n", bulk.changed.to_string())]);
        return Ok(Redirect::to(&address("/jobs", pairs)).into_response());
    }
    let count_of = if is_all {
        board.store().bulk_dry_run(&visitor.caller, &asked.filter()?).await?
    } else {
        ids.len() as u64
    };
    let config = board.store().config(&visitor.caller).await?;
    let page = Confirm {
        shell: Shell {
            live: String::new(),
            ..Shell::of(&board, &visitor, &config, "jobs", format!("{verb} jobs"))
        },
        verb,
        action: action.to_owned(),
        count: count_of,
        count_text: count(count_of),
        is_all,
        chips: asked.chips(),
        ids: ids.iter().map(ToString::to_string).collect(),
        pairs: asked.pairs().collect(),
        back: asked.address(),
        is_grave: matches!(action, "cancel" | "delete"),
    };
    show(&page)
}

fn verb(action: &str) -> Result<&'static str, Trouble> {
    Ok(match action {
        "suspend" => "Suspend",
        "resume" => "Resume",
        "cancel" => "Cancel",
        "priority" => "Change the priority of",
        "redrive" => "Redrive",
        "delete" => "Delete",
        _ => return Err(Trouble::invalid("there is no such action")),
    })
}

fn done(action: &str) -> &'static str {
    match action {
        "suspend" => "suspended",
        "resume" => "resumed",
        "cancel" => "cancelled",
        "priority" => "priority",
        "redrive" => "redriven",
        _ => "deleted",
    }
}

fn selected(form: &Fields) -> Result<Vec<JobId>, Trouble> {
    let ids: Result<Vec<JobId>, _> = form.all("id_selected").map(str::parse).collect();
    let ids = ids.map_err(|_| Trouble::invalid("a selected job has no valid id"))?;
    if ids.len() > limits::SELECTED_MAX {
        return Err(Trouble::invalid(format!(
            "select at most {} jobs, or all that fit",
            limits::SELECTED_MAX
        )));
    }
    Ok(ids)
}

/// What the form asks for.
fn act_of(form: &Fields) -> Result<BulkAct, Trouble> {
    let reason = form.text("reason");
    Ok(match form.need("action")? {
        "suspend" => {
            let mode = form.get("mode").map_or(Ok(SuspendMode::IdleOnly), mode)?;
            BulkAct::Act(Act::Suspend(Suspend { mode, reason, expires: form.duration("expires")? }))
        }
        "resume" => BulkAct::Act(Act::Resume { reason }),
        "cancel" => BulkAct::Act(Act::Cancel { reason }),
        "priority" => BulkAct::Act(Act::Priority(priority(form)?)),
        "redrive" => BulkAct::Redrive(Redrive::default()),
        "delete" => BulkAct::Delete,
        _ => return Err(Trouble::invalid("there is no such action")),
    })
}

async fn perform(
    board: &Dashboard,
    visitor: &Visitor,
    form: &Fields,
    all: Option<&Asked>,
    ids: Vec<JobId>,
) -> Result<Bulk, Trouble> {
    let (action, store, caller) = (act_of(form)?, board.store().clone(), visitor.caller.clone());
    let Some(asked) = all else {
        // In a task of its own: a browser that goes away half-way must not leave half of it undone.
        let work = async move {
            let mut bulk = Bulk::default();
            for id in ids {
                bulk.matched += 1;
                bulk.changed += u64::from(one(&store, &caller, id, &action).await?);
            }
            Ok::<Bulk, ActError>(bulk)
        };
        return Ok(tokio::spawn(work).await.expect("acting on jobs does not panic")?);
    };
    let filter = asked.filter()?;
    let work = async move { store.bulk(&caller, &filter, action).await };
    Ok(tokio::spawn(work).await.expect("acting on jobs does not panic")?)
}

/// Acts on one job; one that cannot be acted on is left alone.
async fn one(
    store: &windlass::Store,
    caller: &windlass::store::caller::Caller,
    id: JobId,
    action: &BulkAct,
) -> Result<bool, ActError> {
    let done = match action {
        BulkAct::Act(act) => store.act(caller, id, act.clone()).await.map(|acted| acted.is_changed),
        BulkAct::Redrive(how) => store.redrive(caller, id, *how).await.map(|_| true),
        BulkAct::Delete => store.delete(caller, id).await.map(|()| true),
    };
    match done {
        Ok(is_changed) => Ok(is_changed),
        Err(ActError::Store(error)) => Err(error.into()),
        Err(_) => Ok(false),
    }
}
