//! Pauses of processing: for all jobs, for a tenant or for a type.

use axum::response::Response;
use windlass::job::{JobType, Tenant};
use windlass::store::PauseTarget;
use windlass::store::caller::Caller;

use crate::dashboard::page::PageError;
use crate::dashboard::requests::context::FormContext;
use crate::dashboard::requests::form::Fields;
use crate::dashboard::requests::middleware::Visitor;
use crate::dashboard::requests::resume;
use crate::dashboard::requests::undo::PageAddress;

/// What a form pauses or resumes, and as which caller: a tenant, a type, or a type of one tenant.
fn target(form: &Fields, visitor: &Visitor) -> Result<(PauseTarget, Caller), PageError> {
    let tenant = form.get("tenant").map(Tenant::new).transpose();
    let tenant = tenant.map_err(|problem| PageError::invalid(format!("tenant: {problem}")))?;
    let job_type = form.get("type").map(JobType::new).transpose();
    let job_type = job_type.map_err(|problem| PageError::invalid(format!("type: {problem}")))?;
    Ok(match (job_type, tenant) {
        (Some(job_type), tenant) => {
            (PauseTarget::Type(job_type), resume::caller_for_tenant(visitor, tenant)?)
        }
        (None, Some(tenant)) => (PauseTarget::Tenant(tenant), visitor.caller.clone()),
        (None, None) => (PauseTarget::Gate, visitor.caller.clone()),
    })
}

/// `POST /gate`
pub(in crate::dashboard) async fn act(context: FormContext) -> Result<Response, PageError> {
    let (target, caller) = target(&context.form, &context.visitor)?;
    let part = ["tenant", "type"].into_iter().filter_map(|name| Some((name, context.form.get(name)?)));
    let place = PageAddress::new("/settings", &part.collect::<Vec<_>>());
    context.pause_or_resume(&caller, target, &place).await
}
