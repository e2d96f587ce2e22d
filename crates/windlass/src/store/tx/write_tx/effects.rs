//! What a commit announces once it is on disk; nothing here is stored.

use std::sync::Arc;

use super::WriteTx;
use crate::audit::Record;
use crate::job::{JobState, Lane, Seq};
use crate::store::documents::minute_stats::Minute;
use crate::store::notify::feed::Change;
use crate::store::notify::wakeup::WorkEvents;

/// What a commit announces once it is on disk.
#[derive(Default)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts, each with a name of its own")]
pub struct Effects {
    /// Where jobs became claimable.
    pub work: WorkEvents,
    /// Whether jobs became final.
    pub has_ends: bool,
    /// Whether running jobs were cut off.
    pub has_interrupts: bool,
    /// What happened, for live readers; kept ones have their number.
    pub records: Vec<Record>,
    /// Whose jobs changed.
    pub change: Change,
    /// Whether consequences were left to maintenance.
    pub has_cascades: bool,
    /// Whether rates of a minute that is over were written.
    pub has_late_rates: bool,
    /// What happened in lanes since rates were last written, for this process's own totals.
    pub rates: Vec<(Arc<Lane>, Minute)>,
    /// Jobs that ended among those that pruning does not look at every time.
    pub late_ends: Vec<(JobState, Seq)>,
}

impl WriteTx<'_> {
    /// Says that waiting workers should look again.
    pub fn wake(&mut self) {
        self.effects.work = WorkEvents::everywhere();
    }

    /// Says that running jobs were cut off: their workers should ask.
    pub fn interrupt(&mut self) {
        self.effects.has_interrupts = true;
    }
}
