//! What commits announce to those who listen: every transition, whatever the audit level, from a bounded buffer of this
//! process; and, for those whom that is too much, only whose jobs changed. What is audited is also in the durable trail and
//! can be read from any point at any time; the buffers only make it prompt.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::broadcast;

use crate::audit::Record;
use crate::job::Tenant;
use crate::limits;
use crate::store::caller::Caller;

/// Whose jobs a commit changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    /// Whether anything changed.
    is_any: bool,
    /// Whether it concerns everybody, such as a pause, or whoever it concerns was not noted.
    is_for_all: bool,
    tenants: BTreeSet<Tenant>,
}

impl Change {
    /// Something that everybody may see changed.
    pub fn for_all() -> Change {
        Change { is_any: true, is_for_all: true, tenants: BTreeSet::new() }
    }

    /// Whether anything changed that this caller may see.
    pub fn concerns(&self, caller: &Caller) -> bool {
        self.is_for_all || self.tenants.iter().any(|tenant| caller.can_see(tenant))
    }

    /// Adds what another commit changed.
    pub fn add(&mut self, other: &Change) {
        self.is_any |= other.is_any;
        self.is_for_all |= other.is_for_all;
        self.tenants.extend(other.tenants.iter().cloned());
    }
}

/// Where commits announce what happened.
#[derive(Debug)]
pub struct Feed {
    records: broadcast::Sender<Arc<Record>>,
    changes: broadcast::Sender<Arc<Change>>,
    /// Commits that changed anything so far.
    changed: AtomicU64,
}

impl Default for Feed {
    fn default() -> Feed {
        Feed {
            records: broadcast::Sender::new(limits::LIVE_EVENTS_MAX),
            changes: broadcast::Sender::new(limits::LIVE_CHANGES_MAX),
            changed: AtomicU64::new(0),
        }
    }
}

impl Feed {
    /// Whether anybody wants the records; if not, nothing need be built for them.
    pub fn has_listeners(&self) -> bool {
        self.records.receiver_count() > 0
    }

    /// Notes in a commit's change that jobs of this tenant changed; of nobody in particular if it is about no job.
    pub fn note(&self, change: &mut Change, tenant: Option<&Tenant>) {
        change.is_any = true;
        match tenant {
            None => change.is_for_all = true,
            // Whoever begins to listen before the commit is over is told of it, whoever it concerns.
            Some(_) if change.is_for_all || self.changes.receiver_count() == 0 => change.is_for_all = true,
            Some(tenant) if !change.tenants.contains(tenant) => {
                change.tenants.insert(tenant.clone());
            }
            Some(_) => {}
        }
    }

    /// Tells listeners, after the commit.
    pub fn publish(&self, records: Vec<Record>, change: Change) {
        for record in records {
            // An error only means that nobody listens any more.
            let _ = self.records.send(Arc::new(record));
        }
        if change.is_any {
            self.changed.fetch_add(1, Ordering::Release);
            let _ = self.changes.send(Arc::new(change));
        }
    }

    /// Everything published from now on; a reader that falls behind is told how much it missed.
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<Record>> {
        self.records.subscribe()
    }

    /// Whose jobs change from now on, commit by commit.
    pub fn changes(&self) -> broadcast::Receiver<Arc<Change>> {
        self.changes.subscribe()
    }

    /// How many commits of this process have changed anything.
    pub fn changed(&self) -> u64 {
        self.changed.load(Ordering::Acquire)
    }
}
