//! What is to be done next for a zone object.

use std::collections::BTreeSet;
use std::sync::Arc;

use bindery_core::ZoneKey;
use bindery_core::zones::{Going, Noted};
use bindery_sources::{Cause, Life, Precedence};

use super::observe::{Observed, ZoneRequest};

/// A zone object that its author does not have to correct.
pub(super) struct Valid(pub(super) Box<Observed>);

/// What is to be done next.
pub(super) enum ZonePlan {
    /// Before a zone is touched, its object says so, and after it is gone no longer.
    Write(BTreeSet<ZoneKey>),
    /// How its deletion came about has to be asked.
    Ask,
    /// A zone goes to the engine.
    Declare(ZoneKey, ZoneRequest),
    /// These removals have to be written down before they happen.
    Note(Arc<Noted>),
    /// Its author is to be told.
    Report,
    /// Nothing, until something changes.
    Rest,
}

/// Checks a zone object. One that is being deleted is valid, however broken its spec is.
///
/// # Errors
/// The object as it is, where its author has to correct it: then nothing is planned and all is kept.
pub(super) fn validate(observed: Observed) -> Result<Valid, Box<Observed>> {
    let observed = Box::new(observed);
    match observed.precedence {
        Precedence::Invalid(_) => Err(observed),
        Precedence::Active
        | Precedence::Duplicate(_)
        | Precedence::Deleting
        | Precedence::Superseded(_) => Ok(Valid(observed)),
    }
}

/// What is to be done next for a zone object.
pub(super) fn plan(Valid(observed): &Valid) -> ZonePlan {
    let meta = &observed.meta;
    let written: BTreeSet<ZoneKey> = meta.owned_zones().into_iter().collect();
    if meta.life == Life::Deleting && !meta.has_finalizer {
        return ZonePlan::Rest;
    }
    let has_left = observed
        .former()
        .any(|(_, owned)| owned.successor.is_none());
    if meta.life == Life::Deleting && observed.cause.is_none() && has_left {
        return ZonePlan::Ask;
    }
    if meta.life == Life::Deleting && meta.abandoned {
        // Its author says not to wait for servers; what is left is still tried, as far as it may go.
        let left = observed.leave();
        return left.unwrap_or_else(|| ZonePlan::Write(BTreeSet::new()));
    }
    // What is gone is not written down again: the write that says so may have failed a moment ago.
    let left = observed.former().filter(|(_, owned)| !owned.is_done());
    let left = left.map(|(zone, _)| zone).chain(&observed.wanted);
    let left: BTreeSet<ZoneKey> = left.cloned().collect();
    if let Some(wanted) = &observed.wanted {
        if !meta.has_finalizer || !meta.is_recorded() || !observed.zones.contains_key(wanted) {
            return ZonePlan::Write(left);
        }
        let declared = observed.owned().and_then(|owned| owned.declared.clone());
        if declared != Some(observed.request()) {
            return ZonePlan::Declare(wanted.clone(), observed.request());
        }
        if let Some(noted) = observed.to_note() {
            return ZonePlan::Note(noted);
        }
    }
    if let Some(plan) = observed.leave() {
        return plan;
    }
    if left != written || left.is_empty() == meta.has_finalizer || !meta.is_recorded() {
        return ZonePlan::Write(left);
    }
    ZonePlan::Report
}

impl Observed {
    /// What is to be done next about those: the engine lets them go, or holds them.
    pub(super) fn leave(&self) -> Option<ZonePlan> {
        self.former().find_map(|(zone, owned)| {
            let removal = self.removal(zone);
            let is_ours = owned.successor.is_none() && owned.config.is_some();
            (is_ours && !owned.is_done() && owned.declared.as_ref() != Some(&removal))
                .then(|| ZonePlan::Declare(zone.clone(), removal))
        })
    }

    /// What the engine is to be told of the zone that is wanted.
    fn request(&self) -> ZoneRequest {
        let allowed = self.meta.allowed_plan().map(Into::into);
        let is_declared = |zone: &ZoneKey| zone.group.is_declared();
        let config = self.owned().and_then(|owned| owned.config.as_ref());
        let config = config.filter(|_| self.wanted.as_ref().is_some_and(is_declared));
        let primary = config.and_then(|config| config.primary.clone());
        ZoneRequest::Wanted(
            self.meta.generation,
            allowed,
            Arc::clone(&self.noted),
            primary,
        )
    }

