//! Which branch of a race is being polled on this thread.

use std::cell::RefCell;

thread_local! {
    static CURRENT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// The branch that is being polled; empty outside of races.
pub(super) fn current() -> String {
    CURRENT.with_borrow(Clone::clone)
}

/// Does something within a branch.
pub(super) fn within<T>(branch: &str, poll: impl FnOnce() -> T) -> T {
    /// Goes back to the branch before, also if polling panics.
    struct Back(String);

    impl Drop for Back {
        fn drop(&mut self) {
            CURRENT.set(std::mem::take(&mut self.0));
        }
    }

    let _back = Back(CURRENT.replace(branch.to_owned()));
    poll()
}
