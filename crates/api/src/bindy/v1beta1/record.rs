//! The nine record kinds.
//!
//! Every field has a default on the Rust side, so that one odd object in a cluster cannot keep the
//! others from being read; what must be there is said by the schema and by the conversion.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::status::RecordStatus;
use crate::schema;

/// Declares one kind: what all kinds share stands here once, the rest at the call.
macro_rules! record_kind {
    (
        $(#[$meta:meta])*
        $spec:ident, $root:tt, $kind:tt, $plural:tt, $short:tt, $doc:tt,
        columns [$($column:tt $path:tt $type:tt),*],
        required $required:tt,
        name $name_doc:tt,
        { $($fields:tt)* }
    ) => {
        #[doc = concat!("What ", $kind, " is to publish.")]
        #[derive(CustomResource, Deserialize, Serialize, JsonSchema)]
        #[derive(Clone, Debug, Default, PartialEq)]
        #[kube(
            group = "bindy.firestoned.io",
            version = "v1beta1",
            kind = $kind,
            root = $root,
            plural = $plural,
            shortname = $short,
            namespaced,
            status = "RecordStatus",
            derive = "PartialEq",
            derive = "Default",
            doc = $doc,
            printcolumn(name = "Name", type_ = "string", json_path = ".spec.name"),
            printcolumn(name = "Zone", type_ = "string", json_path = ".status.zoneRef.zoneName"),
            $(printcolumn(name = $column, type_ = $type, json_path = $path),)*
            printcolumn(name = "TTL", type_ = "integer", json_path = ".spec.ttl"),
            printcolumn(
                name = "Ready",
                type_ = "string",
                json_path = ".status.conditions[?(@.type=='Ready')].status"
            ),
            printcolumn(
                name = "Reason",
                type_ = "string",
                json_path = ".status.conditions[?(@.type=='Ready')].reason",
                priority = 1
            ),
            printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
        )]
        #[serde(rename_all = "camelCase", default)]
        #[schemars(extend("required" = $required))]
        $(#[$meta])*
        pub struct $spec {
            #[doc = $name_doc]
            #[schemars(schema_with = "schema::record_name")]
            pub name: String,

            $($fields)*

            /// How long resolvers may keep the record, in seconds. Default: the zone's ttl.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schemars(schema_with = "schema::ttl")]
            pub ttl: Option<i64>,

            /// The DNSZone object that the record belongs to, whatever the zone selects.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub zone_ref: Option<String>,
        }
    };
}

record_kind! {
    #[schemars(extend("x-kubernetes-validations" = schema::either_ipv4()))]
    ARecordSpec, "ARecord", "ARecord", "arecords", "a",
    "IPv4 addresses of a name.",
    columns ["Addresses" ".status.addresses" "string"],
    required ["name"],
    name r#"The name inside the zone. "@" or nothing stands for the zone itself."#,
    {
        /// The IPv4 address, when there is one.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "schema::ipv4")]
        pub ipv4_address: Option<String>,

        /// The IPv4 addresses, when there are several.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "schema::ipv4_list")]
        pub ipv4_addresses: Option<Vec<String>>,
    }
}

record_kind! {
    #[schemars(extend("x-kubernetes-validations" = schema::either_ipv6()))]
    AaaaRecordSpec, "AaaaRecord", "AAAARecord", "aaaarecords", "aaaa",
    "IPv6 addresses of a name.",
    columns ["Addresses" ".status.addresses" "string"],
    required ["name"],
    name r#"The name inside the zone. "@" or nothing stands for the zone itself."#,
    {
        /// The IPv6 address, when there is one.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "schema::ipv6")]
        pub ipv6_address: Option<String>,

        /// The IPv6 addresses, when there are several.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "schema::ipv6_list")]
        pub ipv6_addresses: Option<Vec<String>>,
    }
}

