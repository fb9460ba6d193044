//! Reading objects: get and list.

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
use super::store::{Page, Wanted};

/// Where a paged list goes on: the snapshot it began with and the last object given.
#[derive(Debug, Serialize, Deserialize)]
struct Resume {
    v: String,
    rv: u64,
    start: (String, String),
    /// How many objects follow, where that was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    left: Option<usize>,
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
        let namespace = call.target.namespace.as_deref();
        let counted = resume.as_ref().and_then(|resume| resume.left);
        let wanted = Wanted {
            resource: &kind.resource,
            namespace,
            after: resume.as_ref().map(|resume| {
                let (namespace, name) = &resume.start;
                (namespace.as_str(), name.as_str())
            }),
            at: self.version_at(moment)?,
            len_max: if limit == 0 { usize::MAX } else { limit },
            // Later pages know it from the first one.
            is_counted: selector.is_empty() && counted.is_none(),
        };
        let page = self.store.page(&wanted, |stored| selector.matches(stored));
        let page = page.map_err(|expired| match (&resume, moment) {
            (Some(resume), _) => resume.expired(),
            (None, Moment::Exactly(version)) => too_old(version, expired.oldest),
            (None, Moment::Now) => too_old(0, expired.oldest),
        })?;
        Ok(present::list(
            call,
            &meta(&page, &selector, counted),
            &page.objects,
        ))
    }

    /// The version a list shows, `None` for the newest.
    fn version_at(&self, moment: Moment) -> Result<Option<u64>, Failure> {
        match moment {
            Moment::Now => Ok(None),
            Moment::Exactly(version) => {
                self.check_reached(version)?;
                Ok(Some(version))
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

/// What a page says about itself; `counted` is what the page before said would follow it.
fn meta(page: &Page, selector: &Selector, counted: Option<usize>) -> ListMeta {
    let left = match counted {
        Some(counted) => counted.saturating_sub(page.objects.len()),
        None => page.left,
    };
    // One that came meanwhile may follow a page that was to be the last.
    let left = (page.has_more && selector.is_empty()).then_some(left.max(1));
    let last = page.objects.last().filter(|_| page.has_more);
    ListMeta {
        version: page.version,
        resume: last.map(|last| Resume::after(last, page.version, left).encode()),
        remaining: left,
    }
}

impl Resume {
    fn after(last: &Stored, rv: u64, left: Option<usize>) -> Self {
        let start = (last.id.namespace.to_string(), last.id.name.to_string());
        Self {
            v: "bindery/v1".to_owned(),
            rv,
            start,
            left,
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
            left: self.left,
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
