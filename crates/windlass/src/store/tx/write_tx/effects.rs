//! What a commit announces once it is on disk. Nothing here is stored.

use std::sync::Arc;

use super::WriteTx;
use crate::audit::Record;
use crate::job::{JobId, JobState, Lane, Seq};
use crate::store::documents::minute_stats::Minute;
use crate::store::notify::feed::Change;
use crate::store::notify::wakeup::WorkEvents;

/// What a commit announces once it is on disk.
#[derive(Default)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts, each with a name of its own")]
pub struct Effects {
    /// The lanes in which jobs became claimable.
    pub work: WorkEvents,
    /// Whether jobs became final.
    pub has_ends: bool,
    /// Jobs that wrote output or became final, for readers of their streams.
    pub streams: Vec<JobId>,
    /// Whether jobs wrote output.
    pub has_output: bool,
    /// Whether running jobs were interrupted.
    pub has_interrupts: bool,
    /// Events for live readers; audited ones have their number.
    pub records: Vec<Record>,
    /// The tenants whose jobs changed.
    pub change: Change,
    /// Whether consequences were left to maintenance.
    pub has_cascades: bool,
    /// Whether statistics of a past minute were written.
    pub has_late_rates: bool,
    /// Statistics since the last write, for this process's own totals.
    pub rates: Vec<(Arc<Lane>, Minute)>,
    /// Jobs that ended in a range that pruning does not scan every time.
    pub late_ends: Vec<(JobState, Seq)>,
}

impl Effects {
    /// Whether the commit changed no job: it recorded signs of life, if anything.
    #[cfg(feature = "postgres")]
    pub(crate) fn is_quiet(&self) -> bool {
        let has_noted = self.has_ends || self.has_output || self.has_interrupts || self.has_cascades;
        !has_noted && self.work.is_empty() && !self.change.is_any()
    }

    /// A job became final.
    pub(super) fn ended(&mut self, job: JobId) {
        self.has_ends = true;
        self.streams.push(job);
    }
}

impl WriteTx<'_> {
    /// Wakes waiting workers.
    pub fn wake(&mut self) {
        self.effects.work = WorkEvents::everywhere();
    }

    /// Notifies readers that a job wrote output.
    pub(crate) fn streamed(&mut self, job: JobId) {
        self.effects.has_output = true;
        self.effects.streams.push(job);
    }

    /// Notifies workers that running jobs were interrupted.
    pub fn interrupt(&mut self) {
        self.effects.has_interrupts = true;
    }
}
