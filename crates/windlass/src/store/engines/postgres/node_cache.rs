//! What a connection may cache between its transactions, because the rows of `commits` say what other nodes did
//! meanwhile: the current numbers, and the first possible position in each lane of `ready`. Dead entries before that
//! are never scanned again, however long an old snapshot keeps them.

use rustc_hash::FxHashMap;
use tokio_postgres::Row;

use super::connection::get;
use crate::job::Seq;
use crate::store::engine::EngineResult;

/// The last known commit, and the current numbers after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Meta {
    pub(super) commit: i64,
    pub(super) nonce: i64,
    pub(super) at: i64,
    pub(super) next_seq: i64,
    pub(super) next_record: i64,
    pub(super) config_version: i64,
    pub(super) counts_base: i64,
    pub(super) generation: i64,
    /// Nothing that was appended before this number is left, nor will be.
    pub(super) appends_from: i64,
}

impl Default for Meta {
    /// Before anything is known.
    fn default() -> Meta {
        Meta {
            commit: -1,
            nonce: 0,
            at: 0,
            next_seq: 1,
            next_record: 1,
            config_version: 0,
            counts_base: 0,
            generation: 1,
            appends_from: 0,
        }
    }
}

/// A commit as other nodes see it.
pub(super) struct Commit {
    pub(super) meta: Meta,
    /// What was added to the front of lanes; `None` if nothing was, empty if it is too much to list.
    pub(super) lowered: Option<Vec<u8>>,
    /// The running jobs that it changed; `None` if it may have changed any.
    pub(super) running: Option<Vec<u8>>,
    pub(super) timer_at: Option<i64>,
    pub(super) has_swept: bool,
    /// The database's clock when it was read.
    pub(super) now: i64,
    /// The oldest schema version whose builds can work on the database, when it was read.
    pub(super) works_with: i64,
    /// Whether it can be seen before it is on disk.
    pub(super) is_early: bool,
}

impl Commit {
    /// From a row of the statement that reads `commits`.
    pub(super) fn read(row: &Row) -> EngineResult<Commit> {
        let meta = Meta {
            commit: get(row, 0)?,
            nonce: get(row, 1)?,
            at: get(row, 2)?,
            next_seq: get(row, 3)?,
            next_record: get(row, 4)?,
            config_version: get(row, 5)?,
            counts_base: get(row, 6)?,
            generation: get(row, 12)?,
            appends_from: get(row, 14)?,
        };
        let (lowered, timer_at, has_swept) = (get(row, 7)?, get(row, 8)?, get(row, 9)?);
        let (now, works_with, is_early) = (get(row, 10)?, get(row, 11)?, get(row, 13)?);
        let running = get(row, 15)?;
        Ok(Commit { meta, lowered, running, timer_at, has_swept, now, works_with, is_early })
    }
}

/// Maximum number of running jobs that one commit lists; with more of them other nodes read all of theirs again.
const RUNNING_MAX: usize = 256;
/// Number of other nodes' changes from which on they count as unknown: a connection that only reads never asks for them.
const FOREIGN_MAX: usize = 16_384;

/// Running jobs that were changed by a node that had to read them: the node that claimed them, or changed them last, still
/// has them in its cache. So at most one node's cache has a job, and it has the job as it is stored.
#[derive(Default)]
pub(super) struct RunningChanges {
    own: Vec<i64>,
    foreign: Vec<i64>,
    is_foreign_unknown: bool,
}

impl RunningChanges {
    /// Records that this transaction changed a running job that it had read.
    pub(super) fn changed(&mut self, seq: Seq) {
        if self.own.len() <= RUNNING_MAX {
            self.own.push(seq.0);
        }
    }

    /// Begins a transaction.
    pub(super) fn clear_own(&mut self) {
        self.own.clear();
    }

    /// The changes that a commit must publish to other nodes; `None` if there are too many.
    pub(super) fn take_own(&mut self) -> Option<Vec<u8>> {
        let own = std::mem::take(&mut self.own);
        (own.len() <= RUNNING_MAX).then(|| own.into_iter().flat_map(i64::to_be_bytes).collect())
    }

