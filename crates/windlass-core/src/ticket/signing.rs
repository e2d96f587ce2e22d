//! The keys of tickets: a private key that signs, and a public key that verifies. Ed25519, as text for files and
//! settings.

use std::fmt;
use std::str::FromStr;

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use sha2::{Digest, Sha256};

use super::{from_hexadecimal, hexadecimal};

/// Prefix of a private key's text.
const SECRET_PREFIX: &str = "wtsk_";
/// Prefix of a public key's text.
const PUBLIC_PREFIX: &str = "wtpk_";
/// Enough to distinguish one's own keys; the signature decides.
const KEY_ID_BYTES: usize = 8;

/// A text that is not a ticket key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a ticket key: it must be `{0}` and 64 hexadecimal digits")]
pub struct NotAKey(&'static str);

/// The private key that signs tickets; its holder can issue any ticket.
#[derive(Clone, PartialEq, Eq)]
pub struct TicketKey(SigningKey);

impl TicketKey {
    /// A new key, from 256 random bits.
    pub fn new(random: [u128; 2]) -> TicketKey {
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&random[0].to_be_bytes());
        bytes[16..].copy_from_slice(&random[1].to_be_bytes());
        TicketKey(SigningKey::from_bytes(&bytes))
    }

    /// The key as text. Keep it secret.
    pub fn reveal(&self) -> String {
        format!("{SECRET_PREFIX}{}", hexadecimal(self.0.as_bytes()))
    }

    /// The public key that verifies its signatures.
    pub fn public(&self) -> TicketPublicKey {
        TicketPublicKey(self.0.verifying_key())
    }

    /// The signature over a text, in hexadecimal.
    pub fn sign_text(&self, text: &str) -> String {
        hexadecimal(&self.sign(text.as_bytes()))
    }

    pub(super) fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.0.sign(message).to_bytes()
    }
}

impl FromStr for TicketKey {
    type Err = NotAKey;

    fn from_str(text: &str) -> Result<TicketKey, NotAKey> {
        let bytes = text.trim().strip_prefix(SECRET_PREFIX).and_then(from_hexadecimal);
        Ok(TicketKey(SigningKey::from_bytes(&bytes.ok_or(NotAKey(SECRET_PREFIX))?)))
    }
}

/// Prints the public part only: a secret is never logged.
impl fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TicketKey({})", self.public())
    }
}

/// The public key that verifies tickets; it cannot issue any.
#[derive(Clone, PartialEq, Eq)]
pub struct TicketPublicKey(VerifyingKey);

impl TicketPublicKey {
    /// The key id in tickets: the first 8 bytes of the key's SHA-256, in hexadecimal.
    pub fn id(&self) -> String {
        hexadecimal(&Sha256::digest(self.0.as_bytes())[..KEY_ID_BYTES])
    }

    /// Whether this is the key's signature over the message. Strict verification, so that signatures are not malleable.
    pub(super) fn has_signed(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        self.0.verify_strict(message, &Signature::from_bytes(signature)).is_ok()
    }

    /// Whether this is the key's signature over a text, in hexadecimal.
    pub fn has_signed_text(&self, text: &str, signature: &str) -> bool {
        from_hexadecimal(signature).is_some_and(|signature| self.has_signed(text.as_bytes(), &signature))
    }
}

impl FromStr for TicketPublicKey {
    type Err = NotAKey;

    fn from_str(text: &str) -> Result<TicketPublicKey, NotAKey> {
        let bytes = text.trim().strip_prefix(PUBLIC_PREFIX).and_then(from_hexadecimal);
        let key = bytes.and_then(|bytes| VerifyingKey::from_bytes(&bytes).ok());
        key.map(TicketPublicKey).ok_or(NotAKey(PUBLIC_PREFIX))
    }
}

impl fmt::Display for TicketPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PUBLIC_PREFIX}{}", hexadecimal(self.0.as_bytes()))
    }
}

impl fmt::Debug for TicketPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
