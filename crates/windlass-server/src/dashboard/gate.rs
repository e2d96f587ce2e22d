//! The gate: nothing starts while it is closed, for everybody, for a tenant or for a type.

use axum::extract::State as AxumState;
use axum::response::{IntoResponse, Redirect, Response};
use windlass::job::{JobType, Tenant};
use windlass::store::command::hold::{Pause, Target};

use super::Dashboard;
use super::form::{Fields, Form};
use super::guard::Visitor;
use super::page::Trouble;

/// What a form means to close or open.
fn target(form: &Fields) -> Result<Target, Trouble> {
    if let Some(tenant) = form.get("tenant") {
        let wrong = |problem| Trouble::invalid(format!("tenant: {problem}"));
        return Ok(Target::Tenant(Tenant::new(tenant).map_err(wrong)?));
    }
    if let Some(job_type) = form.get("type") {
        let wrong = |problem| Trouble::invalid(format!("type: {problem}"));
        return Ok(Target::Type(JobType::new(job_type).map_err(wrong)?));
    }
    Ok(Target::Gate)
}

/// `POST /gate`
pub(super) async fn act(
    AxumState(board): AxumState<Dashboard>,
    visitor: Visitor,
    Form(form): Form,
) -> Result<Response, Trouble> {
    let (store, caller, target) = (board.store(), &visitor.caller, target(&form)?);
    let (is_changed, done) = match form.need("action")? {
        "close" => {
            let pause =
                Pause { reason: form.text("reason"), expires: form.duration("expires")?, ..Pause::default() };
            (store.pause(caller, target, pause).await?, "closed")
        }
        "open" => (store.resume(caller, target, form.text("reason")).await?, "opened"),
        _ => return Err(Trouble::invalid("there is no such action")),
    };
    let done = if is_changed { done } else { "unchanged" };
    Ok(Redirect::to(&format!("/settings?done={done}")).into_response())
}
