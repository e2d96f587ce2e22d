//! Pages of lists that are sorted by name: queues, types, tenants, workers, schedules, keys.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::http::reply::error::ApiError;
use crate::limits;

/// Selects a page of a list.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(crate) struct PageQuery {
    /// Maximum number of items, 1 to 1000; 1000 if not given.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<usize>,
    /// `next_cursor` of the previous page.
    cursor: Option<String>,
}

/// The items and the cursor of the next page; None on the last page.
pub(crate) type Page<T> = (Vec<T>, Option<String>);

impl PageQuery {
    /// A page of a list that has more parameters.
    pub(crate) fn new(limit: Option<usize>, cursor: Option<String>) -> PageQuery {
        PageQuery { limit, cursor }
    }

    /// The maximum number of items.
    pub(crate) fn limit(&self) -> Result<usize, ApiError> {
        let max = limits::NAMES_PER_PAGE_MAX;
        match self.limit {
            None => Ok(max),
            Some(limit) if (1..=max).contains(&limit) => Ok(limit),
            Some(limit) => Err(ApiError::invalid("limit", format!("is {limit}, allowed is 1 to {max}"))),
        }
    }

    /// The last name of the previous page.
    pub(crate) fn after(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    /// The page of `all`, which is sorted by `name`.
    pub(crate) fn take<T>(
        &self,
        all: impl IntoIterator<Item = T>,
        name: impl Fn(&T) -> String,
    ) -> Result<Page<T>, ApiError> {
        let limit = self.limit()?;
        let is_later = |one: &T| self.after().is_none_or(|after| name(one).as_str() > after);
        let mut page: Vec<T> = all.into_iter().filter(is_later).take(limit + 1).collect();
        let has_more = page.len() > limit;
        page.truncate(limit);
        let next = page.last().filter(|_| has_more).map(name);
        Ok((page, next))
    }

    /// Like `of`, but the page ends early once the `size` of its items exceeds `bytes_max`; it has at least one item.
    pub(crate) fn within<T>(
        &self,
        all: impl IntoIterator<Item = T>,
        name: impl Fn(&T) -> String,
        size: impl Fn(&T) -> usize,
        bytes_max: usize,
    ) -> Result<Page<T>, ApiError> {
        let (mut page, next) = self.take(all, &name)?;
        let mut bytes = 0;
        let fits = page.iter().take_while(|one| {
            bytes += size(one);
            bytes <= bytes_max
        });
        let fits = fits.count().max(1);
        if fits >= page.len() {
            return Ok((page, next));
        }
        page.truncate(fits);
        let next = page.last().map(name);
        Ok((page, next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(limit: Option<usize>, cursor: Option<&str>) -> Page<&'static str> {
        let query = PageQuery { limit, cursor: cursor.map(str::to_owned) };
        query.take(["a", "b", "c"], |name| (*name).to_owned()).unwrap()
    }

    #[test]
    fn a_page_of_large_things_ends_early() {
        let page = |cursor: Option<&str>, most| {
            let query = PageQuery { limit: None, cursor: cursor.map(str::to_owned) };
            query.within(["a", "bb", "c"], |name| (*name).to_owned(), |name| name.len(), most).unwrap()
        };
        assert_eq!(page(None, 4), (vec!["a", "bb", "c"], None));
        assert_eq!(page(None, 3), (vec!["a", "bb"], Some("bb".to_owned())));
        assert_eq!(page(None, 0), (vec!["a"], Some("a".to_owned())), "at least one");
        assert_eq!(page(Some("bb"), 0), (vec!["c"], None));
    }

    #[test]
    fn pages_follow_each_other_without_gap_or_repeat() {
        assert_eq!(page(None, None), (vec!["a", "b", "c"], None));
        assert_eq!(page(Some(2), None), (vec!["a", "b"], Some("b".to_owned())));
        assert_eq!(page(Some(2), Some("b")), (vec!["c"], None));
        assert_eq!(page(Some(3), None).1, None, "nothing is left");
        assert_eq!(page(Some(1), Some("bb")), (vec!["c"], None), "also after a name that no longer exists");
    }
}
