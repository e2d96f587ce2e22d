//! Actions on jobs in the API: on one job, and on all jobs that match a filter.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use windlass_core::error::FieldError;
use windlass_core::job::{JobAction, JobId, Payload, SuspendMode, WorkerVersion};
use windlass_core::settings::patch::Field;
use windlass_core::skip_none;

use crate::expires::Expiry;
use crate::filter::JobFilter;
use crate::json::{Json, two_parts};
use crate::priority::PriorityInput;
use crate::tags::Tags;
use crate::text::Text;
use crate::{invalid, payload};

/// The request has no fields.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "EmptyRequest")]
#[serde(default, deny_unknown_fields)]
pub struct EmptyBody {}

/// How to suspend a job.
#[skip_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SuspendRequest")]
#[serde(default, deny_unknown_fields)]
pub struct SuspendBody {
    /// The reason, for the audit trail.
    pub reason: Option<String>,
    /// What happens to a running attempt.
    pub mode: Option<SuspendParam>,
    /// When the job resumes automatically: a duration or a time.
    pub expires: Option<Expiry>,
}

/// What happens to a running attempt.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SuspendMode")]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "each is named for what it is")]
#[non_exhaustive]
pub enum SuspendParam {
    IdleOnly,
    Graceful,
    Aggressive,
}

impl From<SuspendParam> for SuspendMode {
    fn from(word: SuspendParam) -> SuspendMode {
        match word {
            SuspendParam::IdleOnly => SuspendMode::IdleOnly,
            SuspendParam::Graceful => SuspendMode::Graceful,
            SuspendParam::Aggressive => SuspendMode::Aggressive,
        }
    }
}

impl From<SuspendMode> for SuspendParam {
    fn from(mode: SuspendMode) -> SuspendParam {
        match mode {
            SuspendMode::IdleOnly => SuspendParam::IdleOnly,
            SuspendMode::Graceful => SuspendParam::Graceful,
            SuspendMode::Aggressive => SuspendParam::Aggressive,
        }
    }
}

/// The reason for an action.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ReasonRequest")]
#[serde(default, deny_unknown_fields)]
pub struct ReasonBody {
    /// The reason, for the audit trail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The new priority.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PriorityRequest")]
#[serde(deny_unknown_fields)]
pub struct PriorityBody {
    /// The new priority: 0 to 100, or a name.
    pub value: PriorityInput,
}

/// The changes; fields that are not given stay, null clears a field.
#[skip_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "JobChanges")]
#[serde(default, deny_unknown_fields)]
pub struct PatchBody {
    /// The new priority.
    pub priority: Option<PriorityInput>,
    /// All tags; replaces the existing ones.
    #[schemars(with = "Option<BTreeMap<String, String>>")]
    pub tags: Field<Tags>,
    /// The caller's id for the operation it belongs to.
    pub correlation_id: Field<String>,
    /// URL to call when the job is final.
    pub callback_url: Field<String>,
}

/// How to retry a final job as a new job.
#[skip_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RedriveRequest")]
#[serde(default, deny_unknown_fields)]
pub struct RedriveBody {
    /// Run every step again instead of continuing after the last checkpoint.
    #[serde(deserialize_with = "crate::json::null_as_default")]
    pub reset_checkpoints: bool,
    /// Run this saved step and those after it again, and keep the steps before it. Not with `reset_checkpoints`.
    pub from_step: Option<String>,
    /// Fail if the job was redriven already.
    #[serde(deserialize_with = "crate::json::null_as_default")]
    pub only_once: bool,
    /// The version that the new job requires of its worker, in place of the old one's; null for any.
    pub requires_version: Field<Text<WorkerVersion>>,
    /// Payload of the new job, in place of the old one's: any JSON. Needs the permission to submit jobs.
    #[serde(deserialize_with = "crate::json::present")]
    pub payload: Option<Json>,
    /// Payload of the new job as bytes in base64, instead of `payload`.
    pub payload_base64: Option<String>,
    /// Content type of `payload_base64`.
    pub content_type: Option<String>,
}

impl RedriveBody {
    /// With this payload for the new job.
    #[must_use]
    pub fn with_payload(self, payload: Option<&Payload>) -> RedriveBody {
        let Some(payload) = payload else { return self };
        let (payload, payload_base64, content_type) = payload::fields(payload);
        RedriveBody { payload, payload_base64, content_type, ..self }
    }

