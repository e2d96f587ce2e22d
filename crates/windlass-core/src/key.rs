//! The secrets of API keys as text: how they are created and parsed, and which hash is stored. The store decides what a
//! key may do.

mod job_token;
#[cfg(test)]
mod tests;

use std::fmt::{self, Write as _};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

pub use self::job_token::JobToken;
use crate::entropy::Entropy;

/// Prefix of every secret, so that scanners find leaked secrets.
const PREFIX: &str = "wl_";
/// Hexadecimal digits of a key's id: 64 bits.
const ID_DIGITS: usize = 16;
/// Hexadecimal digits of the random part: 256 bits.
const RANDOM_DIGITS: usize = 64;
/// Hexadecimal digits of the checksum: 32 bits.
const CHECK_DIGITS: usize = 8;

/// A key's id: part of its secret, and shown to people.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyId(String);

impl KeyId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text that is not a key id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the id of an API key")]
pub struct NotAKeyId;

impl FromStr for KeyId {
    type Err = NotAKeyId;

    fn from_str(text: &str) -> Result<KeyId, NotAKeyId> {
        if text.len() == ID_DIGITS && is_hexadecimal(text) {
            Ok(KeyId(text.to_owned()))
        } else {
            Err(NotAKeyId)
        }
    }
}

impl TryFrom<String> for KeyId {
    type Error = NotAKeyId;

    fn try_from(text: String) -> Result<KeyId, NotAKeyId> {
        text.parse()
    }
}

impl From<KeyId> for String {
    fn from(id: KeyId) -> String {
        id.0
    }
}

/// A key's secret: `wl_`, the key's id, 256 random bits and a checksum. Shown once, when the key is created.
#[derive(Clone, PartialEq, Eq)]
pub struct KeySecret {
    text: String,
}

impl KeySecret {
    /// A new secret, from 64 random bits for the id and 256 for the rest.
    pub fn new(id: u64, random: [u128; 2]) -> KeySecret {
        let [high, low] = random;
        let body = format!("{PREFIX}{id:016x}_{high:032x}{low:032x}");
        KeySecret { text: format!("{body}{:08x}", crc32fast::hash(body.as_bytes())) }
    }

    /// A new secret.
    pub fn random(entropy: &Entropy) -> KeySecret {
        KeySecret::new(entropy.next_u64(), [entropy.bits(), entropy.bits()])
    }

    /// Parses a secret. The checksum detects typing errors without a read from the store.
    pub fn parse(text: &str) -> Option<KeySecret> {
        let rest = text.strip_prefix(PREFIX)?;
        let (id, random) = rest.split_once('_')?;
        let is_whole = id.len() == ID_DIGITS && random.len() == RANDOM_DIGITS + CHECK_DIGITS;
        if !is_whole || !is_hexadecimal(id) || !is_hexadecimal(random) {
            return None;
        }
        let (body, check) = text.split_at(text.len() - CHECK_DIGITS);
        let expected = format!("{:08x}", crc32fast::hash(body.as_bytes()));
        (check == expected).then(|| KeySecret { text: text.to_owned() })
    }

    /// The id of the key it belongs to.
    pub fn id(&self) -> KeyId {
        KeyId(self.text[PREFIX.len()..PREFIX.len() + ID_DIGITS].to_owned())
    }

    /// The secret itself; show it to its owner only.
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// The stored hash. A plain hash is enough: 256 random bits cannot be guessed, however fast the hash is.
    pub fn hash(&self) -> KeyHash {
        let digest = Sha256::digest(self.text.as_bytes());
        let mut text = String::with_capacity(64);
        for byte in digest {
            let _always_fits = write!(text, "{byte:02x}");
        }
        KeyHash(text)
    }
}

/// Prints the id only: a secret is never logged.
impl fmt::Debug for KeySecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeySecret({})", self.id())
    }
}

/// The stored hash of a secret: SHA-256, in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeyHash(String);

impl KeyHash {
    /// The hash of a key stored by a remote server; it matches no secret.
    pub fn unknown() -> KeyHash {
        KeyHash(String::new())
    }

    /// Whether this is the hash of that secret; constant time.
    pub fn matches(&self, secret: &KeySecret) -> bool {
        self.0.as_bytes().ct_eq(secret.hash().0.as_bytes()).into()
    }
}

fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}
