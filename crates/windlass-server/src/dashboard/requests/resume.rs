//! Who can resume a pause, and how. A tenant's own pause of a queue or type belongs to that tenant, and an admin resumes it
//! in that tenant's name. Lists of pauses share one form; its scope field selects the pause.

use axum::response::Response;
use windlass::job::{JobId, Tenant};
use windlass::store::caller::{Caller, Permission};
use windlass::store::{Config, PauseRecord, PauseScope, PauseTarget};

use crate::dashboard::page::PageError;
use crate::dashboard::requests::context::FormContext;
use crate::dashboard::requests::form::segment;
use crate::dashboard::requests::middleware::Visitor;
use crate::dashboard::requests::undo::PageAddress;

/// Whether the visitor's button on the page of a queue or type resumes this pause: for an admin the pause of all tenants,
/// for others their own tenant's.
pub(in crate::dashboard) fn is_theirs(hold: &PauseRecord, visitor: &Visitor) -> bool {
    let tenant = match &hold.scope {
        PauseScope::Type { tenant, .. } | PauseScope::Queue { tenant, .. } => tenant,
        PauseScope::Gate | PauseScope::Tenant(_) | PauseScope::Worker(_) => {
            return visitor.may(Permission::Administer);
        }
    };
    visitor.may(Permission::Pause) && *tenant == visitor.caller.tenant
}

/// The scope field of the resume form; None if the visitor may not resume the pause.
pub(in crate::dashboard) fn scope(hold: &PauseRecord, visitor: &Visitor, config: &Config) -> Option<String> {
    let can_resume = visitor.may(Permission::Administer)
        || match &hold.scope {
            PauseScope::Worker(worker) => {
                let known = config.workers.get(worker);
                visitor.may(Permission::Pause)
                    && known.is_some_and(|known| known.tenant == visitor.caller.tenant)
            }
            _ => is_theirs(hold, visitor),
        };
    can_resume.then(|| serde_json::to_string(&hold.scope).expect("a scope is plain data"))
}

/// A caller for one tenant: an admin for any, others for their own.
pub(in crate::dashboard) fn caller_for_tenant(
    visitor: &Visitor,
    tenant: Option<Tenant>,
) -> Result<Caller, PageError> {
    let caller = visitor.caller.clone();
    if tenant.is_none() || tenant == caller.tenant {
        return Ok(caller);
    }
    caller.require(Permission::Administer)?;
    Ok(Caller { tenant, ..caller })
}

/// `POST /resume`: ends the pause of a scope; as the undoing of that, begins it again.
pub(in crate::dashboard) async fn act(context: FormContext) -> Result<Response, PageError> {
    let (form, visitor) = (&context.form, &context.visitor);
    let scope: PauseScope =
        serde_json::from_str(form.need("scope")?).map_err(|_| PageError::invalid("scope: is invalid"))?;
    let own_page = match &scope {
        PauseScope::Queue { queue, .. } => format!("/queues/{}", segment(queue.as_str())),
        PauseScope::Type { job_type, .. } => format!("/types/{}", segment(job_type.as_str())),
        PauseScope::Gate | PauseScope::Tenant(_) | PauseScope::Worker(_) => "/settings".to_owned(),
    };
    let (target, tenant) = match scope {
        PauseScope::Gate => (PauseTarget::Gate, None),
        PauseScope::Tenant(tenant) => (PauseTarget::Tenant(tenant), None),
        PauseScope::Type { job_type, tenant } => (PauseTarget::Type(job_type), tenant),
        PauseScope::Queue { queue, tenant } => (PauseTarget::Queue(queue), tenant),
        PauseScope::Worker(worker) => (PauseTarget::Worker(worker), None),
    };
    let caller = caller_for_tenant(visitor, tenant)?;
    // From the reasons on a job's page.
    let job: Option<JobId> = form.get("job").and_then(|id| id.parse().ok());
    let place = match (form.get("back"), form.get("from"), job) {
        (Some(back), ..) => PageAddress::read(Some(back)),
        (_, Some("settings"), _) => PageAddress::new("/settings", &[]),
        (_, Some("own"), _) => PageAddress::new(own_page, &[]),
        (.., Some(job)) => PageAddress::new(format!("/jobs/{job}"), &[]),
        _ => PageAddress::new("/", &[]),
    };
    context.pause_or_resume(&caller, target, &place).await
}
