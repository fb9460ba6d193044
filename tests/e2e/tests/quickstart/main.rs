//! What a user does, as a user types it: the binary, with real `kubectl`, `dig`, `named` and a real
//! kube-apiserver. `cargo test -p bindery-e2e --test quickstart -- builtin::` runs one name server.
//!
//! It must *never* leave a process behind: each is stopped by its pid when its case ends.
#![expect(
    clippy::disallowed_methods,
    reason = "real servers run in real time on the machine as it is"
)]

mod access;
mod ask;
mod balanced;
mod chaos;
mod cluster;
mod clusters;
mod crash;
mod declared;
mod docs;
mod files;
mod fleet;
mod guard;
mod installed;
mod keys;
mod kubectl;
mod leaders;
mod load_balancer;
mod logs;
mod losses;
mod machine;
mod manual;
mod messages;
mod ownership;
mod passing;
mod permissions;
mod plane;
mod pods;
mod production;
mod real_clusters;
mod reasons;
mod replicas;
mod resolver;
mod secondaries;
mod server_fields;
mod servers;
mod shapes;
mod signed;
mod site;
mod stage;
mod steady;
mod tour;
mod traces;
mod wire;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

use machine::{Server, program};

/// Each case has an API, controllers and a name server of its own, so only a few at a time.
const THREADS: usize = 4;

/// A case on a name server.
type Case = (&'static str, fn(Server) -> anyhow::Result<()>);

/// Lists the cases of a module.
macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        pub(crate) fn cases() -> Vec<crate::Case> {
            vec![$((concat!(module_path!(), "::", stringify!($name)), $name)),*]
        }
    };
}
pub(crate) use cases;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(THREADS));
    let trials = trials();
    if !arguments.list
        && let Err(error) = program()
    {
        machine::complain(&format!("{error:#}"));
        return ExitCode::FAILURE;
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn balancers_and_pods() -> Vec<Case> {
    let balancers = [load_balancer::cases(), balanced::cases(), traces::cases()];
    [balancers.concat(), pods::cases()].concat()
}

fn trials() -> Vec<Trial> {
    let everywhere = [
        tour::cases(),
        kubectl::cases(),
        ownership::cases(),
        files::cases(),
        passing::cases(),
        crash::cases(),
        fleet::cases(),
        losses::cases(),
        clusters::cases(),
        manual::cases(),
        steady::cases(),
        docs::cases(),
        ask::cases(),
    ];
    let mut trials = Vec::new();
    for (name, case) in everywhere.into_iter().flatten() {
        for server in [Server::Named, Server::Builtin] {
            trials.push(trial(name, case, server));
        }
    }
    let once = [
        (messages::cases(), Server::Builtin),
        (access::cases(), Server::Builtin),
        (cluster::cases(), Server::Named),
        (guard::cases(), Server::Named),
        (permissions::cases(), Server::Named),
        (pod_cases(), Server::Named),
        (replicas::cases(), Server::Named),
        (installed::cases(), Server::Named),
        (logs::cases(), Server::Builtin),
        (logs::named_cases(), Server::Named),
        (secondaries::cases(), Server::Named),
        (losses::named_cases(), Server::Named),
        (leaders::cases(), Server::Named),
        (servers::cases(), Server::Named),
        (signed::cases(), Server::Named),
        (balancers_and_pods(), Server::Builtin),
    ];
    for (cases, server) in once {
        trials.extend(
            cases
                .into_iter()
                .map(|(name, case)| trial(name, case, server)),
        );
    }
    trials.push(trial(
        "quickstart::tour::a_dead_named_is_replaced",
        tour::a_dead_named_is_replaced,
        Server::Named,
    ));
    trials.push(trial(
        "quickstart::manual::the_plan_works_on_a_real_cluster",
        manual::the_plan_works_on_a_real_cluster,
        Server::Named,
    ));
    for (name, case) in [
        (
            "quickstart::fleet::what_is_abandoned_does_not_wait_for_a_server",
            fleet::what_is_abandoned_does_not_wait_for_a_server as fn(Server) -> anyhow::Result<()>,
        ),
        (
            "quickstart::fleet::a_primary_that_lost_its_data_gets_it_back",
            fleet::a_primary_that_lost_its_data_gets_it_back,
        ),
    ] {
        trials.push(trial(name, case, Server::Named));
    }
    trials
}

/// Servers that are pods.
fn pod_cases() -> Vec<Case> {
    [
        chaos::cases(),
        production::cases(),
        resolver::cases(),
        real_clusters::cases(),
        reasons::cases(),
        shapes::cases(),
        keys::cases(),
        declared::cases(),
        server_fields::cases(),
    ]
    .concat()
}

fn trial(name: &str, case: fn(Server) -> anyhow::Result<()>, server: Server) -> Trial {
    let name = format!("{}::{name}", server.as_str());
    Trial::test(name, move || {
        case(server).map_err(|error| Failed::from(format!("{error:?}")))
    })
}
