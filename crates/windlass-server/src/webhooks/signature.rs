//! Webhook signatures: Standard Webhooks, version `v1` (HMAC with SHA-256), and our own over the headers. Each endpoint has
//! its own secret, derived from the tenant's, so that a message for one receiver is not valid at another. The store manages
//! the tenants' secrets.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use ring::{digest, hmac};
use windlass::clock::Timestamp;
use windlass::webhook_url::{TargetError, WebhookUrl};

const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
const AUDIENCE: HeaderName = HeaderName::from_static("windlass-audience");
const EVENT: HeaderName = HeaderName::from_static("windlass-event");
const HEADERS_SIGNATURE: HeaderName = HeaderName::from_static("windlass-signature");

/// The prefix of every secret.
const PREFIX: &str = "whsec_";
/// The context of the key derivation, which separates it from any other use of the tenant's secret.
const CONTEXT: &str = "windlass.webhook.v1";

/// What an endpoint is called for. Each purpose has its own secret: otherwise a caller who may choose a callback address
/// could have a signed message sent to a push target, which would take it for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Callbacks.
    Callback,
    /// Pushed jobs.
    Push,
    /// Messages of alerts.
    Alert,
}

/// A receiver: its address without query and fragment, and its purpose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    address: String,
    purpose: Purpose,
}

impl Endpoint {
    /// The endpoint at this address.
    ///
    /// # Errors
    /// [`TargetError`] if it is not a valid address.
    pub fn new(purpose: Purpose, url: &str) -> Result<Endpoint, TargetError> {
        let target = WebhookUrl::parse(url)?;
        let path = target.path.split('?').next().unwrap_or_default();
        Ok(Endpoint { address: format!("{target}{path}"), purpose })
    }

    /// The endpoint's secret, derived from its tenant's; None if that is not a secret.
    pub fn secret(&self, of_tenant: &str) -> Option<String> {
        let bytes = STANDARD.decode(of_tenant.strip_prefix(PREFIX)?).ok()?;
        if bytes.is_empty() {
            return None;
        }
        let purpose = match self.purpose {
            Purpose::Callback => "callback",
            Purpose::Push => "push",
            Purpose::Alert => "alert",
        };
        let text = format!("{CONTEXT}\n{purpose}\n{}", self.address);
        let derived = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &bytes), text.as_bytes());
        Some(format!("{PREFIX}{}", STANDARD.encode(derived)))
    }
}

/// A secret shared with a receiver.
#[derive(Clone)]
pub struct SigningKey(hmac::Key);

/// Does not print the secret.
impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(whsec_…)")
    }
}

