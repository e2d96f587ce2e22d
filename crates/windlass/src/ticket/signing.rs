//! The keys of tickets: one that signs, and one that anybody may have to verify. Ed25519, as text for files and settings.

use std::fmt;
use std::str::FromStr;

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use sha2::{Digest, Sha256};

use super::{from_hexadecimal, hexadecimal};

/// What the text of a signing key begins with.
const SECRET_PREFIX: &str = "wtsk_";
/// What the text of a public key begins with.
const PUBLIC_PREFIX: &str = "wtpk_";
/// Enough to tell one's own keys apart; the signature decides.
const KEY_ID_BYTES: usize = 8;

/// A text that is no key for tickets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a key for tickets: `{0}` and 64 hexadecimal digits")]
pub struct NotAKey(&'static str);

/// The key that tickets are signed with; whoever has it can issue any.
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

    /// The key as text, to be kept where nobody else reads it.
    pub fn reveal(&self) -> String {
        format!("{SECRET_PREFIX}{}", hexadecimal(self.0.as_bytes()))
    }

    /// The key that verifies what this one signs.
    pub fn public(&self) -> TicketPublicKey {
        TicketPublicKey(self.0.verifying_key())
    }

    /// The signature over a text, in hexadecimal.
    pub(crate) fn sign_text(&self, text: &str) -> String {
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

/// Shows the public part only: a secret is never logged.
impl fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TicketKey({})", self.public())
    }
}

/// The key that tickets are verified with; it can issue none.
#[derive(Clone, PartialEq, Eq)]
pub struct TicketPublicKey(VerifyingKey);

impl TicketPublicKey {
    /// What tickets name the key by: the first 8 bytes of its SHA-256, in hexadecimal.
    pub fn id(&self) -> String {
        hexadecimal(&Sha256::digest(self.0.as_bytes())[..KEY_ID_BYTES])
    }

    /// Whether this signature over this message is the key's. Strictly: nobody can make another that counts too.
    pub(super) fn has_signed(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        self.0.verify_strict(message, &Signature::from_bytes(signature)).is_ok()
    }

    /// Whether this is the key's signature over a text, in hexadecimal.
    pub(crate) fn has_signed_text(&self, text: &str, signature: &str) -> bool {
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