    /// Applies the changes of another node's commit; `None` if they are unknown.
    pub(super) fn apply_commit(&mut self, running: Option<&[u8]>) {
        match running {
            Some(bytes) if self.foreign.len() <= FOREIGN_MAX => {
                self.foreign.extend(bytes.as_chunks().0.iter().map(|seq| i64::from_be_bytes(*seq)));
            }
            Some(_) | None => self.forget(),
        }
    }

    /// Records that other nodes may have changed any job.
    pub(super) fn forget(&mut self) {
        self.is_foreign_unknown = true;
        self.foreign.clear();
    }

    /// The changes of other nodes since this was last asked; `None` if they are unknown.
    pub(super) fn take_foreign(&mut self) -> Option<Vec<Seq>> {
        let foreign = std::mem::take(&mut self.foreign).into_iter().map(Seq).collect();
        (!std::mem::take(&mut self.is_foreign_unknown)).then_some(foreign)
    }
}

/// A position in `ready`: rank, time, number.
pub(super) type ClaimPosition = (i64, i64, i64);

/// After every position.
const NOWHERE: ClaimPosition = (i64::MAX, i64::MAX, i64::MAX);
/// Before every position.
pub(super) const FRONT: ClaimPosition = (-1, 0, 0);
/// Maximum number of lanes whose front one commit lists; with more of them other nodes read for themselves.
const LOWERED_MAX: usize = 1_024;

/// The first possible position in each lane of `ready`.
#[derive(Default)]
pub(super) struct ClaimBounds {
    floors: FxHashMap<i64, ClaimPosition>,
    lowered: FxHashMap<i64, ClaimPosition>,
    /// The additions of other nodes.
    foreign: FxHashMap<i64, ClaimPosition>,
    is_foreign_unknown: bool,
}

impl ClaimBounds {
    /// Clears everything, also what other nodes have added.
    pub(super) fn clear(&mut self) {
        *self = ClaimBounds { is_foreign_unknown: true, ..ClaimBounds::default() };
    }

    /// Whether it is unknown what other nodes have added.
    pub(super) fn is_unknown(&self) -> bool {
        self.is_foreign_unknown
    }

    /// The first position that other nodes have added to each lane since this was last asked; `None` if that is unknown.
    pub(super) fn take_foreign(&mut self) -> Option<FxHashMap<i64, ClaimPosition>> {
        let foreign = std::mem::take(&mut self.foreign);
        (!std::mem::take(&mut self.is_foreign_unknown)).then_some(foreign)
    }

    /// The position after which to read a lane.
    pub(super) fn before(&self, lane: i64) -> ClaimPosition {
        self.floors.get(&lane).map_or(FRONT, |(rank, at, seq)| (*rank, *at, seq.saturating_sub(1)))
    }

    /// A lane with the position after which to read it.
    pub(super) fn spot(&self, lane: i64) -> [i64; 4] {
        let (rank, at, seq) = self.before(lane);
        [lane, rank, at, seq]
    }

    /// Records the first position of a lane as read: nothing is before it.
    pub(super) fn found(&mut self, lane: i64, first: Option<ClaimPosition>) {
        self.floors.insert(lane, first.unwrap_or(NOWHERE));
    }

    /// Records that a position was added to a lane.
    pub(super) fn added(&mut self, lane: i64, spot: ClaimPosition) {
        self.lower(lane, spot);
        let first = self.lowered.entry(lane).or_insert(spot);
        *first = spot.min(*first);
    }

    /// Forgets what this transaction has added, because it is not committed: a position may be too early.
    pub(super) fn clear_own(&mut self) {
        self.lowered.clear();
    }

    fn lower(&mut self, lane: i64, spot: ClaimPosition) {
        if let Some(floor) = self.floors.get_mut(&lane) {
            *floor = spot.min(*floor);
        }
    }

