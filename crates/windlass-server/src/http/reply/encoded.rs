//! Events in encoded form, encoded once for all streams that receive them live.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use windlass::audit::Record;
use windlass_api::record::RecordView;

use crate::limits;

/// The latest events, by the address of their record in memory. The records are kept, so that the address stays unique.
#[derive(Default)]
pub(crate) struct EncodedEvents(Mutex<EventCache>);

#[derive(Default)]
struct EventCache {
    events: HashMap<usize, (Arc<Record>, Bytes)>,
    /// Oldest first.
    order: VecDeque<usize>,
}

impl EncodedEvents {
    /// The encoded record.
    pub(crate) fn get(&self, record: &Arc<Record>) -> Bytes {
        // The record was read from the store for a single stream.
        if Arc::strong_count(record) == 1 {
            return encode(record);
        }
        let place = Arc::as_ptr(record).addr();
        if let Some((_, event)) = self.kept(|kept| kept.events.get(&place).cloned()) {
            return event;
        }
        let event = encode(record);
        self.kept(|kept| kept.keep(place, record.clone(), event.clone()));
        event
    }

    fn kept<T>(&self, work: impl FnOnce(&mut EventCache) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl EventCache {
    fn keep(&mut self, place: usize, record: Arc<Record>, event: Bytes) {
        if self.events.insert(place, (record, event)).is_some() {
            return;
        }
        self.order.push_back(place);
        if self.order.len() > limits::EVENTS_ENCODED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.events.remove(&oldest);
        }
    }
}

/// Events that are not stored have no number, so that clients do not try to resume from them.
fn encode(record: &Record) -> Bytes {
    let (seq, name) = (record.seq, record.event.as_str());
    let view = RecordView::from(record.clone());
    let data = serde_json::to_string(&view).expect("responses are plain data");
    let id = if seq > 0 { format!("id: {seq}\n") } else { String::new() };
    Bytes::from(format!("{id}event: {name}\ndata: {data}\n\n"))
}

#[cfg(test)]
mod tests {
    use windlass::audit::AuditEvent;
    use windlass::clock::Timestamp;
    use windlass::job::Tenant;

    use super::*;

    fn record(seq: u64) -> Arc<Record> {
        Arc::new(Record {
            seq,
            event: AuditEvent::Submitted,
            alias: None,
            at: Timestamp::MIN,
            actor_type: "user".into(),
            actor_id: "local".into(),
            tenant: Tenant::default(),
            job: None,
            queue: None,
            job_type: None,
            trace_id: None,
            context: "{}".into(),
        })
    }

    #[test]
    fn an_event_is_encoded_once_for_all_listeners() {
        let encoded = EncodedEvents::default();
        let first = record(1);
        let shared = first.clone();
        assert_eq!(encoded.get(&first).as_ptr(), encoded.get(&shared).as_ptr());
        assert!(encoded.get(&first).starts_with(b"id: 1\nevent: "));
        // Events that are not stored all have the number 0 and must still be distinguished.
        let (one, other) = (record(0), record(0));
        let (_shared, _too) = (one.clone(), other.clone());
        assert_ne!(encoded.get(&one).as_ptr(), encoded.get(&other).as_ptr());
    }

    #[test]
    fn only_the_last_events_are_kept() {
        let encoded = EncodedEvents::default();
        let first = record(1);
        let _shared = first.clone();
        let before = encoded.get(&first);
        let others: Vec<Arc<Record>> = (0..limits::EVENTS_ENCODED_MAX as u64).map(record).collect();
        for other in &others {
            let _shared = other.clone();
            encoded.get(other);
        }
        assert_ne!(encoded.get(&first).as_ptr(), before.as_ptr());
        assert_eq!(encoded.kept(|kept| kept.events.len()), limits::EVENTS_ENCODED_MAX);
    }
}
