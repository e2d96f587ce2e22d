//! Entity tags of jobs: `ETag` in responses, `If-Match` on actions, `If-None-Match` on reads (RFC 9110, section 13).
//!
//! A tag is `"<version>.<view>"`. The version changes with every change of the job. The view changes with the other shown
//! data: the lease's end, progress, `why`, and the payload if requested. Actions compare the version only, so that a
//! heartbeat between a read and an action is not a conflict. Reads compare the whole tag.

use std::fmt;
use std::hash::{DefaultHasher, Hasher};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use windlass::job::Version;
use windlass::store::IfMatch;
use windlass_api::job::Job;

use crate::http::app::App;
use crate::http::reply::error::ApiError;
use crate::http::reply::response::JsonOk;
use crate::http::schema::{ArgumentSchema, Reply, Shape};

/// The tag of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EntityTag {
    version: Version,
    view: u64,
}

impl EntityTag {
    /// The tag of a job with this version; `shown` is the other shown data.
    pub(crate) fn new(version: Version, shown: &impl Serialize) -> EntityTag {
        let mut hasher = DefaultHasher::new();
        hasher.write(&serde_json::to_vec(shown).expect("responses are plain data"));
        EntityTag { version, view: hasher.finish() }
    }

    /// The tag of a response with this job.
    pub(crate) fn for_job(job: &Job) -> EntityTag {
        // The shown data that the version does not cover.
        let payload = (&job.payload, &job.payload_base64, &job.content_type);
        EntityTag::new(job.version.0, &(&job.why, &job.lease, &job.progress, payload, job.redacted))
    }
}

impl fmt::Display for EntityTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}.{:016x}\"", self.version, self.view)
    }
}

/// A response with the tag of its job.
pub(crate) struct WithEtag<R>(pub(crate) R, pub(crate) EntityTag);

fn put_tag(response: &mut Response, tag: &EntityTag) {
    let value = HeaderValue::from_str(&tag.to_string()).expect("a tag is hexadecimal digits");
    response.headers_mut().insert(header::ETAG, value);
}

impl<R: IntoResponse> IntoResponse for WithEtag<R> {
    fn into_response(self) -> Response {
        let mut response = self.0.into_response();
        put_tag(&mut response, &self.1);
        response
    }
}

impl<R: Reply> Reply for WithEtag<R> {
    fn describe(shape: &mut Shape) {
        R::describe(shape);
        shape.is_tagged = true;
    }
}

/// A job, or 304 if the caller has exactly this already.
pub(crate) enum Fresh<T> {
    New(WithEtag<JsonOk<T>>),
    Seen(EntityTag),
}

impl<T> Fresh<T> {
    /// The response for a caller that has the tags `held`.
    pub(crate) fn unless_held(value: T, tag: EntityTag, held: &IfNoneMatch) -> Fresh<T> {
        if held.holds(&tag) { Fresh::Seen(tag) } else { Fresh::New(WithEtag(JsonOk(value), tag)) }
    }
}

impl<T: Serialize> IntoResponse for Fresh<T> {
    fn into_response(self) -> Response {
        match self {
            Fresh::New(tagged) => tagged.into_response(),
            Fresh::Seen(tag) => {
                let mut response = StatusCode::NOT_MODIFIED.into_response();
                put_tag(&mut response, &tag);
                response
            }
        }
    }
}

impl<T> Reply for Fresh<T>
where
    JsonOk<T>: Reply,
{
    fn describe(shape: &mut Shape) {
        <WithEtag<JsonOk<T>>>::describe(shape);
        shape.add_empty_response(StatusCode::NOT_MODIFIED);
    }
}

/// `If-Match`: the versions of the job that the action requires.
pub(crate) struct IfMatchHeader(pub(crate) IfMatch);

impl FromRequestParts<App> for IfMatchHeader {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<IfMatchHeader, ApiError> {
        let Some(tags) = Tags::read(&parts.headers, &header::IF_MATCH)? else {
            return Ok(IfMatchHeader(IfMatch::any()));
        };
        Ok(IfMatchHeader(match tags {
            Tags::Any => IfMatch::any(),
            // Weak tags and tags of another form match nothing here.
            Tags::Listed(tags) => {
                IfMatch::one_of(tags.iter().filter(|tag| !tag.is_weak).filter_map(Tag::version))
            }
        }))
    }
}

