//! The address of a server and its API key, such as `https://wl_…@jobs.example:7788`.

use windlass_api::client::address::ServerAddress;

use crate::error::OpenError;
use crate::key::KeySecret;

/// The address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    /// Scheme, host, port and path; never the key.
    pub(super) url: String,
    /// The API key in the address.
    pub(super) key: Option<KeySecret>,
}

impl Address {
    /// Whether a text is the address of a server at all.
    pub(super) fn is_one(text: &str) -> bool {
        text.starts_with("http://") || text.starts_with("https://")
    }

    /// Parses an address and checks its key.
    pub(super) fn parse(text: &str) -> Result<Address, OpenError> {
        let ServerAddress { url, key } = ServerAddress::parse(text)
            .map_err(|bad| OpenError::BadServerAddress { address: bad.address, problem: bad.problem })?;
        let address = Address { url, key: None };
        let key = key.map(|key| {
            KeySecret::parse(&key).ok_or_else(|| address.refused("the part before the `@` is not an API key"))
        });
        Ok(Address { key: key.transpose()?, ..address })
    }

    /// The error that this server cannot be used.
    pub(super) fn refused(&self, problem: &str) -> OpenError {
        OpenError::BadServerAddress { address: self.url.clone(), problem: problem.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_in_an_address_is_checked_and_never_shown() {
        let secret = KeySecret::new(7, [1, 2]);
        let address = Address::parse(&format!("https://me:{}@jobs.example/queue/", secret.reveal())).unwrap();
        assert_eq!(address.url, "https://jobs.example/queue");
        assert_eq!(address.key.as_ref(), Some(&secret));
        assert!(!format!("{address:?}").contains(&secret.reveal()[20..]), "a key is never shown");
        assert_eq!(Address::parse("http://127.0.0.1:7788").unwrap().key, None);
        for bad in ["http://", "https://not-a-key@host", "http://@host"] {
            let refused = Address::parse(bad).unwrap_err();
            assert!(matches!(refused, OpenError::BadServerAddress { .. }), "{bad}: {refused}");
            assert!(!refused.to_string().contains("not-a-key"), "{refused}");
        }
    }
}
