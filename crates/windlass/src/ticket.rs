//! Signed tickets: proof that a job is the one that was submitted, whoever had the database in between (M94). Pure: keys,
//! signing, verifying. When tickets are issued and asked for is the store's business.

mod signing;
#[cfg(test)]
mod tests;

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use signing::{NotAKey, TicketKey, TicketPublicKey};

use crate::clock::Timestamp;
use crate::job::{JobId, JobType, Tenant};

/// What a ticket is about: the job as it is stored.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The job's id.
    pub id: JobId,
    /// Its type.
    pub job_type: &'a JobType,
    /// Whose it is.
    pub tenant: &'a Tenant,
    /// Who submitted it.
    pub actor: &'a str,
    /// Its payload, byte for byte.
    pub payload: &'a [u8],
}

/// A ticket. As JSON it is an object of texts; what is signed is the same object without `signature`, its names in
/// alphabetical order and no space between them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// Who submitted the job.
    pub actor: String,
    /// When the ticket ends.
    #[serde(with = "moment")]
    pub expires: Timestamp,
    /// The job's id.
    pub id: String,
    /// When it was issued.
    #[serde(with = "moment")]
    pub issued: Timestamp,
    /// Random, so that no two tickets are alike.
    pub nonce: String,
    /// SHA-256 of the payload's bytes, in hexadecimal.
    pub payload_sha256: String,
    /// Whose the job is.
    pub tenant: String,
    /// The job's type.
    #[serde(rename = "type")]
    pub job_type: String,
    /// Ed25519 over all of the above, in hexadecimal.
    pub signature: String,
}

/// What is wrong with a ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TicketFault {
    /// There is none.
    #[error("the job has no ticket")]
    Missing,
    /// No key that is trusted has signed this.
    #[error("the ticket was not signed by a trusted key, or was changed since")]
    BadSignature,
    /// It was issued for another job, or the job was changed since.
    #[error("the ticket was issued for another {0}")]
    OtherJob(&'static str),
    /// Its time is over.
    #[error("the ticket has expired")]
    Expired,
    /// The payload is not the one that was submitted.
    #[error("the payload is not the one that the ticket was issued for")]
    PayloadMismatch,
}

impl TicketFault {
    /// The code that the refused job carries.
    pub fn code(self) -> &'static str {
        match self {
            TicketFault::Missing | TicketFault::BadSignature | TicketFault::OtherJob(_) => "ticket_invalid",
            TicketFault::Expired => "ticket_expired",
            TicketFault::PayloadMismatch => "payload_mismatch",
        }
    }
}

/// What is signed, in the order in which it is.
#[derive(Serialize)]
struct Signed<'a> {
    actor: &'a str,
    #[serde(with = "moment")]
    expires: Timestamp,
    id: &'a str,
    #[serde(with = "moment")]
    issued: Timestamp,
    nonce: &'a str,
    payload_sha256: &'a str,
    tenant: &'a str,
    r#type: &'a str,
}

impl Ticket {
    /// A ticket for a job, signed.
    pub fn issue(
        key: &TicketKey,
        subject: Subject<'_>,
        nonce: u128,
        issued: Timestamp,
        expires: Timestamp,
    ) -> Ticket {
        let mut ticket = Ticket {
            actor: subject.actor.to_owned(),
            expires,
            id: subject.id.to_string(),
            issued,
            nonce: format!("{nonce:032x}"),
            payload_sha256: hexadecimal(&Sha256::digest(subject.payload)),
            tenant: subject.tenant.as_str().to_owned(),
            job_type: subject.job_type.as_str().to_owned(),
            signature: String::new(),
        };
        ticket.signature = hexadecimal(&key.sign(&ticket.signed()));
        ticket
    }

    /// The bytes that are signed.
    pub fn signed(&self) -> Vec<u8> {
        let signed = Signed {
            actor: &self.actor,
            expires: self.expires,
            id: &self.id,
            issued: self.issued,
            nonce: &self.nonce,
            payload_sha256: &self.payload_sha256,
            tenant: &self.tenant,
            r#type: &self.job_type,
        };
        serde_json::to_vec(&signed).expect("texts are always valid JSON")
    }

    /// Whether this ticket is good for this job now.
    ///
    /// # Errors
    /// [`TicketFault`] says what is wrong.
    pub fn verify(
        &self,
        trusted: &[TicketPublicKey],
        subject: Subject<'_>,
        now: Timestamp,
    ) -> Result<(), TicketFault> {
        let signature = from_hexadecimal(&self.signature).ok_or(TicketFault::BadSignature)?;
        let signed = self.signed();
        if !trusted.iter().any(|key| key.has_signed(&signed, &signature)) {
            return Err(TicketFault::BadSignature);
        }
        let fields = [
            ("job", self.id == subject.id.to_string()),
            ("type", self.job_type == subject.job_type.as_str()),
            ("tenant", self.tenant == subject.tenant.as_str()),
            ("actor", self.actor == subject.actor),
        ];
        if let Some((field, _)) = fields.into_iter().find(|(_, is_same)| !is_same) {
            return Err(TicketFault::OtherJob(field));
        }
        if self.payload_sha256 != hexadecimal(&Sha256::digest(subject.payload)) {
            return Err(TicketFault::PayloadMismatch);
        }
        if self.expires <= now { Err(TicketFault::Expired) } else { Ok(()) }
    }
}

/// Bytes as text in lower-case hexadecimal.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _always_fits = write!(text, "{byte:02x}");
        text
    })
}

/// The bytes of a text in lower-case hexadecimal, if it is one of the right length.
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

/// Moments as text, in a ticket and in what is signed alike.
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
