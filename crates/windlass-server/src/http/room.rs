//! Memory for the bodies of requests: beyond what most have, all of them share one bounded amount. A body that finds no
//! room is refused at once rather than waited for: whoever sends slowly holds what it has.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::problem::Problem;
use crate::limits;

/// The unit in which memory is counted.
const KIB: usize = 1024;

/// The memory that all bodies share.
#[derive(Clone, Default)]
pub(crate) struct Memory(Arc<Mutex<Held>>);

/// What is held of it, in all and by holder.
#[derive(Default)]
struct Held {
    all: usize,
    /// Of holders that have any.
    each: HashMap<String, usize>,
}

impl Memory {
    /// Room for the body of one request of this holder, none of it taken yet.
    pub(crate) fn room(&self, holder: &str) -> Room {
        Room(Arc::new(Taken { memory: self.clone(), holder: holder.to_owned(), kib: Mutex::new(0) }))
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one request holds of the memory, until all clones of this are gone.
#[derive(Clone)]
pub(crate) struct Room(Arc<Taken>);

struct Taken {
    memory: Memory,
    holder: String,
    kib: Mutex<usize>,
}

impl Room {
    /// Makes sure that there is room for so many bytes in all.
    pub(crate) fn hold(&self, bytes: usize) -> Result<(), Problem> {
        let wanted = bytes.saturating_sub(limits::BODY_BYTES_FREE).div_ceil(KIB);
        let mut own = self.0.kib.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = wanted.saturating_sub(*own);
        if missing == 0 {
            return Ok(());
        }
        let mut held = self.0.memory.held();
        let each = held.each.get(&self.0.holder).copied().unwrap_or_default();
        let is_too_much = held.all + missing > limits::BODIES_BYTES_MAX / KIB
            || each + missing > limits::BODIES_BYTES_PER_KEY_MAX / KIB;
        if is_too_much {
            return Err(Problem::crowded(limits::BODIES_PAUSE));
        }
        held.all += missing;
        held.each.insert(self.0.holder.clone(), each + missing);
        *own = wanted;
        Ok(())
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let own = *self.kib.get_mut().unwrap_or_else(PoisonError::into_inner);
        if own == 0 {
            return;
        }
        let mut held = self.memory.held();
        held.all -= own;
        if let Some(each) = held.each.get_mut(&self.holder) {
            *each -= own;
            if *each == 0 {
                held.each.remove(&self.holder);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_share_a_bounded_memory_and_give_it_back() {
        let memory = Memory::default();
        let count = limits::BODIES_BYTES_MAX / limits::BODIES_BYTES_PER_KEY_MAX;
        let largest = limits::BODIES_BYTES_PER_KEY_MAX + limits::BODY_BYTES_FREE;
        let holders: Vec<Room> = (0..count).map(|number| memory.room(&format!("holder-{number}"))).collect();
        for room in &holders {
            room.hold(largest / 2).unwrap();
            room.hold(largest).unwrap();
        }
        let (other, small) = (memory.room("other"), memory.room("other"));
        assert!(other.hold(limits::BODY_BYTES_LARGE).is_err());
        small.hold(limits::BODY_BYTES_FREE).unwrap();
        drop(holders);
        other.hold(limits::BODY_BYTES_LARGE).unwrap();
    }

    #[test]
    fn one_key_leaves_the_others_their_share() {
        let memory = Memory::default();
        let (first, second) = (memory.room("ada"), memory.room("ada"));
        first.hold(limits::BODIES_BYTES_PER_KEY_MAX).unwrap();
        assert!(second.hold(limits::BODY_BYTES_FREE + (1 << 20)).is_err());
        memory.room("bob").hold(limits::BODIES_BYTES_PER_KEY_MAX).unwrap();
        drop(first);
        second.hold(limits::BODIES_BYTES_PER_KEY_MAX).unwrap();
        drop(second);
        assert!(memory.held().each.is_empty() && memory.held().all == 0);
    }
}
