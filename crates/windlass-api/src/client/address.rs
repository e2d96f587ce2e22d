//! The address of a server and its API key, such as `https://wl_…@jobs.example:7788`.

use hyper::Uri;

/// The address of a server. It cannot be printed, because it may contain a key.
#[derive(Clone)]
pub struct ServerAddress {
    /// Scheme, host, port and path, without a `/` at the end; never the key.
    pub url: String,
    /// The text in the place of the API key; not checked.
    pub key: Option<String>,
}

/// Why a text is not the address of a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{address}` is not the address of a server: {problem}")]
pub struct BadAddress {
    /// The text without the key.
    pub address: String,
    /// What is wrong.
    pub problem: String,
}

impl ServerAddress {
    /// Parses an address: `http://` or `https://`, an optional key and `@`, host, port, and the path under which a
    /// proxy exposes the server.
    pub fn parse(text: &str) -> Result<ServerAddress, BadAddress> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let (user, host) =
            authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
        let url = format!("{scheme}://{host}{}", path.trim_end_matches('/'));
        let refused = |problem: &str| BadAddress { address: url.clone(), problem: problem.to_owned() };
        if !["http", "https"].contains(&scheme) {
            return Err(refused("its scheme is neither http nor https"));
        }
        if url.contains(['?', '#']) {
            return Err(refused("it has more than host, port and path"));
        }
        if host.is_empty() {
            return Err(refused("it names no host"));
        }
        url.parse::<Uri>().map_err(|error| refused(&error.to_string()))?;
        // `key@` or `name:key@`, as tools with user names and passwords write it.
        let key = user.map(|user| user.rsplit_once(':').map_or(user, |(_, key)| key).to_owned());
        Ok(ServerAddress { url, key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_host_port_path_and_perhaps_a_key() {
        let plain = ServerAddress::parse("http://127.0.0.1:7788").unwrap();
        assert_eq!((plain.url.as_str(), plain.key), ("http://127.0.0.1:7788", None));
        for written in ["secret", ":secret", "me:secret"] {
            let with_key = ServerAddress::parse(&format!("https://{written}@jobs.example/queue/")).unwrap();
            assert_eq!(with_key.url, "https://jobs.example/queue");
            assert_eq!(with_key.key.as_deref(), Some("secret"));
        }
    }

    #[test]
    fn what_is_no_address_is_refused_without_showing_its_key() {
        for bad in [
            "host:7788",
            "ftp://host",
            "http://",
            "http://a b",
            "http://host?x=1",
            "http://host/#top",
            "https://secret@host?x=1",
            "https://secret@",
        ] {
            let refused = ServerAddress::parse(bad).err().expect(bad);
            assert!(!refused.to_string().contains("secret"), "{refused}");
        }
    }
}
