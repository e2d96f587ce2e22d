//! Snapshots of the writer, before it takes the lock: to find out whether there is anything to write, and to read what
//! claims need.

use super::{Attempt, Group, Writer};
use crate::store::command::claim::read_ahead;
use crate::store::engine::EngineResult;
use crate::store::tx::group_commit;

/// Number of lanes up to which a claim reads them again under the lock, if others have changed too many to list.
const LANES_READ_IN_TURN: usize = 1_024;

impl Writer {
    /// Runs tasks that probably have nothing to do on a snapshot, without the lock. Returns `None` if they have.
    pub(super) fn run_idle(&mut self, tasks: &mut Group) -> EngineResult<Option<Attempt>> {
        let (asked, was_shared) = (self.env.clock.elapsed(), self.tables.is_shared);
        self.tables.expect(self.backlog.all_answered());
        let now = self.tables.begin_writer_snapshot()?;
        let now = self.begin_tasks(now, asked)?;
        let ran = group_commit::run_tasks(&mut self.tables, &mut self.cache, &self.env, now, tasks);
        match ran {
            Ok(effects) if self.tables.is_idle() => {
                self.serves_claims |= tasks.iter().any(|task| task.claims() > 0);
                if std::mem::take(&mut self.serves_claims) {
                    read_ahead(&mut self.tables, &mut self.cache)?;
                }
                self.tables.end_and_flush("COMMIT")?;
                self.backlog.remove_contained(&self.tables.appends.expected);
                self.tables.clear_transaction();
                // Whether the next commit meets others is not known by this.
                self.tables.is_shared |= was_shared;
                return Ok(Some(Attempt::Committed(effects, None)));
            }
            Err(error) if !self.tables.has_written => return Err(error),
            Ok(_) | Err(_) => {}
        }
        self.tables.clear_writer_snapshot();
        self.tables.rollback();
        self.cache.clear_after_snapshot();
        self.undo(tasks);
        Ok(None)
    }

    /// Whether a claim of this group would read many lanes again: it turned out under the lock that others have changed too much to
    /// follow.
    pub(super) fn has_lost_lanes(&self, known: usize, tasks: &Group) -> bool {
        known > LANES_READ_IN_TURN
            && (self.tables.counts.is_none() || self.tables.floors.is_unknown())
            && tasks.iter().any(|task| task.claims() > 0)
    }

    /// Reads the counts and the first positions of lanes, if a claim of this group needs them and they are missing: on a
    /// snapshot, so that no other node waits. The transaction reads what has changed since.
    pub(super) fn read_ahead(&mut self, tasks: &Group) -> EngineResult<()> {
        let is_claim = tasks.iter().any(|task| task.claims() > 0);
        self.serves_claims |= is_claim;
        let is_wanted = self.serves_claims && (is_claim || tasks.iter().any(|task| task.is_often_idle()));
        let lacks_any =
            self.tables.floors.is_unknown() || self.cache.lane_heads.lacks_any(self.tables.counts.as_ref());
        if !is_wanted || !lacks_any {
            return Ok(());
        }
        // Maintenance looks ahead once, and again after claims: where there are none, it would read for nothing.
        self.serves_claims = is_claim;
        let was_shared = self.tables.is_shared;
        self.tables.expect(Vec::new());
        self.tables.begin_writer_snapshot()?;
        read_ahead(&mut self.tables, &mut self.cache)?;
        self.tables.rollback();
        self.tables.is_shared |= was_shared;
        Ok(())
    }
}
