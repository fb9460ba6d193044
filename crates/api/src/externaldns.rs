//! The group `externaldns.k8s.io`: endpoints in the form of external-dns.

pub mod v1alpha1;
