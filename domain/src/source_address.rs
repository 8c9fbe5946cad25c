//! The source IP address of a request.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

/// As API Gateway or the CDN in front of it reported it. Headers such as `X-Forwarded-For` are ignored, because
/// a client can send any value.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct SourceAddress(Option<IpAddr>);

impl SourceAddress {
    /// Unknown if the text is absent or invalid. An IPv4-mapped IPv6 address becomes IPv4.
    pub fn parse(text: Option<&str>) -> Self {
        let address = text.and_then(|text| text.parse::<IpAddr>().ok());
        Self(address.map(|address| address.to_canonical()))
    }

    /// Returns the address. `None`: it is unknown.
    pub fn ip(&self) -> Option<IpAddr> {
        self.0
    }

    pub fn is_unknown(&self) -> bool {
        self.0.is_none()
    }

    /// The network that rate limits count as one client: an IPv4 address, or the /64 of an IPv6 address, which
    /// providers assign to one customer. All unknown addresses count as one client.
    pub fn network(self) -> String {
        match self.0 {
            None => "unknown".to_owned(),
            Some(IpAddr::V4(address)) => address.to_string(),
            Some(IpAddr::V6(address)) => {
                let network = address.to_bits() & (u128::MAX << 64);
                format!("{}/64", Ipv6Addr::from_bits(network))
            }
        }
    }

    /// The network that the log of requests shows: the /24 of an IPv4 address, or the /48 of an IPv6 address. It
    /// distinguishes offices and data centres, and names no person.
    pub fn wide_network(self) -> Option<String> {
        Some(match self.0? {
            IpAddr::V4(address) => format!("{}/24", Ipv4Addr::from_bits(address.to_bits() & (u32::MAX << 8))),
            IpAddr::V6(address) => {
                format!("{}/48", Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 80)))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ipv6_addresses_of_a_64_bit_prefix_are_one_network() {
        let network = |text: &str| SourceAddress::parse(Some(text)).network();
        assert_eq!(network("203.0.113.9"), "203.0.113.9");
        assert_eq!(network("::ffff:203.0.113.9"), "203.0.113.9");
        assert_eq!(network("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
        assert_eq!(network("2001:db8:1:2::1"), "2001:db8:1:2::/64");
        assert_ne!(network("2001:db8:1:3::1"), "2001:db8:1:2::/64");
        assert_eq!(SourceAddress::parse(None).network(), SourceAddress::parse(Some("somewhere")).network());
    }

    #[test]
    fn the_log_of_requests_shows_no_single_address() {
        let network = |text: &str| SourceAddress::parse(Some(text)).wide_network();
        assert_eq!(network("203.0.113.9").as_deref(), Some("203.0.113.0/24"));
        assert_eq!(network("2001:db8:1:2:3:4:5:6").as_deref(), Some("2001:db8:1::/48"));
        assert_eq!(network("somewhere"), None);
    }
}
