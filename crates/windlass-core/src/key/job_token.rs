//! Tokens that read one job for a short time, for pages in browsers. A token is signed with the stored hash of an API key,
//! so that it needs no storage of its own and ends with its key.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::{KeyHash, KeyId};
use crate::clock::Timestamp;
use crate::job::JobId;

/// Prefix of every token, so that scanners find leaked tokens.
const PREFIX: &str = "wlj_";
/// Part of what is signed, so that a signature over other data is never valid for a token.
const CONTEXT: &str = "windlass.job-token.v1";
/// Bytes of a block of SHA-256.
const BLOCK: usize = 64;

/// A token: which job it reads, with whose key, until when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobToken {
    /// The key that made it.
    pub key: KeyId,
    /// The job that it reads.
    pub job: JobId,
    /// When it ends.
    pub expires_at: Timestamp,
    signature: String,
}

impl JobToken {
    /// A token of the key with this hash.
    pub fn new(key: KeyId, hash: &KeyHash, job: JobId, expires_at: Timestamp) -> JobToken {
        let signature = signature(hash, &key, job, expires_at);
        JobToken { key, job, expires_at, signature }
    }

    /// Whether a text is meant to be a token, valid or not.
    pub fn is_meant(text: &str) -> bool {
        text.starts_with(PREFIX)
    }

    /// Reads a token; whether it is valid is decided by [`is_signed_with`](JobToken::is_signed_with).
    pub fn parse(text: &str) -> Option<JobToken> {
        let mut parts = text.strip_prefix(PREFIX)?.split('_');
        let (key, job, expires_at, signature) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() || signature.len() != 64 {
            return None;
        }
        let token = JobToken {
            key: key.parse().ok()?,
            job: job.parse().ok()?,
            expires_at: Timestamp::from_millis(i64::from_str_radix(expires_at, 16).ok()?),
            signature: signature.to_owned(),
        };
        // Ids and numbers can be written in several ways, a token in one: what is blocked by its text stays blocked.
        (token.reveal() == text).then_some(token)
    }

    /// The token as text; show it to the page that reads the job only.
    pub fn reveal(&self) -> String {
        let JobToken { key, job, expires_at, signature } = self;
        format!("{PREFIX}{key}_{job}_{:x}_{signature}", expires_at.as_millis())
    }

    /// Whether it was made with the key of this hash; constant time.
    pub fn is_signed_with(&self, hash: &KeyHash) -> bool {
        let expected = signature(hash, &self.key, self.job, self.expires_at);
        !hash.0.is_empty() && expected.as_bytes().ct_eq(self.signature.as_bytes()).into()
    }
}

fn signature(hash: &KeyHash, key: &KeyId, job: JobId, expires_at: Timestamp) -> String {
    let text = format!("{CONTEXT} {key} {job} {}", expires_at.as_millis());
    let mut hexadecimal = String::with_capacity(64);
    for byte in hmac(hash.0.as_bytes(), text.as_bytes()) {
        let _always_fits = write!(hexadecimal, "{byte:02x}");
    }
    hexadecimal
}

/// HMAC-SHA-256 (RFC 2104) with a key of at most one block.
fn hmac(key: &[u8], text: &[u8]) -> [u8; 32] {
    let pad = |with: u8| {
        let mut block = [with; BLOCK];
        block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
        block
    };
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::super::KeySecret;
    use super::*;

    #[test]
    fn the_code_is_that_of_the_standard() {
        // RFC 4231, test case 2.
        let code = hmac(b"Jefe", b"what do ya want for nothing?");
        assert_eq!(code[..4], [0x5b, 0xdc, 0xc1, 0x46]);
        assert_eq!(code[28..], [0x64, 0xec, 0x38, 0x43]);
    }

    #[test]
    fn a_token_is_valid_for_its_key_job_and_end_only() {
        let secret = KeySecret::new(7, [1, 2]);
        let (id, hash) = (secret.id(), secret.hash());
        let now = Timestamp::from_millis(1_000_000);
        let job = JobId::new(now, 5);
        let token = JobToken::new(id.clone(), &hash, job, now);
        let text = token.reveal();
        assert!(JobToken::is_meant(&text) && !JobToken::is_meant(secret.reveal()));
        assert_eq!(JobToken::parse(&text), Some(token.clone()));
        assert!(token.is_signed_with(&hash));
        assert!(!token.is_signed_with(&KeySecret::new(7, [1, 3]).hash()));
        assert!(!token.is_signed_with(&KeyHash::unknown()));
        let unsigned = JobToken::new(id, &KeyHash::unknown(), job, now);
        assert!(!unsigned.is_signed_with(&KeyHash::unknown()));
        let changed = [
            JobToken { job: JobId::new(now, 6), ..token.clone() },
            JobToken { expires_at: now.plus(std::time::Duration::from_secs(1)), ..token.clone() },
            JobToken { key: KeySecret::new(8, [1, 2]).id(), ..token.clone() },
        ];
        for changed in changed {
            assert!(!JobToken::parse(&changed.reveal()).unwrap().is_signed_with(&hash));
        }
        for wrong in ["wlj_", "wl_1", &text[1..], &text[..text.len() - 1], &format!("{text}_1")] {
            assert_eq!(JobToken::parse(wrong), None, "{wrong}");
        }
    }
}
