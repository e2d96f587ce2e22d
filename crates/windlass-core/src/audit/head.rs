//! The head of the audit trail: its newest seal as text to store externally, and signed seals.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Seal;
use crate::ticket::{TicketKey, TicketPublicKey};

/// A text that is not the head of an audit trail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a head of an audit trail: the number of a record, a colon and 64 hexadecimal digits")]
pub struct NotAHead;

/// `NUMBER:HASH`, as `windlass audit head` prints it.
impl fmt::Display for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.through, self.hash)
    }
}

impl FromStr for Seal {
    type Err = NotAHead;

    fn from_str(text: &str) -> Result<Seal, NotAHead> {
        let (number, hash) = text.trim().split_once(':').ok_or(NotAHead)?;
        // `parse` would accept a sign.
        let is_plain = number.bytes().all(|byte| byte.is_ascii_digit());
        let through = number.parse().ok().filter(|number| is_plain && *number > 0).ok_or(NotAHead)?;
        let is_hash = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_hash { Ok(Seal { through, hash: hash.to_ascii_lowercase() }) } else { Err(NotAHead) }
    }
}

/// A stored seal; signed if the store has a signing key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealPoint {
    /// The seal of the chain.
    #[serde(flatten)]
    pub seal: Seal,
    /// The signature, if the store has a signing key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<SealSignature>,
}

/// An Ed25519 signature over a seal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealSignature {
    /// The public key, as text.
    pub key: String,
    /// The signature, in hexadecimal.
    pub value: String,
}

impl SealPoint {
    /// The seal, signed if there is a key.
    pub fn new(seal: Seal, key: Option<&TicketKey>) -> SealPoint {
        let signature = key.map(|key| SealSignature {
            key: key.public().to_string(),
            value: key.sign_text(&SealPoint::signed_text(&seal)),
        });
        SealPoint { seal, signature }
    }

    /// What is wrong with the signature. `trusted` are the trusted keys; if empty, any key is.
    pub fn signature_fault(&self, trusted: &[TicketPublicKey]) -> Option<&'static str> {
        let signature = self.signature.as_ref()?;
        let Ok(key) = signature.key.parse::<TicketPublicKey>() else { return Some("has no valid key") };
        if !trusted.is_empty() && !trusted.contains(&key) {
            return Some("was made with an untrusted key");
        }
        let is_good = key.has_signed_text(&SealPoint::signed_text(&self.seal), &signature.value);
        (!is_good).then_some("does not match the seal")
    }

    /// The signed text. It has its own prefix, so that a signature over a ticket is never valid for a seal.
    fn signed_text(seal: &Seal) -> String {
        format!("windlass audit seal\n{seal}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seal() -> Seal {
        Seal { through: 7, hash: "ab".repeat(32) }
    }

    #[test]
    fn a_head_reads_back_from_its_text() {
        assert_eq!(seal().to_string().parse(), Ok(seal()));
        assert_eq!(format!(" 7:{}\n", "AB".repeat(32)).parse(), Ok(seal()));
        for wrong in ["", "7", "0:", ":ab", "7:ab", "x:ab", &format!("0:{}", "ab".repeat(32))] {
            assert_eq!(wrong.parse::<Seal>(), Err(NotAHead), "{wrong}");
        }
    }

    /// Model: audit-chain
    #[test]
    fn a_signed_seal_counts_as_it_was_signed_and_by_trusted_keys_only() {
        let (key, other) = (TicketKey::new([1, 2]), TicketKey::new([3, 4]));
        let point = SealPoint::new(seal(), Some(&key));
        assert_eq!(point.signature_fault(&[]), None);
        assert_eq!(point.signature_fault(&[other.public(), key.public()]), None);
        assert_eq!(point.signature_fault(&[other.public()]), Some("was made with an untrusted key"));
        let moved = SealPoint { seal: Seal { through: 8, ..seal() }, ..point.clone() };
        assert_eq!(moved.signature_fault(&[]), Some("does not match the seal"));
        let json = serde_json::to_string(&point).unwrap();
        assert_eq!(serde_json::from_str::<SealPoint>(&json).unwrap(), point);
        let plain = serde_json::to_string(&seal()).unwrap();
        assert_eq!(serde_json::from_str::<SealPoint>(&plain).unwrap(), SealPoint::new(seal(), None));
    }
}
