//! Addresses that are accepted and refused, and private ranges.

use std::net::IpAddr;

use super::{Host, Network, TargetError, TargetPolicy, WebhookUrl};

/// Every address here leads, or may lead, somewhere that is not the public internet.
const BYPASSES: [&str; 104] = [
    // Plain.
    "http://127.0.0.1/",
    "http://127.0.0.1:443/",
    "https://127.255.255.254/",
    "https://0.0.0.0/",
    "https://0.1.2.3/",
    "https://10.0.0.1/",
    "https://10.255.255.255/",
    "https://100.64.0.1/",
    "https://100.127.255.254/",
    "https://100.100.100.200/latest/meta-data/",
    "https://168.63.129.16/machine?comp=goalstate",
    "https://169.254.0.1/",
    "http://169.254.169.254/latest/meta-data/",
    "https://169.254.170.2/v2/credentials",
    "https://172.16.0.1/",
    "https://172.31.255.255/",
    "https://192.0.0.192/opc/v2/",
    "https://192.0.2.1/",
    "https://192.31.196.1/",
    "https://192.52.193.1/",
    "https://192.88.99.1/",
    "https://192.168.0.1/",
    "https://192.168.255.255:8443/",
    "https://192.175.48.1/",
    "https://198.18.0.1/",
    "https://198.19.255.255/",
    "https://198.51.100.7/",
    "https://203.0.113.7/",
    "https://224.0.0.1/",
    "https://239.255.255.250/",
    "https://240.0.0.1/",
    "https://255.255.255.255/",
    // Spelled oddly.
    "https://127.1/",
    "https://127.0.1/",
    "https://0/",
    "https://00/",
    "https://0x0/",
    "https://0x/",
    "https://2130706433/",
    "https://3232235777/",
    "https://2852039166/",
    "https://4294967295/",
    "https://0x7f000001/",
    "https://0X7F000001/",
    "https://0x7f.0.0.1/",
    "https://0x7f.1/",
    "https://0x7f.0x0.0x0.0x1/",
    "https://0177.0.0.1/",
    "https://017700000001/",
    "https://0000000000000177.0.0.1/",
    "https://0251.0376.0251.0376/",
    "https://0xa9.0xfe.0xa9.0xfe/",
    "https://0xa9fea9fe/",
    "https://169.254.43518/",
    "https://169.16689662/",
    "https://0xac.020.0.1/",
    "https://10.1/",
    "https://192.168.1/",
    "https://127.0.0.1./",
    "https://127.0.0.1.:443/",
    "HTTPS://127.0.0.1/",
    "https://127.0.0.1?/",
    "https://127.0.0.1#@example.com/",
    "https://127.0.0.1/#https://example.com/",
    // IPv6.
    "https://[::]/",
    "https://[::1]/",
    "https://[0:0:0:0:0:0:0:1]/",
    "https://[0000:0000:0000:0000:0000:0000:0000:0001]:8443/",
    "https://[fc00::1]/",
    "https://[fd00:ec2::254]/latest/meta-data/",
    "https://[fe80::1]/",
    "https://[febf::1]/",
    "https://[fec0::1]/",
    "https://[ff02::1]/",
    "https://[100::1]/",
    "https://[2001:db8::1]/",
    "https://[3fff::1]/",
    "https://[2001:2::1]/",
    "https://[2001:10::1]/",
    "https://[2001:20::1]/",
    "https://[5f00::1]/",
    "https://[4000::1]/",
    "https://[2620:4f:8000::1]/",
    // IPv4 wrapped into it.
    "https://[::127.0.0.1]/",
    "https://[::7f00:1]/",
    "https://[::2]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:7f00:1]/",
    "https://[0:0:0:0:0:ffff:a9fe:a9fe]/",
    "https://[::ffff:10.0.0.1]/",
    "https://[::ffff:0:127.0.0.1]/",
    "https://[::ffff:0:10.0.0.1]/",
    "https://[64:ff9b::127.0.0.1]/",
    "https://[64:ff9b::a9fe:a9fe]/",
    "https://[64:ff9b::192.168.0.1]/",
    "https://[64:ff9b:1::1]/",
    "https://[64:ff9b:1:fffe::8.8.8.8]/",
    "https://[2002:7f00:1::]/",
    "https://[2002:a9fe:a9fe::1]/",
    "https://[2002:c0a8:1::1]/",
    "https://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/",
    "https://[2001::1]/",
    "https://[2606:4700::5efe:10.0.0.1]/",
    "https://[2606:4700::200:5efe:127.0.0.1]/",
];

/// Forms that some program reads as another address than some other program does.
const MALFORMED: [&str; 44] = [
    "",
    "example.com",
    "//example.com/",
    "https:example.com",
    "https:/example.com",
    "https:///example.com",
    "https://",
    "https:// example.com/",
    " https://example.com/",
    "https://example.com/ ",
    "https://exam\tple.com/",
    "https://example.com\r\nx-injected: 1",
    "https://example.com/\0",
    "https://example.com\\@127.0.0.1/",
    "https:\\\\127.0.0.1/",
    "https://127.0.0.1\\.example.com/",
    "https://user@example.com/",
    "https://user:secret@example.com/",
    "https://example.com@127.0.0.1/",
    "https://127.0.0.1@example.com/",
    "https://@127.0.0.1/",
    "https://example.com%40127.0.0.1/",
    "https://%31%32%37.0.0.1/",
    "https://127%2e0%2e0%2e1/",
    "https://１２７.０.０.１/",
    "https://①②⑦.0.0.1/",
    "https://127。0。0。1/",
    "https://ⓛocalhost/",
    "https://[fe80::1%25eth0]/",
    "https://[fe80::1%eth0]/",
    "https://[::1/",
    "https://::1/",
    "https://[v1.::1]/",
    "https://[127.0.0.1]/",
    "https://256.0.0.1/",
    "https://08.0.0.1/",
    "https://1.2.3.4.5/",
    "https://127.0.0.0x100/",
    "https://example.com:0/",
    "https://example.com:65536/",
    "https://example.com:/",
    "https://example.com:+443/",
    "https://exa mple..com/",
    "gopher://example.com/",
];

