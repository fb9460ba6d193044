//! Name servers from a file: they come, go, move and change their keys while `bindery run` works.

use std::fs;
use std::os::unix::fs::symlink;

use anyhow::{Context as _, Result, ensure};

use crate::machine::{Server, run, text, until};
use crate::site::{Plain, Site, listed, new_key};

crate::cases!(
    a_secondary_comes_and_goes_while_it_runs,
    a_server_moves_and_what_is_declared_goes_with_it,
    a_key_is_changed_without_a_failed_update,
    without_servers_what_is_declared_waits,
    a_file_that_cannot_be_used_changes_nothing,
    a_file_may_be_replaced_as_kubernetes_does_it,
    another_primary_leads_while_the_first_hangs,
    a_leader_that_comes_back_empty_handed_is_brought_in_line,
    servers_that_change_places_lose_nothing,
);

const READY: &str = ".status.conditions[?(@.type=='Ready')].status";
const MESSAGE: &str = ".status.conditions[?(@.type=='Ready')].message";
const SERVERS: &str = ".status.servers[*].address";

fn a_secondary_comes_and_goes_while_it_runs(_: Server) -> Result<()> {
    let key = new_key("k1")?;
    let mut site = Site::new(&key, 1, 0)?;
    site.add_server("s1", &[0], &key)?;
    let second = site.servers[1].address.to_string();
    site.list(&[0, 1], &key)?;
    site.says("dnszone/example", SERVERS, |said| said.contains(&second))?;
    site.ready("dnszone/example")?;
    site.serves("api", "192.0.2.2", &[0, 1])?;
    site.counts(|line| {
        line.starts_with("bindery_server_in_rotation")
            && line.contains(&second)
            && line.ends_with(" 1")
    })?;
    // It hangs, and is named.
    site.servers[1].signal("STOP")?;
    let told = site
        .says("dnszone/example", MESSAGE, |said| said.contains(&second))
        .and_then(|_| site.serves("while", "192.0.2.3", &[0]));
    let status = site.status();
    site.servers[1].signal("CONT")?;
    told?;
    ensure!(
        status.as_ref().is_ok_and(|said| said.contains(&second)),
        "{status:?}"
    );
    site.ready("dnszone/example")?;
    site.servers[1].resolves("while.example.com", "192.0.2.3")?;
    // It goes, and nobody waits for it.
    site.list(&[0], &key)?;
    site.says("dnszone/example", SERVERS, |said| !said.contains(&second))?;
    site.servers[1].kill();
    site.serves("gone", "192.0.2.4", &[0])?;
    site.ready("dnszone/example")
}

fn a_server_moves_and_what_is_declared_goes_with_it(_: Server) -> Result<()> {
    let key = new_key("k1")?;
    let mut site = Site::new(&key, 1, 0)?;
    site.servers[0].nsupdate(&key, "update add theirs.example.com 60 A 192.0.2.99")?;
    // The address of the zone's own name server is the other one.
    site.says("dnszone/example", ".status.foreignCount", |said| {
        said == "2"
    })?;
    let before = site.servers[0].serial()?;
    // An empty server of another address takes its place, under its name.
    site.add_server("other", &[], &key)?;
    "p1".clone_into(&mut site.servers[1].name);
    site.list(&[1], &key)?;
    let address = site.servers[1].address.to_string();
    site.says("dnszone/example", SERVERS, |said| said == address)?;
    for (name, value) in [("www", "192.0.2.1"), ("theirs", "192.0.2.99")] {
        site.servers[1].resolves(&format!("{name}.example.com"), value)?;
    }
    site.ready("dnszone/example")?;
    site.serves("api", "192.0.2.2", &[1])?;
    ensure!(site.servers[1].serial()? > before, "the serial only grows");
    ensure!(
        site.servers[0].resolves("api.example.com", "").is_ok(),
        "it is left alone"
    );
    Ok(())
}

