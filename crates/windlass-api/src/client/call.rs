//! One call: method, path, query, body, and how long and how often to try. What it contains is opaque here.

use std::fmt::{Display, Write as _};
use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use hyper::header::HeaderValue;
use serde::Serialize;

/// The path of the API below a server's address.
const API: &str = "/api/v1";

/// A request being built.
#[derive(Debug, Clone)]
pub struct Call {
    pub(super) method: Method,
    /// Path and query below the server's address, encoded.
    pub(super) path: String,
    has_query: bool,
    pub(super) body: Bytes,
    /// The versions of the job that it applies to.
    pub(super) if_match: Option<EntityTags>,
    /// How long the server itself may wait before it answers.
    pub(super) wait: Duration,
    /// The deadline without that wait, if it is not the client's.
    pub(super) time_max: Option<Duration>,
    /// Whether a second call after a lost answer changes nothing.
    pub(super) is_repeatable: bool,
    /// Whether to keep trying while the server is unreachable, if the client does that.
    pub(super) is_patient: bool,
}

impl Call {
    fn new(method: Method, path: &Path) -> Call {
        let is_repeatable = method == Method::GET;
        Call {
            method,
            path: format!("{API}{}", path.0),
            has_query: false,
            body: Bytes::new(),
            if_match: None,
            wait: Duration::ZERO,
            time_max: None,
            is_repeatable,
            is_patient: true,
        }
    }

    /// A GET of this path below the API's own.
    pub fn get(path: impl Into<Path>) -> Call {
        Call::new(Method::GET, &path.into())
    }

    /// A POST to this path.
    pub fn post(path: impl Into<Path>) -> Call {
        Call::new(Method::POST, &path.into())
    }

    /// A PUT to this path.
    pub fn put(path: impl Into<Path>) -> Call {
        Call::new(Method::PUT, &path.into())
    }

    /// A PATCH of this path.
    pub fn patch(path: impl Into<Path>) -> Call {
        Call::new(Method::PATCH, &path.into())
    }

    /// A DELETE of this path.
    pub fn delete(path: impl Into<Path>) -> Call {
        Call::new(Method::DELETE, &path.into())
    }

    /// A GET of a path outside the API, such as `/readyz`.
    pub fn get_outside(path: impl Into<Path>) -> Call {
        let path = path.into();
        let mut call = Call::new(Method::GET, &path);
        call.path = path.0;
        call
    }

    /// A POST to a path outside the API, such as `/mcp`.
    pub fn post_outside(path: impl Into<Path>) -> Call {
        let path = path.into();
        let mut call = Call::new(Method::POST, &path);
        call.path = path.0;
        call
    }

    /// Adds a query parameter.
    #[must_use]
    pub fn query(mut self, name: &str, value: impl AsRef<str>) -> Call {
        self.path.push(if self.has_query { '&' } else { '?' });
        self.has_query = true;
        self.path.push_str(name);
        self.path.push('=');
        self.path.push_str(&encoded(value.as_ref()));
        self
    }

    /// Adds a query parameter, if there is a value.
    #[must_use]
    pub fn query_if(self, name: &str, value: Option<impl AsRef<str>>) -> Call {
        match value {
            Some(value) => self.query(name, value),
            None => self,
        }
    }

    /// Adds the fields of a query, such as [`ListQuery`](crate::filter::ListQuery), as parameters.
    #[must_use]
    pub fn queries(self, query: &impl Serialize) -> Call {
        let query = serde_json::to_value(query).expect("plain data with text keys is always valid JSON");
        let fields = query.as_object().into_iter().flatten();
        // Numbers and flags are written in a query as in JSON.
        fields.fold(self, |call, (name, value)| match value.as_str() {
            Some(text) => call.query(name, text),
            None => call.query(name, value.to_string()),
        })
    }

    /// Sets the body.
    #[must_use]
    pub fn json(mut self, body: &impl Serialize) -> Call {
        self.body = serde_json::to_vec(body).expect("plain data with text keys is always valid JSON").into();
        self
    }

