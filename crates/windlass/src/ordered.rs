//! Collecting into ordered maps and sets by inserting. The standard library's way sorts first: a sort and a merge are compiled
//! for each type, some 10 KB, and what is collected here is short.

use std::collections::{BTreeMap, BTreeSet};

/// A map or a set in order of its keys.
pub(crate) trait Ordered {}

impl<K, V> Ordered for BTreeMap<K, V> {}
impl<T> Ordered for BTreeSet<T> {}

/// Collects into an ordered map or set.
pub(crate) trait CollectOrdered: Iterator + Sized {
    /// Inserts all items; of several with one key the last remains.
    fn collect_ordered<C: Ordered + Default + Extend<Self::Item>>(self) -> C {
        let mut all = C::default();
        all.extend(self);
        all
    }
}

impl<I: Iterator> CollectOrdered for I {}