fn a_key_is_changed_without_a_failed_update(_: Server) -> Result<()> {
    let (old, new) = (new_key("k1")?, new_key("k2")?);
    let site = Site::new(&old, 2, 1)?;
    site.ready("dnszone/example")?;
    for server in &site.servers {
        server.reload(&[&old, &new])?;
    }
    for server in &site.servers {
        accepts(&site, server.address.port(), &new)?;
    }
    let failed = failures(&site)?;
    site.write_key(&new)?;
    site.list(&[0, 1, 2], &new)?;
    // Records go out all the time.
    for number in 0..10 {
        site.serves(
            &format!("h{number}"),
            &format!("192.0.2.{number}"),
            &[0, 1, 2],
        )?;
    }
    until("it is told", || {
        Ok(site.process.err().contains("has the key k2").then_some(()))
    })?;
    for server in &site.servers {
        server.reload(&[&new])?;
    }
    site.serves("last", "192.0.2.77", &[0, 1, 2])?;
    ensure!(
        failures(&site)? == failed,
        "an update failed:\n{}",
        site.process.err()
    );
    ensure!(
        !site.process.err().contains(&secret(&new)?),
        "the log has the secret"
    );

    // A key file that changes under its name is read again, too.
    let third = new_key("k2")?;
    for server in &site.servers {
        server.reload(&[&third])?;
    }
    site.write_key(&third)?;
    site.serves("third", "192.0.2.78", &[0, 1, 2])?;

    // A wrong key is told, and takes nothing away.
    site.write_key(&new)?;
    site.publish("wrong", "192.0.2.79")?;
    site.says("arecord/wrong", READY, |said| said == "False")?;
    site.servers[0].resolves("www.example.com", "192.0.2.1")?;
    site.write_key(&third)?;
    site.ready("arecord/wrong")?;
    site.ready("dnszone/example")
}

fn without_servers_what_is_declared_waits(_: Server) -> Result<()> {
    let key = new_key("k1")?;
    let mut site = Site::new(&key, 1, 1)?;
    site.ready("dnszone/example")?;
    site.write_servers("clusters: []\n")?;
    site.says("dnszone/example", READY, |said| said == "False")?;
    site.says("arecord/www", READY, |said| said == "False")?;
    site.publish("api", "192.0.2.2")?;
    site.says("arecord/api", READY, |said| said == "False")?;
    site.kubectl(&["delete", "arecord/www", "--wait=false"])?;
    let said = site.says("dnszone/example", MESSAGE, |said| {
        said.contains("no name server")
    })?;
    ensure!(said.contains("waits for one"), "{said}");
    // A restart forgets nothing.
    site.restart("KILL")?;
    site.publish("mail", "192.0.2.3")?;
    site.says("arecord/mail", READY, |said| said == "False")?;
    site.kubectl(&["get", "arecord/www"])?;
    let servers = [0, 1];
    site.list(&servers, &key)?;
    for object in ["arecord/api", "arecord/mail", "dnszone/example"] {
        site.ready(object)?;
    }
    for place in servers {
        let server = &site.servers[place];
        server.resolves("api.example.com", "192.0.2.2")?;
        server.resolves("mail.example.com", "192.0.2.3")?;
        server.resolves("www.example.com", "")?;
    }
    site.kubectl(&["wait", "--for=delete", "arecord/www", "--timeout=60s"])
        .map(drop)
}

