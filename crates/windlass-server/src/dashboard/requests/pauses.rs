//! Pauses of processing: for all jobs, for a tenant or for a type.

use axum::response::{IntoResponse, Redirect, Response};
use windlass::job::{JobType, Tenant};
use windlass::store::caller::Caller;
use windlass::store::command::pause::{Pause, PauseTarget};

use crate::dashboard::page::PageError;
use crate::dashboard::requests::context::FormContext;
use crate::dashboard::requests::form::{Fields, address};
use crate::dashboard::requests::middleware::Visitor;
use crate::dashboard::requests::resume;

/// What a form pauses or resumes, and as which caller: a tenant, a type, or a type of one tenant.
fn target(form: &Fields, visitor: &Visitor) -> Result<(PauseTarget, Caller), PageError> {
    let tenant = form.get("tenant").map(Tenant::new).transpose();
    let tenant = tenant.map_err(|problem| PageError::invalid(format!("tenant: {problem}")))?;
    let job_type = form.get("type").map(JobType::new).transpose();
    let job_type = job_type.map_err(|problem| PageError::invalid(format!("type: {problem}")))?;
    Ok(match (job_type, tenant) {
        (Some(job_type), tenant) => (PauseTarget::Type(job_type), resume::speaking_for(visitor, tenant)?),
        (None, Some(tenant)) => (PauseTarget::Tenant(tenant), visitor.caller.clone()),
        (None, None) => (PauseTarget::Gate, visitor.caller.clone()),
    })
}

/// `POST /gate`
pub(in crate::dashboard) async fn act(
    FormContext { board, visitor, form }: FormContext,
) -> Result<Response, PageError> {
    let store = board.store();
    let (target, caller) = target(&form, &visitor)?;
    let (is_changed, done) = match form.need("action")? {
        "close" => {
            let pause =
                Pause { reason: form.text("reason"), expires: form.duration("expires")?, ..Pause::default() };
            (store.pause(&caller, target, pause).await?, "closed")
        }
        "open" => (store.resume(&caller, target, form.text("reason")).await?, "opened"),
        _ => return Err(PageError::invalid("unknown action")),
    };
    let done = if is_changed { done } else { "unchanged" };
    let part = ["tenant", "type"].into_iter().filter_map(|name| Some((name, form.text(name)?)));
    let to = address("/settings", [("done", done.to_owned())].into_iter().chain(part));
    Ok(Redirect::to(&to).into_response())
}
