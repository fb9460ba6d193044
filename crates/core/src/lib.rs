//! The pure heart of Bindery: names, records, selectors, conditions and what is decided from them.
//!
//! Everything here is a function of its arguments. This crate must *never* do I/O, read a clock,
//! draw randomness, log, or know of Kubernetes clients and async runtimes.

pub mod name;
pub mod record;

pub mod compact;
pub mod kind;
pub mod object;
pub mod small_set;

pub mod selector;

pub mod condition;
pub mod problem;
pub mod reason;
pub mod stage;

pub mod backoff;
pub mod election;
pub mod fault;
pub mod fleet;
pub mod group;
pub mod named;
pub mod pools;
pub mod server;

pub mod claim;
pub mod content;
pub mod delta;
pub mod guard;
pub mod merge;
pub mod ownership;
pub mod placement;
pub mod plan;
pub mod signatures;
pub mod tracker;
pub mod zones;

pub mod balancers;

pub use backoff::{Backoff, Failures};
pub use claim::{Adoption, Claim, Declaration};
pub use compact::compact;
pub use condition::{Condition, ConditionStatus, Moment};
pub use election::{Election, Leadership, LeaseAct, LeaseTiming, LeaseWrite, SeenLease};
pub use fault::{Fault, FaultKind};
pub use group::{Group, ZoneKey};
pub use kind::Kind;
pub use name::{Name, NameProblem};
pub use object::{Id, ObjectRef, Uid};
pub use ownership::Ownership;
pub use placement::{GroupDeclaration, Placements};
pub use plan::{Change, Expect, Plan};
pub use pools::{
    AddressPools, AddressProblem, AddressRange, AddressRequest, AddressSet, Allocation, Pool,
};
pub use problem::{Problem, Shown};
pub use reason::{ConditionType, Reason};
pub use record::{
    Caa, DataProblem, Record, RecordData, RecordKey, RecordSet, RecordType, Serial, Soa, Text,
};
pub use selector::{Index, LabelIndex, Selector};
pub use server::{ServerId, ServerInfo, ServerRole};
pub use signatures::{Ds, Signatures};
pub use small_set::SmallSet;
pub use stage::Stage;
