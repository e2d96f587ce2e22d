//! Style, script and icon, compiled in. Their path contains a digest of their content, so browsers may cache them forever.
//! If servers of two versions share an address, a request for the other version gets this version's file, without caching.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use crate::dashboard::page::PageError;

const STYLE: &str = concat!(
    include_str!("../../../assets/color.css"),
    include_str!("../../../assets/frame.css"),
    include_str!("../../../assets/part.css"),
    include_str!("../../../assets/page.css"),
);
const SCRIPT: &str = concat!(
    include_str!("../../../assets/patch.js"),
    include_str!("../../../assets/forms.js"),
    include_str!("../../../assets/live.js"),
    include_str!("../../../assets/keys.js"),
    include_str!("../../../assets/charts.js"),
);
const ICON: &str = include_str!("../../../assets/icon.svg");

/// Style and script as they are sent: without comments and indentation, which are a fifth of them.
static LEAN: LazyLock<[String; 2]> = LazyLock::new(|| [tight(&lean(STYLE)), lean(SCRIPT)]);

/// A style without the spaces inside of braces.
fn tight(style: &str) -> String {
    style.replace(" { ", "{").replace("; }", "}")
}

/// The lines of a file without comments and indentation. Comments stand on lines of their own; no text spans lines.
fn lean(text: &str) -> String {
    let (mut kept, mut is_comment) = (String::with_capacity(text.len()), false);
    for line in text.lines().map(str::trim) {
        is_comment |= line.starts_with("/*");
        let is_over = is_comment && line.ends_with("*/");
        if !is_comment && !line.is_empty() && !line.starts_with("//") {
            kept.push_str(line);
            kept.push('\n');
        }
        is_comment &= !is_over;
    }
    kept
}

static VERSION: LazyLock<String> = LazyLock::new(|| {
    let digest = Sha256::digest([STYLE, SCRIPT, ICON].concat().as_bytes());
    digest.iter().take(6).fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
});

/// A short digest of all assets.
pub(in crate::dashboard) fn version() -> &'static str {
    &VERSION
}

/// `GET /assets/{version}/{name}`
pub(in crate::dashboard) async fn serve(
    Path((asked, name)): Path<(String, String)>,
) -> Result<Response, PageError> {
    let (content_type, text) = match name.as_str() {
        "windlass.css" => ("text/css; charset=utf-8", LEAN[0].as_str()),
        "windlass.js" => ("text/javascript; charset=utf-8", LEAN[1].as_str()),
        "icon.svg" => ("image/svg+xml", ICON),
        _ => return Err(PageError::not_found("no such file")),
    };
    let keep = if asked == version() { "public, max-age=31536000, immutable" } else { "no-store" };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(content_type)),
        (header::CACHE_CONTROL, HeaderValue::from_static(keep)),
    ];
    Ok((headers, text).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assets_are_sent_without_comments() {
        assert_eq!(
            lean("/* one\n   two */\na {\n  b: c;\n}\n\n  // d\n  e(\"//f\");\n"),
            "a {\nb: c;\n}\ne(\"//f\");\n"
        );
        assert_eq!(
            tight("a { b: c; d: e; }\n@media (f) { g h { i: j; } }\n"),
            "a{b: c; d: e}\n@media (f){g h{i: j} }\n"
        );
        for text in [STYLE, SCRIPT] {
            // A template that spans lines would lose its indentation.
            assert!(text.lines().all(|line| line.matches('`').count().is_multiple_of(2)));
            let lean = lean(text);
            let is_comment = |line: &str| line.starts_with("//") || line.starts_with("/*");
            assert!(lean.len() < text.len() && !lean.lines().any(is_comment));
        }
    }
}
