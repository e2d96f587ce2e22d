//! Where an address leads, for benchmarks that put a proxy in front of the server: its host and port or its socket, and
//! the same address by another way or with another schema.

use std::path::PathBuf;

use tokio_postgres::Config;
use tokio_postgres::config::Host;

use crate::error::OpenError;
use crate::store::engines::postgres::connection::address::{Address, split};

/// The server that an address leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// A host, by name or number, and a port.
    Tcp(String, u16),
    /// A socket file.
    Unix(PathBuf),
}

impl Endpoint {
    /// The server of an address.
    ///
    /// # Errors
    /// If the address is invalid, or leads to more than one server: several hosts, or `listen` past a pooler.
    pub fn from_address(address: &str) -> Result<Endpoint, OpenError> {
        let config = Address::parse(address)?.config;
        if !split(address, &["listen"]).1.is_empty() {
            return Err(several("it has a second server, `listen`"));
        }
        let port = config.get_ports().first().copied().unwrap_or(5432);
        match (config.get_hosts(), config.get_hostaddrs()) {
            ([_] | [], [number]) => Ok(Endpoint::Tcp(number.to_string(), port)),
            ([Host::Tcp(name)], []) => Ok(Endpoint::Tcp(name.clone(), port)),
            ([Host::Unix(folder)], []) => Ok(Endpoint::Unix(folder.join(format!(".s.PGSQL.{port}")))),
            ([], []) => Err(OpenError::BadAddress("the address names no host".to_owned())),
            _ => Err(several("it has several hosts")),
        }
    }
}

fn several(why: &str) -> OpenError {
    OpenError::BadAddress(format!("a delay needs an address with one server: {why}"))
}

/// The same address by way of a local port. The name of the host stays for the verification of its certificate.
///
/// # Errors
/// As [`Endpoint::from_address`].
pub fn through(address: &str, port: u16) -> Result<String, OpenError> {
    let (endpoint, name) = (Endpoint::from_address(address)?, name_of(&Address::parse(address)?.config));
    let (rest, _) = split(address, &["host", "hostaddr", "port"]);
    let (rest, way) = match endpoint {
        // A socket has no TLS, and what is behind the local port is that socket.
        Endpoint::Unix(_) => (split(&rest, &["sslmode"]).0, "sslmode=disable"),
        Endpoint::Tcp(..) => (rest, "hostaddr=127.0.0.1"),
    };
    let (base, query) =
        rest.split_once('?').map_or((rest.as_str(), None), |(base, query)| (base, Some(query)));
    let (scheme, base) = base.split_once("://").unwrap_or(("postgres", base));
    let (user, place) = base.split_once('@').map_or(("", base), |(user, place)| (user, place));
    let database = place.find('/').map_or("", |at| &place[at..]);
    let at = if user.is_empty() { "" } else { "@" };
    let host = name.unwrap_or_else(|| "127.0.0.1".to_owned());
    let query = query.map_or(String::new(), |query| format!("{query}&"));
    Ok(format!("{scheme}://{user}{at}{host}:{port}{database}?{query}{way}"))
}

/// The name of the host as it is written in an address.
fn name_of(config: &Config) -> Option<String> {
    match config.get_hosts() {
        [Host::Tcp(name)] if name.contains(':') => Some(format!("[{name}]")),
        [Host::Tcp(name)] => Some(name.clone()),
        _ => None,
    }
}

/// The same address with another schema.
pub fn with_schema(address: &str, schema: &str) -> String {
    let (rest, _) = split(address, &["schema"]);
    let sign = if rest.contains('?') { '&' } else { '?' };
    format!("{rest}{sign}schema={schema}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_leads_to_a_host_or_a_socket() {
        for (address, endpoint) in [
            ("postgres://me:secret@db:6432/app", Endpoint::Tcp("db".to_owned(), 6432)),
            ("postgres://db/app", Endpoint::Tcp("db".to_owned(), 5432)),
            ("postgres://[::1]:5433/app", Endpoint::Tcp("::1".to_owned(), 5433)),
            ("postgres:///app?host=db&port=7", Endpoint::Tcp("db".to_owned(), 7)),
            ("postgres://db/app?hostaddr=10.0.0.7", Endpoint::Tcp("10.0.0.7".to_owned(), 5432)),
            ("postgres:///app?host=/run/pg", Endpoint::Unix("/run/pg/.s.PGSQL.5432".into())),
            ("postgres://%2Frun%2Fpg:5433/app", Endpoint::Unix("/run/pg/.s.PGSQL.5433".into())),
        ] {
            assert_eq!(Endpoint::from_address(address).unwrap(), endpoint, "{address}");
        }
        for address in
            ["postgres://a,b/app", "postgres://pool/app?listen=postgres://db/app", "postgres:///app"]
        {
            assert!(matches!(Endpoint::from_address(address), Err(OpenError::BadAddress(_))), "{address}");
        }
    }

    #[test]
    fn the_way_changes_and_everything_else_stays() {
        for (address, other) in [
            ("postgres://me:s%40x@db:6432/app", "postgres://me:s%40x@db:9/app?hostaddr=127.0.0.1"),
            (
                "postgres://db/app?sslmode=require&schema=a&hostaddr=10.0.0.7",
                "postgres://db:9/app?sslmode=require&schema=a&hostaddr=127.0.0.1",
            ),
            (
                "postgres:///app?hostaddr=10.0.0.7&sslmode=require",
                "postgres://127.0.0.1:9/app?sslmode=require&hostaddr=127.0.0.1",
            ),
            ("postgres://[::1]/app", "postgres://[::1]:9/app?hostaddr=127.0.0.1"),
            (
                "postgres:///app?user=me&host=/run/pg&sslmode=prefer",
                "postgres://127.0.0.1:9/app?user=me&sslmode=disable",
            ),
            ("postgres://me@%2Frun%2Fpg:5433/app", "postgres://me@127.0.0.1:9/app?sslmode=disable"),
        ] {
            let found = through(address, 9).unwrap();
            assert_eq!(found, other);
            let local = Endpoint::Tcp("127.0.0.1".to_owned(), 9);
            assert_eq!(Endpoint::from_address(&found).unwrap(), local, "{address}");
        }
        assert_eq!(with_schema("postgres://db/app", "b"), "postgres://db/app?schema=b");
        assert_eq!(with_schema("postgres://db/a?schema=a&user=m", "b"), "postgres://db/a?user=m&schema=b");
    }
}
