//! How resources are named and marked: whose they are, their tags say.

use std::collections::BTreeMap;

use bindery_core::{Fault, FaultKind, Shown, balancers::BalancerKey};

use crate::wire::Tags;

/// The tag that has the cluster's name.
pub(crate) const CLUSTER_TAG: &str = "bindery-cluster";
/// The tag that has the balancer.
pub(crate) const BALANCER_TAG: &str = "bindery-balancer";
/// The tag that has the digest of the spec that a resource was last made after.
pub(crate) const SPEC_TAG: &str = "bindery-spec";
/// The tag that has the digest of the resource as it was sent, by which changes of others are found.
pub(crate) const SHAPE_TAG: &str = "bindery-shape";

/// The NAT gateway of everything without a gateway of its own. It is never touched, and neither is its public IP.
const RESERVED: &str = "default-natgw";
/// What a gateway's tag begins with, where a Service's has its UID alone.
const EGRESS_PREFIX: &str = "egress/";
/// The longest name of a resource is 80 characters; the longest ending of ours takes 7.
const NAME_LEN_MAX: usize = 73;

/// The names of everything that is made for one balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Names {
    /// The load balancer or NAT gateway, and the service at the gateway.
    pub(crate) service: String,
    /// The public IP of a load balancer, or of a NAT gateway for IPv4.
    pub(crate) public_ip: String,
    /// The public IP of a NAT gateway for IPv6.
    pub(crate) public_ip_v6: String,
}

impl Names {
    /// The names for a balancer.
    ///
    /// # Errors
    /// If Azure has no such names, or they are reserved: nobody can do it, whenever it is tried.
    pub(crate) fn of(key: &BalancerKey) -> Result<Self, Fault> {
        let service = service_name(key);
        if service.eq_ignore_ascii_case(RESERVED) {
            let text = format!(
                "ServiceGatewayReservedEgressLabel: {RESERVED} is the gateway of everything without a label; \
                 choose another value"
            );
            return Err(Fault::new(FaultKind::Invalid, text));
        }
        if !is_name(&service) {
            let text = format!(
                "ServiceGatewayInvalidEgressLabel: {} cannot name a gateway: it takes 1 to {NAME_LEN_MAX} characters \
                 of a-z, 0-9 and . _ -, the first and the last a letter or digit",
                Shown(&service)
            );
            return Err(Fault::new(FaultKind::Invalid, text));
        }
        Ok(Self {
            public_ip: format!("{service}-pip"),
            public_ip_v6: format!("{service}-pip-v6"),
            service,
        })
    }
}

/// The name of a balancer at the gateway.
pub(crate) fn service_name(key: &BalancerKey) -> String {
    match key {
        BalancerKey::Service(uid) => uid.to_string().to_ascii_lowercase(),
        BalancerKey::Egress(label) => label.to_string(),
    }
}

fn is_name(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let mut bytes = text.bytes();
    let (first, last) = (bytes.next(), text.bytes().next_back());
    first.is_some_and(is_letter)
        && last.is_some_and(|byte| is_letter(byte) || byte == b'_')
        && text.len() <= NAME_LEN_MAX
        && bytes.all(|byte| is_letter(byte) || b"._-".contains(&byte))
}

/// The tags of a resource of ours.
pub(crate) fn tags(cluster: &str, key: &BalancerKey) -> Tags {
    BTreeMap::from([
        (CLUSTER_TAG.to_owned(), cluster.to_owned()),
        (BALANCER_TAG.to_owned(), key.to_string()),
    ])
}

/// Whose a resource is; `None` where it is not of this cluster.
pub(crate) fn owner(cluster: &str, name: &str, tags: &Tags) -> Option<BalancerKey> {
    if tag(tags, CLUSTER_TAG) != Some(cluster) {
        return None;
    }
    let text = tag(tags, BALANCER_TAG)?;
    let key = match text.strip_prefix(EGRESS_PREFIX) {
        Some(label) => BalancerKey::Egress(label.into()),
        None => BalancerKey::Service(text.into()),
    };
    let names = Names::of(&key).ok()?;
    let all = [&names.service, &names.public_ip, &names.public_ip_v6];
    all.iter()
        .any(|one| one.eq_ignore_ascii_case(name))
        .then_some(key)
}

/// The value of a tag: Azure does not tell tags apart by the case of their names.
pub(crate) fn tag<'a>(tags: &'a Tags, name: &str) -> Option<&'a str> {
    let found = tags.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.as_str())
}

/// A fault for a resource that stands where ours is to be and has not our tag.
pub(crate) fn foreign(what: &str, name: &str, cluster: &str) -> Fault {
    let text = format!(
        "{what} {name} is there and does not have the tags of this cluster, so it is left as it is: remove or rename \
         it, or hand it over with the tags {CLUSTER_TAG}={cluster} and {BALANCER_TAG}"
    );
    Fault::new(FaultKind::Refused, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn egress(label: &str) -> BalancerKey {
        BalancerKey::Egress(label.into())
    }

    #[test]
    fn names_are_those_that_others_of_azure_have() {
        let names = Names::of(&BalancerKey::Service("ABC-1".into())).expect("a UID");
        assert_eq!(names.service, "abc-1");
        assert_eq!(names.public_ip, "abc-1-pip");
        let names = Names::of(&egress("team_a.b")).expect("a label");
        assert_eq!(names.public_ip_v6, "team_a.b-pip-v6");
        assert!(Names::of(&egress("a")).is_ok());
        assert!(Names::of(&egress(&"a".repeat(73))).is_ok());
        for bad in ["", "A", "-a", "a-", "a.", "a/b", "..x", &"a".repeat(74)] {
            let fault = Names::of(&egress(bad)).expect_err(bad);
            assert_eq!(fault.kind, FaultKind::Invalid);
            assert!(fault.message.contains("InvalidEgressLabel"), "{fault}");
        }
        let fault = Names::of(&egress("default-natgw")).expect_err("it is reserved");
        assert!(fault.message.contains("ReservedEgressLabel"), "{fault}");
    }

    #[test]
    fn only_what_has_our_tags_and_a_name_of_ours_is_ours() {
        let key = BalancerKey::Service("u1".into());
        let tags = tags("blue", &key);
        assert_eq!(owner("blue", "u1", &tags), Some(key.clone()));
        assert_eq!(owner("blue", "U1-pip", &tags), Some(key));
        assert_eq!(owner("green", "u1", &tags), None);
        assert_eq!(owner("blue", "u2", &tags), None);
        assert_eq!(owner("blue", "u1", &Tags::new()), None);
        let mut odd = tags.clone();
        odd.insert(BALANCER_TAG.to_owned(), "egress/default-natgw".to_owned());
        assert_eq!(owner("blue", "default-natgw", &odd), None);
        odd.insert(BALANCER_TAG.to_owned(), "egress/team-a".to_owned());
        assert_eq!(owner("blue", "team-a-pip-v6", &odd), Some(egress("team-a")));
    }
}
