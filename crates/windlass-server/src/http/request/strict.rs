//! Rejects ambiguous requests, which a proxy in front of the server might interpret differently (request smuggling).

use std::net::Ipv6Addr;

use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, Version, header};

use crate::http::reply::error::ApiError;
use crate::limits;

/// Rejects headers that are too large or ambiguous.
pub(crate) fn check(request: &Request) -> Result<(), ApiError> {
    let headers = request.headers();
    let lines = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len());
    let bytes = lines.sum::<usize>() + request.uri().to_string().len();
    if bytes > limits::HEAD_BYTES_MAX {
        let message = "the request's headers are too large";
        return Err(ApiError::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "head_too_large", message));
    }
    check_host(request)?;
    check_framing(headers)
}

fn refused(message: &str) -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, "not_http", message)
}

/// Requires one well-formed host, the same as in the request's address if that names one.
fn check_host(request: &Request) -> Result<(), ApiError> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let (host, other) = (hosts.next(), hosts.next());
    if other.is_some() {
        return Err(refused("the request has two Host headers"));
    }
    let Some(host) = host else {
        // HTTP/1.0 does not require it.
        let is_needed = request.version() >= Version::HTTP_11;
        return if is_needed { Err(refused("the request has no Host header")) } else { Ok(()) };
    };
    let host = host.to_str().unwrap_or_default();
    if !is_host(host) {
        return Err(refused("the Host header is malformed"));
    }
    match request.uri().authority() {
        Some(authority) if !authority.as_str().eq_ignore_ascii_case(host) => {
            Err(refused("the request's address names another host than the Host header"))
        }
        _ => Ok(()),
    }
}

/// Whether it is a host name or address with an optional port.
fn is_host(text: &str) -> bool {
    let (is_name, port) = if let Some(rest) = text.strip_prefix('[') {
        let Some((address, after)) = rest.split_once(']') else { return false };
        let port = if after.is_empty() { Some(None) } else { after.strip_prefix(':').map(Some) };
        let Some(port) = port else { return false };
        (address.parse::<Ipv6Addr>().is_ok(), port)
    } else {
        let (name, port) = text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port)));
        let is_letter = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
        (!name.is_empty() && name.chars().all(is_letter), port)
    };
    is_name && port.is_none_or(|port| port.parse::<u16>().is_ok() && port.bytes().all(|b| b.is_ascii_digit()))
}

/// Requires an unambiguous body length. A Content-Length beside chunked encoding is removed by the HTTP library, which then
/// closes the connection.
fn check_framing(headers: &HeaderMap) -> Result<(), ApiError> {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    let Some(coding) = codings.next() else { return Ok(()) };
    let is_plain =
        coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked") && codings.next().is_none();
    if is_plain { Ok(()) } else { Err(refused("unsupported Transfer-Encoding: only chunked is accepted")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names_or_addresses_with_a_port() {
        for good in ["localhost", "jobs.example:443", "127.0.0.1:7788", "[::1]", "[::1]:80", "a_b.example"] {
            assert!(is_host(good), "{good}");
        }
        for bad in [
            "",
            "[::1]evil",
            "[::1",
            "[x]",
            "a:b",
            "a:",
            "a:99999",
            "a:+1",
            "a b",
            "a/b",
            "user@a",
            "a:1:2",
            ":80",
        ] {
            assert!(!is_host(bad), "{bad}");
        }
    }
}
