//! How a zone is to be signed, and what came of it.
//!
//! A server signs a zone with keys of its own. Two that sign the same zone would have two sets of keys, and a
//! resolver that mixes their answers finds a forgery. So a zone is signed only where one primary has it, and one
//! that is signed is given to no other primary; secondaries copy it with its signatures.

use std::{sync::Arc, time::Duration};

use super::{Hosting, Step, Zone, Zones};
use crate::{
    fault::{Fault, FaultKind},
    name::Name,
    server::{ServerId, ServerInfo, ServerRole},
    signatures::Ds,
};

/// How often a server is told again what it was told: somebody may have changed it by hand.
const TOLD_AGAIN: Duration = Duration::from_mins(10);

/// How soon what did not work is tried again: the policy may come with the next configuration.
const TRIED_AGAIN: Duration = Duration::from_secs(10);

/// How often a zone that is being signed is looked at.
const AWAITED: Duration = Duration::from_secs(1);

/// What is said about signing a zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signing {
    /// By which policy.
    pub policy: SigningPolicy,
    /// The server that signed it when that was last told, before this process.
    pub signer: Option<ServerId>,
}

/// By which policy a zone is to be signed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SigningPolicy {
    /// Nobody said: it stays as it is.
    #[default]
    Unsaid,
    /// By none, by its author's word: what signs it goes.
    Unsigned,
    /// By the one of this name, which its server has to have.
    Named(Arc<str>),
}

/// What a server said when it was told how to sign a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SigningAnswer {
    /// It does so.
    Done,
    /// It has no such policy; in its own words.
    NoPolicy(String),
    /// It cannot sign zones.
    Unsupported,
}

/// Why a zone is not signed as it is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SigningTrouble {
    /// The server has no such policy; in its own words.
    NoPolicy(String),
    /// The server cannot sign zones.
    Unsupported,
    /// So many primaries have the zone, and each would sign it with keys of its own.
    SeveralPrimaries(usize),
    /// It did not work and is tried again.
    Failing(Fault),
}

/// How a zone is signed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SigningReport {
    /// Whether the zone was read since this process has it, so that the rest is known.
    pub is_known: bool,
    /// Whether it has keys.
    pub has_keys: bool,
    /// Whether all of it is signed.
    pub is_complete: bool,
    /// What its parent is to publish.
    pub ds: Vec<Ds>,
    /// Why it is not signed as it is to be.
    pub trouble: Option<SigningTrouble>,
    /// Primaries that do not have the zone, since another one signs it.
    pub left_out: usize,
}

/// What the leader was told.
#[derive(Debug, Default)]
pub(super) struct SigningState {
    /// What it was last told, if it led then and had the zone.
    told: Option<SigningPolicy>,
    trouble: Option<SigningTrouble>,
    /// When it is told again.
    due: Duration,
}

impl SigningState {
    /// Another server leads, or the leader lost the zone: it was told nothing.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Takes in what the leader said; returns whether that is news.
    fn take(
        &mut self,
        policy: SigningPolicy,
        answer: Result<SigningAnswer, Fault>,
        now: Duration,
    ) -> bool {
        let (trouble, wait) = match answer {
            Ok(SigningAnswer::Done) => (None, TOLD_AGAIN),
            Ok(SigningAnswer::NoPolicy(said)) => {
                (Some(SigningTrouble::NoPolicy(said)), TRIED_AGAIN)
            }
            Ok(SigningAnswer::Unsupported) => (Some(SigningTrouble::Unsupported), TOLD_AGAIN),
            Err(fault) => (Some(SigningTrouble::Failing(fault)), TRIED_AGAIN),
        };
        let told = Some(policy);
        let is_news = (&self.told, &self.trouble) != (&told, &trouble);
        *self = Self {
            told,
            trouble,
            due: now + wait,
        };
        is_news
    }
}

impl Zones {
    /// Tells the leader how to sign the zone, where that has to be said.
    pub(super) fn sign_step(&mut self, name: &Name, now: Duration) -> Option<Step> {
        let zone = self.known.get(name)?;
        let policy = zone.wanted_policy()?;
        let is_due = zone.signing.told.as_ref() != Some(&policy) || now >= zone.signing.due;
        if !is_due || self.has_rival_signers(zone) {
            return None;
        }
        self.known.get_mut(name)?.reading = true;
        Some(Step::Sign(policy))
    }

    /// The leader said what it makes of it.
    pub(super) fn told_to_sign(
        &mut self,
        name: &Name,
        policy: SigningPolicy,
        answer: Result<SigningAnswer, Fault>,
        now: Duration,
    ) {
        let Some(zone) = self.known.get_mut(name) else {
            return;
        };
        zone.reading = false;
        // What it makes of the zone is seen by its serial.
        zone.next_check = zone.next_check.min(now + zone.check_pause(AWAITED));
        if zone.signing.take(policy, answer, now) {
            self.zone_news.insert(name.clone());
        }
    }

    /// Whether a primary may have a zone. One that is signed is on the server alone that signs it, be that one
    /// there or not: any other would begin with keys of its own.
    pub(super) fn may_lead(&self, zone: &Zone, primary: &ServerInfo) -> bool {
        let is_there = |id: &ServerId| self.primaries_of(zone).any(|one| one.id == *id);
        let signer = match (&zone.signer, zone.told_signer()) {
            (Some(signer), _) => Some(signer).filter(|id| !zone.is_unsigned() || is_there(id)),
            // A server that goes by another name now may have the zone with its keys; that is looked at.
            (None, told) => told.filter(|id| is_there(id)),
        };
        signer.is_none_or(|signer| *signer == primary.id)
    }

