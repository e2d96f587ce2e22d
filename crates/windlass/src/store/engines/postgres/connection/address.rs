//! The address of the database: a `postgres://` URL, with this engine's own options among those of the driver. It makes
//! no connection.

use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio_postgres::Config;

use crate::error::OpenError;
use crate::limits;
use crate::store::engines::postgres::connection::tls::{Tls, TlsOptions};

/// The parsed address of the database.
#[derive(Debug, Clone)]
pub(in super::super) struct Address {
    /// For transactions; may lead through a pooler.
    pub(in super::super) config: Config,
    /// For notifications, which need a direct connection that bypasses a pooler.
    pub(in super::super) listen: Config,
    /// TLS for `config`.
    pub(in super::super) tls: Tls,
    /// TLS for `listen`.
    pub(in super::super) listen_tls: Tls,
    /// The schema that holds the tables.
    pub(in super::super) schema: String,
    /// Whether commits are announced to other nodes, or found by polling alone.
    pub(in super::super) is_notifying: bool,
    /// Whether statements are prepared once per connection.
    pub(in super::super) keeps_statements: bool,
    /// Whether submissions that need no shared decision are stored without the store's lock.
    pub(in super::super) is_appending: bool,
}

impl Address {
    /// Parses an address.
    pub(in super::super) fn parse(address: &str) -> Result<Address, OpenError> {
        let (driver, own) = split(address, &["schema", "notify", "statement_cache", "append", "listen"]);
        let (config, tls) = parse_config(&driver)?;
        let mut parsed = Address {
            listen: config.clone(),
            config,
            listen_tls: tls.clone(),
            tls,
            schema: "windlass".to_owned(),
            is_notifying: true,
            keeps_statements: true,
            is_appending: true,
        };
        let mut notify = None;
        let mut is_direct = false;
        for (name, value) in own {
            match (name.as_str(), value.as_str()) {
                ("schema", name) if is_plain_name(name) => name.clone_into(&mut parsed.schema),
                ("statement_cache", "on") => {}
                ("notify", "on" | "off") => notify = Some(value == "on"),
                ("append", "on" | "off") => parsed.is_appending = value == "on",
                ("statement_cache", "off") => parsed.keeps_statements = false,
                ("listen", address) => {
                    (parsed.listen, parsed.listen_tls) = parse_config(address)?;
                    is_direct = true;
                }
                (name, _) => return Err(bad_option(name)),
            }
        }
        // Without prepared statements the connection belongs to a pooler, where a subscription would stay with the next
        // client and its notifications would be lost.
        parsed.is_notifying = notify.unwrap_or(is_direct || parsed.keeps_statements);
        Ok(parsed)
    }

    /// The schema prefix of a table's name.
    pub(in super::super) fn prefix(&self) -> String {
        format!("\"{}\".", self.schema)
    }

    /// The key of this schema's advisory lock; `part` distinguishes several of them.
    pub(in super::super) fn lock_key(&self, part: &str) -> i64 {
        let digest = Sha256::digest(format!("windlass {} {part}", self.schema).as_bytes());
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&digest[..8]);
        i64::from_be_bytes(bytes)
    }

    /// The lock that appends share.
    pub(in super::super) fn append_gate(&self) -> i64 {
        self.lock_key("append")
    }

    /// The channel of this schema's notifications.
    pub(in super::super) fn channel(&self) -> String {
        format!("windlass:{}", self.schema)
    }
}

/// The error for an option. Does not repeat the value: an option that swallowed part of an address holds a password.
fn bad_option(name: &str) -> OpenError {
    let allowed = match name {
        "schema" => "1 to 48 lower-case letters, digits and `_`, not beginning with `pg_`",
        _ => "on or off",
    };
    OpenError::BadAddress(format!("the value of `{name}` is not valid: {allowed}"))
}

/// Names that need no quoting and are short enough for PostgreSQL.
fn is_plain_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    (1..=48).contains(&name.len()) && name.chars().all(is_plain) && !name.starts_with("pg_")
}