    /// The additions that a commit must publish to other nodes; clears them.
    pub(super) fn take_lowered(&mut self) -> Option<Vec<u8>> {
        let lowered = std::mem::take(&mut self.lowered);
        if lowered.is_empty() {
            return None;
        }
        if lowered.len() > LOWERED_MAX {
            return Some(Vec::new());
        }
        let numbers = lowered.into_iter().flat_map(|(lane, (rank, at, seq))| [lane, rank, at, seq]);
        Some(numbers.flat_map(i64::to_be_bytes).collect())
    }

    /// Applies the additions of another node's commit.
    pub(super) fn apply_commit(&mut self, lowered: Option<&[u8]>) {
        let Some(bytes) = lowered else { return };
        let numbers: Vec<i64> =
            bytes.as_chunks().0.iter().map(|number| i64::from_be_bytes(*number)).collect();
        if numbers.is_empty() {
            return self.clear();
        }
        for [lane, rank, at, seq] in numbers.as_chunks().0 {
            let spot = (*rank, *at, *seq);
            self.lower(*lane, spot);
            let first = self.foreign.entry(*lane).or_insert(spot);
            *first = spot.min(*first);
        }
        if self.foreign.len() > FOREIGN_MAX {
            self.foreign.clear();
            self.is_foreign_unknown = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_floor_rises_by_looking_and_falls_by_adding() {
        let mut floors = ClaimBounds::default();
        assert_eq!(floors.before(7), FRONT);
        floors.found(7, Some((50, 10, 3)));
        assert_eq!(floors.before(7), (50, 10, 2));
        floors.added(7, (50, 20, 4));
        assert_eq!(floors.before(7), (50, 10, 2), "it is behind the first");
        floors.added(7, (0, 20, 5));
        assert_eq!(floors.before(7), (0, 20, 4));
    }

    #[test]
    fn what_one_node_adds_lowers_the_floor_of_another() {
        let (mut one, mut other) = (ClaimBounds::default(), ClaimBounds::default());
        other.found(7, None);
        other.found(8, Some((50, 1, 1)));
        one.added(7, (50, 10, 3));
        one.added(7, (50, 9, 2));
        other.apply_commit(one.take_lowered().as_deref());
        assert_eq!((other.before(7), other.before(8)), ((50, 9, 1), (50, 1, 0)));
        assert_eq!(one.take_lowered(), None);
    }

    #[test]
    fn running_jobs_that_one_node_changed_are_read_again_by_another() {
        let (mut one, mut other) = (RunningChanges::default(), RunningChanges::default());
        one.changed(Seq(7));
        one.changed(Seq(9));
        other.apply_commit(one.take_own().as_deref());
        other.apply_commit(one.take_own().as_deref());
        assert_eq!(other.take_foreign(), Some(vec![Seq(7), Seq(9)]));
        assert_eq!(other.take_foreign(), Some(Vec::new()));
        other.apply_commit(None);
        one.changed(Seq(8));
        other.apply_commit(one.take_own().as_deref());
        assert_eq!(other.take_foreign(), None, "a node of an older version lists nothing");
        (0..1_000).for_each(|seq| one.changed(Seq(seq)));
        other.apply_commit(one.take_own().as_deref());
        assert_eq!(other.take_foreign(), None, "there are too many");
        one.changed(Seq(8));
        one.clear_own();
        assert_eq!(one.take_own(), Some(Vec::new()), "it was not committed");
    }

    #[test]
    fn too_much_to_list_makes_others_look_again() {
        let (mut one, mut other) = (ClaimBounds::default(), ClaimBounds::default());
        let most = i64::try_from(LOWERED_MAX).unwrap();
        (0..=most).for_each(|lane| one.added(lane, (50, 10, 3)));
        other.found(7, None);
        other.apply_commit(one.take_lowered().as_deref());
        assert_eq!(other.before(7), FRONT);
        assert_eq!(other.take_foreign(), None);
        (0..most).for_each(|lane| one.added(lane, (50, 10, 3)));
        one.added(7, (40, 20, 4));
        other.apply_commit(one.take_lowered().as_deref());
        let added = other.take_foreign().unwrap();
        assert_eq!((added.len(), added[&7], added[&8]), (LOWERED_MAX, (40, 20, 4), (50, 10, 3)));
        assert_eq!(other.take_foreign(), Some(FxHashMap::default()));
    }
}
