//! Opens connections: resolves the name, checks its addresses against the URL policy, then connects by TCP
//! and TLS. The sender checks literal addresses before.

use std::time::Duration;

use acquirer_http::{CheckedResolver, ClientSettingsError, Lookup, tls_config};
use domain::url_policy::AddressPolicy;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::pki_types::CertificateDer;

pub(super) type Connector = HttpsConnector<HttpConnector<CheckedResolver>>;

pub(super) fn new(
    policy: &AddressPolicy,
    connect_time_limit: Duration,
    extra_roots: Vec<CertificateDer<'static>>,
    lookup: Option<Lookup>,
) -> Result<Connector, ClientSettingsError> {
    let mut tcp = HttpConnector::new_with_resolver(CheckedResolver { policy: Some(policy.clone()), lookup });
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    // hyper divides this time among a name's addresses. So an address that does not respond leaves time for
    // the next.
    tcp.set_connect_timeout(Some(connect_time_limit));
    let is_https = *policy == AddressPolicy::PublicOnly;
    let mut connector = HttpsConnector::from((tcp, tls_config(extra_roots, is_https, None)?));
    if is_https {
        connector.enforce_https();
    }
    Ok(connector)
}
