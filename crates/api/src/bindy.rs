//! The group `bindy.firestoned.io`: zones and typed records.

pub mod v1beta1;
