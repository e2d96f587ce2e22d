//! The peer of a connection, and the limit of connections per address without a valid key.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

use crate::http::request::connection_slots::{ConnectionSlot, ConnectionSlots};

/// The peer of a connection. Stored with every request on it.
#[derive(Clone)]
pub(crate) struct Peer(Arc<Inner>);

struct Inner {
    address: IpAddr,
    /// Counts the connection as unauthenticated until a valid key was sent on it.
    stranger: Mutex<Option<ConnectionSlot>>,
}

impl Peer {
    /// A new peer; None if its address has too many unauthenticated connections.
    pub(crate) fn new(address: IpAddr, strangers: Option<&ConnectionSlots>) -> Option<Peer> {
        let address = counted(address);
        let place = match strangers {
            Some(strangers) => Some(strangers.take(&address.to_string()).ok()?),
            None => None,
        };
        Some(Peer(Arc::new(Inner { address, stranger: Mutex::new(place) })))
    }

    /// The address that limits apply to.
    pub(crate) fn address(&self) -> IpAddr {
        self.0.address
    }

    /// The address, if it is to be throttled for invalid keys because this connection has not sent a valid one.
    pub(crate) fn limited_address(&self) -> Option<IpAddr> {
        let is_stranger = self.0.stranger.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        is_stranger.then_some(self.0.address)
    }

    /// Records that a valid key was sent on this connection.
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
