//! Creating objects.

use http::StatusCode;
use serde_json::{Value, json};

use super::Core;
use super::admission::{Draft, Surplus};
use super::failure::{Failure, Fault};
use super::kinds::{Generation, Kind};
use super::lifecycle::Cascade;
use super::modify::{Ownership, Request};
use super::object::ObjectId;
use super::present;
use super::request::WriteOptions;
use super::service::{Call, Reply};
use super::store::{CRD_RESOURCE, Transaction};

/// How often a generated name may collide before the client has to try again.
const GENERATE_ATTEMPTS_MAX: usize = 8;

impl Core {
    /// # Cancellation
    /// An object that was staged is created; only the answer is lost.
    pub(crate) async fn create(&self, call: &Call) -> Result<Reply, Failure> {
        let options = WriteOptions::read(&call.query, &call.parts.headers, "CreateOptions")?;
        let (value, surplus) = super::admission::decode(call)?;
        self.create_object(call, value, surplus, &options).await
    }

    /// Creates what a body brought.
    ///
    /// # Cancellation
    /// As [`Self::create`].
    pub(crate) async fn create_object(
        &self,
        call: &Call,
        value: Value,
        surplus: Surplus,
        options: &WriteOptions,
    ) -> Result<Reply, Failure> {
        let request = Request {
            call,
            options,
            duplicate: surplus.duplicate,
        };
        self.create_owned(&request, value, Ownership::Tracked).await
    }

    /// Creates what an apply declared; its `managedFields` are set already.
    ///
    /// # Cancellation
    /// As [`Self::create`].
    pub(crate) async fn create_applied(
        &self,
        call: &Call,
        value: Value,
        options: &WriteOptions,
    ) -> Result<Reply, Failure> {
        let request = Request {
            call,
            options,
            duplicate: Vec::new(),
        };
        self.create_owned(&request, value, Ownership::Declared)
            .await
    }

    async fn create_owned(
        &self,
        request: &Request<'_>,
        mut value: Value,
        ownership: Ownership,
    ) -> Result<Reply, Failure> {
        let (call, options) = (request.call, request.options);
        let surplus = Surplus {
            unknown: Vec::new(),
            duplicate: request.duplicate.clone(),
        };
        let kind = &call.target.kind;
        let draft = Draft {
            core: self,
            call,
            options,
            before: None,
        };
        let warnings = draft.shape(&mut value, surplus)?;
        check_namespace(call, &mut value)?;
        if value["metadata"]["resourceVersion"]
            .as_str()
            .is_some_and(|text| !text.is_empty())
        {
            let message = "resourceVersion should not be set on objects to be created";
            return Err(Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "", message));
        }
        draft.check_stranger(&value)?;
        let generated = self.name(kind, &mut value)?;
        self.fill_system_fields(kind, &mut value);
        draft.admit(&mut value)?;
        if ownership == Ownership::Tracked {
            self.track(request, None, None, &mut value);
        }
        self.give_addresses(&kind.resource, &mut value);
        super::admission::check_size(&value)?;
        present::convert(&mut value, &kind.stored_as);
        let mut attempt = 0;
        let (stored, version) = loop {
            match self.stage_new(call, &mut value, options)? {
                Some(staged) => break staged,
                None if generated && attempt < GENERATE_ATTEMPTS_MAX => {
                    attempt += 1;
                    self.generate_name(&mut value);
                }
                None => {
                    let name = value["metadata"]["name"].as_str().unwrap_or_default();
                    return Err(Failure::already_exists(kind.subject(), name));
                }
            }
        };
        if let Some(version) = version {
            self.settle(version).await?;
        }
        let mut reply = present::object(call, StatusCode::CREATED, &stored);
        reply.warnings = warnings;
        Ok(reply)
    }

    /// Stages the new object, unless one of its name exists. A dry run stages nothing.
    #[expect(clippy::type_complexity, reason = "a name for it would be used once")]
    fn stage_new(
        &self,
        call: &Call,
        value: &mut Value,
        options: &WriteOptions,
    ) -> Result<Option<(std::sync::Arc<super::object::Stored>, Option<u64>)>, Failure> {
        let name = value["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let id = call.target.id_of(&name);
        let kinds = self.registry.current(&self.store);
        let now = self.now();
        let mut transaction = self.begin()?;
        if call.target.kind.custom.is_some() {
            check_definition_lives(&transaction, &id)?;
        }
        if call.target.kind.namespaced {
            check_namespace_lives(&transaction, call, &id)?;
        }
        if let Some(held) = transaction.get(&id) {
            if held.deleting {
                return Err(Failure::being_deleted(call.target.kind.subject(), &name));
            }
            return Ok(None);
        }
        if options.dry_run {
            let stored = super::object::Stored::new(id.into(), 0, value);
            return Ok(Some((std::sync::Arc::new(stored), None)));
        }
        let stored = Cascade::new(&mut transaction, &kinds, &now).write(&id, value);
        Ok(Some((stored, Some(transaction.finish()))))
    }

    /// Makes sure there is a name; says whether it was generated.
    fn name(&self, kind: &Kind, value: &mut Value) -> Result<bool, Failure> {
        let metadata = &value["metadata"];
        if metadata["name"]
            .as_str()
            .is_some_and(|name| !name.is_empty())
        {
            return Ok(false);
        }
        if metadata["generateName"].as_str().is_none_or(str::is_empty) {
            let fault = Fault::required("metadata.name", "name or generateName is required");
            return Err(Failure::invalid(kind.subject(), "", &[fault]));
        }
        self.generate_name(value);
        Ok(true)
    }

    fn generate_name(&self, value: &mut Value) {
        // No vowels, and nothing that looks like another letter: no words come out.
        const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
        let base = value["metadata"]["generateName"]
            .as_str()
            .unwrap_or_default();
        let mut name: String = base.chars().take(58).collect();
        let mut random = self.environment.random();
        for _ in 0..5 {
            let index = usize::try_from(random % 27).expect("a number below 27 fits");
            name.push(char::from(LETTERS[index]));
            random /= 27;
        }
        value["metadata"]["name"] = json!(name);
    }

    fn fill_system_fields(&self, kind: &Kind, value: &mut Value) {
        let uid = self.uid();
        let now = self.now();
        if kind.status
            && let Some(fields) = value.as_object_mut()
        {
            fields.remove("status");
        }
        let metadata = &mut value["metadata"];
        if let Some(fields) = metadata.as_object_mut() {
            for field in [
                "deletionTimestamp",
                "deletionGracePeriodSeconds",
                "selfLink",
                "resourceVersion",
                "generation",
            ] {
                fields.remove(field);
            }
        }
        metadata["uid"] = json!(uid);
        metadata["creationTimestamp"] = json!(now);
        if kind.generation != Generation::Never {
            metadata["generation"] = json!(1);
        }
    }

    /// Begins a group of writes.
    pub(crate) fn begin(&self) -> Result<Transaction<'_>, Failure> {
        let begun = self.store.begin();
        begun.map_err(|refused| Failure::unwritten(&refused))
    }

    /// Waits until a staged write is durable.
    pub(crate) async fn settle(&self, version: u64) -> Result<(), Failure> {
        let settled = self.store.settled(version).await;
        settled.map_err(|refused| Failure::unwritten(&refused))
    }
}

