//! JSON request bodies. The size is limited before parsing, and errors name the field: malformed JSON is 400, an invalid
//! value is 422.

use axum::body::Body as HttpBody;
use axum::extract::{FromRequest, Request};
use axum::http::{StatusCode, header};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use windlass::clock::{Deadline, Stopwatch};

use crate::http::app::App;
use crate::http::aside::aside;
use crate::http::reply::error::ApiError;
use crate::http::request::body_budget::BodyReservation;
use crate::http::request::drain_body::is_slow;
use crate::http::request::objects;
use crate::limits;

/// A request's body; an empty body counts as `{}`.
pub(crate) struct Body<T>(pub(crate) T);

/// The maximum body size of a route; set when the routes are built.
#[derive(Clone, Copy)]
pub(crate) struct BytesMax(pub(crate) usize);

impl<T: DeserializeOwned + Send + 'static> FromRequest<App> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Body<T>, ApiError> {
        let limit = request.extensions().get::<BytesMax>().map_or(limits::BODY_BYTES_SMALL, |limit| limit.0);
        let room = request
            .extensions()
            .get::<BodyReservation>()
            .cloned()
            .unwrap_or_else(|| app.bodies().reserve_for(None));
        let watch = Stopwatch::start();
        let bytes = read(request, limit, &room).await?;
        // The time a client takes to send its request does not count against the store's deadline.
        Deadline::extend_request(watch.elapsed());
        if bytes.len() <= limits::BODY_BYTES_ASIDE {
            return decode(&bytes).map(Body);
        }
        aside(move || decode(&bytes)).await.map(Body)
    }
}

/// Reads a body of at most `limit` bytes, within the memory budget.
async fn read(request: Request, limit: usize, room: &BodyReservation) -> Result<Vec<u8>, ApiError> {
    let declared = request.headers().get(header::CONTENT_LENGTH);
    let declared = declared.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if declared.is_some_and(|length| length > limit) {
        return Err(too_large(limit));
    }
    let collecting = collect(request.into_body(), limit, room);
    tokio::time::timeout(limits::BODY_TIME_MAX, collecting).await.unwrap_or_else(|_| Err(slow_body()))
}

fn slow_body() -> ApiError {
    ApiError::new(StatusCode::REQUEST_TIMEOUT, "slow_body", "the body took too long to arrive")
}

async fn collect(mut body: HttpBody, limit: usize, room: &BodyReservation) -> Result<Vec<u8>, ApiError> {
    let mut collected = Vec::new();
    while let Some(frame) = body.frame().await {
        let broken = |error: axum::Error| {
            if is_slow(&error) {
                return slow_body();
            }
            ApiError::new(StatusCode::BAD_REQUEST, "unreadable_body", "the body was cut off")
        };
        // Trailers are ignored.
        let Ok(bytes) = frame.map_err(broken)?.into_data() else { continue };
        let length = collected.len() + bytes.len();
        if length > limit {
            return Err(too_large(limit));
        }
        room.hold(length)?;
        collected.extend_from_slice(&bytes);
    }
    Ok(collected)
}

fn too_large(limit: usize) -> ApiError {
    let message = format!("the body is larger than {limit} bytes");
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message).with("limit", limit)
}

/// Parses the bytes.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    let bytes = if bytes.iter().all(u8::is_ascii_whitespace) { b"{}" } else { bytes };
    if depth(bytes) > limits::JSON_DEPTH_MAX {
        let message = format!("is nested deeper than {} levels", limits::JSON_DEPTH_MAX);
        return Err(ApiError::invalid("body", message));
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let decoded = objects::read(&mut json).map_err(|error| {
        let path = dotted(error.path());
        refusal(bytes, &path, &error.into_inner())
    })?;
    json.end().map_err(|error| not_json(&error))?;
    Ok(decoded)
}

/// The error for a body that was not read: what is not JSON is refused as such, whatever else is wrong before it.
fn refusal(bytes: &[u8], path: &str, error: &serde_json::Error) -> ApiError {
    if let Err(error) = serde_json::from_slice::<&RawValue>(bytes) {
        return not_json(&error);
    }
    let whole = error.to_string();
    // The position in the text is not useful, since the message names the field.
    let message = whole.split(" at line ").next().unwrap_or(&whole);
    match message {
        _ if error.is_data() => misfit(path, message),
        "number out of range" => misfit(path, "is a number out of range"),
        // Where a name is required, serde takes any other JSON for an error of syntax.
        _ => misfit(path, "is not a value that this field takes"),
    }
}

