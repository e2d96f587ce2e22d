//! Flags for where callbacks and pushes may go. By default: `https`, on the usual ports, to public addresses.

use clap::Args;
use windlass::limits;
use windlass::webhook_url::{Network, TargetPolicy};

/// Where callbacks and pushes may go.
#[derive(Args)]
pub(crate) struct WebhookArgs {
    /// Non-public networks that callbacks and pushes may go to, such as `10.0.0.0/8,fd00::/8`.
    #[arg(long, env = "WINDLASS_ALLOW_PRIVATE_CALLBACKS", value_name = "NETWORKS", value_delimiter = ',')]
    allow_private_callbacks: Vec<Network>,
    /// Allow callbacks and pushes to `http` addresses, which others can read and change in transit.
    #[arg(long, env = "WINDLASS_ALLOW_HTTP_CALLBACKS", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false, action = clap::ArgAction::Set, value_name = "BOOL")]
    allow_http_callbacks: bool,
    /// Ports that callbacks and pushes may go to, or `any`.
    #[arg(
        long,
        env = "WINDLASS_CALLBACK_PORTS",
        value_name = "PORTS",
        value_delimiter = ',',
        default_values_t = limits::TARGET_PORTS.map(Port::Number),
    )]
    callback_ports: Vec<Port>,
}

/// A port, or all of them.
#[derive(Clone, Copy)]
enum Port {
    Any,
    Number(u16),
}

impl std::str::FromStr for Port {
    type Err = String;

    fn from_str(text: &str) -> Result<Port, String> {
        if text == "any" {
            return Ok(Port::Any);
        }
        let port = text.parse().ok().filter(|port| *port > 0);
        port.map(Port::Number).ok_or_else(|| format!("`{text}` is not a port from 1 to 65535 or `any`"))
    }
}

impl std::fmt::Display for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Port::Any => f.write_str("any"),
            Port::Number(port) => write!(f, "{port}"),
        }
    }
}

impl WebhookArgs {
    /// The policy these flags define.
    pub(crate) fn policy(&self) -> TargetPolicy {
        // A single `any` is enough.
        let ports = self.callback_ports.iter().map(|port| match port {
            Port::Any => None,
            Port::Number(port) => Some(*port),
        });
        TargetPolicy {
            allows_http: self.allow_http_callbacks,
            ports: ports.collect(),
            networks: self.allow_private_callbacks.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        webhooks: WebhookArgs,
    }

    fn policy(flags: &[&str]) -> TargetPolicy {
        let all = std::iter::once("windlass").chain(flags.iter().copied());
        Flags::try_parse_from(all).unwrap_or_else(|error| panic!("{error}")).webhooks.policy()
    }

    #[test]
    fn without_flags_only_the_public_internet_is_called() {
        assert_eq!(policy(&[]), TargetPolicy::default());
    }

    #[test]
    fn every_flag_opens_what_it_names() {
        let open = policy(&["--allow-private-callbacks", "10.0.0.0/8,::1", "--allow-http-callbacks"]);
        let networks = vec!["10.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()];
        assert_eq!(open, TargetPolicy { allows_http: true, networks, ..TargetPolicy::default() });
        assert_eq!(policy(&["--callback-ports", "443,9000"]).ports, Some(vec![443, 9000]));
        assert_eq!(policy(&["--callback-ports", "any"]).ports, None);
        for bad in
            [["--callback-ports", "0"], ["--callback-ports", "x"], ["--allow-private-callbacks", "10/8"]]
        {
            assert!(Flags::try_parse_from(["windlass"].into_iter().chain(bad)).is_err(), "{bad:?}");
        }
    }
}
