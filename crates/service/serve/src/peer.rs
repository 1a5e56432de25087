//! The peer of a connection, for admission.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

/// Bits of an IPv6 address that its owner can choose freely.
const HOST_BITS_V6: u32 = 64;

/// A peer's address. All addresses of a 64-bit IPv6 network are one peer: the owner of one has all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Peer(IpAddr);

impl Peer {
    /// An unknown peer, as in tests without a connection.
    pub const UNKNOWN: Self = Self(IpAddr::V4(Ipv4Addr::UNSPECIFIED));

    /// Whether it is on the loopback network.
    pub fn is_loopback(self) -> bool {
        match self.0 {
            IpAddr::V4(address) => address.is_loopback(),
            // ::1 without its host bits.
            IpAddr::V6(address) => address.is_unspecified(),
        }
    }
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        Self(match address.ip().to_canonical() {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => {
                Ipv6Addr::from_bits(address.to_bits() >> HOST_BITS_V6 << HOST_BITS_V6).into()
            }
        })
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_holder_are_one_peer() {
        let peer = |text: &str| Peer::from(text.parse::<SocketAddr>().unwrap());
        assert_eq!(peer("192.0.2.1:1"), peer("192.0.2.1:2"));
        assert_eq!(peer("192.0.2.1:1"), peer("[::ffff:192.0.2.1]:2"));
        assert_ne!(peer("192.0.2.1:1"), peer("192.0.2.2:1"));
        assert_eq!(peer("[2001:db8::1]:1"), peer("[2001:db8::ffff:0:1]:1"));
        assert_ne!(peer("[2001:db8::1]:1"), peer("[2001:db8:0:1::1]:1"));
    }
}
