//! Records that wait for the attempt's next write, and which of them requests in progress carry.

use std::collections::BTreeMap;

use crate::store::command::attempt_writes::AttemptWrite;

/// The records, by key.
#[derive(Default)]
pub(super) struct DeferredRecords {
    waiting: BTreeMap<String, Waiting>,
    /// Keys that a flush in progress carries, with the number of such flushes.
    flushing: BTreeMap<String, u32>,
    versions: u64,
}

struct Waiting {
    value: Vec<u8>,
    /// Grows with every record that is added.
    version: u64,
    /// Requests in progress that carry this version or a newer value.
    requests: u32,
}

/// The records that a request takes along, and all that wait no more once it has succeeded, by key and version.
type SentRecords = (Vec<(String, Vec<u8>)>, Vec<(String, u64)>);

impl DeferredRecords {
    pub(super) fn add(&mut self, records: Vec<(String, Vec<u8>)>) {
        for (key, value) in records {
            self.versions += 1;
            self.waiting.insert(key, Waiting { value, version: self.versions, requests: 0 });
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether a record waits that no request carries.
    pub(super) fn is_any_left(&self) -> bool {
        self.waiting.values().any(|one| one.requests == 0)
    }

    /// Lets a request with these writes take along what waits; `None` if it must wait for the end of a flush, which
    /// carries an older value of one of its records.
    pub(super) fn take_along(&mut self, writes: &[AttemptWrite], is_flush: bool) -> Option<SentRecords> {
        let is_written = |key: &str| {
            writes.iter().any(|write| matches!(write, AttemptWrite::Checkpoint { step, .. } if step == key))
        };
        let is_older = |key: &String| {
            is_written(key) || self.waiting.get(key).is_some_and(|waiting| waiting.requests == 0)
        };
        if self.flushing.keys().any(is_older) {
            return None;
        }
        let mut taken = SentRecords::default();
        for (key, waiting) in &mut self.waiting {
            waiting.requests += 1;
            if is_flush {
                *self.flushing.entry(key.clone()).or_default() += 1;
            }
            taken.1.push((key.clone(), waiting.version));
            if !is_written(key) {
                taken.0.push((key.clone(), waiting.value.clone()));
            }
        }
        Some(taken)
    }

    pub(super) fn take_all(&mut self) -> impl Iterator<Item = (String, Vec<u8>)> + use<> {
        std::mem::take(&mut self.waiting).into_iter().map(|(key, waiting)| (key, waiting.value))
    }

    /// Removes what was written, except for newer values.
    pub(super) fn remove(&mut self, carried: &[(String, u64)]) {
        for (key, version) in carried {
            if self.waiting.get(key).is_some_and(|waiting| waiting.version == *version) {
                self.waiting.remove(key);
            }
        }
    }

    pub(super) fn request_ended(&mut self, carried: &[(String, u64)], is_flush: bool) {
        for (key, version) in carried {
            if let Some(waiting) = self.waiting.get_mut(key).filter(|waiting| waiting.version == *version) {
                waiting.requests -= 1;
            }
            if is_flush && let Some(flushes) = self.flushing.get_mut(key) {
                *flushes -= 1;
                if *flushes == 0 {
                    self.flushing.remove(key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(key: &str, value: &str) -> Vec<(String, Vec<u8>)> {
        vec![(key.to_owned(), value.as_bytes().to_vec())]
    }

    fn write(key: &str) -> Vec<AttemptWrite> {
        vec![AttemptWrite::Checkpoint { step: key.to_owned(), value: Vec::new() }]
    }

    #[test]
    fn a_record_waits_until_a_request_with_it_has_succeeded() {
        let mut records = DeferredRecords::default();
        records.add(record("sleep", "1"));
        let (taken, carried) = records.take_along(&write("step"), false).unwrap();
        assert_eq!(taken, record("sleep", "1"));
        assert!(!records.is_any_left(), "a request carries it");
        records.request_ended(&carried, false);
        assert!(records.is_any_left(), "the request failed");
        let (_, carried) = records.take_along(&[], true).unwrap();
        records.remove(&carried);
        records.request_ended(&carried, true);
        assert!(records.is_empty());
    }

    #[test]
    fn a_value_that_was_replaced_is_never_written_after_the_newer_one() {
        let mut records = DeferredRecords::default();
        records.add(record("sleep", "placed"));
        let (_, flush) = records.take_along(&[], true).unwrap();
        assert!(records.take_along(&write("sleep"), false).is_none(), "the flush may arrive later");
        let (taken, step) = records.take_along(&write("step"), false).unwrap();
        assert_eq!(taken, record("sleep", "placed"), "the flush may fail");
        records.add(record("sleep", "unplaced"));
        assert!(records.take_along(&[], true).is_none());
        records.remove(&flush);
        records.request_ended(&flush, true);
        records.request_ended(&step, false);
        let (taken, _) = records.take_along(&write("sleep"), false).unwrap();
        assert_eq!(taken, [], "a write of the same key replaces what waits");
        assert!(!records.is_any_left());
    }

    #[test]
    fn a_write_of_the_same_key_ends_the_wait_of_the_older_record() {
        let mut records = DeferredRecords::default();
        records.add(record("sleep", "placed"));
        let (_, carried) = records.take_along(&write("sleep"), false).unwrap();
        records.remove(&carried);
        records.request_ended(&carried, false);
        assert!(records.is_empty());
    }
}
