//! The table of kinds: what differs from one kind to another stands in its row, and nowhere else.
//!
//! The core reads the names. `bindery-api` reads the other columns, which speak of Kubernetes, and makes
//! its `KINDS` of them.

/// Hands the rows of the table of kinds to a macro: type, kind, group and version, scope, role, what is
/// watched.
#[macro_export]
macro_rules! every_kind {
    ($take:ident) => {
        $take! {
            /// A zone.
            DnsZone     "DNSZone"     BINDY        Namespaced Zone      ALL;
            /// An A record.
            ARecord     "ARecord"     BINDY        Namespaced Record    ALL;
            /// An AAAA record.
            AaaaRecord  "AAAARecord"  BINDY        Namespaced Record    ALL;
            /// A CNAME record.
            CnameRecord "CNAMERecord" BINDY        Namespaced Record    ALL;
            /// A TXT record.
            TxtRecord   "TXTRecord"   BINDY        Namespaced Record    ALL;
            /// An MX record.
            MxRecord    "MXRecord"    BINDY        Namespaced Record    ALL;
            /// An NS record.
            NsRecord    "NSRecord"    BINDY        Namespaced Record    ALL;
            /// An SRV record.
            SrvRecord   "SRVRecord"   BINDY        Namespaced Record    ALL;
            /// A CAA record.
            CaaRecord   "CAARecord"   BINDY        Namespaced Record    ALL;
            /// A PTR record.
            PtrRecord   "PTRRecord"   BINDY        Namespaced Record    ALL;
            /// An HTTPS record.
            HttpsRecord "HTTPSRecord" BINDY        Namespaced Record    ALL;
            /// An SVCB record.
            SvcbRecord  "SVCBRecord"  BINDY        Namespaced Record    ALL;
            /// A TLSA record.
            TlsaRecord  "TLSARecord"  BINDY        Namespaced Record    ALL;
            /// An SSHFP record.
            SshfpRecord "SSHFPRecord" BINDY        Namespaced Record    ALL;
            /// A list of endpoints in external-dns's form.
            DnsEndpoint "DNSEndpoint" EXTERNAL_DNS Namespaced Endpoints ALL;
        }
    };
}

/// Group and version of bindy's kinds.
const BINDY: &str = "bindy.firestoned.io/v1beta1";
/// Group and version of external-dns's kinds.
const EXTERNAL_DNS: &str = "externaldns.k8s.io/v1alpha1";

macro_rules! names {
    ($(
        #[doc = $doc:literal]
        $kind:ident $word:literal $group:ident $scope:ident $role:ident $watch:ident;
    )*) => {
        /// The kinds of object that can make claims or hold zones.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $(#[doc = $doc] $kind,)*
        }

        impl Kind {
            /// Every kind, zones first.
            pub const ALL: [Self; [$($word),*].len()] = [$(Self::$kind),*];

            /// The kind as Kubernetes spells it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$kind => $word,)*
                }
            }

            /// Group and version.
            #[must_use]
            pub const fn api_version(self) -> &'static str {
                match self {
                    $(Self::$kind => $group,)*
                }
            }
        }
    };
}

every_kind!(names);
