//! Schemas of built-in kinds: their common fields, one line each.

use serde_json::{Map, Value, json};

/// Kind, what it is, and its fields: `path type description`, a required field's type ends in `!`.
///
/// Types are those of JSON; `[]` before one makes a list of it, `{}` a map. Fields that are not
/// listed are kept and not explained.
pub(crate) const KINDS: &[(&str, &str, &str)] = &[
    (
        "ConfigMap",
        "Configuration for programs to read.",
        "
        immutable boolean If true, the data cannot be changed any more.
        data {}string Text values by key.
        binaryData {}string Values of any bytes by key, in base64.",
    ),
    (
        "Secret",
        "Confidential data for programs to read.",
        "
        type string What the data is for; Opaque if nothing special.
        immutable boolean If true, the data cannot be changed any more.
        data {}string Values by key, in base64.
        stringData {}string Values by key as plain text; written only, stored in data.",
    ),
    (
        "Namespace",
        "A space for names and for what belongs together.",
        "
        spec object What is wanted of the namespace.
        spec.finalizers []string What must be done before the namespace is gone.
        status object What is known of the namespace.
        status.phase string Active or Terminating.",
    ),
    (
        "Event",
        "Something that happened to an object.",
        "
        involvedObject object The object that the event is about.
        involvedObject.apiVersion string Group and version of the object.
        involvedObject.kind string Kind of the object.
        involvedObject.name string Name of the object.
        involvedObject.namespace string Namespace of the object.
        involvedObject.uid string Identity of the object.
        reason string One word, machine readable, for why this happened.
        message string What happened, for people to read.
        note string What happened, for people to read.
        type string Normal or Warning.
        action string What was done.
        count integer How often it happened.
        eventTime string When it was first seen.
        firstTimestamp string When it was first seen.
        lastTimestamp string When it was last seen.
        reportingComponent string Who reports it.
        reportingController string Who reports it.
        reportingInstance string Which instance reports it.
        source object Who reports it and where.
        source.component string The program.
        source.host string The machine.",
    ),
    (
        "Lease",
        "A claim on something that one holder has at a time.",
        "
        spec object The claim.
        spec.holderIdentity string Who holds it.
        spec.leaseDurationSeconds integer How long it is valid after the last renewal.
        spec.acquireTime string When the holder got it.
        spec.renewTime string When the holder last renewed it.
        spec.leaseTransitions integer How often it changed hands.",
    ),
    (
        "Service",
        "A name and addresses under which pods are reached.",
        "
        spec object What is wanted.
        spec.type string ClusterIP, NodePort, LoadBalancer or ExternalName.
        spec.selector {}string Labels of the pods behind the service.
        spec.clusterIP string The address inside of the cluster, None for a headless service.
        spec.clusterIPs []string All addresses inside of the cluster.
        spec.externalIPs []string Addresses that also lead to the service.
        spec.externalName string The name that an ExternalName service stands for.
        spec.externalTrafficPolicy string Cluster or Local.
        spec.loadBalancerClass string Who provides the load balancer.
        spec.loadBalancerIP string The address asked of the load balancer.
        spec.ipFamilies []string IPv4, IPv6 or both.
        spec.ipFamilyPolicy string SingleStack, PreferDualStack or RequireDualStack.
        spec.sessionAffinity string None or ClientIP.
        spec.ports []object The ports of the service.
        spec.ports.name string Name of the port, needed if there are several.
        spec.ports.port integer! The port of the service.
        spec.ports.protocol string TCP, UDP or SCTP.
        spec.ports.targetPort string Number or name of the port on the pods.
        spec.ports.nodePort integer The port on each node.
        status object What is known of the service.
        status.loadBalancer object The load balancer.
        status.loadBalancer.ingress []object Where the load balancer is reached.
        status.loadBalancer.ingress.ip string Its address.
        status.loadBalancer.ingress.hostname string Its name.",
    ),
    (
        "EndpointSlice",
        "Some of the addresses behind a service.",
        "
        addressType string! IPv4, IPv6 or FQDN.
        endpoints []object! The addresses.
        endpoints.addresses []string! Addresses of one endpoint.
        endpoints.hostname string The endpoint's host name.
        endpoints.nodeName string The node it runs on.
        endpoints.zone string The zone it runs in.
        endpoints.conditions object Whether it can be used.
        endpoints.conditions.ready boolean It takes requests.
        endpoints.conditions.serving boolean It answers requests.
        endpoints.conditions.terminating boolean It is about to end.
        ports []object The ports of all endpoints.
        ports.name string Name of the port.
        ports.port integer Number of the port.
        ports.protocol string TCP, UDP or SCTP.",
    ),
    (
        "Node",
        "A machine that runs pods.",
        "
        spec object What is wanted of the node.
        spec.unschedulable boolean If true, no new pods are put here.
        spec.podCIDR string Addresses of the node's pods.
        spec.taints []object What keeps pods away.
        spec.taints.key string! Key of the taint.
        spec.taints.value string Value of the taint.
        spec.taints.effect string! NoSchedule, PreferNoSchedule or NoExecute.
        status object What is known of the node.
        status.addresses []object How the node is reached.
        status.addresses.type string! Hostname, InternalIP or ExternalIP.
        status.addresses.address string! The address.
        status.capacity {}string What the node has.
        status.allocatable {}string What pods may use.",
    ),
    (
        "Pod",
        "Containers that run together.",
        "
        spec object What is wanted.
        status object What is known of the pod.
        status.phase string Pending, Running, Succeeded, Failed or Unknown.
        status.podIP string The pod's address.
        status.hostIP string The address of its node.",
    ),
    (
        "Deployment",
        "Keeps a number of equal pods running and updates them step by step.",
        "
        spec object What is wanted.
        spec.replicas integer How many pods.
        spec.selector object! Which pods belong to it.
        spec.selector.matchLabels {}string Labels that its pods have.
        spec.strategy object How pods are replaced.
        spec.strategy.type string RollingUpdate or Recreate.
        spec.paused boolean If true, changes wait.
        spec.template object! The pods to make.
        spec.template.metadata object Labels and annotations of the pods.
        spec.template.metadata.labels {}string Labels of the pods.
        spec.template.metadata.annotations {}string Annotations of the pods.
        spec.template.spec object What each pod runs.
        status object What is known.
        status.replicas integer Pods that exist.
        status.readyReplicas integer Pods that are ready.
        status.availableReplicas integer Pods that have been ready for long enough.
        status.updatedReplicas integer Pods of the newest template.",
    ),
    (
        "Ingress",
        "Leads HTTP requests from outside to services.",
        "
        spec object What is wanted.
        spec.ingressClassName string Who provides it.
        spec.rules []object Hosts and paths.
        spec.rules.host string The host name.
        spec.rules.http object Paths of the host.
        spec.rules.http.paths []object! The paths.
        spec.rules.http.paths.path string The path.
        spec.rules.http.paths.pathType string! Exact, Prefix or ImplementationSpecific.
        spec.rules.http.paths.backend object! Where requests go.
        spec.rules.http.paths.backend.service object A service.
        spec.rules.http.paths.backend.service.name string! Its name.
        spec.rules.http.paths.backend.service.port object Its port.
        spec.rules.http.paths.backend.service.port.number integer Number of the port.
        spec.rules.http.paths.backend.service.port.name string Name of the port.
        spec.tls []object Certificates.
        spec.tls.hosts []string Hosts of the certificate.
        spec.tls.secretName string Secret with the certificate.
        status object What is known of it.",
    ),
    (
        "ServiceAccount",
        "An identity for programs.",
        "
        automountServiceAccountToken boolean Whether pods get a token of it.
        secrets []object Secrets that its pods may use.
        imagePullSecrets []object Secrets for pulling images.",
    ),
    (
        "CustomResourceDefinition",
        "Adds a kind of objects to the API.",
        "
        spec object! The kind.
        spec.group string! Its group.
        spec.scope string! Cluster or Namespaced.
        spec.names object! Its names.
        spec.names.kind string! The kind in CamelCase.
        spec.names.listKind string The kind of lists of it.
        spec.names.plural string! The name in paths.
        spec.names.singular string The name for one object.
        spec.names.shortNames []string Short names for the command line.
        spec.names.categories []string Groups of kinds that it belongs to.
        spec.versions []object! Its versions.
        spec.versions.name string! Name of the version.
        spec.versions.served boolean! Whether it is served.
        spec.versions.storage boolean! Whether objects are stored in it.
        spec.versions.schema object What objects look like.
        spec.versions.subresources object Parts with a path of their own.
        spec.versions.additionalPrinterColumns []object What kubectl get shows.
        spec.versions.additionalPrinterColumns.name string! Heading of the column.
        spec.versions.additionalPrinterColumns.type string! Type of the column.
        spec.versions.additionalPrinterColumns.jsonPath string! Where the value stands.
        spec.versions.additionalPrinterColumns.priority integer More than 0: only with -o wide.
        status object What is known of it.",
    ),
];

