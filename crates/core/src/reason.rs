//! Condition types and reasons: the closed vocabulary that users match on.

use std::fmt;

use crate::stage::Stage;

macro_rules! vocabulary {
    ($(#[$outer:meta])* $name:ident { $($(#[$inner:meta])* $variant:ident,)+ }) => {
        $(#[$outer])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$inner])* $variant,)+
        }

        impl $name {
            /// All of them, in the order of this file.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word as it stands in a status.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($variant),)+
                }
            }

            /// The value of a word found in a status, if it is one of ours.
            #[must_use]
            pub fn from_word(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.as_str() == word)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

vocabulary! {
    /// What a condition speaks about.
    ConditionType {
        /// The object is published as declared, on every server of its zone (zones and records).
        Ready,
        /// Work towards the declared state is under way (zones).
        Progressing,
        /// Part of what is declared is not served (zones).
        Degraded,
        /// A plan that would remove too much is held (zones; absent where none is).
        Guarded,
        /// All of the zone is signed (zones that are, or are to be).
        Signed,
        /// The object's endpoints are valid and have a zone (`DNSEndpoint`).
        Accepted,
        /// The object's endpoints are served (`DNSEndpoint`).
        Programmed,
    }
}

vocabulary! {
    /// Why a condition has its status.
    Reason {
        /// Published and verified.
        ReconcileSucceeded,
        /// Nothing is left to do.
        ReconcileComplete,
        /// Something outside failed; it is tried again.
        ReconcileFailed,
        /// Some of it is published, some is not.
        PartialReconciliation,
        /// Work is under way.
        Progressing,
        /// No zone selects the record.
        NotSelected,
        /// The zone object or the zone on the server does not exist.
        ZoneNotFound,
        /// The zone exists but cannot be written to yet.
        ZoneNotReady,
        /// The zone names a cluster of name servers that is not there.
        ClusterNotFound,
        /// An older object declares the same zone on the same servers.
        DuplicateZone,
        /// Another object's claim on the same name wins.
        Conflict,
        /// The name exists in DNS and was not written by Bindery.
        NotOwned,
        /// It stands in its zone, but resolvers are answered from elsewhere.
        Delegated,
        /// Somebody else changed what Bindery wrote; it was put right.
        Overwritten,
        /// The object's author has to correct it.
        Invalid,
        /// The kind or type is known but not published by this version.
        Unsupported,
        /// All of the zone is signed.
        Signed,
        /// The server has no DNSSEC policy of that name.
        PolicyNotFound,
        /// More than one primary has the zone, and each would sign it with keys of its own.
        SeveralPrimaries,
        /// The name server cannot be reached.
        ServerUnreachable,
        /// The name server refuses what it is asked for.
        ServerRefused,
        /// Some server of the zone does not have the newest data yet.
        ServerBehind,
        /// The change is held back because it would remove too much.
        Held,
        /// No file declares the zone any longer; it is kept until somebody deletes it by name.
        NoLongerDeclared,
        /// The object is being deleted and its records are being removed.
        Deleting,
        /// All endpoints are valid and have a zone.
        Accepted,
        /// Some endpoints are valid and have a zone.
        PartiallyAccepted,
        /// No zone is a suffix of the name.
        NoMatchingZone,
        /// All accepted endpoints are served.
        Programmed,
        /// Some accepted endpoints are served.
        PartiallyProgrammed,
        /// The outcome is not known yet.
        Pending,
        /// Publishing failed; it is tried again.
        Failed,
        /// Every child of the object is ready.
        AllReady,
        /// The child, or the object without children, is ready.
        Ready,
        /// Some children are ready, some are not.
        PartiallyReady,
        /// No child is ready.
        NotReady,
        /// The object has no children.
        NoChildren,
        /// `named` accepts the generated configuration.
        ConfigurationValid,
        /// `named` does not accept the generated configuration; what runs goes on with the former one.
        ConfigurationInvalid,
        /// As many pods are ready as have to be.
        MinimumReplicasAvailable,
        /// A roll-out does not get on.
        ProgressDeadlineExceeded,
        /// `named` does not accept the key of its control channel.
        RNDCAuthenticationFailed,
        /// The sidecar does not answer, or with a code that has no reason of its own.
        BindcarUnreachable,
        /// The sidecar does not understand what it is asked for (400).
        BindcarBadRequest,
        /// The sidecar does not let us in (401, 403).
        BindcarAuthFailed,
        /// The sidecar failed (500).
        BindcarInternalError,
        /// The sidecar cannot do what it is asked for (501).
        BindcarNotImplemented,
        /// Something before the sidecar failed, or it is not ready to serve (502, 503, 504).
        GatewayError,
        /// A secondary has the zone as its primary has it.
        ZoneTransferComplete,
        /// A secondary does not get the zone.
        ZoneTransferFailed,
        /// Pods are not running yet.
        PodsPending,
        /// Pods end again and again.
        PodsCrashing,
        /// The instances were made just now.
        InstancesCreated,
        /// Instances are being added or taken away.
        InstancesScaling,
        /// Instances have no pods yet.
        InstancesPending,
        /// Every cluster is ready.
        ClustersReady,
        /// Some cluster is not ready yet.
        ClustersProgressing,
        /// A secondary does not reach its primary.
        UpstreamUnreachable,
        /// No address pool is for the Service.
        NoAddressPool,
        /// The address pools that are for the Service have no free address.
        AddressPoolUsedUp,
        /// The address that the Service asks for is in no pool, or another Service has it.
        AddressUnavailable,
        /// The Service keeps an address that is in no pool any more.
        AddressKept,
        /// An older pool has some of the addresses.
        PoolsOverlap,
        /// The provider has no load balancers inside the network.
        UnsupportedInternalLoadBalancer,
        /// The provider does not keep a client at its endpoint.
        UnsupportedSessionAffinity,
        /// The provider chooses addresses itself.
        UnsupportedLoadBalancerIP,
        /// The provider has one version of IP for each Service.
        UnsupportedDualStack,
        /// The provider keeps nobody out.
        UnsupportedSourceRanges,
        /// The provider sends all endpoints to the same number of a port.
        UnsupportedNamedTargetPort,
        /// The provider cannot tell two ports of a Service apart that lead to the same one.
        UnsupportedBackendPortCollision,
        /// The provider cannot listen to the port.
        UnsupportedPort,
        /// The time after which quiet connections are closed is none that the provider has.
        InvalidIdleTimeout,
    }
}

impl Reason {
    /// The stage at which an object stops whose status gives this reason; the last one for reasons that
    /// stop nothing.
    #[must_use]
    #[expect(
        clippy::too_many_lines,
        reason = "a table with one line for each reason"
    )]
    pub const fn stage(self) -> Stage {
        match self {
            Self::Deleting | Self::NoLongerDeclared => Stage::Object,
            Self::NotSelected
            | Self::ZoneNotFound
            | Self::NoMatchingZone
            | Self::Invalid
            | Self::Unsupported
            | Self::PolicyNotFound
            | Self::SeveralPrimaries
            | Self::ConfigurationInvalid
            | Self::NoAddressPool
            | Self::AddressPoolUsedUp
            | Self::AddressUnavailable
            | Self::PoolsOverlap
            | Self::UnsupportedInternalLoadBalancer
            | Self::UnsupportedSessionAffinity
            | Self::UnsupportedLoadBalancerIP
            | Self::UnsupportedDualStack
            | Self::UnsupportedSourceRanges
            | Self::UnsupportedNamedTargetPort
            | Self::UnsupportedBackendPortCollision
            | Self::UnsupportedPort
            | Self::InvalidIdleTimeout
            | Self::PartiallyAccepted => Stage::Claim,
            Self::Conflict
            | Self::ZoneNotReady
            | Self::ClusterNotFound
            | Self::DuplicateZone
            | Self::NoChildren
            | Self::NotReady
            | Self::ProgressDeadlineExceeded
            | Self::PodsPending
            | Self::PodsCrashing
            | Self::InstancesCreated
            | Self::InstancesScaling
            | Self::InstancesPending
            | Self::ClustersProgressing => Stage::Tracker,
            Self::NotOwned | Self::Held => Stage::Guard,
            Self::ReconcileFailed
            | Self::Failed
            | Self::Progressing
            | Self::ServerUnreachable
            | Self::ServerRefused
            | Self::RNDCAuthenticationFailed
            | Self::BindcarUnreachable
            | Self::BindcarBadRequest
            | Self::BindcarAuthFailed
            | Self::BindcarInternalError
            | Self::BindcarNotImplemented
            | Self::GatewayError => Stage::Commit,
            Self::ServerBehind
            | Self::Delegated
            | Self::Overwritten
            | Self::ZoneTransferFailed
            | Self::UpstreamUnreachable => Stage::Verify,
            Self::Pending
            | Self::PartialReconciliation
            | Self::PartiallyProgrammed
            | Self::PartiallyReady => Stage::Receipt,
            Self::ReconcileSucceeded
            | Self::ReconcileComplete
            | Self::Accepted
            | Self::Programmed
            | Self::Ready
            | Self::AllReady
            | Self::AddressKept
            | Self::ConfigurationValid
            | Self::MinimumReplicasAvailable
            | Self::ZoneTransferComplete
            | Self::Signed
            | Self::ClustersReady => Stage::Status,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_back_and_fit_the_condition_schema() {
        for reason in Reason::ALL {
            assert_eq!(Reason::from_word(reason.as_str()), Some(*reason));
            // metav1.Condition: a letter first, then letters, digits, `,:_`.
            assert!(
                reason
                    .as_str()
                    .bytes()
                    .all(|byte| byte.is_ascii_alphabetic())
            );
        }
        assert_eq!(
            ConditionType::from_word("Ready"),
            Some(ConditionType::Ready)
        );
        assert_eq!(Reason::from_word("SomebodyElses"), None);
    }

    #[test]
    fn the_reasons_of_clusters_are_spelled_as_bindy_spells_them() {
        let words = "AllReady Ready PartiallyReady NotReady NoChildren Progressing ConfigurationValid \
            ConfigurationInvalid MinimumReplicasAvailable ProgressDeadlineExceeded \
            RNDCAuthenticationFailed BindcarUnreachable ZoneTransferComplete ZoneTransferFailed \
            PodsPending PodsCrashing BindcarBadRequest BindcarAuthFailed ZoneNotFound \
            BindcarInternalError BindcarNotImplemented GatewayError InstancesCreated \
            InstancesScaling InstancesPending ClustersReady ClustersProgressing UpstreamUnreachable";
        let words: Vec<&str> = words.split_whitespace().collect();
        assert_eq!(words.len(), 28);
        for word in words {
            assert!(Reason::from_word(word).is_some(), "{word}");
        }
    }
}