/// The driver's configuration and TLS options, of which the driver supports fewer than libpq.
fn parse_config(address: &str) -> Result<(Config, Tls), OpenError> {
    let (driver, own) = split(address, &["sslmode", "sslrootcert", "sslcert", "sslkey"]);
    let mut config: Config = driver.parse().map_err(|error| OpenError::BadAddress(format!("{error}")))?;
    let mut options = TlsOptions::default();
    for (name, value) in own {
        match name.as_str() {
            "sslmode" => options.mode = Some(value),
            "sslrootcert" => options.root = Some(value),
            "sslcert" => options.identity[0] = Some(value),
            _ => options.identity[1] = Some(value),
        }
    }
    let (tls, mode) = Tls::new(&options, config.get_hosts())?;
    config.ssl_mode(mode);
    // Of several hosts another one may have taken over; a host that drops every packet must be left soon.
    let has_others = config.get_hosts().len() > 1;
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(if has_others { limits::CONNECT_HOST_MAX } else { limits::CONNECT_MAX });
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(if has_others { limits::HOST_SILENCE_MAX } else { limits::CALL_MAX });
    }
    // Two hours if the address says nothing.
    if config.get_keepalives_idle() == Config::new().get_keepalives_idle() {
        config.keepalives_idle(if has_others { limits::HOST_PROBE_EVERY } else { Duration::from_secs(30) });
    }
    if has_others && config.get_keepalives_interval().is_none() {
        config.keepalives_interval(limits::HOST_PROBE_EVERY);
    }
    if config.get_application_name().is_none() {
        config.application_name("windlass");
    }
    Ok((config, tls))
}

/// The address without the wanted options, and those options.
pub(in super::super) fn split(address: &str, wanted: &[&str]) -> (String, Vec<(String, String)>) {
    let Some((base, query)) = address.split_once('?') else { return (address.to_owned(), Vec::new()) };
    let (mut own, mut driver) = (Vec::new(), Vec::new());
    for option in query.split('&') {
        match option.split_once('=') {
            Some((name, value)) if wanted.contains(&name) => own.push((name.to_owned(), decode(value))),
            _ => driver.push(option),
        }
    }
    let base = if driver.is_empty() { base.to_owned() } else { format!("{base}?{}", driver.join("&")) };
    (base, own)
}