impl ArgumentSchema for IfMatchHeader {
    fn describe(shape: &mut Shape) {
        let about = "ETags of the job, or `*`: act only if the job has not changed since";
        shape.headers.push(("If-Match", about));
        shape.refusals.extend([StatusCode::PRECONDITION_FAILED, StatusCode::UNPROCESSABLE_ENTITY]);
    }
}

/// `If-None-Match`: the tags that the caller has.
pub(crate) struct IfNoneMatch(Option<Tags>);

impl IfNoneMatch {
    fn holds(&self, tag: &EntityTag) -> bool {
        match &self.0 {
            None => false,
            Some(Tags::Any) => true,
            Some(Tags::Listed(tags)) => {
                let whole = tag.to_string();
                tags.iter().any(|held| held.text == whole.trim_matches('"'))
            }
        }
    }
}

impl FromRequestParts<App> for IfNoneMatch {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<IfNoneMatch, ApiError> {
        Tags::read(&parts.headers, &header::IF_NONE_MATCH).map(IfNoneMatch)
    }
}

impl ArgumentSchema for IfNoneMatch {
    fn describe(shape: &mut Shape) {
        shape
            .headers
            .push(("If-None-Match", "ETags that the caller has: 304 if the response would be the same"));
        shape.refusals.push(StatusCode::UNPROCESSABLE_ENTITY);
    }
}

/// The value of a header that lists tags.
#[derive(Debug, PartialEq, Eq)]
enum Tags {
    /// `*`.
    Any,
    Listed(Vec<Tag>),
}

/// One tag of a list.
#[derive(Debug, PartialEq, Eq)]
struct Tag {
    is_weak: bool,
    /// Without its quotation marks.
    text: String,
}

impl Tag {
    fn version(&self) -> Option<Version> {
        self.text.split('.').next()?.parse().ok()
    }
}

impl Tags {
    /// All tags of a header, also if it occurs several times; None if it is missing.
    fn read(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Tags>, ApiError> {
        let mut listed = Vec::new();
        let mut lines = headers.get_all(name).iter().peekable();
        if lines.peek().is_none() {
            return Ok(None);
        }
        for line in lines {
            let text = line.to_str().map_err(|_| malformed(name))?.trim();
            if text == "*" {
                return Ok(Some(Tags::Any));
            }
            listed.extend(list(text).ok_or_else(|| malformed(name))?);
        }
        Ok(Some(Tags::Listed(listed)))
    }
}

/// Parses `"a", W/"b"`; None if it is malformed.
fn list(mut rest: &str) -> Option<Vec<Tag>> {
    let mut tags = Vec::new();
    loop {
        let is_weak = rest.starts_with("W/");
        let quoted = rest.strip_prefix("W/").unwrap_or(rest).strip_prefix('"')?;
        let (text, after) = quoted.split_once('"')?;
        tags.push(Tag { is_weak, text: text.to_owned() });
        rest = after.trim_start();
        if rest.is_empty() {
            return Some(tags);
        }
        rest = rest.strip_prefix(',')?.trim_start();
    }
}

fn malformed(name: &HeaderName) -> ApiError {
    ApiError::invalid(name.as_str(), "is not `*` or a list of quoted entity tags from ETag")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> Option<Tags> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(header::IF_MATCH, line.parse().unwrap());
        }
        Tags::read(&headers, &header::IF_MATCH).expect("it is well-formed")
    }

    #[test]
    fn lists_of_tags_are_read_over_several_lines() {
        assert_eq!(read(&[]), None);
        assert_eq!(read(&["*"]), Some(Tags::Any));
        let tag = |is_weak, text: &str| Tag { is_weak, text: text.to_owned() };
        let listed = read(&["\"a\",W/\"b\"", "\"c, d\""]);
        assert_eq!(listed, Some(Tags::Listed(vec![tag(false, "a"), tag(true, "b"), tag(false, "c, d")])));
    }

    #[test]
    fn what_is_no_list_of_tags_is_refused_and_not_ignored() {
        for text in ["", "a", "\"a", "a\"", "\"a\" \"b\"", "\"a\",", "w/\"a\"", "*, \"a\""] {
            let mut headers = HeaderMap::new();
            headers.append(header::IF_MATCH, text.parse().unwrap());
            Tags::read(&headers, &header::IF_MATCH).expect_err(text);
        }
    }
}