const POD_SPEC: &str = "
    containers []object! What runs.
    containers.name string! Name of the container.
    containers.image string The image.
    containers.command []string What is started, instead of the image's own.
    containers.args []string Arguments.
    containers.workingDir string The working directory.
    containers.env []object Environment variables.
    containers.env.name string! Name of the variable.
    containers.env.value string Its value.
    containers.ports []object Ports that the container listens on.
    containers.ports.name string Name of the port.
    containers.ports.containerPort integer! Number of the port.
    containers.ports.protocol string TCP, UDP or SCTP.
    containers.volumeMounts []object Volumes to mount.
    containers.volumeMounts.name string! Name of the volume.
    containers.volumeMounts.mountPath string! Where it is mounted.
    containers.volumeMounts.readOnly boolean If true, it cannot be written.
    containers.resources object What the container may use.
    containers.resources.limits {}string At most.
    containers.resources.requests {}string At least.
    initContainers []object What runs before, one after the other.
    volumes []object Volumes to mount.
    volumes.name string! Name of the volume.
    restartPolicy string Always, OnFailure or Never.
    nodeName string The node it runs on.
    nodeSelector {}string Labels of nodes that it may run on.
    serviceAccountName string The identity of the programs.
    hostNetwork boolean If true, the network of the node is used.
    dnsPolicy string ClusterFirst, ClusterFirstWithHostNet, Default or None.
    terminationGracePeriodSeconds integer How long programs get to end.";

