//! Which webhook URLs are accepted, and which IP addresses may be connected to. A merchant chooses the URL, and
//! the service connects to it from inside its own network. So an address with a special meaning there (a
//! metadata service, a database, the service itself) must never be reachable.
//!
//! The spelling of a host name is checked on registration and before each delivery, its resolved addresses with
//! [`AddressPolicy::allows_resolved`] on every connection, because a name may resolve to other addresses the
//! next time. The address ranges are those of IANA's special-purpose address registries (RFC 6890 and its
//! updates).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use url::{Host, Url};

/// Maximum length of a URL in bytes, both as sent and normalised.
pub const MAX_URL_LENGTH: usize = 2048;

/// Maximum length of a DNS host name and of one of its labels, in bytes (RFC 1035).
const MAX_NAME_BYTES: usize = 253;
const MAX_LABEL_BYTES: usize = 63;

/// Zones that the public DNS never contains: RFC 6761, 6762, 7686 and 8375, ICANN for `internal`; home routers
/// use `lan`.
const NEVER_PUBLIC: [&str; 8] =
    ["localhost", "local", "lan", "internal", "home.arpa", "test", "invalid", "onion"];

/// The lowest accepted port besides 443. Lower ports belong to other protocols.
const FIRST_UNPRIVILEGED_PORT: u16 = 1024;

/// Which addresses the service may connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressPolicy {
    /// In a deployed stack: https to public addresses only.
    PublicOnly,
    /// On a developer's machine: also loopback and the named local hosts, by http or https on any port.
    PublicOrLocal(LocalNames),
}

/// Hosts on or near a developer's machine, such as `host.docker.internal`. Their addresses are not checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalNames(Arc<[String]>);

impl LocalNames {
    /// Parses names separated by commas.
    pub fn parse(text: &str) -> Self {
        let names = text.split(',').map(|name| without_root(name.trim()).to_ascii_lowercase());
        Self(names.filter(|name| !name.is_empty()).collect())
    }

    fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|known| known == without_root(name))
    }
}

impl AddressPolicy {
    /// Checks whether a connection may be made to an address that `name` resolved to.
    pub fn allows_resolved(&self, name: &str, address: IpAddr) -> bool {
        self.allows(address) || self.is_local_name(name)
    }

    /// Checks whether a connection may be made to an address.
    pub fn allows(&self, address: IpAddr) -> bool {
        match AddressKind::of(address) {
            AddressKind::Public => true,
            AddressKind::Loopback => matches!(self, Self::PublicOrLocal(_)),
            AddressKind::Unspecified
            | AddressKind::Private
            | AddressKind::LinkLocal
            | AddressKind::CarrierNat
            | AddressKind::Documentation
            | AddressKind::Benchmarking
            | AddressKind::Multicast
            | AddressKind::Transition
            | AddressKind::Reserved => false,
        }
    }

    fn is_local_name(&self, name: &str) -> bool {
        match self {
            Self::PublicOnly => false,
            Self::PublicOrLocal(names) => names.contains(&name.to_ascii_lowercase()),
        }
    }

    fn is_local(&self, host: &Host<&str>) -> bool {
        match (self, host) {
            (Self::PublicOnly, _) => false,
            (Self::PublicOrLocal(names), Host::Domain(name)) => is_loopback(host) || names.contains(name),
            (Self::PublicOrLocal(_), Host::Ipv4(_) | Host::Ipv6(_)) => is_loopback(host),
        }
    }
}

/// The class of an IP address. `Display` completes the sentence "10.0.0.5 is …".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressKind {
    /// Globally reachable.
    Public,
    /// `0.0.0.0/8` and `::`: this host or this network.
    Unspecified,
    /// `127.0.0.0/8` and `::1`.
    Loopback,
    /// `10/8`, `172.16/12`, `192.168/16` and `fc00::/7`, which contains the metadata service `fd00:ec2::254`.
    Private,
    /// `169.254/16`, which contains metadata services, and `fe80::/10`.
    LinkLocal,
    /// `100.64/10`, shared between carrier and customer (RFC 6598).
    CarrierNat,
    /// The three TEST-NETs (`192.0.2/24`, `198.51.100/24`, `203.0.113/24`), `2001:db8::/32` and `3fff::/20`.
    Documentation,
    /// `198.18/15`.
    Benchmarking,
    /// `224/4` and `ff00::/8`.
    Multicast,
    /// IPv6 addresses whose packets may be forwarded to an embedded IPv4 address: 6to4, Teredo, local NAT64.
    Transition,
    /// All other ranges that the registries reserve.
    Reserved,
}

