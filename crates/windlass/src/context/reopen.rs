//! Which calls run again after a failed attempt: those whose errors made it fail. All others keep their saved results.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use super::branch::is_within;
use super::history::{Places, Record};
use super::step_order::{OpenRecord, Order, State};
use crate::handler::{Snooze, find_error};
use crate::job::{Failure, Token};

/// An error that a call returned to the handler.
pub(super) struct ReturnedError {
    pub(super) key: String,
    pub(super) places: Places,
    pub(super) message: String,
    pub(super) token: Weak<Token>,
    /// Whether the handler formatted the error as text.
    pub(super) was_shown: Arc<AtomicBool>,
    pub(super) snooze: Option<Snooze>,
    /// Whether the handler still held the error when it made its next call.
    pub(super) was_kept: Option<bool>,
    /// Whether the handler asked for a retry with `retry_later`.
    pub(super) is_to_be_retried: bool,
    pub(super) ended: u64,
}

impl Order {
    /// Runs the call that returned this error again if the attempt fails.
    pub(super) fn retry_later(&self, error: &anyhow::Error) {
        let mut state = self.lock();
        let causes = state.causes(0, error, "");
        for index in causes {
            state.errors[index].is_to_be_retried = true;
        }
    }

    /// The saved calls whose errors make up `error`, which fails the attempt: keys, and records that reopen them.
    pub(super) fn reopened_by(&self, error: &anyhow::Error, message: &str) -> Vec<(String, Vec<u8>)> {
        let state = self.lock();
        let is_asked_for = |index: &usize| state.errors[*index].is_to_be_retried;
        let asked_for = (0..state.errors.len()).filter(is_asked_for);
        let causes = state.causes(0, error, message).into_iter().chain(asked_for);
        let returned = causes.map(|index| &state.errors[index]);
        let mut opened: Vec<(String, Record<'_>)> =
            returned.map(|one| (one.key.clone(), one.places.opened())).collect();
        // Calls that were dropped because of one of these.
        let dropped = state.known.left_out.iter().chain(&state.dropped);
        let by_one_of_them = |by: &String| opened.iter().any(|(key, _)| key == by);
        let dropped = dropped.filter(|(_, dropped)| dropped.by.as_ref().is_some_and(by_one_of_them));
        let dropped: Vec<_> = dropped.map(|(key, one)| (key.clone(), one.places.opened())).collect();
        opened.extend(dropped);
        let within = state.undecided.iter().filter(|(_, undecided)| undecided.record.open);
        opened.extend(within.map(|(key, _)| (key.clone(), Places::default().opened())));
        let is_saved = |key: &String| {
            state.settled.contains(key)
                || state.known.places.contains_key(key)
                || state.known.left_out.contains_key(key)
        };
        let saved = opened.into_iter().filter(|(key, _)| is_saved(key));
        saved.filter_map(|(key, record)| Some((key, serde_json::to_vec(&record).ok()?))).collect()
    }

    /// The calls whose saved errors this attempt got, if it did nothing else: the next attempt would be the same.
    pub(super) fn stuck_on(&self) -> Vec<String> {
        let state = self.lock();
        if state.has_progress {
            Vec::new()
        } else {
            state.errors.iter().map(|error| error.key.clone()).collect()
        }
    }
}

impl State {
    /// The errors returned since `since` that make up this error: its sources; if it has none of them, the last errors
    /// whose texts it contains and that the handler still held or had formatted.
    fn causes(&self, since: u64, error: &anyhow::Error, message: &str) -> Vec<usize> {
        let recent = self.errors.iter().enumerate().rev().take_while(|(_, one)| one.ended > since);
        if let Some(snooze) = find_error::<Snooze>(error) {
            let last = recent.clone().find(|(_, one)| one.snooze.as_ref() == Some(snooze));
            return last.map(|(index, _)| index).into_iter().collect();
        }
        let origins = error.chain().filter_map(|cause| cause.downcast_ref::<Failure>());
        let own = error.downcast_ref::<Failure>();
        let tokens: Vec<&Arc<Token>> =
            origins.chain(own).filter_map(|failure| failure.origin.token()).collect();
        let is_same = |one: &ReturnedError| {
            tokens.iter().any(|token| std::ptr::eq(Arc::as_ptr(token), one.token.as_ptr()))
        };
        if !tokens.is_empty() {
            return recent.filter(|(_, one)| is_same(one)).map(|(index, _)| index).collect();
        }
        // Of several errors with the same text, the last one counts: the handler has continued after the others.
        let mut texts = BTreeSet::new();
        let is_named = |one: &ReturnedError| {
            let is_text = one.was_kept == Some(true) || one.was_shown.load(Ordering::Relaxed);
            is_text && names(message, &one.message)
        };
        let named = recent.filter(|(_, one)| is_named(one));
        named.filter(|(_, one)| texts.insert(&one.message)).map(|(index, _)| index).collect()
    }

    /// A step, called at `made`, failed with this error. If the step runs again, the calls inside it with these errors
    /// run again too.
    pub(super) fn reopen_within(&mut self, key: &str, made: u64, error: &anyhow::Error, message: &str) {
        for index in self.causes(made, error, message) {
            let (inner, ended) = (self.errors[index].key.clone(), self.errors[index].ended);
            if !is_within(&inner, key) {
                continue;
            }
            let dropped = self.known.left_out.iter().chain(&self.dropped);
            let dropped = dropped.filter(|(_, dropped)| dropped.by.as_ref() == Some(&inner));
            let keys: Vec<String> = dropped.map(|(key, _)| key.clone()).chain([inner.clone()]).collect();
            for key in keys {
                self.undecided.insert(key, OpenRecord { record: Places::default().opened(), ended });
            }
        }
    }
}

/// Whether `message` contains `part` as whole words.
fn names(message: &str, part: &str) -> bool {
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    !part.is_empty()
        && message.match_indices(part).any(|(at, _)| {
            !is_word(message[..at].chars().next_back()) && !is_word(message[at + part.len()..].chars().next())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_found_only_as_a_whole() {
        assert!(names("charging: no funds", "no funds"));
        assert!(names("no", "no") && names("(no)", "no"));
        assert!(!names("none", "no") && !names("no", "") && !names("piano", "no"));
    }
}
