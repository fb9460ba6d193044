//! Lists: a page starts at its key, and shows the past by undoing what happened since.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Collection, Expired, ObjectId, Store, Stored};

/// Which objects a page shows.
pub(crate) struct Wanted<'a> {
    pub(crate) resource: &'a str,
    /// Of one namespace only.
    pub(crate) namespace: Option<&'a str>,
    /// Those behind this namespace and name.
    pub(crate) after: Option<(&'a str, &'a str)>,
    /// As they were at this version; as they are now if it is `None`.
    pub(crate) at: Option<u64>,
    /// How many at most.
    pub(crate) len_max: usize,
    /// Whether those that follow are counted, which looks at all of them.
    pub(crate) is_counted: bool,
}

/// A part of a list, in order of namespace and name.
pub(crate) struct Page {
    pub(crate) objects: Vec<Arc<Stored>>,
    /// The version of the list.
    pub(crate) version: u64,
    /// Whether more follow.
    pub(crate) has_more: bool,
    /// How many follow, where they were counted.
    pub(crate) left: usize,
}

impl Store {
    /// All objects of a resource, of one namespace or of all, in order of namespace and name, and
    /// the resourceVersion of this snapshot.
    pub(crate) fn list(&self, resource: &str, namespace: Option<&str>) -> (Vec<Arc<Stored>>, u64) {
        let wanted = Wanted {
            resource,
            namespace,
            after: None,
            at: None,
            len_max: usize::MAX,
            is_counted: false,
        };
        self.page(&wanted, |_| true)
            .map_or_else(|_| (Vec::new(), 0), |page| (page.objects, page.version))
    }

    /// A page of the objects that match.
    ///
    /// # Errors
    /// What happened since `wanted.at` is no longer known.
    pub(crate) fn page(
        &self,
        wanted: &Wanted<'_>,
        matches: impl Fn(&Stored) -> bool,
    ) -> Result<Page, Expired> {
        let mut state = self.shared.lock();
        let visible = state.visible;
        let collection = state.collection(wanted.resource);
        let past = match wanted.at {
            Some(version) => changed_since(collection, version)?,
            None => BTreeMap::new(),
        };
        let mut rest = merged(collection, &past, wanted).inspect(|_| {
            self.shared.visited.fetch_add(1, Ordering::Relaxed);
        });
        let mut page = Page {
            objects: Vec::new(),
            version: wanted.at.unwrap_or(visible),
            has_more: false,
            left: 0,
        };
        for stored in rest.by_ref().filter(|stored| matches(stored)) {
            if page.objects.len() == wanted.len_max {
                page.has_more = true;
                break;
            }
            page.objects.push(Arc::clone(stored));
        }
        if page.has_more && wanted.is_counted {
            page.left = 1 + rest.filter(|stored| matches(stored)).count();
        }
        Ok(page)
    }

    /// Objects that lists have looked at so far.
    #[cfg(test)]
    pub(crate) fn visited(&self) -> u64 {
        self.shared.visited.load(Ordering::Relaxed)
    }
}

/// The objects that changed after `version`, as they were then.
fn changed_since(collection: &Collection, version: u64) -> Result<Past, Expired> {
    let events = collection.history.after(version)?.rev();
    Ok(events
        .map(|event| (Arc::clone(&event.after.id), event.before.clone()))
        .collect())
}

/// Objects as they were once; `None` where there was none.
type Past = BTreeMap<Arc<ObjectId>, Option<Arc<Stored>>>;

/// Two sorted maps as one: what is there now, except where `past` knows better.
struct Merged<'a, N: Iterator, P: Iterator> {
    now: std::iter::Peekable<N>,
    past: std::iter::Peekable<P>,
    changed: &'a Past,
}

type Entry<'a> = (&'a Arc<ObjectId>, &'a Arc<Stored>);

fn merged<'a>(
    collection: &'a Collection,
    changed: &'a Past,
    wanted: &Wanted<'_>,
) -> Merged<'a, impl Iterator<Item = Entry<'a>>, impl Iterator<Item = Entry<'a>>> {
    let namespace: Option<Arc<str>> = wanted.namespace.map(Into::into);
    let at = |namespace: &str, name: &str| ObjectId {
        resource: wanted.resource.into(),
        namespace: namespace.into(),
        name: name.into(),
    };
    let first = at(wanted.namespace.unwrap_or_default(), "");
    let from = match wanted.after.map(|(namespace, name)| at(namespace, name)) {
        Some(last) if last > first => Bound::Excluded(last),
        Some(_) | None => Bound::Included(first),
    };
    let is_inside = move |id: &ObjectId| {
        let asked = namespace.as_ref();
        asked.is_none_or(|asked| *asked == id.namespace)
    };
    let is_inside_too = is_inside.clone();
    let range = (from, Bound::Unbounded);
    Merged {
        now: collection
            .objects
            .range::<ObjectId, _>(range.clone())
            .take_while(move |(id, _)| is_inside(id))
            .peekable(),
        past: changed
            .range::<ObjectId, _>(range)
            .take_while(move |(id, _)| is_inside_too(id))
            .filter_map(|(id, stored)| Some((id, stored.as_ref()?)))
            .peekable(),
        changed,
    }
}

impl<'a, N, P> Iterator for Merged<'a, N, P>
where
    N: Iterator<Item = Entry<'a>>,
    P: Iterator<Item = Entry<'a>>,
{
    type Item = &'a Arc<Stored>;

    fn next(&mut self) -> Option<Self::Item> {
        while self
            .now
            .next_if(|(id, _)| self.changed.contains_key(*id))
            .is_some()
        {}
        let is_past = match (self.now.peek(), self.past.peek()) {
            (Some((now, _)), Some((past, _))) => past < now,
            (None, past) => past.is_some(),
            (Some(_), None) => false,
        };
        let next = if is_past {
            self.past.next()
        } else {
            self.now.next()
        };
        next.map(|(_, stored)| stored)
    }
}
