//! Whole controllers over the embedded API and a name server in memory.

mod balancers;
mod bench;
mod clusters;
mod crowd;
mod endpoints;
mod events;
mod guard;
mod keys;
mod kinds;
mod namespaces;
mod ownership;
mod records;
mod restart;
mod servers;
mod silence;
mod statuses;
mod unsupported;
mod zones;