record_kind! {
    CnameRecordSpec, "CnameRecord", "CNAMERecord", "cnamerecords", "cname",
    "An alias of another name.",
    columns ["Target" ".spec.target" "string"],
    required ["name", "target"],
    name r#"The name inside the zone. "@" or nothing stands for the zone itself."#,
    {
        /// The full name that this name is an alias of. The trailing dot is optional.
        #[schemars(schema_with = "schema::name")]
        pub target: String,
    }
}

record_kind! {
    TxtRecordSpec, "TxtRecord", "TXTRecord", "txtrecords", "txt",
    "Text of a name.",
    columns [],
    required ["name", "text"],
    name r#"The name inside the zone. "@" or nothing stands for the zone itself."#,
    {
        /// The character-strings of one TXT record, in order. One longer than 255 bytes is cut.
        #[schemars(schema_with = "schema::text")]
        pub text: Vec<String>,
    }
}

record_kind! {
    MxRecordSpec, "MxRecord", "MXRecord", "mxrecords", "mx",
    "A mail server of a name.",
    columns ["Priority" ".spec.priority" "integer", "Mail Server" ".spec.mailServer" "string"],
    required ["name", "priority", "mailServer"],
    name r#"The name inside the zone. "@" or nothing stands for the zone itself."#,
    {
        /// Mail servers of lower priority are tried first.
        #[schemars(schema_with = "schema::number::<0, 65_535>")]
        pub priority: i64,

        /// The full name of the mail server. A single dot says that the name takes no mail.
        #[schemars(schema_with = "schema::name")]
        pub mail_server: String,
    }
}

record_kind! {
    NsRecordSpec, "NsRecord", "NSRecord", "nsrecords", "nsr",
    "A name server of a delegated name.",
    columns ["Nameserver" ".spec.nameserver" "string"],
    required ["name", "nameserver"],
    name r#"The name inside the zone. "@" or nothing stands for the zone itself."#,
    {
        /// The full name of the name server.
        #[schemars(schema_with = "schema::name")]
        pub nameserver: String,
    }
}

record_kind! {
    SrvRecordSpec, "SrvRecord", "SRVRecord", "srvrecords", "srv",
    "Host and port of a service.",
    columns ["Target" ".spec.target" "string", "Port" ".spec.port" "integer"],
    required ["name", "priority", "weight", "port", "target"],
    name r#"The name inside the zone. "@" or nothing stands for the zone itself."#,
    {
        /// Targets of lower priority are tried first.
        #[schemars(schema_with = "schema::number::<0, 65_535>")]
        pub priority: i64,

        /// The share of a target among those of the same priority.
        #[schemars(schema_with = "schema::number::<0, 65_535>")]
        pub weight: i64,

        /// The port of the service.
        #[schemars(schema_with = "schema::number::<0, 65_535>")]
        pub port: i64,

        /// The full name of the host. A single dot says that there is no such service.
        #[schemars(schema_with = "schema::name")]
        pub target: String,
    }
}

record_kind! {
    CaaRecordSpec, "CaaRecord", "CAARecord", "caarecords", "caa",
    "Who may issue certificates for a name.",
    columns ["Tag" ".spec.tag" "string", "Value" ".spec.value" "string"],
    required ["name", "flags", "tag", "value"],
    name r#"The name inside the zone. "@" or nothing stands for the zone itself."#,
    {
        /// 128 makes the property critical, 0 does not.
        #[schemars(schema_with = "schema::number::<0, 255>")]
        pub flags: i64,

        /// The property: issue, issuewild, iodef or another made of letters and digits.
        #[schemars(schema_with = "schema::caa_tag")]
        pub tag: String,

        /// The property's value, such as letsencrypt.org.
        #[schemars(length(max = 4096))]
        pub value: String,
    }
}

record_kind! {
    PtrRecordSpec, "PtrRecord", "PTRRecord", "ptrrecords", "ptr",
    "The name of an address.",
    columns ["Target" ".spec.target" "string"],
    required ["name", "target"],
    name "The host part of the address inside the zone, such as 1 in 2.0.192.in-addr.arpa.",
    {
        /// The full name that the address has.
        #[schemars(schema_with = "schema::name")]
        pub target: String,
    }
}
