//! Signed tickets: proof that a job is the one that was submitted, even if the database was tampered with in
//! between. Pure: keys, signing, verifying. The store decides when tickets are issued and required.

mod signing;
#[cfg(test)]
mod tests;

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use signing::{NotAKey, TicketKey, TicketPublicKey};

use crate::clock::Timestamp;
use crate::job::{JobId, Lane, Spec};
use crate::skip_none;

/// Part of every ticket, so that a signature of this key over other data is never valid for a ticket.
const CONTEXT: &str = "windlass.job-ticket.v1";

/// The job that a ticket is issued for, as stored.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The job's id.
    pub id: JobId,
    /// Its tenant, queue, type and required version.
    pub lane: &'a Lane,
    /// The submitted data.
    pub spec: &'a Spec,
}

/// A ticket. As JSON it is an object of strings; the signed text is the same object without `signature`, with keys in
/// alphabetical order and without spaces. Absent fields are omitted.
#[skip_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// The caller that submitted the job.
    pub actor: String,
    /// The callback URL.
    pub callback_url: Option<String>,
    /// The concurrency key.
    pub concurrency_key: Option<String>,
    /// The content type of the payload.
    #[serde(default)]
    pub content_type: String,
    /// Always `windlass.job-ticket.v1`.
    #[serde(default)]
    pub context: String,
    /// The correlation id.
    pub correlation_id: Option<String>,
    /// When the ticket expires.
    #[serde(with = "moment")]
    pub expires: Timestamp,
    /// The job's id.
    pub id: String,
    /// The idempotency key.
    pub idempotency_key: Option<String>,
    /// When the ticket was issued.
    #[serde(with = "moment")]
    pub issued: Timestamp,
    /// The id of the signing key: [`TicketPublicKey::id`].
    #[serde(default)]
    pub key_id: String,
    /// Random, so that no two tickets are equal.
    pub nonce: String,
    /// SHA-256 of the payload's bytes, in hexadecimal.
    pub payload_sha256: String,
    /// The job's queue.
    #[serde(default)]
    pub queue: String,
    /// The version that the job requires of its worker.
    pub requires_version: Option<String>,
    /// SHA-256 of the job's tags, in hexadecimal: an object of strings, with keys in alphabetical order and without
    /// spaces. Omitted if there are no tags.
    pub tags_sha256: Option<String>,
    /// The job's tenant.
    pub tenant: String,
    /// The W3C trace context.
    pub traceparent: Option<String>,
    /// The job's type.
    #[serde(rename = "type")]
    pub job_type: String,
    /// The unique key.
    pub unique_key: Option<String>,
    /// Ed25519 signature over all other fields, in hexadecimal.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub signature: String,
}

/// What is wrong with a ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TicketFault {
    /// The job has no ticket.
    #[error("the job has no ticket")]
    Missing,
    /// No trusted key has signed the ticket.
    #[error("the ticket was not signed by a trusted key, or was modified")]
    BadSignature,
    /// It was issued for another job, or the job was modified.
    #[error("the ticket was issued for another {0}")]
    OtherJob(&'static str),
    /// The ticket has expired.
    #[error("the ticket has expired")]
    Expired,
    /// The payload is not the submitted one.
    #[error("the payload differs from the one that the ticket was issued for")]
    PayloadMismatch,
}

impl TicketFault {
    /// The error code of the refused job.
    pub fn code(self) -> &'static str {
        match self {
            TicketFault::Missing | TicketFault::BadSignature | TicketFault::OtherJob(_) => "ticket_invalid",
            TicketFault::Expired => "ticket_expired",
            TicketFault::PayloadMismatch => "payload_mismatch",
        }
    }
}

impl Ticket {
    /// Issues a signed ticket for a job.
    pub fn issue(
        key: &TicketKey,
        subject: Subject<'_>,
        nonce: u128,
        issued: Timestamp,
        expires: Timestamp,
    ) -> Ticket {
        let unsigned = Ticket::unsigned(subject, key.public().id(), format!("{nonce:032x}"), issued, expires);
        let signature = hexadecimal(&key.sign(&unsigned.signed()));
        Ticket { signature, ..unsigned }
    }