    /// Whether several primaries would sign the zone, each for itself.
    fn has_rival_signers(&self, zone: &Zone) -> bool {
        !zone.has_one_primary() && self.primaries_of(zone).count() > 1
    }

    /// The primaries that could have a zone, be it signed or not.
    fn primaries_of<'a>(&'a self, zone: &'a Zone) -> impl Iterator<Item = &'a ServerInfo> {
        let primaries = self.named_servers(zone);
        primaries.filter(|one| one.role == ServerRole::Primary)
    }

    /// How a zone is signed.
    pub(super) fn signing_report(&self, name: &Name, zone: &Zone) -> SigningReport {
        let primaries = self.primaries_of(zone).count();
        let is_named = matches!(zone.wanted_policy(), Some(SigningPolicy::Named(_)));
        let several = (is_named && self.has_rival_signers(zone))
            .then_some(SigningTrouble::SeveralPrimaries(primaries));
        let told = zone.signing.trouble.clone();
        SigningReport {
            is_known: zone.serial.is_some(),
            has_keys: zone.signatures.has_keys(),
            is_complete: zone.signatures.is_complete(),
            ds: zone.signatures.ds(name),
            trouble: several.or_else(|| told.filter(|_| zone.wanted_policy().is_some())),
            left_out: if zone.has_one_primary() {
                primaries.saturating_sub(1)
            } else {
                0
            },
        }
    }
}

impl Zone {
    /// What the leader is to be told: a policy, or that none is wanted any more. A zone that never was signed
    /// need not be told the latter.
    fn wanted_policy(&self) -> Option<SigningPolicy> {
        let declared = self.declared.as_ref()?;
        let is_ours = matches!(declared.hosting, Hosting::Served(_)) && declared.going.is_none();
        let policy = &declared.signing.policy;
        let is_said = match policy {
            SigningPolicy::Unsaid => false,
            SigningPolicy::Unsigned => self.signatures.has_keys(),
            SigningPolicy::Named(_) => true,
        };
        (is_ours && is_said).then(|| policy.clone())
    }

    /// Whether only one primary may have the zone, because it signs it.
    pub(super) fn has_one_primary(&self) -> bool {
        self.signer.is_some() || self.told_signer().is_some()
    }

    /// Who signed the zone before this process, which has not read it yet.
    fn told_signer(&self) -> Option<&ServerId> {
        let declared = self.declared.as_ref().filter(|_| self.is_hosted());
        let told = declared.and_then(|declared| declared.signing.signer.as_ref());
        told.filter(|_| self.serial.is_none())
    }

    fn is_hosted(&self) -> bool {
        let declared = self.declared.as_ref();
        declared.is_some_and(|declared| matches!(declared.hosting, Hosting::Served(_)))
    }

    /// Whether its author says that it is signed no longer.
    fn is_unsigned(&self) -> bool {
        let declared = self.declared.as_ref();
        declared.is_some_and(|declared| declared.signing.policy == SigningPolicy::Unsigned)
    }

    /// Notes who signs the zone, which was read. A signer that lost the zone and has it again without keys goes on
    /// being the one, as long as the zone is to be signed: it is about to be told so.
    pub(super) fn note_signer(&mut self) {
        let declared = self.declared.as_ref().map(|declared| &declared.signing);
        let told = declared.and_then(|signing| signing.signer.as_ref());
        let is_named =
            declared.is_some_and(|signing| matches!(signing.policy, SigningPolicy::Named(_)));
        let leader = self.leader.as_ref().map(|leader| &leader.id);
        let was_signer = leader.is_some() && self.signer.as_ref().or(told) == leader;
        let is_signer = self.signatures.has_keys() || (is_named && was_signer);
        self.signer = leader.filter(|_| self.is_hosted() && is_signer).cloned();
    }

    /// Who signs the zone, where that is not the leader. The leader does not get the zone then, if it does not
    /// have it: it would sign it with keys that the zone above does not know.
    pub(super) fn absent_signer(&self) -> Option<&ServerId> {
        let signer = self.signer.as_ref().or_else(|| self.told_signer());
        let leader = self.leader.as_ref()?;
        signer.filter(|signer| **signer != leader.id && !self.is_unsigned())
    }

    /// How long its serial need not be looked at: shortly where signatures are awaited.
    pub(super) fn check_pause(&self, usual: Duration) -> Duration {
        let is_awaited = match self.wanted_policy() {
            Some(SigningPolicy::Named(_)) => !self.signatures.is_complete(),
            Some(SigningPolicy::Unsigned) => true,
            Some(SigningPolicy::Unsaid) | None => false,
        };
        if is_awaited && self.signing.trouble.is_none() {
            return usual.min(AWAITED);
        }
        usual
    }

    /// When the leader is told again how to sign the zone.
    pub(super) fn sign_wake(&self) -> Option<Duration> {
        self.wanted_policy().map(|_| self.signing.due)
    }
}

/// What is told while the server that signs a zone is not there.
pub(super) fn awaited(zone: &Name, signer: &ServerId) -> Fault {
    Fault::new(
        FaultKind::Unreachable,
        format!(
            "{zone} is signed by {}, which is not among its servers, and no other one has its keys: bring it \
             back; where it is gone for good, take the DS out of the zone above and set spec.dnssecPolicy to \
             \"none\"",
            signer.as_str()
        ),
    )
}
