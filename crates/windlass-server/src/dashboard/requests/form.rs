//! Fields of forms and URLs.

use axum::body::to_bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use std::time::Duration;

use crate::dashboard::Dashboard;
use crate::dashboard::page::PageError;
use crate::http::is_slow;

/// The field with the token.
pub(in crate::dashboard) const TOKEN_FIELD: &str = "token";

/// Fields by name, in the order sent.
#[derive(Debug, Clone, Default)]
pub(in crate::dashboard) struct Fields(Vec<(String, String)>);

impl Fields {
    pub(in crate::dashboard) fn parse(text: &[u8]) -> Fields {
        Fields(form_urlencoded::parse(text).into_owned().collect())
    }

    /// Every field as sent.
    pub(in crate::dashboard) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// A field's text, trimmed; None if it is empty or missing.
    pub(in crate::dashboard) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(found, _)| found == name)?;
        Some(found.1.trim()).filter(|text| !text.is_empty())
    }

    /// Like [`Fields::get`], owned.
    pub(in crate::dashboard) fn text(&self, name: &str) -> Option<String> {
        self.get(name).map(str::to_owned)
    }

    /// Every value of a field.
    pub(in crate::dashboard) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(found, _)| found == name).map(|(_, value)| value.trim())
    }

    /// A required field.
    pub(in crate::dashboard) fn need(&self, name: &str) -> Result<&str, PageError> {
        self.get(name).ok_or_else(|| PageError::invalid(format!("{name} is required")))
    }

    /// A field as a duration such as `90s`, `15m`, `2h` or `7d`.
    pub(in crate::dashboard) fn duration(&self, name: &str) -> Result<Option<Duration>, PageError> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        let millis = match unit.trim() {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => 0,
        };
        let number: Option<u64> = number.parse().ok();
        let millis = number.and_then(|number| number.checked_mul(millis)).filter(|millis| *millis > 0);
        let wrong = || PageError::invalid(format!("{name}: must be a duration such as 90s, 15m, 2h or 7d"));
        let duration = Duration::from_millis(millis.ok_or_else(wrong)?);
        if duration > windlass::limits::DURATION_MAX {
            return Err(PageError::invalid(format!("{name}: is longer than 100 years")));
        }
        Ok(Some(duration))
    }
}

/// A form without a token: the sign-in form.
pub(in crate::dashboard) struct OpenForm(pub(in crate::dashboard) Fields);

impl FromRequest<Dashboard> for OpenForm {
    type Rejection = PageError;

    async fn from_request(request: Request, _board: &Dashboard) -> Result<OpenForm, PageError> {
        let reading = to_bytes(request.into_body(), crate::limits::SIGN_IN_BYTES_MAX);
        let read = tokio::time::timeout(crate::limits::SIGN_IN_TIME_MAX, reading).await;
        let bytes = read.map_err(|_| PageError::slow_form())?.map_err(|error| unread(&error))?;
        Ok(OpenForm(Fields::parse(&bytes)))
    }
}

/// The error for a form that could not be read.
pub(in crate::dashboard) fn unread(error: &axum::Error) -> PageError {
    if is_slow(error) { PageError::slow_form() } else { PageError::invalid("the form is too large") }
}

/// The fields of a URL.
pub(in crate::dashboard) struct Query(pub(in crate::dashboard) Fields);

impl FromRequestParts<Dashboard> for Query {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, _board: &Dashboard) -> Result<Query, PageError> {
        Ok(Query(Fields::parse(parts.uri.query().unwrap_or_default().as_bytes())))
    }
}

/// A path with pairs as its query.
pub(in crate::dashboard) fn address<'a>(
    path: &str,
    pairs: impl IntoIterator<Item = (&'a str, String)>,
) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    let mut is_empty = true;
    for (name, value) in pairs {
        query.append_pair(name, &value);
        is_empty = false;
    }
    if is_empty { path.to_owned() } else { format!("{path}?{}", query.finish()) }
}

/// Text as one segment of a path.
pub(in crate::dashboard) fn segment(text: &str) -> String {
    // Form encoding writes a space as a plus; a path needs `%20`.
    form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_nonsense_is_refused() {
        let read = |text: &str| Fields(vec![("for".into(), text.into())]).duration("for");
        assert_eq!(read("15m").ok().flatten(), Some(Duration::from_secs(900)));
        assert_eq!(read("2 h").ok().flatten(), Some(Duration::from_secs(7200)));
        assert_eq!(read("250ms").ok().flatten(), Some(Duration::from_millis(250)));
        assert!(matches!(read(""), Ok(None)));
        for wrong in ["15", "m", "-3m", "0s", "9999999999999999999d", "3 weeks", "99999d"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn addresses_and_segments_are_escaped() {
        assert_eq!(address("/jobs", []), "/jobs");
        assert_eq!(address("/jobs", [("tag", "a:b&c".to_owned())]), "/jobs?tag=a%3Ab%26c");
        assert_eq!(segment("a/b c"), "a%2Fb%20c");
    }
}