    /// What the engine is to be told of a zone that the object is to have no longer.
    fn removal(&self, zone: &ZoneKey) -> ZoneRequest {
        let is_move = self
            .wanted
            .as_ref()
            .is_some_and(|wanted| wanted.name == zone.name);
        let going = match (self.meta.life, self.cause) {
            (Life::Alive, _) if is_move => Going::Moved,
            (Life::Deleting, None) => Going::Unsaid,
            (Life::Deleting, Some(Cause::ByName)) => Going::Asked,
            (
                Life::Deleting,
                Some(Cause::WithNamespace | Cause::WithDefinition | Cause::Unknown),
            )
            | (Life::Alive, _) => Going::Along,
        };
        let allowed = self.meta.allowed_plan().map(Into::into);
        ZoneRequest::Going(going, allowed, self.meta.generation)
    }

    /// Removals that have to be written down, or leave for some that is worth it.
    fn to_note(&self) -> Option<Arc<Noted>> {
        let event = self.owned()?.event.as_ref()?;
        let noted = event.noted.as_ref()?;
        let has_new = |mark: &u64| self.noted.passed.binary_search(mark).is_err();
        (event.waits || noted.passed.iter().any(has_new)).then(|| Arc::clone(noted))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bindery_api::info;
    use bindery_core::zones::{
        SerialFloor, SigningPolicy, SigningReport, Tenancy, ZoneReceipt, ZoneState,
    };
    use bindery_core::{Group, Kind, Name};
    use bindery_sources::Meta;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::super::observe::OwnedZone;
    use super::*;

    fn key(group: Group) -> ZoneKey {
        let name = Name::parse("example.com").expect("the name is sound");
        ZoneKey { name, group }
    }

    fn owned(declared: Option<ZoneRequest>, event: Option<ZoneReceipt>) -> OwnedZone {
        OwnedZone {
            config: None,
            successor: None,
            declared,
            event,
        }
    }

    fn gone(zone: ZoneKey) -> ZoneReceipt {
        ZoneReceipt {
            zone,
            state: ZoneState::Gone,
            serial: None,
            foreign: 0,
            sets: 0,
            data: 0,
            held: None,
            noted: None,
            waits: false,
            leader: None,
            followers: Vec::new(),
            mended: None,
            fallen_from: None,
            signing: SigningReport::default(),
        }
    }

    #[test]
    fn a_zone_that_is_gone_is_not_written_down_again() {
        let (here, there) = (key(Group::UNNAMED), key(Group::named("inside")));
        // The write that was to say that the first zone is gone failed.
        let meta = ObjectMeta {
            name: Some("example".to_owned()),
            namespace: Some("default".to_owned()),
            uid: Some("1".to_owned()),
            resource_version: Some("1".to_owned()),
            finalizers: Some(vec![bindery_sources::meta::FINALIZER.to_owned()]),
            ..ObjectMeta::default()
        };
        let meta = Meta::read(info(Kind::DnsZone), &meta).expect("the metadata is whole");
        let going = ZoneRequest::Going(Going::Moved, None, 0);
        let zones = BTreeMap::from([
            (here.clone(), owned(Some(going), Some(gone(here)))),
            (there.clone(), owned(None, None)),
        ]);
        let observed = Observed {
            meta,
            name: Some(there.name.clone()),
            wanted: Some(there.clone()),
            records: Vec::new(),
            cause: None,
            note: None,
            noted: Arc::default(),
            tenancy: Tenancy::Shared,
            signing: SigningPolicy::Unsaid,
            told_signing: serde_json::Value::Null,
            hosted_only: Vec::new(),
            precedence: Precedence::Active,
            serial_floor: SerialFloor::New,
            zones,
        };
        let ZonePlan::Write(written) = plan(&Valid(Box::new(observed))) else {
            unreachable!("the annotation is to be written");
        };
        assert_eq!(written, BTreeSet::from([there]));
    }
}
