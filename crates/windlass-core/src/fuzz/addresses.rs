//! URLs of webhooks and networks, against the `url` crate, which reads them as browsers do, and Python, which reads them as
//! another program would.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::{Command, Stdio};

use proptest::prelude::*;
use windlass_fuzz::Family;

use super::{refused, same};
use crate::webhook_url::{Host, Network, Scheme, TargetPolicy, WebhookUrl};

const SEEDS: [&str; 14] = [
    "https://example.com/hook?token=1#x",
    "http://Example.COM.:8443",
    "https://127.0.0.1/",
    "https://0x7f.1/a",
    "https://0177.0.0.1:443/",
    "https://2130706433/",
    "https://[::ffff:10.0.0.1]:8080/x",
    "https://[2001:db8::1]/",
    "https://xn--bcher-kva.example/",
    "https://a_b-c.example/%7euser?q=%20",
    "https://example.com?q=1",
    "https://169.254.169.254/latest/meta-data/",
    "https://[64:ff9b::a9fe:a9fe]/",
    "https://192.0.2.1.nip.io/",
];
const WORDS: [&str; 20] = [
    "https://",
    "HTTP://",
    "@",
    ":",
    ":443",
    ":080",
    "[",
    "]",
    "%2e",
    ".",
    "0x",
    "127.0.0.1",
    "::1",
    "#",
    "?",
    "\\",
    "xn--",
    "fe80::1%25eth0",
    "１",
    "\t",
];

/// What is taken is taken apart as the `url` crate does, so that the host that is checked is the host that is called.
fn as_browsers_do(text: &str) -> Result<(), String> {
    let target = match WebhookUrl::parse(text) {
        Ok(target) => target,
        Err(problem) => return refused(&problem),
    };
    let other = match url::Url::parse(text) {
        Ok(other) => other,
        // A name with letters in another spelling that mean none: it cannot be resolved.
        Err(url::ParseError::IdnaError) if target.to_string().contains("xn--") => return Ok(()),
        Err(problem) => return Err(format!("the url crate refuses it: {problem}")),
    };
    let scheme = if target.scheme == Scheme::Https { "https" } else { "http" };
    same("scheme", scheme, other.scheme())?;
    same("port", Some(target.port), other.port_or_known_default())?;
    let host = match other.host() {
        Some(url::Host::Ipv4(address)) => Host::Address(IpAddr::V4(address)),
        Some(url::Host::Ipv6(address)) => Host::Address(IpAddr::V6(address)),
        Some(url::Host::Domain(name)) => Host::Name(name.strip_suffix('.').unwrap_or(name).to_owned()),
        None => return Err("the url crate finds no host".to_owned()),
    };
    same("host", &target.host, &host)?;
    same("user", (other.username(), other.password()), ("", None))?;
    let shown = format!("{target}{}", target.path);
    same("read again", WebhookUrl::parse(&shown), Ok(target))
}

/// Model: callbacks
#[test]
fn a_target_is_taken_apart_as_browsers_do() {
    Family::new("webhook-url").seeds(SEEDS).words(WORDS).cases(6_000).text(as_browsers_do);
}

/// Hosts that look like addresses: numbers of all bases, too many and too few of them.
fn hosts() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        (0..300_u64).prop_map(|n| n.to_string()),
        (0..300_u64).prop_map(|n| format!("0{n:o}")),
        (0..300_u64).prop_map(|n| format!("0x{n:x}")),
        any::<u32>().prop_map(|n| n.to_string()),
        any::<u32>().prop_map(|n| format!("0X{n:X}")),
        any::<u64>().prop_map(|n| n.to_string()),
        "[0-9a-fx]{0,4}",
    ];
    prop_oneof![
        4 => (prop::collection::vec(number, 1..6), any::<bool>())
            .prop_map(|(parts, has_dot)| parts.join(".") + if has_dot { "." } else { "" }),
        1 => any::<u128>().prop_map(|bits| format!("[{}]", Ipv6Addr::from(bits))),
        1 => (any::<u32>(), 0..4_usize).prop_map(|(bits, form)| {
            let v4 = Ipv4Addr::from(bits);
            let mapped = ["::ffff:", "::", "64:ff9b::", "::ffff:0:"][form];
            format!("[{mapped}{v4}]")
        }),
    ]
}

/// Model: callbacks
#[test]
fn an_address_is_the_same_in_every_spelling() {
    Family::new("webhook-url").values(&hosts(), |host| as_browsers_do(&format!("https://{host}/")));
}

