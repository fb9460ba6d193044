//! Maps that stand for long, in little room.

/// Fills the nodes of a map or set: one that was filled in order, as lists are read, has them half
/// empty. It costs a comparison or two of every entry, so it is done before work begins and not during it.
pub fn compact<T>(all: &mut T)
where
    T: Default + IntoIterator + FromIterator<T::Item>,
{
    *all = std::mem::take(all).into_iter().collect();
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn what_is_packed_is_as_it_was() {
        let all: BTreeMap<u32, u32> = (0..1000).map(|one| (one * 7919 % 1009, one)).collect();
        let mut packed = all.clone();
        compact(&mut packed);
        assert_eq!(packed, all);
    }
}
