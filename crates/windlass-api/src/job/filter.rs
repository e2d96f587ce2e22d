//! Job filters: the same in a query and in the body of a bulk action.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use windlass_core::job::{JobId, JobState, JobType, QueueName, Tenant};

use crate::text::Text;
use crate::time::Moment;

/// A job filter; an empty filter matches all jobs.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct JobFilter {
    /// The id starts with these hexadecimal digits; dashes are ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id_prefix: Option<String>,
    /// In one of these states, separated by commas.
    #[serde(deserialize_with = "states", serialize_with = "joined", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<String>")]
    pub state: Vec<JobState>,
    /// Of this type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#type: Option<Text<JobType>>,
    /// In this queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<Text<QueueName>>,
    /// With this tag, `name:value`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// With this correlation id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// Submitted by this actor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Spawned by this job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<Text<JobId>>,
    /// Submitted at or after this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_after: Option<Moment>,
    /// Submitted before this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_before: Option<Moment>,
    /// Whether the job was redriven as a new job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redriven: Option<bool>,
    /// Whether an aggressive pause of its queue suspended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspended_by_pause: Option<bool>,
    /// Of this tenant, for callers that can see several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Text<Tenant>>,
}

/// A job filter and a page.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ListQuery {
    /// The id starts with these hexadecimal digits; dashes are ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id_prefix: Option<String>,
    /// In one of these states, separated by commas.
    #[serde(
        default,
        deserialize_with = "states",
        serialize_with = "joined",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(with = "Option<String>")]
    pub state: Vec<JobState>,
    /// Of this type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#type: Option<Text<JobType>>,
    /// In this queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<Text<QueueName>>,
    /// With this tag, `name:value`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// With this correlation id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// Submitted by this actor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Spawned by this job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<Text<JobId>>,
    /// Submitted at or after this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_after: Option<Moment>,
    /// Submitted before this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_before: Option<Moment>,
    /// Whether the job was redriven as a new job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redriven: Option<bool>,
    /// Whether an aggressive pause of its queue suspended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspended_by_pause: Option<bool>,
    /// Of this tenant, for callers that can see several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Text<Tenant>>,
    /// `newest` first, `oldest` first, or in `claim` order: for `state=scheduled`, or a few thousand jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<ListOrder>,
    /// Maximum number of jobs, 1 to 500.
    #[schemars(range(min = 1, max = 500))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// `next_cursor` of the previous page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Include payloads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<bool>,
}

impl ListQuery {
    /// The filter without the page.
    pub fn into_filter(self) -> JobFilter {
        JobFilter {
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
        }
    }
}

impl From<JobFilter> for ListQuery {
    fn from(filter: JobFilter) -> ListQuery {
        ListQuery {
            id_prefix: filter.id_prefix,
            state: filter.state,
            r#type: filter.r#type,
            queue: filter.queue,
            tag: filter.tag,
            correlation_id: filter.correlation_id,
            owner: filter.owner,
            parent: filter.parent,
            created_after: filter.created_after,
            created_before: filter.created_before,
            redriven: filter.redriven,
            suspended_by_pause: filter.suspended_by_pause,
            tenant: filter.tenant,
            order: None,
            limit: None,
            cursor: None,
            payload: None,
        }
    }
}

/// Sort order.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "each is named for what it is")]
pub enum ListOrder {
    Newest,
    Oldest,
    Claim,
}

/// States as a list, or as one text separated by commas.
fn states<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<JobState>, D::Error> {
    deserializer.deserialize_any(StatesVisitor)
}

fn joined<S: Serializer>(states: &[JobState], serializer: S) -> Result<S::Ok, S::Error> {
    let words: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
    serializer.serialize_str(&words.join(","))
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
