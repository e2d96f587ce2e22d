//! Refreshes that send only what changed. The page's script says which parts of the page it has, by their digests; a part that
//! is still the same is sent as an empty element, which the script leaves alone. A page without any change is not sent at all.
//! The page is made in full with the permissions of its visitor; what is left out was sent to the same script before.

use std::collections::HashSet;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use crate::dashboard::pages::limits;

/// The digests: of the whole page first, then of its parts. The script sends what the last answer said.
const PARTS: HeaderName = HeaderName::from_static("windlass-parts");

/// Elements that are sent or left out as a whole; those that have an id and are not inside another one.
const KINDS: [(&str, &str); 2] = [("<section ", "</section>"), ("<tr id=", "</tr>")];

/// What the script has: digests, the first one of the whole page.
pub(in crate::dashboard) struct PartDigests(String);

impl PartDigests {
    /// None unless the request is a refresh by the script.
    pub(in crate::dashboard) fn from_headers(headers: &HeaderMap) -> Option<PartDigests> {
        let text = headers.get(&PARTS)?.to_str().ok()?;
        Some(PartDigests(text.get(..limits::PARTS_BYTES_MAX).unwrap_or(text).to_owned()))
    }
}

/// The answer to a refresh: what changed.
pub(in crate::dashboard) async fn changed(response: Response, known: Option<PartDigests>) -> Response {
    let Some(known) = known.filter(|_| is_page(&response)) else { return response };
    let (mut head, body) = response.into_parts();
    let Ok(bytes) = to_bytes(body, limits::REFRESH_BYTES_MAX).await else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let Some(page) = std::str::from_utf8(&bytes).ok().and_then(|html| Page::read(html, &known.0)) else {
        return Response::from_parts(head, Body::from(bytes));
    };
    let Ok(parts) = HeaderValue::from_str(&page.parts) else {
        return Response::from_parts(head, Body::from(bytes));
    };
    head.headers.insert(PARTS, parts);
    head.headers.remove(header::CONTENT_LENGTH);
    if page.is_same {
        head.status = StatusCode::NOT_MODIFIED;
        return Response::from_parts(head, Body::empty());
    }
    Response::from_parts(head, Body::from(page.html))
}

fn is_page(response: &Response) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    response.status() == StatusCode::OK && kind.is_some_and(|kind| kind.starts_with("text/html"))
}

/// Twelve hexadecimal digits of a digest: parts of one page are few.
fn digest(text: &str) -> String {
    Sha256::digest(text).iter().take(6).fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

/// A page as it is sent to a script that has some parts of it.
struct Page {
    html: String,
    parts: String,
    is_same: bool,
}

impl Page {
    /// None for a page without a main part.
    fn read(html: &str, known: &str) -> Option<Page> {
        let (title, live) =
            (between(html, "<title>", "</title>")?, between(html, "<body data-live=\"", "\"")?);
        let begin = html.find("<main ")?;
        let end = html.rfind("</main>")?;
        let main = html.get(begin..end)?;
        let whole = digest(&format!("{title}\n{main}"));
        let mut has = known.split(' ');
        let is_same = has.next() == Some(whole.as_str());
        let has: HashSet<&str> = has.collect();
        let (mut sent, mut parts, mut rest) = (String::new(), whole, main);
        while let Some((before, part, after)) = next_part(rest) {
            let own = digest(part);
            sent.push_str(before);
            let id = between(part, " id=\"", "\"").unwrap_or_default();
            if has.contains(own.as_str()) {
                let kind = if part.starts_with("<tr") { "tr" } else { "section" };
                sent.push_str(&["<", kind, " id=\"", id, "\" data-same></", kind, ">"].concat());
            } else {
                sent.push_str(part);
            }
            parts.push(' ');
            parts.push_str(&own);
            rest = after;
        }
        sent.push_str(rest);
        let html = format!(
            "<!doctype html><html lang=\"en\"><head><title>{title}</title></head><body data-live=\"{live}\">{sent}</main></body></html>"
        );
        Some(Page { html, parts, is_same })
    }
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    Some(rest.split_once(after)?.0)
}

/// The first part with an id: what is before it, the part, and what is after it. Text of users is escaped, so that it contains
/// no elements.
fn next_part(html: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    loop {
        let found =
            KINDS.iter().filter_map(|(open, close)| Some((html[from..].find(open)? + from, *open, *close)));
        let (begin, open, close) = found.min_by_key(|(place, ..)| *place)?;
        let tag_end = html[begin..].find('>')? + begin;
        // Elements of the same kind may be nested.
        let inner_open = open.split(' ').next().unwrap_or(open);
        let (mut depth, mut at) = (1, tag_end);
        while depth > 0 {
            let ends = html[at..].find(close)? + at;
            let begins = html[at..ends].match_indices(inner_open).count();
            depth = depth + begins - 1;
            at = ends + close.len();
        }
        if html[begin..tag_end].contains(" id=\"") {
            return Some((&html[..begin], &html[begin..at], &html[at..]));
        }
        from = tag_end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "<html><head><title>T</title></head><body data-live=\"/live?seen=1\"><nav>menu</nav><main id=\"main\">\
        <h1>x</h1><section id=\"a\">one<section class=\"in\">inner</section></section><section>no id\
        <table><tr id=\"r1\"><td>1</td></tr></table></section><section class=\"card\" id=\"b\">two</section></main></body></html>";

    fn parts(known: &str) -> Page {
        Page::read(PAGE, known).unwrap()
    }

    #[test]
    fn what_the_script_has_is_left_out() {
        let first = parts("");
        assert!(
            !first.is_same && first.html.contains("one") && !first.html.contains("menu"),
            "{}",
            first.html
        );
        assert_eq!(first.parts.split(' ').count(), 4, "the whole, two sections and a row");
        assert!(parts(&first.parts).is_same);
        let changed = Page::read(&PAGE.replace("two", "three"), &first.parts).unwrap();
        assert!(!changed.is_same && changed.html.contains("three") && !changed.html.contains("inner"));
        assert!(changed.html.contains("<section id=\"a\" data-same></section>"), "{}", changed.html);
        assert!(
            changed.html.contains("no id<table><tr id=\"r1\" data-same></tr></table>"),
            "{}",
            changed.html
        );
        let other_number = Page::read(&PAGE.replace("seen=1", "seen=2"), &first.parts).unwrap();
        assert!(other_number.is_same, "the number of the change stream does not change the page");
    }

    #[test]
    fn a_page_that_is_cut_is_sent_as_it_is() {
        assert!(Page::read("<title>T</title>", "").is_none());
        let cut = Page::read(&PAGE.replace("two</section>", "two"), "").unwrap();
        assert!(cut.html.contains("two"));
    }
}
