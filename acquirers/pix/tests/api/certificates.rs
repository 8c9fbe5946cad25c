//! Certificates of an authority that a test creates.

/// A certificate and its key, in PEM.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// Returns an authority's certificate, and certificates that it issued: for a server on 127.0.0.1 and for two
/// clients. Those of the clients end on 2027-03-04.
pub(crate) fn identities() -> (String, Identity, [Identity; 2]) {
    let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    let authority = parameters.self_signed(&key).unwrap().pem();
    let issuer = rcgen::Issuer::new(parameters, key);
    let issue = |name: &str| {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
        if name != "127.0.0.1" {
            parameters.not_after = rcgen::date_time_ymd(2027, 3, 4);
        }
        Identity { certificate: parameters.signed_by(&key, &issuer).unwrap().pem(), key: key.serialize_pem() }
    };
    (authority, issue("127.0.0.1"), [issue("client-a.example"), issue("client-b.example")])
}
