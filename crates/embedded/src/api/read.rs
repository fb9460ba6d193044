//! Reading objects: get and list.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use serde::{Deserialize, Serialize};

use super::Core;
use super::failure::{Failure, Fault, Subject};
use super::object::Stored;
use super::present::{self, ListMeta};
use super::request::Query;
use super::selector::Selector;
use super::service::{Call, Reply};

/// Where a paged list goes on: the snapshot it began with and the last object given.
#[derive(Debug, Serialize, Deserialize)]
struct Resume {
    v: String,
    rv: u64,
    start: (String, String),
}

/// Which moment a list shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    Now,
    Exactly(u64),
}

impl Core {
    pub(crate) fn get(&self, call: &Call) -> Result<Reply, Failure> {
        let name = call.target.name.as_deref().unwrap_or_default();
        if let Some(asked) = version(&call.query)? {
            self.check_reached(asked)?;
        }
        let stored = self
            .store
            .visible(&call.target.id_of(name))
            .ok_or_else(|| Failure::not_found(call.target.kind.subject(), name))?;
        Ok(present::object(call, StatusCode::OK, &stored))
    }

    pub(crate) fn list(&self, call: &Call) -> Result<Reply, Failure> {
        let query = &call.query;
        let kind = &call.target.kind;
        let selector =
            Selector::parse(kind, query.get("labelSelector"), query.get("fieldSelector"))?;
        // A limit below one is no limit.
        let limit = usize::try_from(query.number("limit")?.unwrap_or(0)).unwrap_or(0);
        let resume = query.get("continue").map(Resume::decode).transpose()?;
        let moment = match &resume {
            Some(resume) => resume.moment(query)?,
            None => self.moment(query, limit)?,
        };
        let (all, version) = self.snapshot(call, moment, resume.as_ref())?;
        let after = |stored: &Arc<Stored>| {
            resume.as_ref().is_none_or(|resume| {
                (&*stored.id.namespace, &*stored.id.name) > (&*resume.start.0, &*resume.start.1)
            })
        };
        let mut selected: Vec<Arc<Stored>> = all
            .into_iter()
            .filter(after)
            .filter(|stored| selector.matches(stored))
            .collect();
        let mut meta = ListMeta {
            version,
            resume: None,
            remaining: None,
        };
        if limit > 0 && selected.len() > limit {
            if selector.is_empty() {
                meta.remaining = Some(selected.len() - limit);
            }
            selected.truncate(limit);
            meta.resume = selected
                .last()
                .map(|last| Resume::after(last, version).encode());
        }
        Ok(present::list(call, &meta, &selected))
    }

    fn snapshot(
        &self,
        call: &Call,
        moment: Moment,
        resumed: Option<&Resume>,
    ) -> Result<(Vec<Arc<Stored>>, u64), Failure> {
        let resource = &call.target.kind.resource;
        let namespace = call.target.namespace.as_deref();
        match moment {
            Moment::Now => Ok(self.store.list(resource, namespace)),
            Moment::Exactly(version) => {
                self.check_reached(version)?;
                self.store
                    .list_at(resource, namespace, version)
                    .map_or_else(
                        |expired| {
                            Err(match resumed {
                                Some(resume) => resume.expired(),
                                None => too_old(version, expired.oldest),
                            })
                        },
                        |listed| Ok((listed, version)),
                    )
            }
        }
    }

    /// The moment that `resourceVersion` and `resourceVersionMatch` mean together.
    fn moment(&self, query: &Query, limit: usize) -> Result<Moment, Failure> {
        let asked = version(query)?;
        let matching = query.get("resourceVersionMatch");
        match (asked, matching) {
            (None, None) => Ok(Moment::Now),
            (None, Some(_)) => Err(list_options(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            )),
            (Some(0), Some("Exact")) => Err(list_options(
                "resourceVersionMatch",
                "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            )),
            (Some(asked), Some("Exact")) => Ok(Moment::Exactly(asked)),
            (Some(asked), None) if limit > 0 && asked > 0 => Ok(Moment::Exactly(asked)),
            (Some(asked), None | Some("NotOlderThan")) => {
                self.check_reached(asked)?;
                Ok(Moment::Now)
            }
            (Some(_), Some(other)) => {
                let message = format!(
                    "Unsupported value: {other:?}: supported values: \"Exact\", \"NotOlderThan\", \"\""
                );
                let field = "resourceVersionMatch".to_owned();
                let fault = Fault {
                    reason: "FieldValueNotSupported",
                    message,
                    field,
                };
                Err(Failure::invalid(LIST_OPTIONS, "", &[fault]))
            }
        }
    }

    /// Refuses a version that this store has not reached.
    pub(crate) fn check_reached(&self, version: u64) -> Result<(), Failure> {
        let current = self.store.version();
        if version > current {
            return Err(Failure::too_large_version(version, current));
        }
        Ok(())
    }
}

impl Resume {
    fn after(last: &Stored, rv: u64) -> Self {
        let start = (last.id.namespace.to_string(), last.id.name.to_string());
        Self {
            v: "bindery/v1".to_owned(),
            rv,
            start,
        }
    }

    /// The moment this goes on with: that of the first page, or now if the client chose so.
    fn moment(&self, query: &Query) -> Result<Moment, Failure> {
        if query
            .get("resourceVersion")
            .is_some_and(|version| version != "0")
        {
            return Err(Failure::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        Ok(if self.rv == 0 {
            Moment::Now
        } else {
            Moment::Exactly(self.rv)
        })
    }

    /// The first page's moment is forgotten; the client may go on in the present.
    fn expired(&self) -> Failure {
        let present = Self {
            v: self.v.clone(),
            rv: 0,
            start: self.start.clone(),
        };
        Failure::expired(
            "The provided continue parameter is too old to display a consistent list result. You \
             can start a new list without the continue parameter, or use the continue token in this \
             response to retrieve the remainder of the results. Continuing with the provided token \
             results in an inconsistent list - objects that were created, modified, or deleted \
             between the time the first chunk was returned and now may show up in the list.",
        )
        .with_continue(present.encode())
    }

    fn encode(&self) -> String {
        let json = serde_json::to_string(self).expect("a struct of strings and numbers is JSON");
        URL_SAFE_NO_PAD.encode(json)
    }

    fn decode(text: &str) -> Result<Self, Failure> {
        let refused = || Failure::bad_request("continue key is not valid");
        let json = URL_SAFE_NO_PAD.decode(text).map_err(|_| refused())?;
        serde_json::from_slice(&json).map_err(|_| refused())
    }
}

const LIST_OPTIONS: Subject<'static> = Subject {
    group: "meta.k8s.io",
    plural: "",
    kind: "ListOptions",
};

fn list_options(field: &str, why: &str) -> Failure {
    Failure::invalid(LIST_OPTIONS, "", &[Fault::forbidden(field, why)])
}

/// The `resourceVersion` of a query.
pub(crate) fn version(query: &Query) -> Result<Option<u64>, Failure> {
    let Some(text) = query.get("resourceVersion") else {
        return Ok(None);
    };
    text.parse().map(Some).map_err(|_| {
        let why = format!("strconv.ParseUint: parsing {text:?}: invalid syntax");
        let fault = Fault::invalid("resourceVersion", &text.into(), &why);
        Failure::invalid(LIST_OPTIONS, "", &[fault])
    })
}

/// The version lies before what is kept.
pub(crate) fn too_old(asked: u64, oldest: u64) -> Failure {
    Failure::expired(format!("too old resource version: {asked} ({oldest})"))
}
