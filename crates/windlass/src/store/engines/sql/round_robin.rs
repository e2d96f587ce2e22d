//! A queue with one line per source: the next task is taken from each line in turn, so that a source with a thousand
//! tasks does not delay the others. Each line is bounded.

use std::collections::{HashMap, VecDeque};

use crate::error::StoreError;
use crate::job::Tenant;
use crate::limits;
use crate::store::read_source::ReadSource;

/// Waiting tasks by source.
pub(super) struct RoundRobin<T> {
    lines: HashMap<String, VecDeque<(ReadSource, T)>>,
    /// Sources with waiting tasks, the next one first.
    order: VecDeque<String>,
    /// Number of waiting tasks per tenant.
    tenants: HashMap<Tenant, usize>,
    len: usize,
}

impl<T> Default for RoundRobin<T> {
    fn default() -> RoundRobin<T> {
        RoundRobin { lines: HashMap::new(), order: VecDeque::new(), tenants: HashMap::new(), len: 0 }
    }
}

impl<T> RoundRobin<T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Why no more tasks of this source are accepted, if so.
    pub(super) fn refusal(&self, source: &ReadSource) -> Option<StoreError> {
        let retry_after = limits::OVERLOADED_RETRY_AFTER;
        let own = self.lines.get(source.holder()).map_or(0, VecDeque::len);
        if own >= limits::READS_WAITING_PER_KEY_MAX {
            return Some(StoreError::TooManyReads { of: "key", waiting: own, retry_after });
        }
        let all = source.tenant().and_then(|tenant| self.tenants.get(tenant)).copied().unwrap_or_default();
        (all >= limits::READS_WAITING_PER_TENANT_MAX).then_some(StoreError::TooManyReads {
            of: "tenant",
            waiting: all,
            retry_after,
        })
    }

    pub(super) fn push(&mut self, source: ReadSource, item: T) {
        if let Some(tenant) = source.tenant() {
            *self.tenants.entry(tenant.clone()).or_default() += 1;
        }
        self.len += 1;
        if let Some(line) = self.lines.get_mut(source.holder()) {
            line.push_back((source, item));
            return;
        }
        self.order.push_back(source.holder().to_owned());
        self.lines.insert(source.holder().to_owned(), VecDeque::from([(source, item)]));
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        let holder = self.order.pop_front()?;
        let line = self.lines.get_mut(&holder)?;
        let (source, item) = line.pop_front()?;
        if line.is_empty() {
            self.lines.remove(&holder);
        } else {
            self.order.push_back(holder);
        }
        self.len -= 1;
        if let Some(tenant) = source.tenant()
            && let Some(count) = self.tenants.get_mut(tenant)
        {
            *count -= 1;
            if *count == 0 {
                self.tenants.remove(tenant);
            }
        }
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::caller::{Caller, Role};

    fn source(name: &str, tenant: &str) -> ReadSource {
        ReadSource::from_caller(&Caller::new(name, Role::Viewer, Some(Tenant::new(tenant).unwrap())))
    }

    #[test]
    fn a_caller_that_asks_much_does_not_make_others_wait() {
        let mut turns = RoundRobin::default();
        for number in 0..100 {
            turns.push(source("ada", "a"), number);
        }
        turns.push(source("bob", "b"), 1_000);
        turns.push(source("bob", "b"), 1_001);
        let first: Vec<i32> = std::iter::from_fn(|| turns.pop()).take(6).collect();
        assert_eq!(first, [0, 1_000, 1, 1_001, 2, 3]);
        assert_eq!(std::iter::from_fn(|| turns.pop()).count(), 96);
        assert!(
            turns.len == 0 && turns.lines.is_empty() && turns.order.is_empty() && turns.tenants.is_empty()
        );
    }

    #[test]
    fn a_key_and_a_tenant_have_so_many_reads_waiting() {
        let mut turns = RoundRobin::default();
        let (key, tenant) = (limits::READS_WAITING_PER_KEY_MAX, limits::READS_WAITING_PER_TENANT_MAX);
        for number in 0..tenant {
            let one = source(&format!("ada-{}", number / key), "a");
            assert_eq!(turns.refusal(&one), None);
            turns.push(one, ());
        }
        let is_of = |refusal: Option<StoreError>, what: &str| matches!(refusal, Some(StoreError::TooManyReads { of, .. }) if of == what);
        assert!(is_of(turns.refusal(&source("ada-0", "a")), "key"));
        assert!(is_of(turns.refusal(&source("eve", "a")), "tenant"));
        assert_eq!(turns.refusal(&source("bob", "b")), None);
        turns.pop();
        assert_eq!(turns.refusal(&source("ada-0", "a")), None);
    }
}
