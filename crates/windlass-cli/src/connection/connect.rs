//! Which server a command connects to, and with which key. A flag takes precedence over the environment, and the
//! environment over a profile. A key is sent only to the server that it was given for.

use clap::Args;
use windlass::key::KeySecret;
use windlass_api::client::address::ServerAddress;
use windlass_api::time::Span;

use crate::connection::client::ServerClient;
use crate::connection::profile::{self, Profile};
use crate::error::Failure;
use crate::output::format::Format;

/// The server's address if none is configured.
pub(crate) const URL: &str = "http://127.0.0.1:7788";

/// The server to connect to.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Server")]
pub(crate) struct ConnectArgs {
    #[arg(
        long,
        help = "The server's address [env: WINDLASS_URL] [default: http://127.0.0.1:7788]",
        value_name = "ADDRESS"
    )]
    pub(crate) url: Option<String>,
    #[arg(
        long,
        help = "The API key; prefer WINDLASS_KEY or a profile: other users of the machine can see command \
            lines",
        value_name = "KEY"
    )]
    pub(crate) key: Option<String>,
    #[arg(
        long,
        help = "Name of a profile with address and key, from ~/.config/windlass/profiles.toml [env: \
            WINDLASS_PROFILE]",
        value_name = "NAME"
    )]
    pub(crate) profile: Option<String>,
    /// Print the API's JSON instead of text; the same as -o json
    #[arg(long, default_value_ifs = [("output", "json", "true"), ("output", "yaml", "true")])]
    pub(crate) json: bool,
    /// Format of the output
    #[arg(long, short, help_heading = "Output", value_name = "FORMAT")]
    pub(crate) output: Option<Format>,
    /// Print no notes and no progress beside the data, only errors
    #[arg(long, help_heading = "Output")]
    pub(crate) quiet: bool,
    /// Columns of a table to print, in this order, such as id,state,type
    #[arg(long, help_heading = "Output", value_name = "NAMES", value_delimiter = ',')]
    pub(crate) columns: Vec<String>,
    /// Repeat the command every few seconds until Ctrl-C, such as --watch or --watch=10s
    #[arg(long, help_heading = "Output", value_name = "INTERVAL", num_args = 0..=1, require_equals = true, default_missing_value = "2s")]
    pub(crate) watch: Option<Span>,
}

/// The resolved server address and key.
#[derive(Clone)]
pub(crate) struct Connection {
    /// Scheme, host, port and path; without the API's own path and without a key.
    pub(crate) url: String,
    pub(crate) key: Option<KeySecret>,
}

impl ConnectArgs {
    /// The server that flags, environment and profiles select.
    pub(crate) fn connection(&self) -> anyhow::Result<Connection> {
        let variable = |name: &str| std::env::var(name).ok();
        decide(self, &variable, &|name| {
            let file = profile::place(&variable);
            profile::find(file.as_deref(), name)
        })
    }

    /// A client of the selected server, not connected yet.
    pub(crate) fn client(&self) -> anyhow::Result<ServerClient> {
        Ok(ServerClient::new(&self.connection()?, self.json)?)
    }
}

impl Connection {
    /// Host, port and path, for messages.
    pub(crate) fn place(&self) -> &str {
        self.url.split_once("://").map_or(self.url.as_str(), |(_, place)| place)
    }

    /// The address with its key, as [`windlass::Client::open`] takes it. Must not be printed.
    pub(crate) fn store_address(&self) -> String {
        match (&self.key, self.url.split_once("://")) {
            (Some(key), Some((scheme, place))) => format!("{scheme}://{}@{place}", key.reveal()),
            _ => self.url.clone(),
        }
    }
}

/// Resolves flags, environment and profiles.
fn decide(
    args: &ConnectArgs,
    variable: &dyn Fn(&str) -> Option<String>,
    find: &dyn Fn(Option<&str>) -> anyhow::Result<Option<Profile>>,
) -> anyhow::Result<Connection> {
    let filled = |name: &str| variable(name).filter(|value| !value.is_empty());
    // A profile named by a flag takes precedence over the environment.
    let named = args.profile.as_deref().map(|name| find(Some(name))).transpose()?.flatten();
    let is_named = named.is_some();
    let from_environment = if is_named { None } else { filled("WINDLASS_URL") };
    let given = args.url.clone().or(from_environment);
    let profile = match (named, &given) {
        (Some(profile), _) => Some(profile),
        // A profile's key is not sent to a server that another source names.
        (None, Some(_)) => None,
        (None, None) => find(filled("WINDLASS_PROFILE").as_deref())?,
    };
    let own_key = if is_named { None } else { filled("WINDLASS_KEY") };
    let (url, profile_key) = match (given, profile) {
        (Some(url), _) => (url, None),
        (None, Some(profile)) => (profile.url, profile.key),
        (None, None) => (URL.to_owned(), None),
    };
    let (url, key_in_url) = split(&url)?;
    // A key next to the address in a profile is more specific than a key in the environment.
    let key = args.key.clone().or(key_in_url).or(profile_key).or(own_key);
    let key = key.map(|key| {
        KeySecret::parse(key.trim()).ok_or_else(|| Failure::usage("invalid API key: keys start with wl_"))
    });
    Ok(Connection { url, key: key.transpose()? })
}

