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
);
const ICON: &str = include_str!("../../../assets/icon.svg");

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
        "windlass.css" => ("text/css; charset=utf-8", STYLE),
        "windlass.js" => ("text/javascript; charset=utf-8", SCRIPT),
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
