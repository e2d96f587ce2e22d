//! Job filters and pages of jobs.

use windlass_api::filter::{JobFilter, ListOrder, ListQuery};
use windlass_api::text::Text;
use windlass_api::time::Moment;

use super::invalid;
use crate::error::FieldError;
use crate::job::JobId;
use crate::limits;
use crate::store::filter::{Filter, Order};
use crate::store::query::list::{Cursor, ListRequest};

impl TryFrom<JobFilter> for Filter {
    type Error = FieldError;

    fn try_from(shown: JobFilter) -> Result<Filter, FieldError> {
        let tag = shown.tag.map(|text| match text.split_once(':') {
            Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
            None => Err(invalid("tag", "is not `name:value`")),
        });
        let no_id = || invalid("id_prefix", "is not a prefix of a job id");
        let ids = shown.id_prefix.map(|text| JobId::beginning_with(&text).ok_or_else(no_id));
        Ok(Filter {
            ids: ids.transpose()?,
            tenant: shown.tenant.map(|tenant| tenant.0),
            states: shown.state,
            job_type: shown.r#type.map(|name| name.0),
            queue: shown.queue.map(|queue| queue.0),
            tag: tag.transpose()?,
            correlation_id: shown.correlation_id,
            owner: shown.owner,
            parent: shown.parent.map(|parent| parent.0),
            created_after: shown.created_after.map(|moment| moment.0),
            created_before: shown.created_before.map(|moment| moment.0),
            is_redriven: shown.redriven,
            is_suspended_by_pause: shown.suspended_by_pause,
            ..Filter::default()
        })
    }
}

impl TryFrom<&Filter> for JobFilter {
    type Error = FieldError;

    fn try_from(filter: &Filter) -> Result<JobFilter, FieldError> {
        if !filter.workers.is_empty() || filter.concurrency.is_some() || filter.is_blocked.is_some() {
            let problem =
                "filters by worker, concurrency key and blocked jobs are not supported through a server";
            return Err(invalid("filter", problem));
        }
        if filter.ids.is_some() {
            return Err(invalid("filter", "filters by a range of ids are not supported through a server"));
        }
        Ok(JobFilter {
            id_prefix: None,
            state: filter.states.clone(),
            r#type: filter.job_type.clone().map(Text),
            queue: filter.queue.clone().map(Text),
            tag: filter.tag.as_ref().map(|(name, value)| format!("{name}:{value}")),
            correlation_id: filter.correlation_id.clone(),
            owner: filter.owner.clone(),
            parent: filter.parent.map(Text),
            created_after: filter.created_after.map(Moment),
            created_before: filter.created_before.map(Moment),
            redriven: filter.is_redriven,
            suspended_by_pause: filter.is_suspended_by_pause,
            tenant: filter.tenant.clone().map(Text),
        })
    }
}

impl TryFrom<ListQuery> for ListRequest {
    type Error = FieldError;

    fn try_from(query: ListQuery) -> Result<ListRequest, FieldError> {
        let (order, limit) = (query.order, query.limit);
        let cursor = query.cursor.as_deref().map(str::parse::<Cursor>).transpose();
        Ok(ListRequest {
            filter: query.into_filter().try_into()?,
            order: match order {
                None | Some(ListOrder::Newest) => Order::Newest,
                Some(ListOrder::Oldest) => Order::Oldest,
                Some(ListOrder::Claim) => Order::Claim,
            },
            cursor: cursor.map_err(|problem| FieldError::new("cursor", problem))?,
            limit: page_limit(limit, limits::PAGE_JOBS_MAX)?,
        })
    }
}

impl TryFrom<&ListRequest> for ListQuery {
    type Error = FieldError;

    fn try_from(request: &ListRequest) -> Result<ListQuery, FieldError> {
        let order = match request.order {
            Order::Newest => ListOrder::Newest,
            Order::Oldest => ListOrder::Oldest,
            Order::Claim => ListOrder::Claim,
        };
        Ok(ListQuery {
            order: Some(order),
            limit: Some(request.limit.clamp(1, limits::PAGE_JOBS_MAX)),
            cursor: request.cursor.map(|cursor| cursor.to_string()),
            payload: Some(true),
            ..JobFilter::try_from(&request.filter)?.into()
        })
    }
}

/// The size of a page, checked.
///
/// # Errors
/// [`FieldError`] if it is out of range.
pub fn page_limit(given: Option<usize>, max: usize) -> Result<usize, FieldError> {
    match given {
        None => Ok(50),
        Some(limit) if (1..=max).contains(&limit) => Ok(limit),
        Some(limit) => Err(invalid("limit", format!("is {limit}, allowed is 1 to {max}"))),
    }
}