    /// The unsigned ticket of this job.
    fn unsigned(
        subject: Subject<'_>,
        key_id: String,
        nonce: String,
        issued: Timestamp,
        expires: Timestamp,
    ) -> Ticket {
        let Subject { id, lane, spec } = subject;
        let tags = &spec.metadata.tags;
        let tags_sha256 = || sha256(&serde_json::to_vec(tags).expect("texts are always valid JSON"));
        Ticket {
            actor: spec.owner.clone(),
            callback_url: spec.metadata.callback_url.clone(),
            concurrency_key: spec.concurrency_key.clone(),
            content_type: spec.payload.content_type.to_string(),
            context: CONTEXT.to_owned(),
            correlation_id: spec.metadata.correlation_id.clone(),
            expires,
            id: id.to_string(),
            idempotency_key: spec.idempotency_key.clone(),
            issued,
            key_id,
            nonce,
            payload_sha256: sha256(&spec.payload.bytes),
            queue: lane.queue.as_str().to_owned(),
            requires_version: lane.version.as_ref().map(|version| version.as_str().to_owned()),
            tags_sha256: (!tags.is_empty()).then(tags_sha256),
            tenant: lane.tenant.as_str().to_owned(),
            traceparent: spec.traceparent.clone(),
            job_type: lane.job_type.as_str().to_owned(),
            unique_key: spec.unique_key.clone(),
            signature: String::new(),
        }
    }

    /// The bytes that are signed.
    pub fn signed(&self) -> Vec<u8> {
        let unsigned = Ticket { signature: String::new(), ..self.clone() };
        serde_json::to_vec(&unsigned).expect("texts are always valid JSON")
    }

    /// Verifies that this ticket is valid for this job now.
    ///
    /// # Errors
    /// [`TicketFault`] describes the problem.
    pub fn verify(
        &self,
        trusted: &[TicketPublicKey],
        subject: Subject<'_>,
        now: Timestamp,
    ) -> Result<(), TicketFault> {
        let signature = from_hexadecimal(&self.signature).ok_or(TicketFault::BadSignature)?;
        let signed = self.signed();
        let mut keys = trusted.iter().filter(|key| key.id() == self.key_id);
        if self.context != CONTEXT || !keys.any(|key| key.has_signed(&signed, &signature)) {
            return Err(TicketFault::BadSignature);
        }
        let own =
            Ticket::unsigned(subject, self.key_id.clone(), self.nonce.clone(), self.issued, self.expires);
        if let Some(field) = self.difference(&own) {
            return Err(TicketFault::OtherJob(field));
        }
        if self.payload_sha256 != own.payload_sha256 {
            return Err(TicketFault::PayloadMismatch);
        }
        if self.expires <= now { Err(TicketFault::Expired) } else { Ok(()) }
    }

    /// The first field, except for the payload, in which two tickets differ.
    fn difference(&self, other: &Ticket) -> Option<&'static str> {
        let fields = [
            ("job", self.id == other.id),
            ("type", self.job_type == other.job_type),
            ("tenant", self.tenant == other.tenant),
            ("queue", self.queue == other.queue),
            ("worker version", self.requires_version == other.requires_version),
            ("actor", self.actor == other.actor),
            ("content type", self.content_type == other.content_type),
            ("callback URL", self.callback_url == other.callback_url),
            ("idempotency key", self.idempotency_key == other.idempotency_key),
            ("unique key", self.unique_key == other.unique_key),
            ("concurrency key", self.concurrency_key == other.concurrency_key),
            ("correlation id", self.correlation_id == other.correlation_id),
            ("trace", self.traceparent == other.traceparent),
            ("set of tags", self.tags_sha256 == other.tags_sha256),
        ];
        fields.into_iter().find(|(_, is_same)| !is_same).map(|(field, _)| field)
    }
}

/// SHA-256 in hexadecimal.
fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

/// Bytes as text in lower-case hexadecimal.
pub fn hexadecimal(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _always_fits = write!(text, "{byte:02x}");
        text
    })
}

/// Decodes lower-case hexadecimal of the right length.
fn from_hexadecimal<const LENGTH: usize>(text: &str) -> Option<[u8; LENGTH]> {
    let digit = |byte: u8| char::from(byte).to_digit(16).filter(|_| !byte.is_ascii_uppercase());
    let mut bytes = [0; LENGTH];
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != LENGTH || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()?;
    }
    Some(bytes)
}

/// Timestamps as text, both in the ticket and in the signed text.
mod moment {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::clock::Timestamp;

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
    pub(super) fn serialize<S: Serializer>(at: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(at)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
        let text = String::deserialize(from)?;
        let moment: jiff::Timestamp = text.parse().map_err(serde::de::Error::custom)?;
        Ok(Timestamp::from_millis(moment.as_millisecond()))
    }
}
