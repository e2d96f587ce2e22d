//! Where in a handler a call is made: within the work of which step, and on which sides of which races. Calls are counted
//! by themselves in each of these places, since a replay may not come there: a step that is saved does not work again, and
//! a race may end before one of its sides makes its next call.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;

/// Ends the key of a step in the keys of the calls that its work makes.
const WITHIN: &str = "#/";

thread_local! {
    static CURRENT: RefCell<Branch> = const { RefCell::new(Branch { path: String::new(), sides: String::new() }) };
}

/// The place of calls that are counted together.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Branch {
    /// The key of the step whose work makes the calls, and [`WITHIN`]; empty outside of steps.
    path: String,
    /// The sides of races within that, outermost first.
    sides: String,
}

impl Branch {
    /// What is being polled on this thread.
    pub(super) fn current() -> Branch {
        CURRENT.with_borrow(Clone::clone)
    }

    /// The work of the step with this key.
    pub(super) fn within(key: &str) -> Branch {
        Branch { path: format!("{key}{WITHIN}"), sides: String::new() }
    }

    /// The two sides of the n-th race here.
    pub(super) fn sides(&self, race: u32) -> [Branch; 2] {
        ['l', 'r']
            .map(|side| Branch { path: self.path.clone(), sides: format!("{}#{side}{race}", self.sides) })
    }

    /// Whether a step's work is here.
    pub(super) fn is_nested(&self) -> bool {
        !self.path.is_empty()
    }

    /// Whether another side may come first.
    pub(super) fn is_side(&self) -> bool {
        !self.sides.is_empty()
    }

    /// Whether this is in the work of the step with this key, or in that of a step within it.
    pub(super) fn is_within(&self, key: &str) -> bool {
        is_within(&self.path, key)
    }

    /// The key of the n-th call of a name here, from 1. A `#` in the name is doubled, so no two calls share a key.
    pub(super) fn key_of(&self, name: &str, occurrence: u32) -> String {
        let (path, name, sides) = (&self.path, name.replace('#', "##"), &self.sides);
        if occurrence == 1 {
            format!("{path}{name}{sides}")
        } else {
            format!("{path}{name}{sides}#{occurrence}")
        }
    }

    /// Does something here.
    pub(super) fn poll<T>(&self, poll: impl FnOnce() -> T) -> T {
        /// Goes back to the place before, also if polling panics.
        struct Back(Branch);

        impl Drop for Back {
            fn drop(&mut self) {
                CURRENT.set(std::mem::take(&mut self.0));
            }
        }

        let _back = Back(CURRENT.replace(self.clone()));
        poll()
    }

    /// Runs all of a future here.
    pub(super) async fn run<F: Future>(self, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|context| self.poll(|| future.as_mut().poll(context))).await
    }
}

/// Whether the call with the key `inner` is made by the work of the step with the key `outer`.
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
