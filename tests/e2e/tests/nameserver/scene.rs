//! What each case gets: a zone of its own on a server, and the means to ask.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use bindery_core::{Name, Record};
use bindery_dns::{Key, Server};
use bindery_engine::ports::ZoneHost;
use futures::future::BoxFuture;

use crate::subject::{self, Kind};

/// A named case.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    /// A sentence.
    pub(crate) name: &'static str,
    /// What it does.
    pub(crate) run: fn(Scene) -> BoxFuture<'static, Result<()>>,
}

/// Makes a list of cases from async functions of a scene.
macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        vec![$($crate::scene::Case {
            name: stringify!($name),
            run: |scene| Box::pin($name(scene)),
        }),*]
    };
}
pub(crate) use cases;

/// See the module.
pub(crate) struct Scene {
    /// The server's kind.
    pub(crate) kind: Kind,
    /// Where it answers.
    pub(crate) address: SocketAddr,
    /// What makes zones.
    pub(crate) host: Arc<dyn ZoneHost>,
    /// The zone of this case.
    pub(crate) zone: Name,
    /// The key it may be updated with.
    pub(crate) key: Key,
}

/// The content of every case's zone; `@` stands for its name.
const LINES: &[&str] = &[
    "@ 3600 IN SOA ns.@ hostmaster.@ 100 7200 900 1209600 30",
    "@ 300 IN NS ns.@",
    "@ 300 IN MX 10 mail.@",
    "@ 300 IN CAA 0 issue \"ca.example.net\"",
    "ns.@ 300 IN A 192.0.2.53",
    "mail.@ 300 IN A 192.0.2.25",
    "www.@ 300 IN A 192.0.2.1",
    "www.@ 300 IN A 192.0.2.2",
    "www.@ 300 IN AAAA 2001:db8::1",
    "www.@ 300 IN TXT \"hello\" \"world\"",
    "alias.@ 300 IN CNAME www.@",
    "chain.@ 300 IN CNAME alias.@",
    "loop1.@ 300 IN CNAME loop2.@",
    "loop2.@ 300 IN CNAME loop1.@",
    "out.@ 300 IN CNAME www.example.net.",
    "broken.@ 300 IN CNAME nothing.@",
    "*.wild.@ 300 IN A 192.0.2.9",
    "*.wild.@ 300 IN TXT \"w\"",
    "real.wild.@ 300 IN TXT \"real\"",
    "*.wc.@ 300 IN CNAME www.@",
    "sub.@ 300 IN NS ns.sub.@",
    "sub.@ 300 IN NS ns.example.net.",
    "ns.sub.@ 300 IN A 192.0.2.60",
    "hidden.sub.@ 300 IN TXT \"below the cut\"",
    "a.ent.@ 300 IN TXT \"below\"",
    "_sip._tcp.@ 300 IN SRV 1 2 5060 www.@",
    "1.ptr.@ 300 IN PTR www.@",
    "odd.@ 300 IN TYPE65280 \\# 3 010203",
    "a\\.b\\000c.@ 300 IN A 192.0.2.77",
];

impl Scene {
    /// A fresh zone, named after the case, on the shared server.
    pub(crate) async fn open(kind: Kind, case: &str) -> Result<Self> {
        let shared = subject::shared(kind).await?;
        let label: String = case.chars().filter(|c| *c != '_').take(60).collect();
        let zone = Name::parse(&format!("{label}.test."))?;
        shared.host.create(&zone, &records(&zone)).await?;
        Ok(Self {
            kind,
            address: shared.address,
            host: shared.host,
            zone,
            key: subject::key(),
        })
    }

    /// A name in the zone; `@` is the zone itself.
    pub(crate) fn name(&self, text: &str) -> Name {
        named(&self.zone, text)
    }

    /// A zone-file line in which `@` stands for the zone.
    pub(crate) fn record(&self, line: &str) -> Record {
        record(&self.zone, line)
    }

    /// Our own client of the server.
    pub(crate) fn client(&self) -> Server {
        Server::new(self.address.to_string(), Some(self.key.clone()))
    }
}

/// The records every zone begins with.
pub(crate) fn records(zone: &Name) -> Vec<Record> {
    LINES.iter().map(|line| record(zone, line)).collect()
}

/// A zone-file line in which a final `@` stands for the zone.
pub(crate) fn record(zone: &Name, line: &str) -> Record {
    let zone = zone.to_string();
    let words: Vec<String> = line
        .split(' ')
        .map(|word| match word.strip_suffix('@') {
            Some(rest) => format!("{rest}{zone}"),
            None => word.to_owned(),
        })
        .collect();
    let line = words.join(" ");
    line.parse().expect("the lines of cases are valid")
}

/// A name in the zone; `@` is the zone itself.
pub(crate) fn named(zone: &Name, text: &str) -> Name {
    Name::parse_in(text, zone).expect("the names of cases are valid")
}
