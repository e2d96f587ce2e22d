//! Sessions: a random token in a cookie, mapped to an API key in this process. The key is verified with every request, so
//! revoking it ends its sessions. Sessions do not survive a restart.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::http::{HeaderMap, HeaderValue, header};
use sha2::{Digest, Sha256};
use windlass::clock::Timestamp;
use windlass::entropy::Entropy;

use crate::dashboard::pages::limits;

/// Sessions by the hash of their token, so that reading this map grants no access.
#[derive(Default)]
pub(in crate::dashboard) struct Sessions(Mutex<HashMap<[u8; 32], Session>>);

/// A session.
#[derive(Clone)]
pub(in crate::dashboard) struct Session {
    pub(in crate::dashboard) secret: String,
    /// The token that forms must contain.
    pub(in crate::dashboard) form_token: String,
    began_at: Timestamp,
    seen_at: Timestamp,
}

impl Session {
    fn is_over(&self, now: Timestamp) -> bool {
        now.since(self.began_at) >= limits::SESSION_LIFE_MAX
            || now.since(self.seen_at) >= limits::SESSION_IDLE_MAX
    }
}

/// 256 random bits.
pub(in crate::dashboard) fn token(entropy: &Entropy) -> String {
    format!("{:032x}{:032x}", entropy.bits(), entropy.bits())
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// Drops the session that was idle longest among those that match.
fn drop_idlest(map: &mut HashMap<[u8; 32], Session>, may_be: impl Fn(&Session) -> bool) {
    let sessions = map.iter().filter(|(_, session)| may_be(session));
    let idlest = sessions.min_by_key(|(_, session)| session.seen_at).map(|(key, _)| *key);
    idlest.map(|key| map.remove(&key));
}

impl Sessions {
    fn map(&self) -> MutexGuard<'_, HashMap<[u8; 32], Session>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a session for a secret; returns its token.
    pub(in crate::dashboard) fn begin(&self, secret: &str, entropy: &Entropy, now: Timestamp) -> String {
        let token_text = token(entropy);
        let session =
            Session { secret: secret.to_owned(), form_token: token(entropy), began_at: now, seen_at: now };
        let mut map = self.map();
        if map.len() >= limits::SESSIONS_MAX {
            map.retain(|_, session| !session.is_over(now));
        }
        let is_own = |session: &Session| session.secret == secret;
        if map.values().filter(|session| is_own(session)).count() >= limits::SESSIONS_PER_KEY_MAX {
            drop_idlest(&mut map, is_own);
        }
        if map.len() >= limits::SESSIONS_MAX {
            drop_idlest(&mut map, |_| true);
        }
        map.insert(hash(&token_text), session);
        token_text
    }

    /// The session with this token, unless it has expired.
    pub(in crate::dashboard) fn find(&self, token: &str, now: Timestamp) -> Option<Session> {
        let mut map = self.map();
        let key = hash(token);
        let session = map.get_mut(&key)?;
        if session.is_over(now) {
            map.remove(&key);
            return None;
        }
        session.seen_at = now;
        Some(session.clone())
    }

    /// Ends a session.
    pub(in crate::dashboard) fn end(&self, token: &str) {
        self.map().remove(&hash(token));
    }
}

/// The name of the cookie. With TLS, the `__Host-` prefix makes the browser reject it from other hosts and plain
/// connections.
pub(in crate::dashboard) fn cookie_name(is_secure: bool) -> &'static str {
    if is_secure { "__Host-windlass" } else { "windlass-session" }
}

/// The header that sets the cookie; an empty token removes it.
pub(in crate::dashboard) fn cookie(token: &str, is_secure: bool) -> HeaderValue {
    let (name, secure) = (cookie_name(is_secure), if is_secure { "; Secure" } else { "" });
    let age = if token.is_empty() { 0 } else { limits::SESSION_LIFE_MAX.as_secs() };
    let text = format!("{name}={token}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{secure}");
    HeaderValue::from_str(&text).expect("digits and plain words are a header value")
}

/// The value of a cookie in a request.
pub(in crate::dashboard) fn read_cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(found, _)| *found == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_session_ends_when_idle_and_when_old() {
        let (sessions, entropy) = (Sessions::default(), Entropy::seeded(1));
        let start = Timestamp::from_millis(1_000_000);
        let token = sessions.begin("secret", &entropy, start);
        assert!(sessions.find(&token, start).is_some());
        assert!(sessions.find("guess", start).is_none());
        let mut now = start;
        let step = limits::SESSION_IDLE_MAX.checked_sub(Duration::from_secs(1)).unwrap();
        while now.plus(step).since(start) < limits::SESSION_LIFE_MAX {
            now = now.plus(step);
            assert!(sessions.find(&token, now).is_some(), "in use");
        }
        assert!(sessions.find(&token, now.plus(step)).is_none(), "too old");
        let token = sessions.begin("secret", &entropy, start);
        assert!(sessions.find(&token, start.plus(limits::SESSION_IDLE_MAX)).is_none(), "idle");
        let token = sessions.begin("secret", &entropy, start);
        sessions.end(&token);
        assert!(sessions.find(&token, start).is_none(), "signed out");
    }

    #[test]
    fn a_key_that_signs_in_again_and_again_ends_its_own_sessions_only() {
        let (sessions, entropy) = (Sessions::default(), Entropy::seeded(1));
        let start = Timestamp::from_millis(1_000_000);
        let other = sessions.begin("other", &entropy, start);
        let later = start.plus(Duration::from_secs(1));
        let tokens: Vec<String> = (0..=limits::SESSIONS_PER_KEY_MAX as u64)
            .map(|number| sessions.begin("secret", &entropy, later.plus(Duration::from_secs(number))))
            .collect();
        let now = later.plus(Duration::from_secs(1_000));
        assert!(sessions.find(&other, now).is_some(), "the idlest of all, but another key's");
        assert!(sessions.find(&tokens[0], now).is_none(), "the key's own idlest session was dropped");
        assert!(sessions.find(&tokens[1], now).is_some());
    }

    #[test]
    fn the_cookie_is_hardened_as_far_as_the_connection_allows() {
        let of = |is_secure| cookie("abc", is_secure).to_str().unwrap().to_owned();
        assert_eq!(
            of(true),
            "__Host-windlass=abc; Path=/; Max-Age=604800; HttpOnly; SameSite=Strict; Secure"
        );
        assert_eq!(of(false), "windlass-session=abc; Path=/; Max-Age=604800; HttpOnly; SameSite=Strict");
    }

    #[test]
    fn a_cookie_is_found_among_others() {
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, HeaderValue::from_static("a=1; theme=dark;b=x=y"));
        assert_eq!(read_cookie(&headers, "theme"), Some("dark"));
        assert_eq!(read_cookie(&headers, "b"), Some("x=y"));
        assert_eq!(read_cookie(&headers, "c"), None);
    }
}