/// Model: callbacks. By default nothing but the public internet is called, however its address is spelled.
#[test]
fn every_address_that_is_not_public_is_refused_in_every_spelling() {
    let policy = TargetPolicy::default();
    for url in BYPASSES {
        let refused = policy.check_literal(url);
        assert!(matches!(refused, Err(TargetError::NotPublic { .. })), "{url}: {refused:?}");
        assert!(policy.check(url).is_err(), "{url}");
    }
}

#[test]
fn a_form_that_can_be_read_in_two_ways_is_refused() {
    for url in MALFORMED {
        let refused = TargetPolicy::anywhere().check(url);
        assert!(matches!(refused, Err(TargetError::Malformed(_))), "{url:?}: {refused:?}");
    }
}

#[test]
fn a_public_target_is_taken_apart_as_it_is_meant() {
    let parts = |url| {
        let target = TargetPolicy::default().check(url).unwrap();
        (target.to_string(), target.port, target.path)
    };
    let expected = |shown: &str, port, path: &str| (shown.to_owned(), port, path.to_owned());
    assert_eq!(parts("https://example.com"), expected("https://example.com", 443, "/"));
    assert_eq!(parts("https://Example.COM.:8443/a?b#c"), expected("https://example.com:8443", 8443, "/a?b"));
    assert_eq!(parts("https://example.com?q=1"), expected("https://example.com", 443, "/?q=1"));
    assert_eq!(parts("https://8.8.8.8/~x/[1]"), expected("https://8.8.8.8", 443, "/~x/[1]"));
    assert_eq!(parts("https://0x08080808/"), expected("https://8.8.8.8", 443, "/"));
    assert_eq!(parts("https://[2606:4700::1]/"), expected("https://[2606:4700::1]", 443, "/"));
    assert_eq!(
        parts("https://xn--bcher-kva.example/@x"),
        expected("https://xn--bcher-kva.example", 443, "/@x")
    );
    assert_eq!(parts("https://1e100.example/"), expected("https://1e100.example", 443, "/"));
}

#[test]
fn a_translated_public_address_is_public() {
    let policy = TargetPolicy::default();
    for address in ["64:ff9b::808:808", "2002:808:808::1", "::ffff:8.8.8.8", "2606:4700::5efe:8.8.8.8"] {
        assert_eq!(policy.check_address(address.parse().unwrap()), Ok(()), "{address}");
    }
}

/// Model: callbacks. Names, schemes and ports are a matter of delivery; a submission is refused for what is certain already.
#[test]
fn a_name_is_taken_at_submission_and_checked_at_delivery() {
    let policy = TargetPolicy::default();
    for url in ["http://localhost:1234/", "http://example.com/", "https://example.com:25/"] {
        assert!(policy.check_literal(url).is_ok(), "{url}");
    }
    assert_eq!(policy.check("http://example.com/"), Err(TargetError::Unencrypted));
    assert_eq!(policy.check("https://example.com:25/"), Err(TargetError::Port(25)));
}

/// Model: callbacks. Unless allowed.
#[test]
fn an_allowed_network_is_called_and_its_neighbours_are_not() {
    let networks = vec!["10.1.0.0/16".parse().unwrap(), "fd12::/16".parse().unwrap()];
    let policy = TargetPolicy { networks, ..TargetPolicy::default() };
    let is_allowed = |address: &str| policy.check_address(address.parse().unwrap()).is_ok();
    assert!(is_allowed("10.1.2.3") && is_allowed("fd12:3::4") && is_allowed("8.8.8.8"));
    assert!(is_allowed("::ffff:10.1.2.3"), "the same machine in another spelling");
    assert!(!is_allowed("10.2.0.1") && !is_allowed("fd13::1") && !is_allowed("127.0.0.1"));
}

#[test]
fn a_network_is_read_as_it_is_written() {
    for text in ["10.0.0.0/8", "127.0.0.1/32", "fd00::/8", "::/0", "0.0.0.0/0"] {
        let network: Network = text.parse().unwrap();
        assert_eq!(network.to_string(), text);
    }
    assert_eq!("::1".parse::<Network>().unwrap().to_string(), "::1/128");
    for text in ["", "10.0.0.0/33", "::/129", "10.0.0/8", "example.com", "10.0.0.0/-1", "10.0.0.0/"] {
        assert!(text.parse::<Network>().is_err(), "{text}");
    }
}

#[test]
fn what_is_shown_of_a_target_holds_no_secret() {
    let target = WebhookUrl::parse("https://example.com/hook?token=hunter2").unwrap();
    assert_eq!(target.host, Host::Name("example.com".into()));
    assert!(!format!("{target} {target:?}").contains("hunter2"));
    let refused = TargetPolicy::default().check("https://127.0.0.1/hook?token=hunter2").unwrap_err();
    assert!(!refused.to_string().contains("hunter2"), "{refused}");
    let address: IpAddr = "127.0.0.1".parse().unwrap();
    assert_eq!(refused, TargetError::NotPublic { address, kind: "loopback" });
}
