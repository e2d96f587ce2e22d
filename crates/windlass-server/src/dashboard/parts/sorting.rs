//! Tables that a visitor sorts: links in the heads, the order in the address. Works without scripts.

use std::cmp::Ordering;

use crate::dashboard::requests::form::{Fields, address};

/// A column that a table can be sorted by.
pub(in crate::dashboard) struct Column {
    /// Its name in the address.
    pub(in crate::dashboard) key: &'static str,
    /// Where a click leads: the same table sorted by it, the other way round if it already is.
    pub(in crate::dashboard) link: String,
    /// `ascending` or `descending`; empty if it is not sorted by it.
    pub(in crate::dashboard) order: &'static str,
}

/// How a table is sorted.
pub(in crate::dashboard) struct Sorting {
    columns: Vec<Column>,
    by: Option<(usize, bool)>,
}

impl Sorting {
    /// The order that an address names: `sort=KEY` for the largest first, `sort=KEY.up` for the smallest. `name` is sorted by
    /// name, which is also the order without one.
    pub(in crate::dashboard) fn from_query(query: &Fields, path: &str, keys: &[&'static str]) -> Sorting {
        let wanted = query.get("sort").unwrap_or_default();
        let (key, is_up) = wanted.strip_suffix(".up").map_or((wanted, false), |key| (key, true));
        let by = keys.iter().position(|known| *known == key).map(|place| (place, is_up));
        let find = query.text("find").map(|find| ("find", find));
        let columns = keys.iter().enumerate().map(|(place, key)| {
            let own = by.filter(|(by, _)| *by == place);
            let next = if own == Some((place, false)) { format!("{key}.up") } else { (*key).to_owned() };
            let order = own.map_or("", |(_, is_up)| if is_up { "ascending" } else { "descending" });
            Column { key, link: address(path, find.clone().into_iter().chain([("sort", next)])), order }
        });
        Sorting { columns: columns.collect(), by }
    }

    /// The column of this name.
    pub(in crate::dashboard) fn column(&self, key: &str) -> &Column {
        self.columns.iter().find(|column| column.key == key).expect("the page has named its columns")
    }

    /// Whether it is sorted otherwise than by name.
    pub(in crate::dashboard) fn is_sorted(&self) -> bool {
        self.by.is_some()
    }

    /// Sorts by what `value` says of the chosen column. Equal ones stay in the order of their names.
    pub(in crate::dashboard) fn sort<T>(&self, all: &mut [T], value: impl Fn(&T, &str) -> f64) {
        let Some((place, is_up)) = self.by else { return };
        let key = self.columns[place].key;
        all.sort_by(|a, b| {
            let order = value(a, key).partial_cmp(&value(b, key)).unwrap_or(Ordering::Equal);
            if is_up { order } else { order.reverse() }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorting(query: &str) -> Sorting {
        Sorting::from_query(&Fields::parse(query.as_bytes()), "/types", &["open", "p95"])
    }

    #[test]
    fn a_head_sorts_by_its_column_and_then_the_other_way_round() {
        let none = sorting("find=mail");
        assert!(!none.is_sorted());
        assert_eq!(none.column("p95").link, "/types?find=mail&sort=p95");
        let down = sorting("sort=p95");
        assert_eq!((down.column("p95").order, down.column("open").order), ("descending", ""));
        assert_eq!(down.column("p95").link, "/types?sort=p95.up");
        assert_eq!(sorting("sort=p95.up").column("p95").order, "ascending");
        assert!(!sorting("sort=nonsense").is_sorted());
    }

    #[test]
    fn the_largest_comes_first_and_equal_ones_stay() {
        let mut all = vec![("a", 1.0), ("b", 3.0), ("c", 1.0)];
        sorting("sort=open").sort(&mut all, |one, _| one.1);
        assert_eq!(all.iter().map(|one| one.0).collect::<String>(), "bac");
        sorting("sort=open.up").sort(&mut all, |one, _| one.1);
        assert_eq!(all.iter().map(|one| one.0).collect::<String>(), "acb");
    }
}
