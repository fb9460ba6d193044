//! Record types by name and number.

use std::fmt;
use std::str::FromStr;

use super::data::DataProblem;

/// The type of a record.
///
/// Assumptions: `Other` is made by [`RecordType::from_code`] only, so that it never holds the
/// number of a type that has its own variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordType {
    /// An IPv4 address.
    A,
    /// An IPv6 address.
    Aaaa,
    /// An alias.
    Cname,
    /// Text.
    Txt,
    /// A mail server.
    Mx,
    /// A name server.
    Ns,
    /// A service's host and port.
    Srv,
    /// Who may issue certificates.
    Caa,
    /// The name of an address.
    Ptr,
    /// Start of authority.
    Soa,
    /// The digest of an SSH key.
    Sshfp,
    /// The digest of a certificate.
    Tlsa,
    /// Where a service is and how to speak to it.
    Svcb,
    /// The same for HTTPS.
    Https,
    /// Any other type, carried as bytes (RFC 3597).
    Other(u16),
}

const KNOWN: [(RecordType, u16, &str); 14] = [
    (RecordType::A, 1, "A"),
    (RecordType::Aaaa, 28, "AAAA"),
    (RecordType::Cname, 5, "CNAME"),
    (RecordType::Txt, 16, "TXT"),
    (RecordType::Mx, 15, "MX"),
    (RecordType::Ns, 2, "NS"),
    (RecordType::Srv, 33, "SRV"),
    (RecordType::Caa, 257, "CAA"),
    (RecordType::Ptr, 12, "PTR"),
    (RecordType::Soa, 6, "SOA"),
    (RecordType::Sshfp, 44, "SSHFP"),
    (RecordType::Tlsa, 52, "TLSA"),
    (RecordType::Svcb, 64, "SVCB"),
    (RecordType::Https, 65, "HTTPS"),
];

/// The private type in which `named` notes how far it has come with signing (`sig-signing-type`).
pub(crate) const SIGNING_NOTE: u16 = 65_534;

impl RecordType {
    /// Whether sets of this type may share a name with a CNAME: signatures and their chain (RFC 4034
    /// sections 3 and 4).
    #[must_use]
    pub const fn stands_beside_cname(self) -> bool {
        matches!(self, Self::Other(46 | 47))
    }

    /// Whether sets of this type are what a server makes when it signs a zone: RRSIG, NSEC, DNSKEY, NSEC3,
    /// NSEC3PARAM (RFC 4034, RFC 5155), CDS and CDNSKEY (RFC 7344), and the notes of `named` about how far it
    /// has come, which are of a private type. They are the server's own: nobody wrote them.
    #[must_use]
    pub const fn is_signing(self) -> bool {
        matches!(
            self,
            Self::Other(46 | 47 | 48 | 50 | 51 | 59 | 60 | SIGNING_NOTE)
        )
    }

    /// The type's number on the wire.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            Self::A => 1,
            Self::Aaaa => 28,
            Self::Cname => 5,
            Self::Txt => 16,
            Self::Mx => 15,
            Self::Ns => 2,
            Self::Srv => 33,
            Self::Caa => 257,
            Self::Ptr => 12,
            Self::Soa => 6,
            Self::Sshfp => 44,
            Self::Tlsa => 52,
            Self::Svcb => 64,
            Self::Https => 65,
            Self::Other(code) => code,
        }
    }

    /// The type of this number.
    #[must_use]
    pub fn from_code(code: u16) -> Self {
        KNOWN
            .iter()
            .find(|(_, known, _)| *known == code)
            .map_or(Self::Other(code), |(rtype, ..)| *rtype)
    }
}

impl fmt::Display for RecordType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match KNOWN.iter().find(|(rtype, ..)| rtype == self) {
            Some((.., mnemonic)) => f.write_str(mnemonic),
            None => write!(f, "TYPE{}", self.code()),
        }
    }
}

impl FromStr for RecordType {
    type Err = DataProblem;

    fn from_str(text: &str) -> Result<Self, DataProblem> {
        if let Some((rtype, ..)) = KNOWN
            .iter()
            .find(|(.., mnemonic)| mnemonic.eq_ignore_ascii_case(text))
        {
            return Ok(*rtype);
        }
        text.get(..4)
            .filter(|prefix| prefix.eq_ignore_ascii_case("TYPE"))
            .and_then(|_| text.get(4..))
            .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|digits| digits.parse().ok())
            .map(Self::from_code)
            .ok_or_else(|| DataProblem::UnknownType { text: text.into() })
    }
}
