//! Names in a certificate: its common name, and the DNS names of its SAN.

use rustls::pki_types::CertificateDer;

/// Most names of one certificate that are looked at.
const NAMES_MAX: usize = 64;

/// DER: tags of what is looked at.
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT: u8 = 0x06;
const UTF8: u8 = 0x0c;
const PRINTABLE: u8 = 0x13;
const IA5: u8 = 0x16;
/// `2.5.4.3`, commonName.
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];

/// Names of a certificate that has been verified. What is not in one of the usual forms has no name.
pub(super) fn names(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok(certificate) = webpki::EndEntityCert::try_from(certificate) else { return Vec::new() };
    let common = common_names(certificate.subject()).into_iter();
    let dns = certificate.valid_dns_names().map(str::to_owned);
    common.chain(dns).take(NAMES_MAX).collect()
}

/// Common names in a subject: sets of pairs of a kind and a text (RFC 5280, 4.1.2.4), without the head of the whole.
fn common_names(mut subject: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    while let Some((SET, mut set)) = element(&mut subject) {
        while let Some((SEQUENCE, mut pair)) = element(&mut set) {
            let kind = element(&mut pair);
            let text = element(&mut pair);
            if let (Some((OBJECT, kind)), Some((UTF8 | PRINTABLE | IA5, text))) = (kind, text)
                && kind == COMMON_NAME
                && let Ok(text) = str::from_utf8(text)
                && weir_units::hidden_character(text).is_none()
            {
                names.push(text.to_owned());
            }
        }
    }
    names
}

/// Tag and content of the first element; `None` at the end, and where there is none of a length that fits.
fn element<'d>(data: &mut &'d [u8]) -> Option<(u8, &'d [u8])> {
    let (&tag, rest) = data.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (len, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81 => (usize::from(*rest.first()?), &rest[1..]),
        0x82 => (usize::from(u16::from_be_bytes(*rest.first_chunk()?)), &rest[2..]),
        // Longer than any name.
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(len)?;
    *data = rest;
    Some((tag, content))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DnType, DnValue, KeyPair};

    use super::*;

    fn certificate(common: &[DnValue], dns: &[&str]) -> CertificateDer<'static> {
        let dns: Vec<String> = dns.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(dns).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "an organisation");
        for name in common {
            params.distinguished_name.push(DnType::CommonName, name.clone());
        }
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    #[test]
    fn a_certificate_has_its_common_name_and_its_dns_names() {
        let utf8 = |name: &str| DnValue::Utf8String(name.to_owned());
        let long = "x".repeat(300);
        for (common, dns, expected) in [
            (
                vec![utf8("tenant 1")],
                &["a.example", "*.b.example"][..],
                vec!["tenant 1", "a.example", "*.b.example"],
            ),
            (vec![DnValue::PrintableString("t1".try_into().unwrap())], &[], vec!["t1"]),
            (vec![], &["a.example"], vec!["a.example"]),
            (vec![utf8(&long)], &[], vec![&long]),
            (vec![utf8("line\nfeed")], &[], vec![]),
        ] {
            assert_eq!(names(&certificate(&common, dns)), expected);
        }
        assert_eq!(names(&CertificateDer::from(vec![0x30, 0x80])), [""; 0]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_within_bounds(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            for name in common_names(&bytes) {
                prop_assert!(name.len() <= bytes.len());
            }
        }
    }
}
