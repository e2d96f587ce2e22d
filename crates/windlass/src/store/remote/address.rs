//! The address of a server and its API key, such as `https://wl_…@jobs.example:7788`.

use hyper::Uri;

use crate::error::OpenError;
use crate::key::KeySecret;

/// The path of the API below a server's address.
const API: &str = "/api/v1";

/// The address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    /// Scheme, host, port and path, including that of the API; never the key.
    pub(super) base: String,
    /// The API key in the address.
    pub(super) key: Option<KeySecret>,
    /// Whether the connection is encrypted.
    pub(super) is_secure: bool,
}

impl Address {
    /// Whether a text is the address of a server at all.
    pub(super) fn is_one(text: &str) -> bool {
        text.starts_with("http://") || text.starts_with("https://")
    }

    /// Parses an address: `http://` or `https://`, an optional key and `@`, host, port, and the path under which a
    /// proxy exposes the server.
    pub(super) fn parse(text: &str) -> Result<Address, OpenError> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let (user, host) =
            authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
        let shown = format!("{scheme}://{host}{path}");
        let refused =
            |problem: &str| OpenError::BadServerAddress { address: shown.clone(), problem: problem.into() };
        if path.contains(['?', '#']) || host.contains(['?', '#']) {
            return Err(refused("it has more than host, port and path"));
        }
        if host.is_empty() {
            return Err(refused("it names no host"));
        }
        let base = format!("{scheme}://{host}{}{API}", path.trim_end_matches('/'));
        base.parse::<Uri>().map_err(|error| refused(&error.to_string()))?;
        // `key@` or `name:key@`, as tools with user names and passwords write it.
        let key = user.map(|user| user.rsplit_once(':').map_or(user, |(_, key)| key));
        let key = key.map(|key| {
            KeySecret::parse(key).ok_or_else(|| refused("the part before the `@` is not an API key"))
        });
        Ok(Address { base, key: key.transpose()?, is_secure: scheme == "https" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_host_port_path_and_perhaps_a_key() {
        let secret = KeySecret::new(7, [1, 2]);
        let plain = Address::parse("http://127.0.0.1:7788").unwrap();
        assert_eq!((plain.base.as_str(), plain.is_secure), ("http://127.0.0.1:7788/api/v1", false));
        assert_eq!(plain.key, None);
        for written in
            [secret.reveal().to_owned(), format!(":{}", secret.reveal()), format!("me:{}", secret.reveal())]
        {
            let with_key = Address::parse(&format!("https://{written}@jobs.example/queue/")).unwrap();
            assert_eq!(
                (with_key.base.as_str(), with_key.is_secure),
                ("https://jobs.example/queue/api/v1", true)
            );
            assert_eq!(with_key.key.as_ref(), Some(&secret));
            assert!(!format!("{with_key:?}").contains(&secret.reveal()[20..]), "a key is never shown");
        }
    }

    #[test]
    fn what_is_no_address_is_refused_without_showing_its_key() {
        for bad in [
            "http://",
            "http://a b",
            "http://host?x=1",
            "https://not-a-key@host",
            "http://host/#top",
            "http://@host",
        ] {
            let refused = Address::parse(bad).unwrap_err();
            assert!(matches!(refused, OpenError::BadServerAddress { .. }), "{bad}: {refused}");
            assert!(!refused.to_string().contains("not-a-key"), "{refused}");
        }
    }
}