const METADATA: &str = "
    name string Name of the object, unique among its kind in its namespace.
    generateName string Start of a name that the server completes.
    namespace string The namespace, empty if the kind has none.
    uid string Identity of the object, different for an object of the same name made later.
    resourceVersion string Changes with every write; send it to have stale writes refused.
    generation integer Changes with every change of what is wanted.
    creationTimestamp string When the object was created.
    deletionTimestamp string When the object was asked to go; it goes once it has no finalizers.
    deletionGracePeriodSeconds integer How long its end may take.
    labels {}string Words by which objects are found and selected.
    annotations {}string Notes of tools and people.
    finalizers []string What must be done before the object is gone.
    ownerReferences []object Objects that this one belongs to; it goes when all of them are gone.
    ownerReferences.apiVersion string! Group and version of the owner.
    ownerReferences.kind string! Kind of the owner.
    ownerReferences.name string! Name of the owner.
    ownerReferences.uid string! Identity of the owner.
    ownerReferences.controller boolean If true, this owner controls the object.
    ownerReferences.blockOwnerDeletion boolean If true, the owner waits for this object.
    managedFields []object Who wrote which fields.
    selfLink string No longer set.";

const LIST_METADATA: &str = "
    resourceVersion string The state of the server that the list shows.
    continue string Where to ask on, if there is more.
    remainingItemCount integer How many objects are left.
    selfLink string No longer set.";

/// The schema of a built-in kind, without what every object has.
pub(crate) fn builtin_schema(kind: &str) -> Value {
    let known = KINDS.iter().find(|(name, _, _)| *name == kind);
    let Some((_, description, fields)) = known else {
        let open = "x-kubernetes-preserve-unknown-fields";
        return json!({
            "description": format!("{kind} is kept and served as it is."), "type": "object",
            "properties": {
                "spec": {"type": "object", "description": "What is wanted.", open: true},
                "status": {"type": "object", "description": "What is known.", open: true},
            },
            open: true,
        });
    };
    let mut schema = described(description, fields);
    match kind {
        "Pod" => add_fields(&mut schema, "spec.", POD_SPEC),
        "Deployment" => add_fields(&mut schema, "spec.template.spec.", POD_SPEC),
        _ => {}
    }
    schema
}

/// The schema of every object's metadata.
pub(crate) fn object_meta() -> Value {
    described("What every object has.", METADATA)
}

/// The schema of a list's metadata.
pub(crate) fn list_meta() -> Value {
    described("What every list has.", LIST_METADATA)
}

fn described(description: &str, fields: &str) -> Value {
    let mut schema = json!({"description": description, "type": "object", "properties": {}});
    add_fields(&mut schema, "", fields);
    schema
}

fn add_fields(schema: &mut Value, prefix: &str, lines: &str) {
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let mut parts = line.splitn(3, ' ');
        if let (Some(path), Some(kind), Some(description)) =
            (parts.next(), parts.next(), parts.next())
        {
            add_field(schema, &format!("{prefix}{path}"), kind, description);
        }
    }
}

fn add_field(schema: &mut Value, path: &str, kind: &str, description: &str) {
    let (holder, name) = path.rsplit_once('.').unwrap_or(("", path));
    let mut here = schema;
    for step in holder.split('.').filter(|step| !step.is_empty()) {
        here = &mut inside(here)["properties"][step];
    }
    let here = inside(here);
    if kind.ends_with('!') {
        if let Value::Array(required) = &mut here["required"] {
            required.push(json!(name));
        } else {
            here["required"] = json!([name]);
        }
    }
    here["properties"][name] = typed(kind.trim_end_matches('!'), description);
}

/// The schema that holds the members: of a list, that of its items.
fn inside(schema: &mut Value) -> &mut Value {
    match schema["type"].as_str() {
        Some("array") => &mut schema["items"],
        _ => schema,
    }
}

fn typed(kind: &str, description: &str) -> Value {
    if let Some(item) = kind.strip_prefix("[]") {
        return json!({"type": "array", "description": description, "items": bare(item)});
    }
    if let Some(item) = kind.strip_prefix("{}") {
        let items = bare(item);
        return json!({"type": "object", "description": description, "additionalProperties": items});
    }
    let mut schema = bare(kind);
    schema["description"] = json!(description);
    schema
}

fn bare(kind: &str) -> Value {
    let mut schema = Map::new();
    schema.insert("type".to_owned(), json!(kind));
    if kind == "object" {
        schema.insert("properties".to_owned(), json!({}));
    }
    Value::Object(schema)
}
