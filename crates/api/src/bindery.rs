//! The group `bindery.dev`: kinds that are Bindery's own.

pub mod v1alpha1;