/// The namespace in the body must be the one in the path.
fn check_namespace(call: &Call, value: &mut Value) -> Result<(), Failure> {
    let Some(namespace) = call.target.namespace.as_deref() else {
        if call.target.kind.namespaced {
            return Err(Failure::method_not_allowed());
        }
        if let Some(metadata) = value["metadata"].as_object_mut() {
            metadata.remove("namespace");
        }
        return Ok(());
    };
    match value["metadata"]["namespace"]
        .as_str()
        .filter(|text| !text.is_empty())
    {
        Some(given) if given != namespace => Err(Failure::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        )),
        Some(_) => Ok(()),
        None => {
            value["metadata"]["namespace"] = json!(namespace);
            Ok(())
        }
    }
}

/// Nothing can be created of a kind whose definition is gone or ends.
fn check_definition_lives(transaction: &Transaction<'_>, id: &ObjectId) -> Result<(), Failure> {
    let definition = ObjectId {
        resource: CRD_RESOURCE.into(),
        namespace: "".into(),
        name: id.resource.clone(),
    };
    match transaction.get(&definition) {
        None => Err(Failure::no_resource()),
        Some(definition) if definition.deleting => Err(Failure::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "MethodNotAllowed",
            "create not allowed while custom resource definition is terminating",
        )),
        Some(_) => Ok(()),
    }
}

/// Nothing can be created in a namespace that is missing or ends.
fn check_namespace_lives(
    transaction: &Transaction<'_>,
    call: &Call,
    id: &ObjectId,
) -> Result<(), Failure> {
    let namespaces = super::failure::Subject {
        group: "",
        plural: "namespaces",
        kind: "Namespace",
    };
    let of = ObjectId {
        resource: "namespaces".into(),
        namespace: "".into(),
        name: id.namespace.clone(),
    };
    let Some(namespace) = transaction.get(&of) else {
        return Err(Failure::not_found(namespaces, &id.namespace));
    };
    if namespace.deleting {
        let why = format!(
            "unable to create new content in namespace {} because it is being terminated",
            id.namespace
        );
        let cause = format!("namespace {} is being terminated", id.namespace);
        return Err(
            Failure::forbidden(call.target.kind.subject(), &id.name, &why).with_cause(
                "NamespaceTerminating",
                &cause,
                "metadata.namespace",
            ),
        );
    }
    Ok(())
}
