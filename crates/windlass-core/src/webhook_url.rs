//! URLs of callbacks and push targets, and the policy for them. Submission and delivery use the same parser and the
//! same rules. Pure: it resolves no name and opens no connection.

mod network;
mod private_ranges;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use network::Network;

use crate::Words;
use crate::limits;

/// Why a URL is not called. Never contains the URL itself, which may contain a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// The URL is invalid or ambiguous.
    #[error("is not a valid URL: {0}")]
    Malformed(&'static str),
    /// The URL is `http`.
    #[error("is not encrypted: use an `https` URL, or allow `http` for this server")]
    Unencrypted,
    /// The port is not allowed.
    #[error("port {0} is not allowed: allow it for this server, or use 443")]
    Port(u16),
    /// The host name resolves to a non-public address. The error does not contain the address: submitters could use it
    /// to map the network behind the server.
    #[error(
        "resolves to an address that is not public: allow its network for this server, or use a public address"
    )]
    LeadsInside,
    /// The host is a non-public address.
    #[error("{address} is a {kind} address: allow its network for this server, or use a public address")]
    NotPublic {
        /// The address.
        address: IpAddr,
        /// The kind of address.
        kind: &'static str,
    },
}

/// The URL's scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Words)]
pub enum Scheme {
    /// Unencrypted.
    Http,
    /// Over TLS.
    Https,
}

impl Scheme {
    fn port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }
}

/// The URL's host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// A name to be resolved, in lower case, without a trailing dot.
    Name(String),
    /// A literal address, in any notation.
    Address(IpAddr),
}

/// A parsed URL.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookUrl {
    /// The scheme.
    pub scheme: Scheme,
    /// The host.
    pub host: Host,
    /// The port.
    pub port: u16,
    /// Path and query.
    pub path: String,
}

impl WebhookUrl {
    /// Parses a URL.
    ///
    /// Stricter than browsers: URLs that two programs could read differently are rejected, so that the host that is
    /// checked is the host that is called.
    ///
    /// # Errors
    /// [`TargetError::Malformed`] describes the problem.
    pub fn parse(text: &str) -> Result<WebhookUrl, TargetError> {
        if text.len() > limits::CALLBACK_URL_CHARS_MAX {
            return Err(TargetError::Malformed("it is too long"));
        }
        if let Some(problem) = text.bytes().find_map(wrong_byte) {
            return Err(TargetError::Malformed(problem));
        }
        let (scheme, rest) = text.split_once("://").ok_or(TargetError::Malformed(NO_SCHEME))?;
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return Err(TargetError::Malformed(NO_SCHEME)),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err(TargetError::Malformed("it must not contain a user or a password"));
        }
        let (host, port) = split_port(authority, scheme)?;
        // The fragment is never sent.
        let path = path.split('#').next().unwrap_or_default();
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(WebhookUrl { scheme, host: parse_host(host)?, port, path })
    }

    /// Host and port for the `host` header: the port only if it is not the default.
    pub fn authority(&self) -> String {
        if self.port == self.scheme.port() {
            return self.host.to_string();
        }
        format!("{}:{}", self.host, self.port)
    }
}

/// Without the path, which may contain a secret.
impl fmt::Display for WebhookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.as_str(), self.authority())
    }
}

impl fmt::Debug for WebhookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Name(name) => f.write_str(name),
            Host::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// Which URLs a server calls. By default: `https` on the usual ports of public addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetPolicy {
    /// Whether `http` URLs are allowed.
    pub allows_http: bool,
    /// Allowed ports; any if `None`.
    pub ports: Option<Vec<u16>>,
    /// Non-public networks that are allowed.
    pub networks: Vec<Network>,
}

impl Default for TargetPolicy {
    fn default() -> TargetPolicy {
        TargetPolicy { allows_http: false, ports: Some(limits::TARGET_PORTS.to_vec()), networks: Vec::new() }
    }
}

impl TargetPolicy {
    /// A policy that allows everything: for tests, and for networks that are protected otherwise.
    pub fn anywhere() -> TargetPolicy {
        let networks = vec![Network::all_v4(), Network::all_v6()];
        TargetPolicy { allows_http: true, ports: None, networks }
    }

    /// Checks the form of a URL, and that a literal address is public.
    ///
    /// # Errors
    /// [`TargetError`] describes the problem.
    pub fn check_literal(&self, text: &str) -> Result<WebhookUrl, TargetError> {
        let target = WebhookUrl::parse(text)?;
        if let Host::Address(address) = target.host {
            self.check_address(address)?;
        }
        Ok(target)
    }