#[test]
fn a_network_is_read_as_it_is_written() {
    let seeds = ["10.0.0.0/8", "fd00::/8", "::/0", "127.0.0.1", "::ffff:1.2.3.4/128", "0.0.0.0/0"];
    Family::new("network").seeds(seeds).words(["/", "/+8", "/08", "::", "0x"]).text(|text| {
        let network: Network = match text.parse() {
            Ok(network) => network,
            Err(problem) => return refused(&problem),
        };
        let bits = text.split_once('/').map(|(_, bits)| bits);
        if bits.is_some_and(|bits| bits.is_empty() || !bits.bytes().all(|byte| byte.is_ascii_digit())) {
            return Err("its length has a sign".to_owned());
        }
        same("read again", network.to_string().parse(), Ok(network))
    });
}

/// Answers, for lines with a URL, with its host by `urllib`, and for lines with an address whether `ipaddress` says that
/// it is on the public internet.
const PYTHON: &str = r#"
import ipaddress, sys
from urllib.parse import urlsplit
for line in sys.stdin:
    kind, text = line.rstrip("\n").split(" ", 1)
    try:
        if kind == "url":
            parts = urlsplit(text)
            print(parts.hostname, parts.port)
        else:
            address = ipaddress.ip_address(text)
            print(address.is_global and not address.is_multicast)
    except ValueError:
        print("refused")
"#;

fn python(lines: &[String]) -> Vec<String> {
    let mut child = Command::new("python3")
        .args(["-c", PYTHON])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is installed");
    let mut input = child.stdin.take().unwrap();
    let text = lines.join("\n") + "\n";
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Model: callbacks. No address that another program's tables call private is called.
#[test]
fn what_python_calls_private_is_not_called() {
    let policy = TargetPolicy::default();
    let edges = [
        "0.0.0.0",
        "10.0.0.0",
        "100.64.0.0",
        "127.0.0.0",
        "169.254.0.0",
        "172.16.0.0",
        "192.0.0.0",
        "192.0.2.0",
        "192.88.99.0",
        "192.168.0.0",
        "198.18.0.0",
        "198.51.100.0",
        "203.0.113.0",
        "224.0.0.0",
        "240.0.0.0",
    ];
    let around = |base: &str| {
        let base = u32::from(base.parse::<Ipv4Addr>().unwrap());
        (0..=24).flat_map(move |bits| {
            [base.wrapping_add(1 << bits), base.wrapping_sub(1), base, base ^ (1 << bits)]
        })
    };
    let v4 = edges.iter().flat_map(|base| around(base)).map(|bits| IpAddr::V4(Ipv4Addr::from(bits)));
    let spread = (0..20_000_u32).map(|n| IpAddr::V4(Ipv4Addr::from(n.wrapping_mul(2_654_435_761))));
    let v6 = (0..20_000_u128).map(|n| {
        // The first sixteen bits decide most: all of them come up, with a hash behind.
        let rest = n.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835) >> 16;
        IpAddr::V6(Ipv6Addr::from((n.wrapping_mul(13) & 0xffff) << 112 | rest))
    });
    let addresses: Vec<IpAddr> = v4.chain(spread).chain(v6).collect();
    let lines: Vec<String> = addresses.iter().map(|address| format!("address {address}")).collect();
    let answers = python(&lines);
    assert_eq!(answers.len(), addresses.len());
    let (mut called, mut private) = (0, 0);
    for (address, answer) in addresses.iter().zip(answers) {
        let is_called = policy.check_address(*address).is_ok();
        assert!(!is_called || answer == "True", "{address} is called, and Python says {answer}");
        called += u32::from(is_called);
        private += u32::from(answer != "True");
    }
    assert!(called > 5_000 && private > 3_000, "{called} called, {private} private");
}

/// Model: callbacks. The host that is checked is the one that another program would call.
#[test]
fn python_finds_the_same_host() {
    let (urls, lines) = (std::cell::RefCell::new(Vec::new()), std::cell::RefCell::new(Vec::new()));
    Family::new("webhook-url").seeds(SEEDS).words(WORDS).text(|text| {
        if let Ok(target) = WebhookUrl::parse(text) {
            lines.borrow_mut().push(format!("url {text}"));
            urls.borrow_mut().push((text.to_owned(), target));
        }
        Ok(())
    });
    let answers = python(&lines.into_inner());
    for ((text, target), answer) in urls.into_inner().into_iter().zip(answers) {
        let (host, port) = answer.split_once(' ').unwrap_or_else(|| panic!("{text}: {answer}"));
        let host = host.strip_suffix('.').unwrap_or(host);
        match target.host {
            Host::Name(name) => assert_eq!(host, name, "{text}"),
            // Python keeps the spelling; it must mean the same address.
            Host::Address(IpAddr::V6(address)) => assert_eq!(host.parse(), Ok(address), "{text}"),
            Host::Address(IpAddr::V4(address)) => {
                let again = WebhookUrl::parse(&format!("https://{host}/")).unwrap();
                assert_eq!(again.host, Host::Address(IpAddr::V4(address)), "{text}");
            }
        }
        if port != "None" {
            assert_eq!(port, target.port.to_string(), "{text}");
        }
    }
}