fn a_file_that_cannot_be_used_changes_nothing(_: Server) -> Result<()> {
    let key = new_key("k1")?;
    let site = Site::new(&key, 1, 0)?;
    let right = listed(&[&site.servers[0]], &key);
    let file = site.path("servers.yaml");
    let cut = &right[..right.len() - 12];
    let twice = format!("{right}  - {{name: p1, address: '127.0.0.1:1'}}\n");
    let keyless = right.replace("k1.key", "nokey.key");
    for (number, (text_of, wanted)) in [
        ("", "is empty"),
        (cut, "servers.yaml:4: "),
        (
            "clusters:\n- servers:\n  - {name: a}\n",
            "missing field `address`",
        ),
        (&*twice, "p1 is named twice"),
        (&*keyless, "nokey.key: cannot be read"),
    ]
    .into_iter()
    .enumerate()
    {
        fs::write(&file, text_of)?;
        until(wanted, || {
            let log = site.process.err();
            Ok(log.contains(wanted).then_some(()))
        })?;
        site.counts(|line| line == "bindery_servers_file_refused 1")?;
        let status = until("the status tells", || {
            let status = site.status()?;
            Ok(status.contains(wanted).then_some(status))
        })?;
        ensure!(
            status.contains("the servers of before stay in use"),
            "{status}"
        );
        let name = format!("h{number}");
        site.serves(&name, &format!("192.0.2.{number}"), &[0])?;
    }
    // What is no file, or not there, is no word either.
    fs::remove_file(&file)?;
    text(&run("mkfifo", &[&file.display().to_string()])?)?;
    until("a pipe", || {
        Ok(site.process.err().contains("is no file but").then_some(()))
    })?;
    fs::remove_file(&file)?;
    until("nothing", || {
        Ok(site
            .process
            .err()
            .contains("there is no such file")
            .then_some(()))
    })?;
    site.serves("still", "192.0.2.50", &[0])?;
    site.write_servers(&right)?;
    site.counts(|line| line == "bindery_servers_file_refused 0")?;
    until("the status tells", || {
        Ok((!site.status()?.contains("in the file of name servers")).then_some(()))
    })?;
    site.serves("after", "192.0.2.51", &[0])
}

/// A volume of a `ConfigMap` is a folder of links into `..data`, which is a link that is replaced.
fn a_file_may_be_replaced_as_kubernetes_does_it(_: Server) -> Result<()> {
    let key = new_key("k1")?;
    let mut site = Site::new(&key, 1, 0)?;
    site.add_server("s1", &[0], &key)?;
    let versions = [&[0][..], &[0, 1], &[0], &[0, 1]];
    let root = site.scratch.path().to_owned();
    for (number, places) in versions.iter().enumerate() {
        let servers: Vec<_> = places.iter().map(|place| &site.servers[*place]).collect();
        let folder = format!("..2026_{number}");
        fs::create_dir(root.join(&folder))?;
        fs::write(
            root.join(&folder).join("servers.yaml"),
            listed(&servers, &key),
        )?;
        symlink(&folder, root.join("..data_tmp"))?;
        fs::rename(root.join("..data_tmp"), root.join("..data"))?;
        if number == 0 {
            symlink("..data/servers.yaml", root.join("servers.tmp"))?;
            fs::rename(root.join("servers.tmp"), root.join("servers.yaml"))?;
        } else {
            fs::remove_dir_all(root.join(format!("..2026_{}", number - 1)))?;
        }
        let count = places.len();
        site.says("dnszone/example", SERVERS, |said| {
            said.split(' ').count() == count
        })?;
        site.serves(&format!("v{number}"), &format!("192.0.2.{number}"), places)?;
    }
    Ok(())
}

fn another_primary_leads_while_the_first_hangs(_: Server) -> Result<()> {
    let key = new_key("k1")?;
    let site = Site::new(&key, 2, 1)?;
    let [first, second, third] = &site.servers[..] else {
        anyhow::bail!("there are three");
    };
    let foreign = |name: &str, value: &str| format!("update add {name}.example.com 60 A {value}");
    first.nsupdate(&key, &foreign("one", "192.0.2.91"))?;
    second.nsupdate(&key, &foreign("two", "192.0.2.92"))?;
    for server in &site.servers {
        server.resolves("one.example.com", "192.0.2.91")?;
        server.resolves("two.example.com", "192.0.2.92")?;
    }
    site.ready("dnszone/example")?;
    let serials = site.servers.iter().map(Plain::serial);
    let before = serials
        .collect::<Result<Vec<_>>>()?
        .into_iter()
        .max()
        .context("there are some")?;
    first.nsupdate(&key, &foreign("unseen", "192.0.2.93"))?;
    first.signal("STOP")?;
    let done = site.serves("api", "192.0.2.2", &[1, 2]).and_then(|()| {
        second.nsupdate(&key, &foreign("late", "192.0.2.94"))?;
        ensure!(second.serial()? > before, "it is ahead of every server's");
        Ok(())
    });
    first.signal("CONT")?;
    done?;
    let names = [
        ("www", "192.0.2.1"),
        ("api", "192.0.2.2"),
        ("one", "192.0.2.91"),
        ("two", "192.0.2.92"),
        ("unseen", "192.0.2.93"),
        ("late", "192.0.2.94"),
    ];
    for server in [first, second, third] {
        for (name, value) in names {
            server.resolves(&format!("{name}.example.com"), value)?;
        }
    }
    site.ready("dnszone/example")
}

