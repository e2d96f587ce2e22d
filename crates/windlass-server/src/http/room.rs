//! Memory for the bodies of requests: beyond what most have, all of them share one bounded amount. A body that finds no
//! room is refused at once rather than waited for: whoever sends slowly holds what it has.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::problem::Problem;
use crate::limits;

/// The unit in which memory is counted.
const KIB: usize = 1024;

/// The memory that all bodies share.
#[derive(Clone)]
pub(crate) struct Memory(Arc<Semaphore>);

impl Default for Memory {
    fn default() -> Memory {
        Memory(Arc::new(Semaphore::new(limits::BODIES_BYTES_MAX / KIB)))
    }
}

impl Memory {
    /// Room for the body of one request, none of it taken yet.
    pub(crate) fn room(&self) -> Room {
        Room { memory: self.clone(), held: Arc::default() }
    }
}

/// What one request holds of the memory, until all clones of this are gone.
#[derive(Clone)]
pub(crate) struct Room {
    memory: Memory,
    held: Arc<Mutex<Option<OwnedSemaphorePermit>>>,
}

impl Room {
    /// Makes sure that there is room for so many bytes in all.
    pub(crate) fn hold(&self, bytes: usize) -> Result<(), Problem> {
        let wanted = bytes.saturating_sub(limits::BODY_BYTES_FREE).div_ceil(KIB);
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = wanted.saturating_sub(held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits));
        if missing == 0 {
            return Ok(());
        }
        let missing = u32::try_from(missing).unwrap_or(u32::MAX);
        let more = self.memory.0.clone().try_acquire_many_owned(missing);
        let more = more.map_err(|_| Problem::crowded(limits::BODIES_PAUSE))?;
        match held.as_mut() {
            Some(held) => held.merge(more),
            None => *held = Some(more),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_share_a_bounded_memory_and_give_it_back() {
        let memory = Memory::default();
        let (first, second, small) = (memory.room(), memory.room(), memory.room());
        first.hold(limits::BODIES_BYTES_MAX / 2).unwrap();
        first.hold(limits::BODIES_BYTES_MAX).unwrap();
        assert!(second.hold(limits::BODY_BYTES_LARGE).is_err());
        small.hold(limits::BODY_BYTES_FREE).unwrap();
        drop(first);
        second.hold(limits::BODY_BYTES_LARGE).unwrap();
    }
}