/// Percent-decodes a value; invalid escapes stay as they are.
fn decode(value: &str) -> String {
    let bytes = value.as_bytes();
    let (mut plain, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        // `from_str_radix` would accept a sign.
        let digits =
            value.get(at + 1..at + 3).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let escaped = escaped.filter(|_| bytes[at] == b'%');
        plain.push(escaped.unwrap_or(bytes[at]));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use tokio_postgres::config::SslMode;

    use super::*;

    #[test]
    fn own_options_are_taken_out_and_the_drivers_stay() {
        let address = "postgres://me@db/app?schema=jobs&connect_timeout=3&notify=off&statement_cache=off\
                       &listen=postgres://me@direct/app%3Fapplication_name%3Dears";
        let parsed = Address::parse(address).unwrap();
        assert_eq!((parsed.schema.as_str(), parsed.is_notifying), ("jobs", false));
        assert!(!parsed.keeps_statements);
        assert_eq!(parsed.config.get_connect_timeout(), Some(&Duration::from_secs(3)));
        assert_eq!(parsed.listen.get_application_name(), Some("ears"));
        assert_eq!(parsed.prefix(), "\"jobs\".");
    }

    #[test]
    fn one_of_several_hosts_that_is_silent_is_left_soon() {
        let parsed = |address: &str| Address::parse(address).unwrap();
        for config in [
            parsed("postgres://a,b/app?target_session_attrs=read-write").config,
            parsed("postgres://pooler/app?listen=postgres://a,b/app").listen,
        ] {
            let limits =
                [config.get_connect_timeout(), config.get_tcp_user_timeout()].map(|most| *most.unwrap());
            // One host may have to be found silent twice: as the one it was connected to, and when it is tried again.
            assert!(limits.iter().sum::<Duration>() < Duration::from_secs(5), "{limits:?}");
            assert!(config.get_keepalives_idle() < Duration::from_secs(2));
            assert!(config.get_keepalives_interval() < Some(Duration::from_secs(2)));
        }
        let one = parsed("postgres://a/app").config;
        assert_eq!(one.get_tcp_user_timeout(), Some(&limits::CALL_MAX));
        let own = parsed("postgres://a,b/app?connect_timeout=7").config;
        assert_eq!(own.get_connect_timeout(), Some(&Duration::from_secs(7)));
    }

    #[test]
    fn tls_is_asked_for_as_libpq_does() {
        let mode = |address: &str| Address::parse(address).unwrap().config.get_ssl_mode();
        assert_eq!(mode("postgres://db/app"), SslMode::Prefer);
        assert_eq!(mode("postgres://db/app?sslmode=disable"), SslMode::Disable);
        assert_eq!(mode("postgres://db/app?schema=a&sslmode=require&connect_timeout=3"), SslMode::Require);
        assert_eq!(mode("postgres:///app?host=/run/postgresql&sslmode=require"), SslMode::Disable);
        let listen = "postgres://db/app?listen=postgres://direct/app%3Fsslmode%3Drequire";
        assert_eq!(Address::parse(listen).unwrap().listen.get_ssl_mode(), SslMode::Require);
        assert_eq!(mode(listen), SslMode::Prefer);
    }

    #[test]
    fn a_pooler_without_a_way_past_it_is_not_listened_to() {
        for (options, is_notifying) in [
            ("", true),
            ("?statement_cache=off", false),
            ("?statement_cache=off&notify=on", true),
            ("?statement_cache=off&listen=postgres://direct/app", true),
            ("?notify=off&listen=postgres://direct/app", false),
        ] {
            let parsed = Address::parse(&format!("postgres://db/app{options}")).unwrap();
            assert_eq!(parsed.is_notifying, is_notifying, "{options}");
        }
    }

    /// An address is parsed or refused in words, never with the password; an escape that is none stays as it is.
    #[test]
    fn any_address_is_parsed_or_refused_in_words() {
        let seeds = [
            "postgres://me:hunter2@db:5432/app?schema=jobs&connect_timeout=3&notify=off&statement_cache=off",
            "postgresql://me:hunter2@a,b:1/app?target_session_attrs=read-write&append=on&sslmode=require",
            "postgres://db/app?listen=postgres://me:hunter2@direct/app%3Fapplication_name%3Dears%26sslmode%3Ddisable",
            "postgres://%2Frun%2Fpostgresql/app?options=-c%20geqo%3Doff",
        ];
        let words =
            ["%", "%+f", "%25", "&schema=", "?", "=", "@", ",", "listen=", "sslmode=verify-full", "%00"];
        windlass_fuzz::Family::new("postgres-url").seeds(seeds).words(words).text(
            |text| match Address::parse(text) {
                Ok(parsed) if is_plain_name(&parsed.schema) => Ok(()),
                Ok(parsed) => Err(format!("the schema is {}", parsed.schema)),
                Err(problem) if problem.to_string().contains("hunter2") => Err(format!("{problem}")),
                Err(_) => Ok(()),
            },
        );
        assert_eq!(decode("%+f%2b%2"), "%+f+%2");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for address in [
            "postgres://db/app?schema=a b",
            "postgres://db/app?schema=",
            "postgres://db/app?schema=pg_jobs",
            "postgres://db/app?notify=maybe",
            "postgres://db/app?no_such_option=1",
            "postgres://db/app?sslmode=allow",
            "postgres://db/app?sslmode=verify-ca&sslrootcert=/no/such/file",
            "postgres://db/app?sslmode=require&sslrootcert=system",
            "postgres://db/app?sslcert=/a/certificate",
        ] {
            assert!(matches!(Address::parse(address), Err(OpenError::BadAddress(_))), "{address}");
        }
    }
}
