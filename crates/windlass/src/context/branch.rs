//! Where in a handler a call is made: inside which step, and on which sides of which races. Calls are counted
//! separately for each branch, because a replay may not reach a branch: a saved step does not run again, and a race may
//! end before one of its sides makes its next call.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;

/// Separates the key of a step from the keys of calls made inside it.
const WITHIN: &str = "#/";

thread_local! {
    static CURRENT: RefCell<Branch> = const { RefCell::new(Branch { path: String::new(), sides: String::new() }) };
}

/// A branch whose calls are counted together.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Branch {
    /// The key of the enclosing step, followed by [`WITHIN`]; empty outside of steps.
    path: String,
    /// The sides of races inside that step, outermost first.
    sides: String,
}

impl Branch {
    /// The branch that is being polled on this thread.
    pub(super) fn current() -> Branch {
        CURRENT.with_borrow(Clone::clone)
    }

    /// The branch inside the step with this key.
    pub(super) fn within(key: &str) -> Branch {
        Branch { path: format!("{key}{WITHIN}"), sides: String::new() }
    }

    /// The two sides of the n-th race in this branch.
    pub(super) fn sides(&self, race: u32) -> [Branch; 2] {
        ['l', 'r']
            .map(|side| Branch { path: self.path.clone(), sides: format!("{}#{side}{race}", self.sides) })
    }

    /// The key of the enclosing step; empty outside of steps.
    pub(super) fn step_key(&self) -> &str {
        self.path.strip_suffix(WITHIN).unwrap_or_default()
    }

    /// Whether this branch is inside a step.
    pub(super) fn is_nested(&self) -> bool {
        !self.path.is_empty()
    }

    /// Whether this branch is a side of a race.
    pub(super) fn is_side(&self) -> bool {
        !self.sides.is_empty()
    }

    /// Whether this branch is inside the step with this key, directly or nested.
    pub(super) fn is_within(&self, key: &str) -> bool {
        is_within(&self.path, key)
    }

    /// The key of the n-th call of a name in this branch, from 1. A `#` in the name is doubled, so no two calls share a
    /// key.
    pub(super) fn key_of(&self, name: &str, occurrence: u32) -> String {
        let (path, name, sides) = (&self.path, name.replace('#', "##"), &self.sides);
        if occurrence == 1 {
            format!("{path}{name}{sides}")
        } else {
            format!("{path}{name}{sides}#{occurrence}")
        }
    }

    /// Polls in this branch.
    pub(super) fn poll<T>(&self, poll: impl FnOnce() -> T) -> T {
        /// Restores the previous branch, even if polling panics.
        struct Back(Branch);

        impl Drop for Back {
            fn drop(&mut self) {
                CURRENT.set(std::mem::take(&mut self.0));
            }
        }

        let _back = Back(CURRENT.replace(self.clone()));
        poll()
    }

    /// Runs a whole future in this branch.
    pub(super) async fn run<F: Future>(self, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|context| self.poll(|| future.as_mut().poll(context))).await
    }
}

/// Whether the call with the key `inner` is made inside the step with the key `outer`.
pub(super) fn is_within(inner: &str, outer: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with(WITHIN))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_calls_share_a_key() {
        let names = ["a", "a#", "a##", "a#2", "a#2#2", "a##2", "#", "##", "#2", "", "a#/a", "/a", "#/"];
        let top = Branch::default();
        let [left, right] = top.sides(1);
        let mut branches = vec![top.clone(), left.clone(), right, top.sides(2)[1].clone()];
        branches.extend(left.sides(1));
        for outer in ["a", "a#2", "a#l1", "a#/a", "a##", "a##/a"] {
            let within = Branch::within(outer);
            branches.extend(within.sides(1));
            branches.push(within);
        }
        let mut keys = BTreeSet::new();
        for name in names {
            for branch in &branches {
                for occurrence in 1..=30 {
                    let key = branch.key_of(name, occurrence);
                    assert!(keys.insert(key), "{name:?} {branch:?} {occurrence}");
                }
            }
        }
        assert_eq!((top.key_of("page", 1), top.key_of("page", 2)), ("page".to_owned(), "page#2".to_owned()));
        assert_eq!(Branch::within("batch#2").key_of("item", 1), "batch#2#/item");
    }

    #[test]
    fn a_step_is_within_another_only_by_its_whole_key() {
        assert!(is_within("a#/b", "a") && is_within("a#/b#/c", "a") && is_within("a#/b#/c", "a#/b"));
        assert!(!is_within("a#2#/b", "a") && !is_within("ab#/c", "a") && !is_within("a", "a"));
        assert!(Branch::within("a#/b").is_within("a") && !Branch::default().is_within("a"));
    }

    #[tokio::test]
    async fn what_is_polled_within_a_step_goes_back_to_where_it_was() {
        let inner = Branch::within("a").run(async { Branch::current().key_of("b", 1) }).await;
        assert_eq!((inner.as_str(), Branch::current()), ("a#/b", Branch::default()));
    }
}