impl SigningKey {
    /// Parses a secret; None if it is not one.
    pub fn parse(text: &str) -> Option<SigningKey> {
        let bytes = STANDARD.decode(text.strip_prefix(PREFIX)?).ok()?;
        (!bytes.is_empty()).then(|| SigningKey(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
    }

    fn sign(&self, parts: &[&[u8]]) -> String {
        let mut context = hmac::Context::with_key(&self.0);
        for part in parts {
            context.update(part);
        }
        format!("v1,{}", STANDARD.encode(context.sign()))
    }
}

/// A message to sign.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// The same for every retry.
    pub id: &'a str,
    /// When it is sent.
    pub at: Timestamp,
    /// The event, such as `job.completed`.
    pub event: &'a str,
    /// The receiver.
    pub endpoint: &'a Endpoint,
    /// The body.
    pub body: &'a [u8],
}

/// Adds the signature headers, with one signature per key: during a rotation, receivers with either secret accept it.
pub fn sign(message: Message<'_>, mut headers: HeaderMap, keys: &[SigningKey]) -> HeaderMap {
    let Message { id, at, event, endpoint, body } = message;
    let seconds = (at.as_millis() / 1000).to_string();
    let line = |text: &str| HeaderValue::from_str(text).expect("ids, events, addresses and base64 are ASCII");
    headers.insert(AUDIENCE, line(&endpoint.address));
    headers.insert(EVENT, line(event));
    headers.insert(ID, line(id));
    headers.insert(TIMESTAMP, line(&seconds));
    let signed = signed_lines(&headers, body);
    let with_each =
        |parts: &[&[u8]]| -> String { keys.iter().map(|key| key.sign(parts)).collect::<Vec<_>>().join(" ") };
    let start = format!("{id}.{seconds}.");
    headers.insert(SIGNATURE, line(&with_each(&[start.as_bytes(), body])));
    headers.insert(HEADERS_SIGNATURE, line(&with_each(&[&signed])));
    headers
}

/// Every header as `name:value`, sorted by name, and the SHA-256 of the body in base64.
fn signed_lines(headers: &HeaderMap, body: &[u8]) -> Vec<u8> {
    let mut lines: Vec<(&str, &[u8])> =
        headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    lines.sort_unstable();
    let mut text = Vec::new();
    for (name, value) in lines {
        text.extend_from_slice(name.as_bytes());
        text.push(b':');
        text.extend_from_slice(value);
        text.push(b'\n');
    }
    text.extend_from_slice(STANDARD.encode(digest::digest(&digest::SHA256, body)).as_bytes());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const OTHER: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

    fn key(text: &str) -> SigningKey {
        SigningKey::parse(text).expect("it is a secret")
    }

    fn endpoint() -> Endpoint {
        Endpoint::new(Purpose::Callback, "https://Shop.example:443/hook?job=1#top").unwrap()
    }

    #[test]
    fn every_endpoint_has_a_secret_of_its_own() {
        let own = endpoint().secret(SECRET).unwrap();
        let same = Endpoint::new(Purpose::Callback, "https://shop.example/hook?job=2").unwrap();
        assert_eq!(same.secret(SECRET).as_deref(), Some(&*own), "queries differ from call to call");
        let others = [
            Endpoint::new(Purpose::Push, "https://shop.example/hook"),
            Endpoint::new(Purpose::Alert, "https://shop.example/hook"),
            Endpoint::new(Purpose::Callback, "https://shop.example/hooks"),
            Endpoint::new(Purpose::Callback, "https://shop.example:8443/hook"),
            Endpoint::new(Purpose::Callback, "http://shop.example/hook"),
            Endpoint::new(Purpose::Callback, "https://evil.example/hook"),
        ];
        for other in others {
            assert_ne!(other.unwrap().secret(SECRET).unwrap(), own);
        }
        assert_ne!(endpoint().secret(OTHER).unwrap(), own, "tenants differ");
        assert!(SigningKey::parse(&own).is_some() && own != SECRET);
        assert!(endpoint().secret("whsec_").is_none());
    }

    /// As docs/webhooks.md describes it.
    #[test]
    fn every_header_line_is_signed() {
        let mut lines = HeaderMap::new();
        lines.insert("windlass-tenant", HeaderValue::from_static("acme"));
        let at = Timestamp::from_millis(1_614_265_330_999);
        let message = Message { id: "m", at, event: "job.push", endpoint: &endpoint(), body: b"{}" };
        let headers = sign(message, lines, &[key(SECRET)]);
        let expected = "webhook-id:m\nwebhook-timestamp:1614265330\nwindlass-audience:https://shop.example/hook\n\
            windlass-event:job.push\nwindlass-tenant:acme\nRBNvo1WzZ4oRRq0W9+hknpT7T8If536DEMBg9hyq/4o=";
        assert_eq!(headers[HEADERS_SIGNATURE].to_str().unwrap(), key(SECRET).sign(&[expected.as_bytes()]));
    }

    /// The example of the specification.
    #[test]
    fn the_published_example_is_signed_alike() {
        let body = br#"{"test": 2432232314}"#;
        let at = Timestamp::from_millis(1_614_265_330_999);
        let message =
            Message { id: "msg_p5jXN8AQM9LWM0D4loKWxJek", at, event: "test", endpoint: &endpoint(), body };
        let headers = sign(message, HeaderMap::new(), &[key(SECRET)]);
        assert_eq!(headers[TIMESTAMP], "1614265330");
        assert_eq!(headers[SIGNATURE], "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    /// Verified by the reference implementation, which reads the system clock.
    #[test]
    fn receivers_with_either_secret_believe_it_while_one_is_replaced() {
        let now = windlass::clock::Clock::now(&windlass::clock::SystemClock::new());
        let message = Message { id: "msg_1", at: now, event: "test", endpoint: &endpoint(), body: b"{}" };
        let headers = sign(message, HeaderMap::new(), &[key(SECRET), key(OTHER)]);
        for secret in [SECRET, OTHER] {
            let webhook = standardwebhooks::Webhook::new(secret).unwrap();
            webhook.verify(b"{}", &headers).unwrap();
            assert!(webhook.verify(b"{} ", &headers).is_err());
        }
        let stranger = standardwebhooks::Webhook::new("whsec_c3RyYW5nZXI=").unwrap();
        assert!(stranger.verify(b"{}", &headers).is_err());
    }

    /// A message that was changed, or signed with a changed secret, is not believed by the reference implementation.
    #[test]
    fn any_message_is_believed_as_it_was_signed_alone() {
        let now = windlass::clock::Clock::now(&windlass::clock::SystemClock::new());
        let family = windlass_fuzz::Family::new("webhook-signature").seeds(["{}", SECRET, OTHER, "msg.1"]);
        family.words(["whsec_", ".", "=", "/", "+"]).cases(500).text(|text| {
            let body = text.as_bytes();
            let secret = SigningKey::parse(text).is_some();
            if secret != endpoint().secret(text).is_some() {
                return Err("is a secret and is none".to_owned());
            }
            let message = Message { id: "msg_1", at: now, event: "test", endpoint: &endpoint(), body };
            let headers = sign(message, HeaderMap::new(), &[key(SECRET)]);
            let webhook = standardwebhooks::Webhook::new(SECRET).map_err(|problem| problem.to_string())?;
            webhook.verify(body, &headers).map_err(|problem| problem.to_string())?;
            let longer = [body, b"x"].concat();
            if webhook.verify(&longer, &headers).is_ok() {
                Err("a longer body is believed".to_owned())
            } else {
                Ok(())
            }
        });
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
