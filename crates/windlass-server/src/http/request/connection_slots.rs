//! Slots for long-lived connections such as streams, limited in total and per holder.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Counts open connections, in total and by holder.
#[derive(Clone)]
pub(crate) struct ConnectionSlots(Arc<Inner>);

struct Inner {
    all_max: usize,
    each_max: usize,
    open: Mutex<ConnectionCounts>,
}

#[derive(Default)]
struct ConnectionCounts {
    all: usize,
    /// Per holder, if not zero.
    each: HashMap<String, usize>,
}

/// Why there is no free slot.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoFreeSlot {
    /// All slots are in use.
    All,
    /// The holder has reached its limit.
    Each,
}

/// A slot in use; released on drop.
pub(crate) struct ConnectionSlot {
    slots: ConnectionSlots,
    holder: String,
}

impl ConnectionSlots {
    /// Limits in total and per holder.
    pub(crate) fn new(all_max: usize, each_max: usize) -> ConnectionSlots {
        ConnectionSlots(Arc::new(Inner { all_max, each_max, open: Mutex::default() }))
    }

    /// Takes a slot for this holder.
    pub(crate) fn take(&self, holder: &str) -> Result<ConnectionSlot, NoFreeSlot> {
        let mut open = self.0.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.all >= self.0.all_max {
            return Err(NoFreeSlot::All);
        }
        let own = open.each.get(holder).copied().unwrap_or_default();
        if own >= self.0.each_max {
            return Err(NoFreeSlot::Each);
        }
        open.all += 1;
        open.each.insert(holder.to_owned(), own + 1);
        Ok(ConnectionSlot { slots: self.clone(), holder: holder.to_owned() })
    }

    /// The number of slots in use.
    pub(crate) fn open(&self) -> usize {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner).all
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut open = self.slots.0.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.all -= 1;
        if let Some(own) = open.each.get_mut(&self.holder) {
            *own -= 1;
            if *own == 0 {
                open.each.remove(&self.holder);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_cannot_take_all_places() {
        let slots = ConnectionSlots::new(3, 2);
        let own = [slots.take("ada").unwrap(), slots.take("ada").unwrap()];
        assert_eq!(slots.take("ada").err(), Some(NoFreeSlot::Each));
        let other = slots.take("bob").unwrap();
        assert_eq!(slots.take("eve").err(), Some(NoFreeSlot::All));
        drop(other);
        drop(own);
        assert_eq!(slots.open(), 0);
        assert!(slots.0.open.lock().unwrap().each.is_empty());
    }
}
