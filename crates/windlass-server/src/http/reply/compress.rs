//! Compresses pages, their assets and JSON answers for clients that accept gzip. Streams are sent as they are.
//!
//! Compressed length can reveal a secret beside text of an attacker (BREACH). An attacker would have to make a
//! browser send requests that carry its session, and the cookie is `SameSite=Strict`; the API takes no cookies at all.
//! Answers to forms, which may show a new API key once, are not compressed in any case.

use std::io::Write;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::Body as HttpBody;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::{Body, Frame};

use crate::limits;

/// Middleware: compresses the response if the client accepts it and it is worth it.
pub(crate) async fn compress(request: Request, next: Next) -> Response {
    let is_accepted = request.method() == Method::GET && accepts_gzip(request.headers());
    let mut response = next.run(request).await;
    if !is_suitable(&response) {
        return response;
    }
    // For caches: the other form exists even if this client gets the plain one.
    response.headers_mut().append(header::VARY, HeaderValue::from_static("accept-encoding"));
    if !is_accepted {
        return response;
    }
    response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    response.headers_mut().remove(header::CONTENT_LENGTH);
    response.map(|inner| HttpBody::new(Gzip { inner, encoder: Some(encoder()) }))
}

/// Whether `accept-encoding` allows gzip: by name or by `*`, with a quality above zero.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let quality = |name: &str| {
        let lines = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
        let mut items = lines.flat_map(|line| line.split(','));
        items.find_map(|item: &str| {
            let (found, parameters) = item.split_once(';').unwrap_or((item, ""));
            let quality = parameters.trim().strip_prefix("q=").and_then(|text| text.trim().parse().ok());
            found.trim().eq_ignore_ascii_case(name).then(|| quality.unwrap_or(1.0_f32))
        })
    };
    quality("gzip").or_else(|| quality("*")).is_some_and(|quality| quality > 0.0)
}

/// Whether a response is text of a known, moderate length. An entity tag names bytes: such a response stays as it is.
fn is_suitable(response: &Response) -> bool {
    let headers = response.headers();
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let is_text = kind.starts_with("text/") && kind != "text/event-stream"
        || ["application/json", "image/svg+xml"].contains(&kind);
    let is_plain = !headers.contains_key(header::CONTENT_ENCODING) && !headers.contains_key(header::ETAG);
    let length = response.body().size_hint().exact();
    let is_worth_it = length
        .is_some_and(|bytes| (limits::COMPRESS_BYTES_MIN..=limits::COMPRESS_BYTES_MAX).contains(&bytes));
    response.status() == StatusCode::OK && is_text && is_plain && is_worth_it
}

fn encoder() -> GzEncoder<Vec<u8>> {
    GzEncoder::new(Vec::new(), Compression::new(limits::COMPRESS_LEVEL))
}

/// A response body, compressed piece by piece as the connection takes it: the inner body keeps its memory reserved.
struct Gzip {
    inner: HttpBody,
    /// None after the end.
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl Gzip {
    /// The bytes compressed so far.
    fn take(encoder: &mut GzEncoder<Vec<u8>>) -> Bytes {
        std::mem::take(encoder.get_mut()).into()
    }
}

impl Body for Gzip {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        loop {
            let Some(encoder) = &mut this.encoder else { return Poll::Ready(None) };
            match ready!(Pin::new(&mut this.inner).poll_frame(context)) {
                Some(Ok(frame)) => {
                    let Ok(data) = frame.into_data() else { continue };
                    encoder.write_all(&data).expect("writing to memory does not fail");
                    let done = Gzip::take(encoder);
                    if !done.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(done))));
                    }
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => {
                    let encoder = this.encoder.take().expect("it is there until the end");
                    let rest = encoder.finish().expect("writing to memory does not fail");
                    return Poll::Ready(Some(Ok(Frame::data(rest.into()))));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.encoder.is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use http_body_util::BodyExt;

    use super::*;

    fn answer(kind: &'static str, body: String) -> Response {
        let mut response = Response::new(HttpBody::from(body));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        response
    }

    #[test]
    fn gzip_is_used_only_if_the_client_says_so() {
        let accepts = |text: &'static str| {
            accepts_gzip(&HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(text))]))
        };
        for yes in ["gzip", "br, gzip;q=0.5", "*", "deflate, GZIP"] {
            assert!(accepts(yes), "{yes}");
        }
        for no in ["", "br", "gzip;q=0", "*;q=0", "gzip;q=0, *"] {
            assert!(!accepts(no), "{no}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }

    #[test]
    fn streams_small_answers_and_tagged_ones_stay_as_they_are() {
        let text = || "a page ".repeat(1_000);
        assert!(is_suitable(&answer("text/html; charset=utf-8", text())));
        assert!(is_suitable(&answer("application/json", text())));
        assert!(!is_suitable(&answer("text/html", "short".into())));
        assert!(!is_suitable(&answer("application/octet-stream", text())));
        assert!(!is_suitable(&answer("text/event-stream", text())));
        let mut tagged = answer("application/json", text());
        tagged.headers_mut().insert(header::ETAG, HeaderValue::from_static("\"1\""));
        assert!(!is_suitable(&tagged));
    }

    #[tokio::test]
    async fn the_bytes_are_the_same_after_all() {
        let text = (0..20_000).map(|number| number.to_string()).collect::<Vec<_>>().join("</li><li>");
        let body = Gzip { inner: HttpBody::from(text.clone()), encoder: Some(encoder()) };
        let packed = body.collect().await.unwrap().to_bytes();
        assert!(packed.len() * 4 < text.len(), "{}", packed.len());
        let mut found = String::new();
        flate2::read::GzDecoder::new(&*packed).read_to_string(&mut found).unwrap();
        assert_eq!(found, text);
    }
}