    /// Checks everything that does not require resolving the name.
    ///
    /// # Errors
    /// [`TargetError`] describes the problem.
    pub fn check(&self, text: &str) -> Result<WebhookUrl, TargetError> {
        let target = self.check_literal(text)?;
        if target.scheme == Scheme::Http && !self.allows_http {
            return Err(TargetError::Unencrypted);
        }
        if self.ports.as_ref().is_some_and(|ports| !ports.contains(&target.port)) {
            return Err(TargetError::Port(target.port));
        }
        Ok(target)
    }

    /// Checks whether this address may be connected to.
    ///
    /// # Errors
    /// [`TargetError::NotPublic`] contains the kind of address.
    pub fn check_address(&self, address: IpAddr) -> Result<(), TargetError> {
        let reached = private_ranges::reached_by(address);
        if self.networks.iter().any(|network| network.contains(reached) || network.contains(address)) {
            return Ok(());
        }
        match private_ranges::kind_of(address) {
            None => Ok(()),
            Some(kind) => Err(TargetError::NotPublic { address, kind }),
        }
    }
}

const NO_SCHEME: &str = "it must begin with `https://`";

/// Bytes that programs interpret differently, or that are in URLs only by mistake.
fn wrong_byte(byte: u8) -> Option<&'static str> {
    match byte {
        b'\\' => Some("it contains a backslash"),
        b' ' | b'"' | b'<' | b'>' | b'^' | b'`' | b'{' | b'|' | b'}' => {
            Some("it contains a character that must be percent-encoded")
        }
        0..=0x1f | 0x7f => Some("it contains a control character"),
        0x80.. => {
            Some("it contains a character that is not ASCII: percent-encode it, or write the name as `xn--…`")
        }
        _ => None,
    }
}

/// Splits the authority into host and port.
fn split_port(authority: &str, scheme: Scheme) -> Result<(&str, u16), TargetError> {
    let after_brackets = authority.rfind(']').map_or(0, |at| at + 1);
    let Some(colon) = authority[after_brackets..].find(':').map(|at| at + after_brackets) else {
        return Ok((authority, scheme.port()));
    };
    let (host, port) = (&authority[..colon], &authority[colon + 1..]);
    let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let port = port.parse().ok().filter(|port| is_number && *port != 0);
    Ok((host, port.ok_or(TargetError::Malformed("its port is not a number from 1 to 65535"))?))
}

fn parse_host(host: &str) -> Result<Host, TargetError> {
    if let Some(inner) = host.strip_prefix('[') {
        let inner = inner.strip_suffix(']').ok_or(TargetError::Malformed("its brackets do not match"))?;
        let address: Result<Ipv6Addr, _> = inner.parse();
        let address = address
            .map_err(|_| TargetError::Malformed("the text between brackets is not an IPv6 address"))?;
        return Ok(Host::Address(IpAddr::V6(address)));
    }
    let host = host.strip_suffix('.').unwrap_or(host);
    let last = host.rsplit('.').next().unwrap_or_default();
    // If the last label is a number, the host is an IPv4 address: resolvers accept it in any base.
    if number(last).is_some() || last.bytes().all(|byte| byte.is_ascii_digit()) && !last.is_empty() {
        let address = parse_v4(host).ok_or(TargetError::Malformed("its host is not an IPv4 address"))?;
        return Ok(Host::Address(IpAddr::V4(address)));
    }
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    if host.len() > 253 || !host.split('.').all(is_label) {
        return Err(TargetError::Malformed("its host is not a valid name"));
    }
    Ok(Host::Name(host.to_ascii_lowercase()))
}

/// Parses one to four numbers, each decimal, octal (`0…`) or hexadecimal (`0x…`); the last one fills the remaining
/// bytes.
fn parse_v4(host: &str) -> Option<Ipv4Addr> {
    let numbers: Vec<u64> = host.split('.').map(number).collect::<Option<_>>()?;
    let (last, first) = numbers.split_last()?;
    if first.len() > 3 || first.iter().any(|number| *number > 255) || *last >= 1 << (8 * (4 - first.len())) {
        return None;
    }
    let mut whole = *last;
    for (position, number) in (0..).zip(first) {
        whole |= number << (8 * (3 - position));
    }
    u32::try_from(whole).ok().map(Ipv4Addr::from)
}

/// Parses a number as old resolvers do.
fn number(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let (digits, radix) = match lower.strip_prefix("0x") {
        Some(hex) => (hex, 16),
        None if lower.len() > 1 && lower.starts_with('0') => (&lower[1..], 8),
        None => (lower.as_str(), 10),
    };
    if radix == 16 && digits.is_empty() {
        return Some(0);
    }
    // `from_str_radix` would accept a sign.
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u64::from_str_radix(digits, radix).ok().filter(|_| is_plain)
}
