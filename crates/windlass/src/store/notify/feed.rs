//! Events that commits announce to subscribers: every transition, at any audit level, from a bounded buffer of this
//! process; and a coarser feed that only carries the affected tenants. Audited events are also in the audit trail and
//! can be read from any point at any time; the buffers only make them prompt.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::broadcast;

use crate::audit::Record;
use crate::job::Tenant;
use crate::limits;
use crate::store::caller::Caller;

/// The tenants whose jobs a commit changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    /// Whether anything changed.
    is_any: bool,
    /// Whether it affects all tenants, such as a pause, or the tenants were not recorded.
    is_for_all: bool,
    tenants: BTreeSet<Tenant>,
}

impl Change {
    /// A change that all callers can see.
    pub fn for_all() -> Change {
        Change { is_any: true, is_for_all: true, tenants: BTreeSet::new() }
    }

    /// Whether anything changed.
    #[cfg(feature = "postgres")]
    pub(crate) fn is_any(&self) -> bool {
        self.is_any
    }

    /// Whether anything changed that this caller can see.
    pub fn concerns(&self, caller: &Caller) -> bool {
        self.is_for_all || self.tenants.iter().any(|tenant| caller.can_see(tenant))
    }

    /// Adds another commit's changes.
    pub fn add(&mut self, other: &Change) {
        self.is_any |= other.is_any;
        self.is_for_all |= other.is_for_all;
        self.tenants.extend(other.tenants.iter().cloned());
    }
}

/// Where commits announce events.
#[derive(Debug)]
pub struct Feed {
    records: broadcast::Sender<Arc<Record>>,
    changes: broadcast::Sender<Arc<Change>>,
    /// Number of commits that changed anything so far.
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
    /// Whether there are subscribers to records; if not, none need be built.
    pub fn has_listeners(&self) -> bool {
        self.records.receiver_count() > 0
    }

    /// Adds to a commit's change that jobs of this tenant changed; affects all tenants if `None`.
    pub fn note(&self, change: &mut Change, tenant: Option<&Tenant>) {
        change.is_any = true;
        match tenant {
            None => change.is_for_all = true,
            // A subscriber that arrives before the commit is over is notified of it, regardless of the tenant.
            Some(_) if change.is_for_all || self.changes.receiver_count() == 0 => change.is_for_all = true,
            Some(tenant) if !change.tenants.contains(tenant) => {
                change.tenants.insert(tenant.clone());
            }
            Some(_) => {}
        }
    }

    /// Notifies subscribers, after the commit.
    pub fn publish(&self, records: Vec<Record>, change: Change) {
        for record in records {
            // An error only means that there is no subscriber any more.
            let _ = self.records.send(Arc::new(record));
        }
        if change.is_any {
            self.changed.fetch_add(1, Ordering::Release);
            let _ = self.changes.send(Arc::new(change));
        }
    }

    /// Subscribes to everything published from now on; a reader that falls behind receives the number of missed
    /// records.
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<Record>> {
        self.records.subscribe()
    }

    /// Subscribes to the affected tenants from now on, commit by commit.
    pub fn changes(&self) -> broadcast::Receiver<Arc<Change>> {
        self.changes.subscribe()
    }

    /// How many commits of this process have changed anything.
    pub fn changed(&self) -> u64 {
        self.changed.load(Ordering::Acquire)
    }
}
