//! Signatures by which a receiver knows who calls: Standard Webhooks, version `v1` (HMAC with SHA-256). Keeping the secrets
//! is the store's business.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use ring::hmac;
use windlass::clock::Timestamp;

const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// How the text of every secret begins.
const PREFIX: &str = "whsec_";

/// A secret that is shared with receivers.
#[derive(Clone)]
pub struct SigningKey(hmac::Key);

/// Never shows the secret.
impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(whsec_…)")
    }
}

impl SigningKey {
    /// Reads a secret's text; none if it is no secret.
    pub fn parse(text: &str) -> Option<SigningKey> {
        let bytes = STANDARD.decode(text.strip_prefix(PREFIX)?).ok()?;
        (!bytes.is_empty()).then(|| SigningKey(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
    }

    fn sign(&self, id: &str, seconds: i64, body: &[u8]) -> String {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(format!("{id}.{seconds}.").as_bytes());
        context.update(body);
        format!("v1,{}", STANDARD.encode(context.sign()))
    }
}

/// The header lines that sign `body`, once with each key: while a secret is replaced, receivers with either one believe it.
/// `id` is that of the message, the same whenever it is sent again.
pub fn sign(id: &str, at: Timestamp, body: &[u8], keys: &[SigningKey]) -> HeaderMap {
    let seconds = at.as_millis() / 1000;
    let signatures: Vec<String> = keys.iter().map(|key| key.sign(id, seconds, body)).collect();
    let line = |text: String| HeaderValue::try_from(text).expect("ids, numbers and base64 are plain ASCII");
    let mut headers = HeaderMap::new();
    headers.insert(ID, line(id.to_owned()));
    headers.insert(TIMESTAMP, line(seconds.to_string()));
    headers.insert(SIGNATURE, line(signatures.join(" ")));
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const OTHER: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

    fn key(text: &str) -> SigningKey {
        SigningKey::parse(text).expect("it is a secret")
    }

    /// The example of the specification.
    #[test]
    fn the_published_example_is_signed_alike() {
        let body = br#"{"test": 2432232314}"#;
        let headers = sign(
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            Timestamp::from_millis(1_614_265_330_999),
            body,
            &[key(SECRET)],
        );
        assert_eq!(headers[TIMESTAMP], "1614265330");
        assert_eq!(headers[SIGNATURE], "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    /// Judged by the reference implementation, which reads the machine's own clock.
    #[test]
    fn receivers_with_either_secret_believe_it_while_one_is_replaced() {
        let now = windlass::clock::Clock::now(&windlass::clock::SystemClock::new());
        let headers = sign("msg_1", now, b"{}", &[key(SECRET), key(OTHER)]);
        for secret in [SECRET, OTHER] {
            let webhook = standardwebhooks::Webhook::new(secret).unwrap();
            webhook.verify(b"{}", &headers).unwrap();
            assert!(webhook.verify(b"{} ", &headers).is_err());
        }
        let stranger = standardwebhooks::Webhook::new("whsec_c3RyYW5nZXI=").unwrap();
        assert!(stranger.verify(b"{}", &headers).is_err());
    }

    #[test]
    fn what_is_no_secret_is_not_taken_for_one() {
        for text in ["", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_!!!", "sk_c3RyYW5nZXI="] {
            assert!(SigningKey::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_secret_is_never_shown() {
        assert!(!format!("{:?}", key(SECRET)).contains("MfKQ"));
    }
}
