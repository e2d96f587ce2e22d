//! The rules of the source tree by themselves, for `./check quick`: after an edit the library's test binary takes minutes to
//! build, and these seconds. The whole check runs them there.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

#[path = "../../windlass/tests/it"]
mod it {
    mod tidy;
}
