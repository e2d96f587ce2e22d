//! Pages of named objects, with a search by part of the name. The cursor is a name, so that no object is shown twice or
//! missed while names come and go.

use crate::dashboard::pages::limits;
use crate::dashboard::parts::sorting::Sorting;
use crate::dashboard::requests::form::{Fields, address};

/// One page of named objects.
pub(in crate::dashboard) struct NamePage<T> {
    pub(in crate::dashboard) shown: Vec<T>,
    /// The total number on all pages.
    pub(in crate::dashboard) total: usize,
    pub(in crate::dashboard) pager: Pager,
}

/// The navigation around a page.
pub(in crate::dashboard) struct Pager {
    /// The path of the search form.
    pub(in crate::dashboard) path: &'static str,
    /// The label of the search field.
    pub(in crate::dashboard) what: &'static str,
    /// The part of a name that was searched for.
    pub(in crate::dashboard) find: String,
    pub(in crate::dashboard) first: Option<String>,
    pub(in crate::dashboard) next: Option<String>,
}

impl Pager {
    /// Whether everything fits on one page without a search: the pager is not shown.
    pub(in crate::dashboard) fn is_needless(&self) -> bool {
        self.find.is_empty() && self.first.is_none() && self.next.is_none()
    }
}

/// The page that a URL selects, of objects sorted by name.
pub(in crate::dashboard) fn page<T>(
    all: Vec<T>,
    name: impl Fn(&T) -> &str,
    query: &Fields,
    (path, what): (&'static str, &'static str),
    limit: usize,
) -> NamePage<T> {
    let find = query.text("find").unwrap_or_default();
    let after = query.text("after").unwrap_or_default();
    let mut shown: Vec<T> = all.into_iter().filter(|thing| name(thing).contains(&find)).collect();
    let total = shown.len();
    shown.retain(|thing| name(thing) > after.as_str());
    let is_cut = shown.len() > limit;
    shown.truncate(limit);
    let pairs = || (!find.is_empty()).then(|| ("find", find.clone())).into_iter();
    let last = shown.last().filter(|_| is_cut).map(|thing| name(thing).to_owned());
    let next = last.map(|last| address(path, pairs().chain([("after", last)])));
    let first = (!after.is_empty()).then(|| address(path, pairs()));
    NamePage { shown, total, pager: Pager { path, what, find, first, next } }
}

/// The first objects of a list in another order than by name; there are no further pages, since a name is not a position in it.
fn sorted<T>(
    all: Vec<T>,
    name: impl Fn(&T) -> &str,
    query: &Fields,
    (path, what): (&'static str, &'static str),
    (limit, sort): (usize, impl FnOnce(&mut [T])),
) -> NamePage<T> {
    let find = query.text("find").unwrap_or_default();
    let mut shown: Vec<T> = all.into_iter().filter(|thing| name(thing).contains(&find)).collect();
    let total = shown.len();
    sort(&mut shown);
    shown.truncate(limit);
    let first = (total > limit).then(|| path.to_owned());
    NamePage { shown, total, pager: Pager { path, what, find, first, next: None } }
}

/// The page of a list that can be sorted by the columns of a table: by name, or by the value in the chosen column.
pub(in crate::dashboard) fn sortable<T>(
    all: Vec<T>,
    name: impl Fn(&T) -> &str,
    query: &Fields,
    place: (&'static str, &'static str),
    (sorting, value): (&Sorting, impl Fn(&T, &str) -> f64),
) -> NamePage<T> {
    if !sorting.is_sorted() {
        return page(all, name, query, place, limits::NAMES_PER_PAGE);
    }
    sorted(all, name, query, place, (limits::NAMES_PER_PAGE, |things: &mut [T]| sorting.sort(things, value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(query: &str) -> NamePage<&'static str> {
        let all = vec!["acme", "acorn", "beta", "gamma", "macro"];
        page(all, |name| name, &Fields::parse(query.as_bytes()), ("/tenants", "tenant"), 2)
    }

    #[test]
    fn pages_follow_each_other_by_name() {
        let one = ask("");
        assert_eq!((one.shown, one.total), (vec!["acme", "acorn"], 5));
        assert_eq!(one.pager.next.as_deref(), Some("/tenants?after=acorn"));
        let two = ask("after=acorn");
        assert_eq!(two.shown, ["beta", "gamma"]);
        assert_eq!(two.pager.first.as_deref(), Some("/tenants"));
        let last = ask("after=gamma");
        assert_eq!((last.shown, last.pager.next), (vec!["macro"], None));
    }

    #[test]
    fn a_part_of_a_name_finds_it() {
        let found = ask("find=ac");
        assert_eq!((found.shown, found.total), (vec!["acme", "acorn"], 3));
        assert_eq!(found.pager.next.as_deref(), Some("/tenants?find=ac&after=acorn"));
        assert!(ask("find=nothing").shown.is_empty());
    }
}
