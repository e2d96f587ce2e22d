//! Networks: an address and the number of its significant leading bits, as in `10.0.0.0/8`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::error::FieldProblem;

/// A network of addresses of one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    base: IpAddr,
    prefix: u8,
}

impl Network {
    /// Every IPv4 address.
    pub const fn all_v4() -> Network {
        Network { base: IpAddr::V4(Ipv4Addr::UNSPECIFIED), prefix: 0 }
    }

    /// Every IPv6 address.
    pub const fn all_v6() -> Network {
        Network { base: IpAddr::V6(Ipv6Addr::UNSPECIFIED), prefix: 0 }
    }

    pub(super) const fn v4(base: [u8; 4], prefix: u8) -> Network {
        Network { base: IpAddr::V4(Ipv4Addr::new(base[0], base[1], base[2], base[3])), prefix }
    }

    pub(super) const fn v6(base: [u16; 8], prefix: u8) -> Network {
        let [first, second, third, fourth, fifth, sixth, seventh, eighth] = base;
        let base = Ipv6Addr::new(first, second, third, fourth, fifth, sixth, seventh, eighth);
        Network { base: IpAddr::V6(base), prefix }
    }

    /// Whether an address belongs to it.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.base, address) {
            (IpAddr::V4(base), IpAddr::V4(address)) => {
                let differing = u32::from(base) ^ u32::from(address);
                differing.leading_zeros() >= u32::from(self.prefix)
            }
            (IpAddr::V6(base), IpAddr::V6(address)) => {
                let differing = u128::from(base) ^ u128::from(address);
                differing.leading_zeros() >= u32::from(self.prefix)
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix)
    }
}

/// Parses `10.0.0.0/8`, `fd00::/8`, or a single address.
impl FromStr for Network {
    type Err = FieldProblem;

    fn from_str(text: &str) -> Result<Network, FieldProblem> {
        let unknown = || FieldProblem::unknown(text, "networks such as 10.0.0.0/8");
        let (base, prefix) = text.split_once('/').map_or((text, None), |(base, prefix)| (base, Some(prefix)));
        let base: IpAddr = base.parse().map_err(|_| unknown())?;
        let bits = if base.is_ipv4() { 32 } else { 128 };
        // `parse` would accept a sign.
        let is_plain = prefix.is_none_or(|prefix| prefix.bytes().all(|byte| byte.is_ascii_digit()));
        let prefix = prefix.map_or(Ok(bits), str::parse).ok().filter(|prefix| is_plain && *prefix <= bits);
        Ok(Network { base, prefix: prefix.ok_or_else(unknown)? })
    }
}
