//! The five kinds of prerequisite of RFC 2136, each holding and failing.

use anyhow::{Result, ensure};
use bindery_core::RecordType::{A, Aaaa, Other, Txt};
use bindery_core::{Name, RecordType};
use bindery_dns::wire::{WireRecord, class, rcode, rtype};

use crate::ask::{self, empty, value};
use crate::scene::{Case, Scene, cases};

/// "Whatever type", in prerequisites about names.
const ANY: RecordType = Other(rtype::ANY);

pub(crate) fn cases() -> Vec<Case> {
    cases![
        a_set_that_must_exist_does,
        a_set_that_must_exist_does_not,
        a_set_that_must_exist_is_not_lent_by_a_wildcard,
        a_set_with_exact_values_has_them,
        a_set_with_exact_values_in_another_order_has_them,
        a_set_with_exact_values_has_more,
        a_set_with_exact_values_has_fewer,
        a_set_with_exact_values_has_others,
        exact_values_are_compared_without_ttl_and_case,
        a_set_that_must_not_exist_does_not,
        a_set_that_must_not_exist_does,
        a_name_that_must_be_in_use_is,
        a_name_that_must_be_in_use_is_not,
        a_name_that_must_not_be_in_use_is_not,
        a_name_that_must_not_be_in_use_is,
        a_name_with_only_names_below_it_is_not_in_use,
        all_prerequisites_must_hold,
        a_prerequisite_outside_the_zone_is_notzone,
        a_prerequisite_with_a_ttl_is_a_format_error,
        a_prerequisite_of_an_odd_class_is_a_format_error,
    ]
}

/// Updates under a prerequisite; says the code and whether the change was made.
async fn attempt(scene: &Scene, prerequisites: Vec<WireRecord>) -> Result<u8> {
    let before = ask::serial(scene).await?;
    let change = ask::add(scene, "mark.@ 60 IN A 192.0.2.200");
    let code = ask::code(scene, &ask::update(scene, prerequisites, vec![change])).await?;
    let made = !ask::data(scene, "mark", A).await?.is_empty();
    let moved = ask::serial(scene).await? != before;
    ensure!(
        made == (code == rcode::NOERROR) && moved == made,
        "{code}, made: {made}"
    );
    Ok(code)
}

async fn check(scene: &Scene, prerequisites: Vec<WireRecord>, wanted: u8) -> Result<()> {
    let code = attempt(scene, prerequisites).await?;
    ensure!(
        code == wanted,
        "{} instead of {}",
        rcode::name(code),
        rcode::name(wanted)
    );
    Ok(())
}

async fn a_set_that_must_exist_does(scene: Scene) -> Result<()> {
    check(
        &scene,
        vec![empty(&scene, "www", A, class::ANY)],
        rcode::NOERROR,
    )
    .await
}

async fn a_set_that_must_exist_does_not(scene: Scene) -> Result<()> {
    check(
        &scene,
        vec![empty(&scene, "mail", Aaaa, class::ANY)],
        rcode::NXRRSET,
    )
    .await
}

async fn a_set_that_must_exist_is_not_lent_by_a_wildcard(scene: Scene) -> Result<()> {
    check(
        &scene,
        vec![empty(&scene, "x.wild", A, class::ANY)],
        rcode::NXRRSET,
    )
    .await
}

async fn a_set_with_exact_values_has_them(scene: Scene) -> Result<()> {
    let rows = ["www.@ 0 IN A 192.0.2.1", "www.@ 0 IN A 192.0.2.2"];
    check(
        &scene,
        rows.map(|line| value(&scene, line)).to_vec(),
        rcode::NOERROR,
    )
    .await
}

async fn a_set_with_exact_values_in_another_order_has_them(scene: Scene) -> Result<()> {
    let rows = ["www.@ 0 IN A 192.0.2.2", "www.@ 0 IN A 192.0.2.1"];
    check(
        &scene,
        rows.map(|line| value(&scene, line)).to_vec(),
        rcode::NOERROR,
    )
    .await
}