fn a_leader_that_comes_back_empty_handed_is_brought_in_line(_: Server) -> Result<()> {
    let key = new_key("k1")?;
    let mut site = Site::new(&key, 2, 0)?;
    let theirs = "update add theirs.example.com 60 A 192.0.2.99";
    site.servers[0].nsupdate(&key, theirs)?;
    for server in &site.servers {
        server.resolves("theirs.example.com", "192.0.2.99")?;
    }
    for loses in [false, true] {
        site.ready("dnszone/example")?;
        let name = format!("r{loses}");
        site.servers[0].kill();
        site.serves(&name, "192.0.2.2", &[1])?;
        if loses {
            // As it was on the first day.
            let folder = site.servers[0].folder.clone();
            fs::remove_file(folder.join("example.com.zone.jnl")).ok();
            let first = "$TTL 60\n@ SOA ns1 admin 1 1 1 60 60\n@ NS ns1\nns1 A 192.0.2.53\n";
            fs::write(folder.join("example.com.zone"), first)?;
        }
        site.servers[0].start()?;
        for server in &site.servers {
            server.resolves(&format!("{name}.example.com"), "192.0.2.2")?;
            server.resolves("www.example.com", "192.0.2.1")?;
            server.resolves("theirs.example.com", "192.0.2.99")?;
        }
    }
    site.ready("dnszone/example")?;
    until("one serial", || {
        Ok((site.servers[0].serial()? == site.servers[1].serial()?).then_some(()))
    })
}

fn servers_that_change_places_lose_nothing(_: Server) -> Result<()> {
    let key = new_key("k1")?;
    let site = Site::new(&key, 2, 0)?;
    site.ready("dnszone/example")?;
    let [first, second] = &site.servers[..] else {
        anyhow::bail!("there are two");
    };
    // Written a moment before, on the one that leads.
    first.nsupdate(&key, "update add theirs.example.com 60 A 192.0.2.99")?;
    let (one, two) = (first.address.to_string(), second.address.to_string());
    let swapped = listed(&[first, second], &key)
        .replace(&one, "ONE")
        .replace(&two, &one)
        .replace("ONE", &two);
    site.write_servers(&swapped)?;
    until("it is told", || {
        Ok(site.process.err().contains("p1 moved to").then_some(()))
    })?;
    site.serves("api", "192.0.2.2", &[0, 1])?;
    for server in &site.servers {
        server.resolves("www.example.com", "192.0.2.1")?;
        server.resolves("theirs.example.com", "192.0.2.99")?;
    }
    site.ready("dnszone/example")
}

/// Waits until a server takes this key.
fn accepts(site: &Site, port: u16, key: &bindery_dns::Key) -> Result<()> {
    let file = site.path("probe.key");
    fs::write(&file, key.to_key_file().as_bytes())?;
    let (file, port) = (file.display().to_string(), port.to_string());
    let line = [
        "@127.0.0.1",
        "-p",
        &port,
        "-k",
        &file,
        "+short",
        "example.com",
        "AXFR",
    ];
    until("the key is taken", || {
        let found = text(&run("dig", &line)?)?;
        Ok(found.contains("192.0.2.53").then_some(()))
    })
}

/// How many steps failed.
fn failures(site: &Site) -> Result<String> {
    let (_, page) = crate::machine::fetch(site.metrics, "/metrics")?;
    let mut lines = page.lines();
    let line = lines.find(|line| line.starts_with("bindery_engine_steps_failed_total"));
    line.map(str::to_owned).context("it is counted")
}

fn secret(key: &bindery_dns::Key) -> Result<String> {
    let file = key.to_key_file();
    let secret = file
        .split("secret \"")
        .nth(1)
        .and_then(|rest| Some(rest.split_once('"')?.0));
    secret.map(str::to_owned).context("a key file has a secret")
}
