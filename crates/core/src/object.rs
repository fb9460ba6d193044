//! Names of the Kubernetes objects that ask for something.

use std::fmt;
use std::sync::Arc;

/// The kinds of object that can make claims or hold zones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A zone.
    DnsZone,
    /// An A record.
    ARecord,
    /// An AAAA record.
    AaaaRecord,
    /// A CNAME record.
    CnameRecord,
    /// A TXT record.
    TxtRecord,
    /// An MX record.
    MxRecord,
    /// An NS record.
    NsRecord,
    /// An SRV record.
    SrvRecord,
    /// A CAA record.
    CaaRecord,
    /// A PTR record.
    PtrRecord,
    /// A list of endpoints in external-dns's form.
    DnsEndpoint,
}

impl Kind {
    /// Every kind, zones first.
    pub const ALL: [Self; 11] = [
        Self::DnsZone,
        Self::ARecord,
        Self::AaaaRecord,
        Self::CnameRecord,
        Self::TxtRecord,
        Self::MxRecord,
        Self::NsRecord,
        Self::SrvRecord,
        Self::CaaRecord,
        Self::PtrRecord,
        Self::DnsEndpoint,
    ];

    /// The kind as Kubernetes spells it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DnsZone => "DNSZone",
            Self::ARecord => "ARecord",
            Self::AaaaRecord => "AAAARecord",
            Self::CnameRecord => "CNAMERecord",
            Self::TxtRecord => "TXTRecord",
            Self::MxRecord => "MXRecord",
            Self::NsRecord => "NSRecord",
            Self::SrvRecord => "SRVRecord",
            Self::CaaRecord => "CAARecord",
            Self::PtrRecord => "PTRRecord",
            Self::DnsEndpoint => "DNSEndpoint",
        }
    }

    /// Group and version.
    #[must_use]
    pub const fn api_version(self) -> &'static str {
        match self {
            Self::DnsZone
            | Self::ARecord
            | Self::AaaaRecord
            | Self::CnameRecord
            | Self::TxtRecord
            | Self::MxRecord
            | Self::NsRecord
            | Self::SrvRecord
            | Self::CaaRecord
            | Self::PtrRecord => "bindy.firestoned.io/v1beta1",
            Self::DnsEndpoint => "externaldns.k8s.io/v1alpha1",
        }
    }
}

/// An object, shared by everybody who speaks of it.
pub type Id = Arc<ObjectRef>;

/// One object: kind, namespace, name and UID, so that a recreated object is another one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// Its kind.
    pub kind: Kind,
    /// Its name. It comes before the namespace, which tells few objects apart, since objects are
    /// compared all the time.
    pub name: Box<str>,
    /// Its namespace, which many share.
    pub namespace: Arc<str>,
    /// Its UID.
    pub uid: Box<str>,
}

impl fmt::Display for ObjectRef {
    /// As kubectl would take it, with the namespace: `arecord/default/www`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.as_str().to_ascii_lowercase();
        write!(f, "{kind}/{}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_shown_with_kind_namespace_and_name() {
        let www = ObjectRef {
            kind: Kind::ARecord,
            namespace: "default".into(),
            name: "www".into(),
            uid: "1".into(),
        };
        assert_eq!(www.to_string(), "arecord/default/www");
    }
}
