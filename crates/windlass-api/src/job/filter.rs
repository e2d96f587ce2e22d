//! Job filters: the same in a query and in the body of a bulk action.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use windlass_core::job::{JobId, JobState, JobType, QueueName, Tenant};

use crate::text::Text;
use crate::time::Moment;

/// Declares [`JobFilter`] and [`ListQuery`], which has the same fields and a page. `serde(flatten)` cannot do this: it
/// reads numbers and flags of a query as texts.
macro_rules! filters {
    ($($(#[$attribute:meta])* $field:ident: $type:ty,)*) => {
        /// A job filter; an empty filter matches all jobs.
        #[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
        #[serde(default, deny_unknown_fields)]
        pub struct JobFilter {
            $($(#[$attribute])* pub $field: $type,)*
        }

        /// A job filter and a page.
        #[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
        pub struct ListQuery {
            $($(#[$attribute])* pub $field: $type,)*
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
                JobFilter { $($field: self.$field,)* }
            }
        }

        impl From<JobFilter> for ListQuery {
            fn from(filter: JobFilter) -> ListQuery {
                ListQuery { $($field: filter.$field,)* order: None, limit: None, cursor: None, payload: None }
            }
        }
    };
}

filters! {
    /// The id starts with these hexadecimal digits; dashes are ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    id_prefix: Option<String>,
    /// In one of these states, separated by commas.
    #[serde(default, deserialize_with = "states", serialize_with = "joined", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<String>")]
    state: Vec<JobState>,
    /// Of this type.
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<Text<JobType>>,
    /// In this queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<Text<QueueName>>,
    /// With this tag, `name:value`.
    #[serde(skip_serializing_if = "Option::is_none")]
    tag: Option<String>,
    /// With this correlation id.
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: Option<String>,
    /// Submitted by this actor.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    /// Spawned by this job.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<Text<JobId>>,
    /// Submitted at or after this.
    #[serde(skip_serializing_if = "Option::is_none")]
    created_after: Option<Moment>,
    /// Submitted before this.
    #[serde(skip_serializing_if = "Option::is_none")]
    created_before: Option<Moment>,
    /// Whether the job was redriven as a new job.
    #[serde(skip_serializing_if = "Option::is_none")]
    redriven: Option<bool>,
    /// Whether an aggressive pause of its queue suspended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    suspended_by_pause: Option<bool>,
    /// Of this tenant, for callers that can see several.
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<Text<Tenant>>,
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