/// The error for an invalid value; serde's messages name a missing, unknown or duplicate field.
pub(crate) fn misfit(path: &str, message: &str) -> ApiError {
    let named = ["missing field `", "unknown field `", "duplicate field `"]
        .iter()
        .find_map(|start| message.strip_prefix(start).map(field_name));
    let is_missing = message.starts_with("missing field");
    let field = match (path, named) {
        ("", Some(name)) => name.to_owned(),
        // The path may already end with the unknown field.
        (path, Some(name)) if !is_missing && (path == name || path.ends_with(&format!(".{name}"))) => {
            path.to_owned()
        }
        (path, Some(name)) => format!("{path}.{name}"),
        ("", None) => "body".to_owned(),
        (path, None) => path.to_owned(),
    };
    // Both may repeat a name of any length.
    let field: String = field.chars().take(limits::REFUSED_FIELD_CHARS_MAX).collect();
    let message: String = message.chars().take(limits::REFUSAL_CHARS_MAX).collect();
    let message = if is_missing { "is required".to_owned() } else { message };
    let problem = ApiError::invalid(field.clone(), message);
    match field.strip_prefix("jobs.").and_then(|rest| rest.split('.').next()?.parse::<usize>().ok()) {
        Some(index) => problem.with("index", index),
        None => problem,
    }
}

/// The name at the beginning of a message of serde, which may contain any character; the known names follow it.
fn field_name(rest: &str) -> &str {
    let rest = rest.split("`, expected").next().unwrap_or(rest);
    let rest = rest.split("`, there are no").next().unwrap_or(rest);
    rest.strip_suffix('`').unwrap_or(rest)
}

fn not_json(error: &serde_json::Error) -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, "not_json", format!("the body is not JSON: {error}"))
}

/// `jobs[3].retry` as `jobs.3.retry`.
pub(crate) fn dotted(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    let names = path.iter().filter_map(|segment| match segment {
        Segment::Seq { index } => Some(index.to_string()),
        // Names may contain any character.
        Segment::Map { key } => Some(key.clone()),
        Segment::Enum { variant } => Some(variant.clone()),
        Segment::Unknown => None,
    });
    names.collect::<Vec<_>>().join(".")
}

/// The nesting depth of JSON, without parsing it.
fn depth(bytes: &[u8]) -> usize {
    let (mut depth, mut deepest, mut in_text, mut is_escaped) = (0_usize, 0, false, false);
    for byte in bytes {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_text => is_escaped = true,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        #[allow(dead_code)]
        jobs: Vec<Inner>,
        #[allow(dead_code)]
        mode: Option<Mode>,
    }

    #[derive(Debug, Deserialize)]
    enum Mode {}

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        #[allow(dead_code)]
        n: u32,
    }

    fn field(text: &str) -> String {
        let problem = decode::<Sample>(text.as_bytes()).expect_err("it is invalid");
        let body = serde_json::to_value(problem.body()).expect("plain data");
        format!("{} {}", body["error"]["code"].as_str().unwrap(), body["error"]["details"]["field"])
    }

    #[test]
    fn what_does_not_fit_is_named_by_its_path() {
        assert_eq!(field(""), r#"invalid_value "jobs""#);
        assert_eq!(field("[]"), r#"invalid_value "body""#);
        assert_eq!(field(r#"{"jobs":[{"n":1},{"n":"x"}]}"#), r#"invalid_value "jobs.1.n""#);
        assert_eq!(field(r#"{"jobs":[{"m":1}]}"#), r#"invalid_value "jobs.0.m""#);
        assert_eq!(field(r#"{"jobs":[{}]}"#), r#"invalid_value "jobs.0.n""#);
        assert_eq!(field(r#"{"jobs":[],"x":1}"#), r#"invalid_value "x""#);
        assert_eq!(field(r#"{"jobs":[],"x[1]":1}"#), r#"invalid_value "x[1]""#);
        assert_eq!(field(r#"{"jobs":[{"`a`.b":1}]}"#), r#"invalid_value "jobs.0.`a`.b""#);
        let long = "x".repeat(1 << 20);
        assert!(field(&format!("{{\"{long}\":1}}")).len() < 1_000);
        for mode in ["5", "true", "[]", "{}", "1e999", "-1.5"] {
            assert_eq!(field(&format!(r#"{{"jobs":[],"mode":{mode}}}"#)), r#"invalid_value "mode""#);
        }
        assert_eq!(field(r#"{"jobs":[{"n":1e999}]}"#), r#"invalid_value "jobs.0.n""#);
    }

    #[test]
    fn what_is_not_json_is_refused_as_such_whatever_comes_before() {
        for end in ["", "}", "}}", ",}", ":1}", "\u{0}}", " nope}"] {
            assert_eq!(
                field(&format!(r#"{{"x":1,"jobs":[{{"n":"x"}}]{end}{end}"#)),
                "not_json null",
                "{end}"
            );
        }
        let problem = decode::<Sample>(b"{\"x\":\"\xff\"}").expect_err("it is invalid");
        assert_eq!(problem.body().error.code, "not_json");
        assert_eq!(field(r#"{"jobs":["#), "not_json null");
        assert_eq!(field(r#"{"jobs":[]} x"#), "not_json null");
    }

    #[test]
    fn brackets_within_texts_are_not_nesting() {
        assert_eq!(depth(br#"{"a":"[[[\"[[","b":[{}]}"#), 3);
        assert_eq!(field(&"[".repeat(200)), r#"invalid_value "body""#);
    }
}
