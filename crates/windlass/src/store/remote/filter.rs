//! Filters in the format of the API: in a query, or in the body of a bulk action.

use serde_json::{Map, Value};

use super::client::Call;
use crate::error::{FieldProblem, Invalid};
use crate::store::filter::{Filter, Order};
use crate::store::query::list::ListRequest;

/// The parameters of a filter, as the API names them.
fn parameters(filter: &Filter) -> Result<Vec<(&'static str, String)>, Invalid> {
    if !filter.workers.is_empty() || filter.concurrency.is_some() || filter.is_blocked.is_some() {
        let problem =
            "filters by worker, concurrency key and blocked jobs are not supported on a remote store";
        return Err(Invalid::new("filter", FieldProblem::Contradiction(problem.into())));
    }
    if filter.ids.is_some() {
        let problem = "filters by a range of ids are not supported on a remote store";
        return Err(Invalid::new("filter", FieldProblem::Contradiction(problem.into())));
    }
    let states: Vec<&str> = filter.states.iter().map(|state| state.as_str()).collect();
    let found = [
        ("state", (!states.is_empty()).then(|| states.join(","))),
        ("tenant", filter.tenant.as_ref().map(ToString::to_string)),
        ("type", filter.job_type.as_ref().map(ToString::to_string)),
        ("queue", filter.queue.as_ref().map(ToString::to_string)),
        ("tag", filter.tag.as_ref().map(|(name, value)| format!("{name}:{value}"))),
        ("correlation_id", filter.correlation_id.clone()),
        ("owner", filter.owner.clone()),
        ("parent", filter.parent.map(|id| id.to_string())),
        ("created_after", filter.created_after.map(|at| at.to_string())),
        ("created_before", filter.created_before.map(|at| at.to_string())),
        ("redriven", filter.is_redriven.map(|is_redriven| is_redriven.to_string())),
        ("suspended_by_pause", filter.is_suspended_by_pause.map(|is_so| is_so.to_string())),
    ];
    Ok(found.into_iter().filter_map(|(name, value)| Some((name, value?))).collect())
}

/// A filter in a body.
pub(super) fn filter(filter: &Filter) -> Result<Map<String, Value>, Invalid> {
    let mut body: Map<String, Value> =
        parameters(filter)?.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    for (name, value) in
        [("redriven", filter.is_redriven), ("suspended_by_pause", filter.is_suspended_by_pause)]
    {
        body.extend(value.map(|value| (name.to_owned(), Value::from(value))));
    }
    Ok(body)
}

/// A page of a list.
pub(super) fn list(request: &ListRequest) -> Result<Call, Invalid> {
    let mut call = Call::get("/jobs");
    for (name, value) in parameters(&request.filter)? {
        call = call.query(name, value);
    }
    let order = match request.order {
        Order::Newest => "newest",
        Order::Oldest => "oldest",
        Order::Claim => "claim",
    };
    let limit = request.limit.clamp(1, crate::limits::PAGE_JOBS_MAX);
    let call = call.query("payload", "true").query("order", order).query("limit", limit.to_string());
    Ok(call.query_if("cursor", request.cursor.map(|cursor| cursor.to_string())))
}
