//! Reads when a certificate is valid, from its DER encoding (RFC 5280, section 4.1).
//!
//! No TLS library of the workspace exposes this field. A parser of whole certificates would be ten more
//! crates for two times.

use domain::time::Timestamp;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

const SEQUENCE: u8 = 0x30;
/// The tag of the certificate's version, which is optional.
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The number of fields between the version and the validity: serial number, signature algorithm, issuer.
const FIELDS_BEFORE_VALIDITY: usize = 3;

/// Like [`validity`], of the first certificate of a PEM text.
pub(crate) fn validity_of_pem(pem: &str) -> Option<(Timestamp, Timestamp)> {
    validity(&CertificateDer::from_pem_slice(pem.as_bytes()).ok()?)
}

/// Returns the certificate's `notBefore` and `notAfter`: the first and the last second in which it is valid.
/// `None` if the bytes are not a certificate.
fn validity(der: &[u8]) -> Option<(Timestamp, Timestamp)> {
    let (certificate, _) = sequence(der)?;
    let (mut fields, _) = sequence(certificate)?;
    if fields.first() == Some(&VERSION) {
        fields = element(fields)?.rest;
    }
    for _ in 0..FIELDS_BEFORE_VALIDITY {
        fields = element(fields)?.rest;
    }
    let (validity, _) = sequence(fields)?;
    let not_before = element(validity)?;
    let not_after = element(not_before.rest)?;
    Some((time(not_before.tag, not_before.content)?, time(not_after.tag, not_after.content)?))
}

struct Element<'a> {
    tag: u8,
    content: &'a [u8],
    rest: &'a [u8],
}

fn sequence(input: &[u8]) -> Option<(&[u8], &[u8])> {
    element(input).filter(|element| element.tag == SEQUENCE).map(|element| (element.content, element.rest))
}

fn element(input: &[u8]) -> Option<Element<'_>> {
    let (&[tag, length], rest) = input.split_first_chunk::<2>()?;
    // The first byte is the length itself, or the number of bytes that contain it. Four bytes are enough for
    // any certificate.
    let (length, rest) = match length {
        0..=0x7f => (usize::from(length), rest),
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
            let length = bytes.iter().fold(0_u32, |length, byte| (length << 8) | u32::from(*byte));
            (usize::try_from(length).ok()?, rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some(Element { tag, content, rest })
}

/// Parses `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ`, the two forms that RFC 5280 allows.
fn time(tag: u8, content: &[u8]) -> Option<Timestamp> {
    let text = std::str::from_utf8(content).ok()?;
    let (year, rest) = match tag {
        UTC_TIME => {
            let (year, rest) = text.split_at_checked(2)?;
            // A year of two digits is from 1950 to 2049.
            let century = if year.parse::<u8>().ok()? >= 50 { "19" } else { "20" };
            ([century, year].concat(), rest)
        }
        GENERALIZED_TIME => text.split_at_checked(4).map(|(year, rest)| (year.to_owned(), rest))?,
        _ => return None,
    };
    let digits = rest.strip_suffix('Z').filter(|digits| digits.len() == 10)?;
    let part = |start: usize| digits.get(start..start.saturating_add(2));
    let (month, day, hour, minute, second) = (part(0)?, part(2)?, part(4)?, part(6)?, part(8)?);
    Timestamp::parse_floor(&format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z")).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn certificate(year: i32) -> Vec<u8> {
        let mut parameters = rcgen::CertificateParams::new(vec!["client.example".to_owned()]).unwrap();
        parameters.not_before = rcgen::date_time_ymd(2020, 1, 2);
        parameters.not_after = rcgen::date_time_ymd(year, 2, 28);
        parameters.distinguished_name.push(rcgen::DnType::OrganizationName, "Loja ".repeat(60));
        let key = rcgen::KeyPair::generate().unwrap();
        parameters.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn the_validity_of_a_certificate_is_read_in_both_forms() {
        // From 2050 on, certificates have the form with four digits of the year.
        for (year, expected) in [
            (2027, "2027-02-28T00:00:00.000Z"),
            (2049, "2049-02-28T00:00:00.000Z"),
            (2050, "2050-02-28T00:00:00.000Z"),
        ] {
            let (from, to) = validity(&certificate(year)).unwrap();
            assert_eq!(
                (from.to_iso().as_str(), to.to_iso().as_str()),
                ("2020-01-02T00:00:00.000Z", expected)
            );
        }
    }

    #[test]
    fn a_two_digit_year_from_50_on_is_in_the_twentieth_century() {
        assert_eq!(time(UTC_TIME, b"991231235959Z").unwrap().to_iso(), "1999-12-31T23:59:59.000Z");
        assert_eq!(time(UTC_TIME, b"491231235959Z").unwrap().to_iso(), "2049-12-31T23:59:59.000Z");
        assert_eq!(time(UTC_TIME, b"9912312359Z"), None);
        assert_eq!(time(GENERALIZED_TIME, b"20271301000000Z"), None);
    }

    #[test]
    fn a_truncated_certificate_has_no_validity() {
        let der = certificate(2027);
        for length in 0..der.len() {
            assert_eq!(validity(&der[..length]), None, "{length} bytes");
        }
    }

    proptest! {
        #[test]
        fn reading_never_panics(der in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = validity(&der);
        }

        #[test]
        fn a_changed_byte_never_panics(at in 0_usize..300, byte: u8) {
            let mut der = certificate(2027);
            if let Some(changed) = der.get_mut(at) {
                *changed = byte;
            }
            let _ = validity(&der);
        }
    }
}