    /// Sets a body that is JSON already.
    #[must_use]
    pub fn raw(mut self, body: String) -> Call {
        self.body = body.into();
        self
    }

    /// Restricts the call to these versions of the job, if there are any.
    #[must_use]
    pub fn if_match(mut self, versions: Option<EntityTags>) -> Call {
        self.if_match = versions;
        self
    }

    /// Lets the server wait this long before it answers, in addition to the usual deadline.
    #[must_use]
    pub fn waiting(mut self, wait: Duration) -> Call {
        self.wait = wait;
        self
    }

    /// Sets a deadline other than the client's.
    #[must_use]
    pub fn within(mut self, time_max: Duration) -> Call {
        self.time_max = Some(time_max);
        self
    }

    /// Says whether repeating it after a lost answer changes nothing; it is so for every GET.
    #[must_use]
    pub fn repeatable(mut self, is_repeatable: bool) -> Call {
        self.is_repeatable = is_repeatable;
        self
    }

    /// Makes a single attempt: the caller retries by itself.
    #[must_use]
    pub fn once(mut self) -> Call {
        self.is_patient = false;
        self
    }
}

/// A path, encoded: made from its parts, each of which is percent-encoded, or from a text that is encoded already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path(String);

impl From<&[&str]> for Path {
    fn from(parts: &[&str]) -> Path {
        Path(parts.iter().flat_map(|part| ["/".to_owned(), encoded(part)]).collect())
    }
}

impl<const N: usize> From<&[&str; N]> for Path {
    fn from(parts: &[&str; N]) -> Path {
        Path::from(&parts[..])
    }
}

impl From<&str> for Path {
    fn from(path: &str) -> Path {
        Path(path.to_owned())
    }
}

impl From<String> for Path {
    fn from(path: String) -> Path {
        Path(path)
    }
}

/// The versions of a job that a call applies to, as an `If-Match` header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityTags(pub(super) HeaderValue);

impl EntityTags {
    /// The tags of these versions, which are without quotation marks; `None` if a header cannot contain them.
    pub fn new<V: Display>(versions: &[V]) -> Option<EntityTags> {
        let tags: Vec<String> = versions.iter().map(|version| format!("\"{version}\"")).collect();
        HeaderValue::from_str(&tags.join(", ")).ok().map(EntityTags)
    }
}

/// Percent-encodes a text as one part of a path or query.
pub fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~') {
            encoded.push(char::from(byte));
        } else {
            let _always_fits = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_fits_one_part_of_a_path() {
        assert_eq!(encoded("plain-text_1"), "plain-text_1");
        assert_eq!(encoded("signal:a/b#2 ?%"), "signal%3Aa%2Fb%232%20%3F%25");
        assert_eq!(encoded(".."), "%2E%2E");
        assert_eq!(encoded("ä"), "%C3%A4");
    }

    #[test]
    fn a_call_is_encoded_part_by_part() {
        let call = Call::get(&["jobs", "a/b ?", "logs"]).query("tag", "k:v&x").query_if("none", None::<&str>);
        assert_eq!(call.path, "/api/v1/jobs/a%2Fb%20%3F/logs?tag=k%3Av%26x");
        let call = Call::get(&["queues", ".."]).query("a", "1").query("b", "2");
        assert_eq!(call.path, "/api/v1/queues/%2E%2E?a=1&b=2");
        assert_eq!(Call::get("/jobs").query("a", "1").path, "/api/v1/jobs?a=1");
        assert_eq!(Call::get_outside(&["readyz"]).path, "/readyz");
    }

    #[test]
    fn versions_are_quoted() {
        assert_eq!(EntityTags::new(&["a1", "b2"]).unwrap().0, "\"a1\", \"b2\"");
        assert_eq!(EntityTags::new(&["a\n"]), None);
    }
}
