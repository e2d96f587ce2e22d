//! Job filters: the same in a query and in the body of a bulk action.

use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use windlass::job::{JobId, JobState, JobType, QueueName, Tenant};
use windlass::limits;
use windlass::store::filter::{Filter, Order};
use windlass::store::query::list::{Cursor, ListRequest};

use super::text::Text;
use super::time::Moment;
use crate::http::reply::error::ApiError;

/// A job filter; an empty filter matches all jobs.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct JobFilter {
    /// The id starts with these hexadecimal digits; dashes are ignored.
    id_prefix: Option<String>,
    /// In one of these states, separated by commas.
    #[serde(deserialize_with = "states")]
    #[schemars(with = "Option<String>")]
    state: Vec<JobState>,
    /// Of this type.
    r#type: Option<Text<JobType>>,
    /// In this queue.
    queue: Option<Text<QueueName>>,
    /// With this tag, `name:value`.
    tag: Option<String>,
    /// With this correlation id.
    correlation_id: Option<String>,
    /// Submitted by this actor.
    owner: Option<String>,
    /// Spawned by this job.
    parent: Option<Text<JobId>>,
    /// Submitted at or after this.
    created_after: Option<Moment>,
    /// Submitted before this.
    created_before: Option<Moment>,
    /// Whether the job was redriven as a new job.
    redriven: Option<bool>,
    /// Whether an aggressive pause of its queue suspended it.
    suspended_by_pause: Option<bool>,
    /// Of this tenant, for callers that can see several.
    tenant: Option<Text<Tenant>>,
}

impl JobFilter {
    /// The library's filter.
    pub(crate) fn into_filter(self) -> Result<Filter, ApiError> {
        let tag = self.tag.map(|text| match text.split_once(':') {
            Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
            None => Err(ApiError::invalid("tag", "is not `name:value`")),
        });
        let no_id = || ApiError::invalid("id_prefix", "is not a prefix of a job id");
        let ids = self.id_prefix.map(|text| JobId::beginning_with(&text).ok_or_else(no_id));
        Ok(Filter {
            ids: ids.transpose()?,
            tenant: self.tenant.map(|tenant| tenant.0),
            states: self.state,
            job_type: self.r#type.map(|name| name.0),
            queue: self.queue.map(|queue| queue.0),
            tag: tag.transpose()?,
            correlation_id: self.correlation_id,
            owner: self.owner,
            parent: self.parent.map(|parent| parent.0),
            created_after: self.created_after.map(|moment| moment.0),
            created_before: self.created_before.map(|moment| moment.0),
            is_redriven: self.redriven,
            is_suspended_by_pause: self.suspended_by_pause,
            ..Filter::default()
        })
    }
}

/// A job filter and a page.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ListQuery {
    /// The id starts with these hexadecimal digits; dashes are ignored.
    id_prefix: Option<String>,
    /// In one of these states, separated by commas.
    #[serde(default, deserialize_with = "states")]
    #[schemars(with = "Option<String>")]
    state: Vec<JobState>,
    /// Of this type.
    r#type: Option<Text<JobType>>,
    /// In this queue.
    queue: Option<Text<QueueName>>,
    /// With this tag, `name:value`.
    tag: Option<String>,
    /// With this correlation id.
    correlation_id: Option<String>,
    /// Submitted by this actor.
    owner: Option<String>,
    /// Spawned by this job.
    parent: Option<Text<JobId>>,
    /// Submitted at or after this.
    created_after: Option<Moment>,
    /// Submitted before this.
    created_before: Option<Moment>,
    /// Whether the job was redriven as a new job.
    redriven: Option<bool>,
    /// Whether an aggressive pause of its queue suspended it.
    suspended_by_pause: Option<bool>,
    /// Of this tenant, for callers that can see several.
    tenant: Option<Text<Tenant>>,
    /// `newest` first, `oldest` first, or in `claim` order: for `state=scheduled`, or a few thousand jobs.
    order: Option<ListOrder>,
    /// Maximum number of jobs, 1 to 500.
    #[schemars(range(min = 1, max = 500))]
    limit: Option<usize>,
    /// `next_cursor` of the previous page.
    cursor: Option<String>,
    /// Include payloads.
    pub(crate) payload: Option<bool>,
}

/// Sort order.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ListOrder {
    Newest,
    Oldest,
    Claim,
}

impl ListQuery {
    /// The library's request.
    pub(crate) fn into_request(self) -> Result<ListRequest, ApiError> {
        let filter = JobFilter {
            id_prefix: self.id_prefix,
            state: self.state,
            r#type: self.r#type,
            queue: self.queue,
            tag: self.tag,
            correlation_id: self.correlation_id,
            owner: self.owner,
            parent: self.parent,
            created_after: self.created_after,
            created_before: self.created_before,
            redriven: self.redriven,
            suspended_by_pause: self.suspended_by_pause,
            tenant: self.tenant,
        };
        let cursor = self.cursor.map(|text| text.parse::<Cursor>()).transpose();
        Ok(ListRequest {
            filter: filter.into_filter()?,
            order: match self.order {
                None | Some(ListOrder::Newest) => Order::Newest,
                Some(ListOrder::Oldest) => Order::Oldest,
                Some(ListOrder::Claim) => Order::Claim,
            },
            cursor: cursor.map_err(|problem| ApiError::invalid("cursor", problem.to_string()))?,
            limit: page_limit(self.limit, limits::PAGE_JOBS_MAX)?,
        })
    }
}

/// Validates the size of a page.
pub(crate) fn page_limit(given: Option<usize>, max: usize) -> Result<usize, ApiError> {
    match given {
        None => Ok(50),
        Some(limit) if (1..=max).contains(&limit) => Ok(limit),
        Some(limit) => Err(ApiError::invalid("limit", format!("is {limit}, allowed is 1 to {max}"))),
    }
}

/// States as a list, or as one text separated by commas.
fn states<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<JobState>, D::Error> {
    deserializer.deserialize_any(StatesVisitor)
}

struct StatesVisitor;

impl<'de> Visitor<'de> for StatesVisitor {
    type Value = Vec<JobState>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("states, separated by commas")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<JobState>, E> {
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        words.map(|word| word.parse().map_err(E::custom)).collect()
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut words: A) -> Result<Vec<JobState>, A::Error> {
        let mut found = Vec::new();
        while let Some(Text(state)) = words.next_element::<Text<JobState>>()? {
            found.push(state);
        }
        Ok(found)
    }

    fn visit_unit<E: de::Error>(self) -> Result<Vec<JobState>, E> {
        Ok(Vec::new())
    }
}