impl AddressKind {
    /// Of an IPv4-mapped address (`::ffff:0:0/96`) and of NAT64's prefix (`64:ff9b::/96`), the IPv4 address is
    /// classified.
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => Self::of_v4(v4),
            IpAddr::V6(v6) => Self::of_v6(v6),
        }
    }

    fn of_v4(address: Ipv4Addr) -> Self {
        match address.octets() {
            [0, ..] => Self::Unspecified,
            [127, ..] => Self::Loopback,
            [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Self::Private,
            [169, 254, ..] => Self::LinkLocal,
            [100, 64..=127, ..] => Self::CarrierNat,
            [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => Self::Documentation,
            [198, 18..=19, ..] => Self::Benchmarking,
            [224..=239, ..] => Self::Multicast,
            // IETF protocol assignments, the retired 6to4 relay, and 240/4 with broadcast.
            [192, 0, 0, _] | [192, 88, 99, _] | [240..=255, ..] => Self::Reserved,
            _ => Self::Public,
        }
    }

    fn of_v6(address: Ipv6Addr) -> Self {
        match address.segments() {
            [0, 0, 0, 0, 0, 0, 0, 0] => Self::Unspecified,
            [0, 0, 0, 0, 0, 0, 0, 1] => Self::Loopback,
            [0, 0, 0, 0, 0, 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => Self::of_v4(low_v4(address)),
            [0x64, 0xff9b, 1, ..] | [0x2001, 0, ..] | [0x2002, ..] => Self::Transition,
            [0xfc00..=0xfdff, ..] => Self::Private,
            [0xfe80..=0xfebf, ..] => Self::LinkLocal,
            [0xff00..=0xffff, ..] => Self::Multicast,
            [0x2001, 0x0db8, ..] | [0x3fff, 0..=0x0fff, ..] => Self::Documentation,
            // IETF protocol assignments: benchmarking, ORCHID and others. None of them has public servers.
            [0x2001, 0..=0x01ff, ..] => Self::Reserved,
            [0x2000..=0x3fff, ..] => Self::Public,
            // Only `2000::/3` is assigned. The rest contains `::/96` (IPv4-compatible), `100::/64` (discard),
            // SRv6 and others.
            _ => Self::Reserved,
        }
    }
}

impl fmt::Display for AddressKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Public => "a public address",
            Self::Unspecified => "an unspecified address",
            Self::Loopback => "a loopback address",
            Self::Private => "a private address",
            Self::LinkLocal => "a link-local address",
            Self::CarrierNat => "a carrier-grade NAT address",
            Self::Documentation => "a documentation address",
            Self::Benchmarking => "a benchmarking address",
            Self::Multicast => "a multicast address",
            Self::Transition => "an IPv4 transition address",
            Self::Reserved => "a reserved address",
        })
    }
}

/// Why a URL is refused for webhooks. Merchants see the text.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum UrlRefusal {
    #[error("must be at most {MAX_URL_LENGTH} characters")]
    TooLong,
    #[error("must be an absolute URL, such as https://example.com/hooks")]
    NotAbsolute,
    /// The scheme is not https. With [`AddressPolicy::PublicOrLocal`], http is also accepted for local hosts.
    #[error("must use https")]
    NotHttps,
    /// The URL contains a user name or password, which could appear in logs.
    #[error("must not contain a user name or password")]
    UserInfo,
    /// The URL contains a fragment, which HTTP clients never send.
    #[error("must not contain a fragment (#)")]
    Fragment,
    /// The port is 0, on which no server can listen.
    #[error("must not use port 0")]
    PortZero,
    #[error("must use port 443 or a port from {FIRST_UNPRIVILEGED_PORT} to 65535, not {0}")]
    Port(u16),
    #[error("must have a public host name, not {0}")]
    Name(String),
    #[error("must have a public host, not {0} ({kind})", kind = AddressKind::of(*.0))]
    Address(IpAddr),
}