/// Splits an address from the key it may contain.
fn split(url: &str) -> anyhow::Result<(String, Option<String>)> {
    let whole = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
    let address = ServerAddress::parse(&whole).map_err(|bad| {
        Failure::usage(format!("`{}` is not a server address; expected something like {URL}", bad.address))
    })?;
    Ok((address.url, address.key))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The address and key that result from these flags, variables and profiles.
    fn of(args: [Option<&str>; 3], environment: &[(&str, &str)]) -> anyhow::Result<(String, Option<String>)> {
        let own = |text: Option<&str>| text.map(str::to_owned);
        let args = ConnectArgs {
            url: own(args[0]),
            key: own(args[1]),
            profile: own(args[2]),
            ..ConnectArgs::default()
        };
        let variable = |name: &str| {
            environment.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let find = |name: Option<&str>| match name {
            None | Some("default") => Ok(Some(Profile { url: "http://near".into(), key: Some(key(1)) })),
            Some("far") => Ok(Some(Profile { url: "https://far:1/x/".into(), key: Some(key(2)) })),
            Some("open") => Ok(Some(Profile { url: "http://open".into(), key: None })),
            Some(_) => anyhow::bail!("no such profile"),
        };
        let connection = decide(&args, &variable, &find)?;
        Ok((connection.url, connection.key.map(|key| key.reveal().to_owned())))
    }

    fn key(number: u64) -> String {
        KeySecret::new(number, [1, 2]).reveal().to_owned()
    }

    #[test]
    fn a_flag_wins_over_the_environment_and_that_over_a_profile() {
        let none = [None, None, None];
        let near = ("http://near".to_owned(), Some(key(1)));
        assert_eq!(of(none, &[]).unwrap(), near);
        assert_eq!(of(none, &[("WINDLASS_URL", "")]).unwrap(), near);
        assert_eq!(
            of(none, &[("WINDLASS_PROFILE", "far")]).unwrap(),
            ("https://far:1/x".into(), Some(key(2)))
        );
        let both = [("WINDLASS_URL", "http://env"), ("WINDLASS_KEY", &key(3))];
        assert_eq!(of(none, &both).unwrap(), ("http://env".into(), Some(key(3))));
        assert_eq!(
            of([Some("http://flag"), None, None], &both).unwrap(),
            ("http://flag".into(), Some(key(3)))
        );
        assert_eq!(of([None, Some(&key(4)), None], &both).unwrap(), ("http://env".into(), Some(key(4))));
        assert_eq!(of([None, None, Some("far")], &both).unwrap(), ("https://far:1/x".into(), Some(key(2))));
        assert!(of([None, None, Some("missing")], &both).is_err());
    }

    #[test]
    fn a_key_goes_only_to_the_server_it_was_given_for() {
        // The default profile has a key, but the address comes from another source.
        assert_eq!(of([None, None, None], &[("WINDLASS_URL", "http://env")]).unwrap().1, None);
        assert_eq!(of([Some("http://flag"), None, Some("far")], &[]).unwrap(), ("http://flag".into(), None));
        let lying_around = [("WINDLASS_KEY", key(3))];
        let lying_around = [(lying_around[0].0, lying_around[0].1.as_str())];
        assert_eq!(of([None, None, Some("open")], &lying_around).unwrap(), ("http://open".into(), None));
    }

    #[test]
    fn an_address_may_carry_its_key_and_is_checked() {
        let with_key = format!("https://{}@host:1/base/", key(5));
        assert_eq!(
            of([Some(&with_key), None, None], &[]).unwrap(),
            ("https://host:1/base".into(), Some(key(5)))
        );
        assert_eq!(of([Some("host:7788"), None, None], &[]).unwrap().0, "http://host:7788");
        for bad in ["ftp://host", "http://", "http://a b", "http://host?x=1", "https://not-a-key@host"] {
            let error = of([Some(bad), None, None], &[]).err().unwrap();
            assert!(error.downcast_ref::<Failure>().is_some(), "{bad}: {error}");
            assert!(!error.to_string().contains("not-a-key"), "{error}");
        }
    }
}