async fn a_set_with_exact_values_has_more(scene: Scene) -> Result<()> {
    check(
        &scene,
        vec![value(&scene, "www.@ 0 IN A 192.0.2.1")],
        rcode::NXRRSET,
    )
    .await
}

async fn a_set_with_exact_values_has_fewer(scene: Scene) -> Result<()> {
    let rows = ["mail.@ 0 IN A 192.0.2.25", "mail.@ 0 IN A 192.0.2.26"];
    check(
        &scene,
        rows.map(|line| value(&scene, line)).to_vec(),
        rcode::NXRRSET,
    )
    .await
}

async fn a_set_with_exact_values_has_others(scene: Scene) -> Result<()> {
    check(
        &scene,
        vec![value(&scene, "mail.@ 0 IN A 192.0.2.26")],
        rcode::NXRRSET,
    )
    .await
}

async fn exact_values_are_compared_without_ttl_and_case(scene: Scene) -> Result<()> {
    let mut row = value(&scene, "alias.@ 0 IN CNAME www.@");
    row.rdata.make_ascii_uppercase();
    check(&scene, vec![row], rcode::NOERROR).await
}

async fn a_set_that_must_not_exist_does_not(scene: Scene) -> Result<()> {
    check(
        &scene,
        vec![empty(&scene, "mail", Txt, class::NONE)],
        rcode::NOERROR,
    )
    .await
}

async fn a_set_that_must_not_exist_does(scene: Scene) -> Result<()> {
    check(
        &scene,
        vec![empty(&scene, "www", Txt, class::NONE)],
        rcode::YXRRSET,
    )
    .await
}

async fn a_name_that_must_be_in_use_is(scene: Scene) -> Result<()> {
    check(
        &scene,
        vec![empty(&scene, "www", ANY, class::ANY)],
        rcode::NOERROR,
    )
    .await
}

async fn a_name_that_must_be_in_use_is_not(scene: Scene) -> Result<()> {
    check(
        &scene,
        vec![empty(&scene, "missing", ANY, class::ANY)],
        rcode::NXDOMAIN,
    )
    .await
}

async fn a_name_that_must_not_be_in_use_is_not(scene: Scene) -> Result<()> {
    check(
        &scene,
        vec![empty(&scene, "missing", ANY, class::NONE)],
        rcode::NOERROR,
    )
    .await
}

async fn a_name_that_must_not_be_in_use_is(scene: Scene) -> Result<()> {
    check(
        &scene,
        vec![empty(&scene, "www", ANY, class::NONE)],
        rcode::YXDOMAIN,
    )
    .await
}

async fn a_name_with_only_names_below_it_is_not_in_use(scene: Scene) -> Result<()> {
    check(
        &scene,
        vec![empty(&scene, "ent", ANY, class::NONE)],
        rcode::NOERROR,
    )
    .await
}

async fn all_prerequisites_must_hold(scene: Scene) -> Result<()> {
    let rows = vec![
        empty(&scene, "www", A, class::ANY),
        empty(&scene, "www", Txt, class::NONE),
    ];
    check(&scene, rows, rcode::YXRRSET).await
}

async fn a_prerequisite_outside_the_zone_is_notzone(scene: Scene) -> Result<()> {
    let row = WireRecord::empty(Name::parse("www.example.org.")?, A, class::NONE);
    check(&scene, vec![row], rcode::NOTZONE).await
}

async fn a_prerequisite_with_a_ttl_is_a_format_error(scene: Scene) -> Result<()> {
    let mut row = empty(&scene, "www", A, class::ANY);
    row.ttl = 1;
    check(&scene, vec![row], rcode::FORMERR).await
}

async fn a_prerequisite_of_an_odd_class_is_a_format_error(scene: Scene) -> Result<()> {
    check(&scene, vec![empty(&scene, "www", A, 4)], rcode::FORMERR).await
}