/// Checks a webhook URL without resolving its host name, after normalisation: `https://0x7f.1/` is refused as
/// 127.0.0.1. Deliveries must use the returned URL.
pub fn check_url(text: &str, policy: &AddressPolicy) -> Result<Url, UrlRefusal> {
    if text.len() > MAX_URL_LENGTH {
        return Err(UrlRefusal::TooLong);
    }
    // The parser silently removes or replaces these characters, so the result would differ from the
    // merchant's URL.
    let is_corrected_by_parser = text.contains(|c: char| c.is_whitespace() || c.is_control() || c == '\\');
    if is_corrected_by_parser || !text.contains("://") {
        return Err(UrlRefusal::NotAbsolute);
    }
    let url = Url::parse(text).map_err(|_| UrlRefusal::NotAbsolute)?;
    let host = url.host().ok_or(UrlRefusal::NotAbsolute)?;

    match url.scheme() {
        "https" => {}
        "http" if policy.is_local(&host) => {}
        _ => return Err(UrlRefusal::NotHttps),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(UrlRefusal::UserInfo);
    }
    if url.fragment().is_some() {
        return Err(UrlRefusal::Fragment);
    }
    if url.port() == Some(0) {
        return Err(UrlRefusal::PortZero);
    }
    check_host(&host, policy)?;
    // The parser escapes characters, which lengthens the URL. The stored, escaped URL must pass this check
    // again before each delivery.
    if url.as_str().len() > MAX_URL_LENGTH { Err(UrlRefusal::TooLong) } else { Ok(url) }
}

/// Adds two rules for a URL that is not stored yet: a host name that is possible in the public DNS, and port
/// 443 or at least 1024. Local hosts that the policy accepts are exempt.
pub fn check_new_url(text: &str, policy: &AddressPolicy) -> Result<Url, UrlRefusal> {
    let url = check_url(text, policy)?;
    let host = url.host().ok_or(UrlRefusal::NotAbsolute)?;
    if policy.is_local(&host) {
        return Ok(url);
    }
    if let Host::Domain(name) = host
        && !could_be_public(name)
    {
        return Err(UrlRefusal::Name(name.to_owned()));
    }
    // The parser omits 443, the default port of https.
    match url.port() {
        Some(port) if port < FIRST_UNPRIVILEGED_PORT => Err(UrlRefusal::Port(port)),
        Some(_) | None => Ok(url),
    }
}

fn could_be_public(name: &str) -> bool {
    let name = without_root(name);
    let labels_fit = name.split('.').all(|label| (1..=MAX_LABEL_BYTES).contains(&label.len()));
    let is_reserved = NEVER_PUBLIC.into_iter().any(|zone| is_under(name, zone));
    name.contains('.') && name.len() <= MAX_NAME_BYTES && labels_fit && !is_reserved
}