    /// The payload for the new job, if one is given.
    pub fn new_payload(&self) -> Result<Option<Payload>, FieldError> {
        let (json, base64) = (self.payload.clone(), self.payload_base64.clone());
        if json.is_none() && base64.is_none() {
            return match &self.content_type {
                Some(_) => Err(invalid("content_type", "requires `payload_base64`")),
                None => Ok(None),
            };
        }
        payload::submitted(json, base64, self.content_type.clone()).map(Some)
    }
}

/// A signal's value.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SignalRequest")]
#[serde(default, deny_unknown_fields)]
pub struct SignalBody {
    /// Any JSON; null if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Json>,
}

/// The stored signal.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SignalReceipt")]
pub struct SignalReceipt {
    /// Id of the job.
    pub id: Text<JobId>,
    /// Name of the signal.
    pub signal: String,
}

/// The action and the jobs.
#[skip_none]
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "BulkRequest")]
#[serde(deny_unknown_fields)]
pub struct BulkBody {
    /// What happens to each job.
    #[serde(deserialize_with = "bulk_action")]
    #[schemars(schema_with = "bulk_actions")]
    pub action: JobAction,
    /// The jobs, as in the list of jobs; `{}` means all.
    pub filter: JobFilter,
    /// The new priority, for the action `priority`.
    pub value: Option<PriorityInput>,
    /// The reason, for the audit trail.
    pub reason: Option<String>,
    /// What happens to running attempts, for the action `suspend`.
    pub mode: Option<SuspendParam>,
    /// Only count the matching jobs.
    #[serde(default, deserialize_with = "crate::json::null_as_default")]
    pub dry_run: bool,
    /// Maximum number of jobs per request, 1 to 10000; all matching jobs if not given.
    #[schemars(range(min = 1, max = 10_000))]
    pub limit: Option<u64>,
    /// `next_cursor` of the previous request; the other fields must not change.
    pub cursor: Option<String>,
}

impl BulkBody {
    /// The action on all jobs that match the filter, without further fields.
    pub fn new(action: JobAction, filter: JobFilter) -> BulkBody {
        let (value, reason, mode, limit, cursor) = (None, None, None, None, None);
        BulkBody { action, filter, value, reason, mode, dry_run: false, limit, cursor }
    }
}

/// One of [`JobAction::BULK`].
fn bulk_action<'de, D: Deserializer<'de>>(from: D) -> Result<JobAction, D::Error> {
    const WORDS: &[&str] = &["suspend", "resume", "cancel", "priority", "redrive", "delete"];
    let text = String::deserialize(from)?;
    let action = text.parse().ok().filter(|action| JobAction::BULK.contains(action));
    action.ok_or_else(|| D::Error::unknown_variant(&text, WORDS))
}

fn bulk_actions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": JobAction::BULK.map(JobAction::as_str)})
}

/// The result of a bulk action.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "BulkResult")]
pub struct BulkAnswer {
    /// Number of matching jobs.
    pub matched: u64,
    /// Number of changed jobs; the others could not be changed or needed no change.
    pub changed: u64,
    /// Number of matching jobs that could not be changed, for example because of their state or because another job needs
    /// them. Left out if zero.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(default)]
    pub skipped: u64,
    /// Cursor for the next request, if a limit was given and there are more jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_without_a_value_is_left_out_and_a_cleared_one_is_null() {
        let text = |body: &PatchBody| serde_json::to_string(body).unwrap();
        assert_eq!(text(&PatchBody::default()), "{}");
        assert_eq!(
            text(&PatchBody { callback_url: Field::Clear, ..PatchBody::default() }),
            r#"{"callback_url":null}"#
        );
        assert_eq!(serde_json::to_string(&SuspendBody::default()).unwrap(), "{}");
        let bulk = BulkBody::new(JobAction::Cancel, JobFilter::default());
        assert_eq!(
            serde_json::to_string(&bulk).unwrap(),
            r#"{"action":"cancel","filter":{},"dry_run":false}"#
        );
    }
}

/// An object after an action.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "{T}ActionResponse", transform = mark_as_variant::<T>)]
pub struct ActionResponse<T> {
    /// The object.
    #[serde(flatten)]
    pub object: T,
    /// Whether the action changed anything; only in the response to an action.
    pub changed: bool,
}

/// Names the schema that the OpenAPI document merges this one into.
fn mark_as_variant<T: JsonSchema>(schema: &mut Schema) {
    schema.insert("x-variant-of".into(), T::schema_name().into());
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for ActionResponse<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ActionResponse<T>, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct ChangeFlag {
            changed: bool,
        }
        let (object, ChangeFlag { changed }) = two_parts(deserializer)?;
        Ok(ActionResponse { object, changed })
    }
}
