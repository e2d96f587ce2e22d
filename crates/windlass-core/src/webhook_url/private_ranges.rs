//! Addresses outside the public internet, in any encapsulation. The tables follow the registries of special-purpose
//! addresses (RFC 6890 and its successors), and add the few public addresses of cloud metadata services.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::network::Network;

const RESERVED_V4: [(Network, &str); 19] = [
    (Network::v4([0, 0, 0, 0], 8), "unspecified"),
    (Network::v4([10, 0, 0, 0], 8), "private"),
    (Network::v4([100, 64, 0, 0], 10), "carrier's private"),
    (Network::v4([127, 0, 0, 0], 8), "loopback"),
    (Network::v4([168, 63, 129, 16], 32), "cloud metadata"),
    (Network::v4([169, 254, 0, 0], 16), "link-local"),
    (Network::v4([172, 16, 0, 0], 12), "private"),
    (Network::v4([192, 0, 0, 0], 24), "protocol"),
    (Network::v4([192, 0, 2, 0], 24), "documentation"),
    (Network::v4([192, 31, 196, 0], 24), "protocol"),
    (Network::v4([192, 52, 193, 0], 24), "protocol"),
    (Network::v4([192, 88, 99, 0], 24), "relay"),
    (Network::v4([192, 168, 0, 0], 16), "private"),
    (Network::v4([192, 175, 48, 0], 24), "protocol"),
    (Network::v4([198, 18, 0, 0], 15), "benchmarking"),
    (Network::v4([198, 51, 100, 0], 24), "documentation"),
    (Network::v4([203, 0, 113, 0], 24), "documentation"),
    (Network::v4([224, 0, 0, 0], 4), "multicast"),
    (Network::v4([240, 0, 0, 0], 4), "reserved or broadcast"),
];

/// Public IPv6; addresses outside are reserved, local or unassigned.
const GLOBAL_V6: Network = Network::v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);

/// Addresses within [`GLOBAL_V6`] that are not public.
const RESERVED_V6: [(Network, &str); 4] = [
    (Network::v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), "protocol or tunnel"),
    (Network::v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), "documentation"),
    (Network::v6([0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0], 48), "protocol"),
    (Network::v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), "documentation"),
];

/// Addresses outside [`GLOBAL_V6`] with a specific description; any other is "reserved".
const LOCAL_V6: [(Network, &str); 8] = [
    (Network::v6([0, 0, 0, 0, 0, 0, 0, 0], 128), "unspecified"),
    (Network::v6([0, 0, 0, 0, 0, 0, 0, 1], 128), "loopback"),
    (Network::v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48), "locally translated"),
    (Network::v6([0x100, 0, 0, 0, 0, 0, 0, 0], 64), "discarded"),
    (Network::v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), "private"),
    (Network::v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), "link-local"),
    (Network::v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10), "site-local"),
    (Network::v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), "multicast"),
];

/// Prefixes whose last 32 bits are an IPv4 address: compatible, mapped, translated, and NAT64's well-known prefix.
const V4_AT_THE_END: [Network; 4] = [
    Network::v6([0, 0, 0, 0, 0, 0, 0, 0], 96),
    Network::v6([0, 0, 0, 0, 0, 0xffff, 0, 0], 96),
    Network::v6([0, 0, 0, 0, 0xffff, 0, 0, 0], 96),
    Network::v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96),
];

/// 6to4 relays: the IPv4 address is in the second and third group.
const SIX_TO_FOUR: Network = Network::v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16);

/// The address that a packet reaches: for an IPv4 address embedded in IPv6, that IPv4 address.
pub(super) fn reached_by(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => wrapped_in(v6).map_or(address, IpAddr::V4),
    }
}

/// The kind of a non-public address; `None` if it is public.
pub(super) fn kind_of(address: IpAddr) -> Option<&'static str> {
    match reached_by(address) {
        IpAddr::V4(v4) => kind_of_v4(v4),
        IpAddr::V6(v6) => kind_of_v6(v6),
    }
}

fn kind_of_v4(address: Ipv4Addr) -> Option<&'static str> {
    found_in(&RESERVED_V4, IpAddr::V4(address))
}

fn kind_of_v6(address: Ipv6Addr) -> Option<&'static str> {
    let whole = IpAddr::V6(address);
    if !GLOBAL_V6.contains(whole) {
        return found_in(&LOCAL_V6, whole).or(Some("reserved"));
    }
    found_in(&RESERVED_V6, whole).or_else(|| isatap(address).and_then(kind_of_v4))
}

fn found_in(table: &[(Network, &'static str)], address: IpAddr) -> Option<&'static str> {
    table.iter().find(|(network, _)| network.contains(address)).map(|(_, kind)| *kind)
}

fn wrapped_in(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let whole = IpAddr::V6(address);
    let [_, high, low, _, _, _, second_last, last] = address.segments();
    // `::` and `::1` are IPv6's own, though they look like IPv4-compatible addresses.
    if address.is_unspecified() || address.is_loopback() {
        return None;
    }
    if V4_AT_THE_END.iter().any(|network| network.contains(whole)) {
        return Some(v4_of(second_last, last));
    }
    SIX_TO_FOUR.contains(whole).then(|| v4_of(high, low))
}

/// The IPv4 address in the interface part of an ISATAP tunnel (RFC 5214), under any prefix.
fn isatap(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [_, _, _, _, flags, mark, high, low] = address.segments();
    (mark == 0x5efe && flags & !0x0200 == 0).then(|| v4_of(high, low))
}

fn v4_of(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(high) << 16 | u32::from(low))
}