/// Removes the trailing root dot of a name, which does not change its meaning.
fn without_root(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

fn check_host(host: &Host<&str>, policy: &AddressPolicy) -> Result<(), UrlRefusal> {
    let address = match host {
        Host::Ipv4(address) => IpAddr::V4(*address),
        Host::Ipv6(address) => IpAddr::V6(*address),
        Host::Domain(name) => {
            return if policy.is_local(host) || !is_internal_name(name) {
                Ok(())
            } else {
                Err(UrlRefusal::Name((*name).to_owned()))
            };
        }
    };
    if policy.allows(address) { Ok(()) } else { Err(UrlRefusal::Address(address)) }
}

/// Whether the URL's host is a loopback address, `localhost` or a name under it.
pub fn is_loopback_url(url: &Url) -> bool {
    url.host().is_some_and(|host| is_loopback(&host))
}

fn is_loopback(host: &Host<&str>) -> bool {
    match host {
        Host::Ipv4(address) => AddressKind::of_v4(*address) == AddressKind::Loopback,
        Host::Ipv6(address) => AddressKind::of_v6(*address) == AddressKind::Loopback,
        Host::Domain(name) => is_under(name, "localhost"),
    }
}

fn is_internal_name(name: &str) -> bool {
    ["localhost", "local", "internal"].into_iter().any(|zone| is_under(name, zone))
}

fn is_under(name: &str, zone: &str) -> bool {
    without_root(name).strip_suffix(zone).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

fn low_v4(address: Ipv6Addr) -> Ipv4Addr {
    let [.., a, b, c, d] = address.octets();
    Ipv4Addr::new(a, b, c, d)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::AddressKind::*;
    use super::AddressPolicy::PublicOnly;
    use super::*;

    /// Returns the policy of a developer's machine, without named hosts.
    fn local() -> AddressPolicy {
        AddressPolicy::PublicOrLocal(LocalNames::default())
    }

    #[test]
    fn special_ranges_have_exact_bounds() {
        for (kind, addresses) in [
            (Unspecified, "0.0.0.0 0.255.255.255"),
            (
                Public,
                "1.0.0.0 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 \
                169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 191.255.255.255 192.0.1.0 \
                192.0.3.0 192.88.98.255 192.88.100.0 192.167.255.255 192.169.0.0 198.17.255.255 \
                198.20.0.0 198.51.99.255 198.51.101.0 203.0.112.255 203.0.114.0 223.255.255.255",
            ),
            (Private, "10.0.0.0 10.255.255.255 172.16.0.0 172.31.255.255 192.168.0.0 192.168.255.255"),
            (CarrierNat, "100.64.0.0 100.127.255.255"),
            (Loopback, "127.0.0.0 127.255.255.255"),
            (LinkLocal, "169.254.0.0 169.254.169.254 169.254.255.255"),
            (Reserved, "192.0.0.0 192.0.0.255 192.88.99.1 240.0.0.0 255.255.255.254 255.255.255.255"),
            (Documentation, "192.0.2.0 192.0.2.255 198.51.100.0 198.51.100.255 203.0.113.0 203.0.113.255"),
            (Benchmarking, "198.18.0.0 198.19.255.255"),
            (Multicast, "224.0.0.0 239.255.255.255"),
            (Unspecified, "::"),
            (Loopback, "::1 ::ffff:127.0.0.1 64:ff9b::127.0.0.1"),
            (
                Reserved,
                "::2 ::127.0.0.1 ::8.8.8.8 ::fffe:ffff:ffff ::ffff:0:8.8.8.8 64:ff9b:0:1::8.8.8.8 \
                64:ff9b:2::8.8.8.8 100:: 100::ffff:ffff:ffff:ffff 100:0:0:1:: 1fff:ffff:: 2001:1::1 \
                2001:2:: 2001:10:: 2001:20:: 2001:1ff:ffff:: 4000:: 5f00::1 fbff:ffff:: fe00:: \
                fe7f:ffff:: fec0::1",
            ),
            (
                Public,
                "::ffff:8.8.8.8 64:ff9b::8.8.8.8 2000:: 2001:200:: 2001:db7:ffff:: 2001:db9:: \
                2001:4860:4860::8888 2003:: 2600:1f00::1 3ffe:ffff:: 3fff:1000::",
            ),
            (Private, "::ffff:10.0.0.5 64:ff9b::10.0.0.5 fc00:: fd00:ec2::254 fdff:ffff::1"),
            (LinkLocal, "::ffff:169.254.169.254 64:ff9b::169.254.169.254 fe80::1 febf:ffff::1"),
            (
                Transition,
                "64:ff9b:1::8.8.8.8 64:ff9b:1:ffff:ffff:ffff:808:808 2001:: \
                2001:0:ffff:ffff:ffff:ffff:ffff:ffff 2002:: 2002:808:808::1 2002:a00:5::1",
            ),
            (Documentation, "2001:db8:: 2001:db8:ffff:ffff::1 3fff:: 3fff:fff:ffff::1"),
            (Multicast, "ff00:: ff02::1 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ] {
            for address in addresses.split_whitespace() {
                let parsed = address.parse().unwrap();
                assert_eq!(AddressKind::of(parsed), kind, "{address}");
                assert_eq!(PublicOnly.allows(parsed), kind == Public, "{address}");
                assert_eq!(local().allows(parsed), kind == Public || kind == Loopback, "{address}");
            }
        }
    }

    #[test]
    fn a_public_https_url_is_accepted_and_normalised() {
        for (text, normalised) in [
            ("https://example.com", "https://example.com/"),
            ("HTTPS://Example.COM:443/Hooks?a=b", "https://example.com/Hooks?a=b"),
            ("https://example.com:8443/", "https://example.com:8443/"),
            ("https://example.com./", "https://example.com./"),
            ("https://münchen.example/", "https://xn--mnchen-3ya.example/"),
            ("https://8.8.8.8/", "https://8.8.8.8/"),
            ("https://134744072/", "https://8.8.8.8/"),
            ("https://[2606:4700::1111]/", "https://[2606:4700::1111]/"),
            ("https://localhost.example.com/", "https://localhost.example.com/"),
            ("https://mylocalhost/", "https://mylocalhost/"),
            ("https://internal.example.com/", "https://internal.example.com/"),
        ] {
            for policy in [PublicOnly, local()] {
                assert_eq!(check_url(text, &policy).unwrap().as_str(), normalised, "{text}");
            }
        }
    }

    #[test]
    fn each_refused_url_has_its_reason() {
        let relative = "/hooks //example.com/ example.com https:example.com https:// https://?x";
        for text in relative.split_whitespace().chain([
            "",
            " https://example.com/",
            "https://exa mple.com/",
            "https://exa\tmple.com/",
            "https://example.com/\u{7}",
            r"https:\\example.com\",
            "https://[::1/",
            "https://256.256.256.256/",
            "https://example.com:99999/",
        ]) {
            assert_eq!(check_url(text, &PublicOnly), Err(UrlRefusal::NotAbsolute), "{text:?}");
        }
        let long = format!("https://example.com/{}", "a".repeat(2029));
        for (text, reason) in [
            ("example.com", "must be an absolute URL, such as https://example.com/hooks"),
            ("http://example.com/", "must use https"),
            ("http://localhost:4000/", "must use https"),
            ("ftp://example.com/", "must use https"),
            ("unix://run/socket", "must use https"),
            ("https://user@example.com/", "must not contain a user name or password"),
            ("https://:secret@example.com/", "must not contain a user name or password"),
            ("https://8.8.8.8@127.0.0.1/", "must not contain a user name or password"),
            ("https://example.com/#x", "must not contain a fragment (#)"),
            ("https://example.com/#", "must not contain a fragment (#)"),
            ("https://example.com:0/", "must not use port 0"),
            (&long, "must be at most 2048 characters"),
            ("https://localhost/", "must have a public host name, not localhost"),
            ("https://LOCALHOST./", "must have a public host name, not localhost."),
            ("https://api.localhost/", "must have a public host name, not api.localhost"),
            ("https://printer.local/", "must have a public host name, not printer.local"),
            ("https://a.ec2.internal/", "must have a public host name, not a.ec2.internal"),
            ("https://internal/", "must have a public host name, not internal"),
        ] {
            assert_eq!(check_url(text, &PublicOnly).unwrap_err().to_string(), reason, "{text:?}");
        }
        for (address, kind) in [
            ("10.0.0.5", "a private"),
            ("127.0.0.1", "a loopback"),
            ("169.254.169.254", "a link-local"),
            ("100.64.0.1", "a carrier-grade NAT"),
            ("192.0.2.1", "a documentation"),
            ("198.18.0.1", "a benchmarking"),
            ("224.0.0.1", "a multicast"),
            ("255.255.255.255", "a reserved"),
            ("0.0.0.0", "an unspecified"),
            ("2002:a00:5::", "an IPv4 transition"),
        ] {
            let host = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
            let refusal = check_url(&format!("https://{host}/latest"), &PublicOnly).unwrap_err();
            let reason = format!("must have a public host, not {address} ({kind} address)");
            assert_eq!(refusal.to_string(), reason);
        }
    }

    #[test]
    fn the_longest_url_is_2048_bytes() {
        let longest = format!("https://example.com/{}", "a".repeat(2028));
        assert_eq!(longest.len(), 2048);
        assert!(check_url(&longest, &PublicOnly).is_ok());

        let longer_once_escaped = format!("https://example.com/{}", "é".repeat(1000));
        assert_eq!(check_url(&longer_once_escaped, &PublicOnly), Err(UrlRefusal::TooLong));
    }

    #[test]
    fn every_spelling_of_an_ipv4_address_is_recognised() {
        let spellings = "2130706433 0x7f000001 0x7F.0x0.0x0.0x1 017700000001 0177.0.0.1 0177.0.0x0.1 127.1 \
            127.0.1 0x7f.1 127.0.0.1. 127.0.0.01 %31%32%37.0.0.1 127。0。0。1 １２７.0.0.1 ①②⑦.0.0.1";
        for host in spellings.split_whitespace() {
            let refusal = check_url(&format!("https://{host}/"), &PublicOnly).unwrap_err();
            assert_eq!(refusal, UrlRefusal::Address(Ipv4Addr::LOCALHOST.into()), "{host}");
        }
    }

    #[test]
    fn on_a_developers_machine_loopback_is_accepted_with_plain_http() {
        let urls = "http://127.0.0.1:4000/hooks http://127.8.9.10/ http://localhost:4000/ \
            http://app.localhost/ http://[::1]:4000/ https://localhost/ https://127.0.0.1/";
        for text in urls.split_whitespace() {
            assert!(check_url(text, &local()).is_ok(), "{text}");
        }
    }

    #[test]
    fn on_a_developers_machine_all_other_rules_still_apply() {
        for (text, reason) in [
            ("http://example.com/", "must use https"),
            ("http://8.8.8.8/", "must use https"),
            ("http://10.0.0.5/", "must use https"),
            ("http://notlocalhost/", "must use https"),
            ("ftp://localhost/", "must use https"),
            ("https://10.0.0.5/", "must have a public host, not 10.0.0.5 (a private address)"),
            (
                "https://169.254.169.254/",
                "must have a public host, not 169.254.169.254 (a link-local address)",
            ),
            ("https://printer.local/", "must have a public host name, not printer.local"),
            ("http://me@localhost/", "must not contain a user name or password"),
            ("http://localhost:0/", "must not use port 0"),
        ] {
            assert_eq!(check_url(text, &local()).unwrap_err().to_string(), reason, "{text}");
        }
    }

    #[test]
    fn the_host_of_a_new_url_must_be_possible_in_the_public_dns() {
        let long_label = format!("https://{}.example.com/", "a".repeat(64));
        let long_name = format!("https://{}com/", "label.".repeat(42));
        let private = "shop shop. nas.lan lan router.home.arpa api.test api.test. x.invalid \
            expyuzz4wqqyqhjn.onion printer.local a..example.com .example.com example.com..";
        for host in private.split_whitespace() {
            for policy in [PublicOnly, local()] {
                let refusal = check_new_url(&format!("https://{host}/"), &policy);
                assert_eq!(refusal, Err(UrlRefusal::Name(host.to_owned())));
            }
        }
        for (text, reason) in [
            ("https://example.com:80/", "must use port 443 or a port from 1024 to 65535, not 80"),
            ("https://example.com:25/", "must use port 443 or a port from 1024 to 65535, not 25"),
            ("https://8.8.8.8:1023/", "must use port 443 or a port from 1024 to 65535, not 1023"),
            ("https://example.com:0/", "must not use port 0"),
            ("https://10.0.0.5/", "must have a public host, not 10.0.0.5 (a private address)"),
        ] {
            for policy in [PublicOnly, local()] {
                assert_eq!(check_new_url(text, &policy).unwrap_err().to_string(), reason, "{text}");
            }
        }
        for text in [&long_label, &long_name] {
            let refusal = check_new_url(text, &PublicOnly).unwrap_err();
            assert!(matches!(refusal, UrlRefusal::Name(_) | UrlRefusal::NotAbsolute), "{text}: {refusal}");
        }
        let allowed = "https://example.com/ https://example.com./ https://example.com:443/ \
            https://example.com:1024/ https://example.com:65535/ https://testing.example/ \
            https://local.example.com/ https://8.8.8.8:8443/ https://[2606:4700::1111]/";
        for text in allowed.split_whitespace() {
            assert_eq!(check_new_url(text, &PublicOnly), check_url(text, &PublicOnly), "{text}");
            assert!(check_new_url(text, &PublicOnly).is_ok(), "{text}");
        }
    }

    #[test]
    fn named_hosts_are_accepted_like_loopback_on_a_developers_machine_only() {
        let named = AddressPolicy::PublicOrLocal(LocalNames::parse(" host.docker.internal, Shop.,,"));
        let urls = "http://host.docker.internal:81/hook http://HOST.docker.internal./ http://shop:80/ \
            https://shop/ http://localhost:25/ http://127.0.0.1:1/";
        for text in urls.split_whitespace() {
            assert!(check_new_url(text, &named).is_ok(), "{text}");
            assert!(check_new_url(text, &PublicOnly).is_err(), "{text}");
        }
        for text in
            ["http://x.host.docker.internal/", "http://shop.example.com/", "https://gateway.docker.internal/"]
        {
            assert!(check_new_url(text, &named).is_err(), "{text}");
        }
        let bridge = "172.17.0.1".parse().unwrap();
        assert!(
            named.allows_resolved("host.docker.internal", bridge)
                && named.allows_resolved("HOST.docker.internal.", bridge)
        );
        assert!(!named.allows_resolved("example.com", bridge) && !named.allows(bridge));
        assert!(!PublicOnly.allows_resolved("host.docker.internal", bridge));
    }

    proptest! {
        #[test]
        fn a_normalised_url_is_accepted_again_and_no_text_panics(text in ".{0,80}") {
            for text in [text.clone(), format!("https://{text}")] {
                if let Ok(url) = check_url(&text, &PublicOnly) {
                    prop_assert_eq!(url.scheme(), "https");
                    prop_assert_eq!(check_url(url.as_str(), &PublicOnly), Ok(url));
                }
                if let Ok(url) = check_new_url(&text, &PublicOnly) {
                    prop_assert_eq!(check_new_url(url.as_str(), &PublicOnly), Ok(url));
                }
            }
        }

        #[test]
        fn a_literal_address_is_accepted_exactly_when_it_is_public(v4: u32, v6: u128) {
            let v4 = Ipv4Addr::from_bits(v4);
            let v6 = Ipv6Addr::from_bits(v6);
            let accepted = |url: String| check_url(&url, &PublicOnly).is_ok();
            prop_assert_eq!(accepted(format!("https://{v4}/")), PublicOnly.allows(v4.into()));
            prop_assert_eq!(accepted(format!("https://{}/", v4.to_bits())), PublicOnly.allows(v4.into()));
            prop_assert_eq!(accepted(format!("https://[{v6}]/")), PublicOnly.allows(v6.into()));
            prop_assert_eq!(accepted(format!("https://[{}]/", v4.to_ipv6_mapped())), PublicOnly.allows(v4.into()));
        }

        #[test]
        fn nothing_outside_global_unicast_is_public(bits: u128) {
            let address = Ipv6Addr::from_bits(bits);
            let embeds_v4 = address.to_ipv4_mapped().is_some() || address.segments()[..2] == [0x64, 0xff9b];
            prop_assume!(address.segments()[0] >> 13 != 1 && !embeds_v4);
            prop_assert!(!PublicOnly.allows(address.into()));
        }
    }
}
