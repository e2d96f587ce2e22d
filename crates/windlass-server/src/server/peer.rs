//! Who is at the other end of a connection, as far as the network tells; and how many connections an address may have on
//! which nobody has shown a key.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

use crate::http::request::places::{ConnectionSlot, ConnectionSlots};

/// The other end of a connection. Kept with every request on it.
#[derive(Clone)]
pub(crate) struct Peer(Arc<Inner>);

struct Inner {
    address: IpAddr,
    /// Counts the connection among its address's strangers until somebody on it has shown a key.
    stranger: Mutex<Option<ConnectionSlot>>,
}

impl Peer {
    /// A peer that has shown nothing yet; none if its address has as many such connections as it may have.
    pub(crate) fn new(address: IpAddr, strangers: Option<&ConnectionSlots>) -> Option<Peer> {
        let address = counted(address);
        let place = match strangers {
            Some(strangers) => Some(strangers.take(&address.to_string()).ok()?),
            None => None,
        };
        Some(Peer(Arc::new(Inner { address, stranger: Mutex::new(place) })))
    }

    /// The address, as far as limits count it.
    pub(crate) fn address(&self) -> IpAddr {
        self.0.address
    }

    /// The address, if one that has shown too many wrong keys is to be slowed down and this connection has shown no valid one.
    pub(crate) fn limited_address(&self) -> Option<IpAddr> {
        let is_stranger = self.0.stranger.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        is_stranger.then_some(self.0.address)
    }

    /// Notes that a valid key was shown on this connection.
    pub(crate) fn is_known(&self) {
        drop(self.0.stranger.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// The owner of an IPv6 address controls the whole /64 that contains it.
fn counted(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_so_many_connections_of_strangers() {
        let strangers = ConnectionSlots::new(usize::MAX, 2);
        let connect = |address: &str| Peer::new(address.parse().unwrap(), Some(&strangers));
        let (first, second) = (connect("192.0.2.1").unwrap(), connect("::ffff:192.0.2.1").unwrap());
        assert!(connect("192.0.2.1").is_none());
        assert!(connect("192.0.2.2").is_some());
        second.is_known();
        let third = connect("192.0.2.1").unwrap();
        drop(first);
        drop(third);
        let (_one, _two) = (connect("2001:db8::1").unwrap(), connect("2001:db8::2").unwrap());
        assert!(connect("2001:db8::3").is_none(), "it is one network");
    }
}
