//! The peers: BIND's own `nsupdate`, and a bare client that keeps its connection.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use bindery_core::{Change, Expect, RecordData, RecordKey, RecordType};
use bindery_engine::ports::NameServer as _;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::figures::Spread;
use crate::objects::{TTL, address, apex, host};
use crate::resolver::Resolvers;
use crate::subject::Subject;

/// How many records `nsupdate` is given per message, to find out what suits it best.
pub(crate) const BATCHES: [usize; 5] = [50, 200, 500, 1000, 2000];

/// One `nsupdate` per record, to the first server: from the start of the process until the name
/// resolves. The names begin with `part`.
pub(crate) async fn single_nsupdates(
    subject: &Subject,
    zone: &str,
    part: &str,
    count: usize,
) -> Result<Spread> {
    let mut times = Spread::default();
    let mut resolvers = Resolvers::new(subject.addresses())?;
    for number in 0..count {
        let name = format!("{part}-{number}");
        let mut script = preamble(subject.dns(), zone);
        add(&mut script, zone, &name, number)?;
        script.push_str("send\n");
        let begin = Instant::now();
        nsupdate(&subject.key_file(), &script).await?;
        let seen = resolvers.wait_for(&host(zone, &name)?, address(number))?;
        times.first.push(seen.first - begin);
        times.all.push(seen.all - begin);
    }
    Ok(times)
}

/// One update per record over a kept connection: the floor that the server and the disk set.
pub(crate) async fn single_updates(subject: &Subject, zone: &str, count: usize) -> Result<Spread> {
    let server = subject.server()?;
    let apex = apex(zone)?;
    let mut times = Spread::default();
    let mut resolvers = Resolvers::new(subject.addresses())?;
    for number in 0..count {
        let name = host(zone, &format!("update-{number}"))?;
        let change = Change {
            key: RecordKey {
                name: name.clone(),
                rtype: RecordType::A,
            },
            expect: Expect::Absent,
            remove: Vec::new(),
            add: vec![RecordData::A(address(number))],
            ttl: TTL,
        };
        let begin = Instant::now();
        let sent = server.update(&apex, &[change]).await;
        sent.context("the server refuses an update")?;
        let seen = resolvers.wait_for(&name, address(number))?;
        times.first.push(seen.first - begin);
        times.all.push(seen.all - begin);
    }
    Ok(times)
}

/// One `nsupdate` that feeds records to a server, `batch` per message: the time of the process, at
/// whose end the server has acknowledged everything.
pub(crate) async fn feed(
    subject: &Subject,
    server: SocketAddr,
    zone: &str,
    numbers: Range<usize>,
    batch: usize,
) -> Result<Duration> {
    let mut script = preamble(server, zone);
    for number in numbers.clone() {
        add(&mut script, zone, &format!("r-{number}"), number)?;
        if (number + 1) % batch == 0 || number + 1 == numbers.end {
            script.push_str("send\n");
        }
    }
    let begin = Instant::now();
    nsupdate(&subject.key_file(), &script).await?;
    Ok(begin.elapsed())
}

fn preamble(server: SocketAddr, zone: &str) -> String {
    format!(
        "server {} {}\nzone {zone}.test.\n",
        server.ip(),
        server.port()
    )
}

fn add(script: &mut String, zone: &str, name: &str, number: usize) -> Result<()> {
    let address = address(number);
    writeln!(script, "update add {name}.{zone}.test. {TTL} A {address}").context("no room")
}

async fn nsupdate(key: &Path, script: &str) -> Result<()> {
    let mut child = Command::new("nsupdate")
        .arg("-k")
        .arg(key)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("cannot start nsupdate (Debian: apt install bind9-dnsutils)")?;
    let mut input = child.stdin.take().context("nsupdate takes no input")?;
    let feeding = async move { input.write_all(script.as_bytes()).await };
    let (fed, output) = tokio::join!(feeding, child.wait_with_output());
    fed.context("nsupdate stopped reading")?;
    let output = output.context("nsupdate has no end")?;
    if !output.status.success() || !output.stderr.is_empty() {
        bail!("nsupdate: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
