//! How changes of counts are written and added up. Each commit adds rows; from time to time those that every node knows are
//! added to a sum. Only few rows of a sum are moved at once, so that no commit takes longer because there are many lanes,
//! and a sum is replaced by another one after a while: its rows are changed, and dead ones are left behind.

use super::super::parameter::Column;
use super::{COMMITS_READ_MAX, Tables};
use crate::store::engine::EngineResult;
use crate::store::engines::sql::columns::{code, limit};

const COUNTS: &str = "INSERT INTO @.counts (n, lane, state, by) \
     SELECT $1, u.lane, u.state, u.by FROM unnest($2::bigint[], $3::bigint[], $4::bigint[]) u(lane, state, by)";
/// Adds all changes between a sum and a later commit to that sum, and some rows from before it: of the sum before it, that is.
const FOLD: &str = "WITH earlier AS (DELETE FROM @.counts WHERE ctid = ANY (ARRAY(SELECT c.ctid FROM @.counts c \
       WHERE c.n >= $1 AND c.n < $2 ORDER BY c.n, c.lane, c.state LIMIT $4)) RETURNING lane, state, by), \
     gone AS (DELETE FROM @.counts WHERE n > $2 AND n < $3 RETURNING lane, state, by) \
     INSERT INTO @.counts (n, lane, state, by) SELECT $2, lane, state, sum(by) \
     FROM (SELECT * FROM earlier UNION ALL SELECT * FROM gone) moved GROUP BY lane, state \
     HAVING sum(by) <> 0 ON CONFLICT (n, lane, state) DO UPDATE SET by = counts.by + excluded.by";

/// How often changes are added up, in commits.
const FOLD_EVERY: i64 = 64;
/// How many rows are moved to a new sum at once, or else a share of the number of lanes.
const FOLD_ROWS: usize = 1_024;
const FOLD_SHARE: usize = 16;
/// Commits after which a new sum begins: the earlier one is moved by then, unless lanes have jobs in more than four states.
const SUM_EVERY: i64 = 64 * FOLD_EVERY;
/// The changes of so many last commits stay separate: what other nodes add to what they know.
const SEPARATE: i64 = COMMITS_READ_MAX;

/// What a commit adds up.
#[derive(Debug, PartialEq, Eq)]
struct Fold {
    /// The number under which the sum is stored.
    sum: i64,
    /// The first commit whose changes stay separate.
    end: i64,
    /// Maximum number of rows to move from before the sum.
    rows: i64,
}

impl Fold {
    /// What the commit with this number adds up beside so many lanes, if it does.
    fn by(number: i64, lanes: usize) -> Option<Fold> {
        let (end, begin) = (number - SEPARATE, number - number % SUM_EVERY);
        let is_last = (number + FOLD_EVERY) % SUM_EVERY == 0;
        let rows = if is_last { i64::MAX } else { limit(FOLD_ROWS.max(lanes / FOLD_SHARE)) };
        // Nothing has this number alone by the time it is used.
        let sum = (begin - SEPARATE - 1).max(0);
        (number % FOLD_EVERY == 0 && end > 0).then_some(Fold { sum, end, rows })
    }
}

impl Tables {
    /// Writes the changes of counts of this transaction, and adds up earlier ones from `base` on, if it is time. Returns the
    /// number from which on there are rows.
    pub(super) fn write_counts(&mut self, number: i64, base: i64) -> EngineResult<i64> {
        let (mut lanes, mut states, mut by) = (Column::numbers(), Column::numbers(), Column::numbers());
        let moved = std::mem::take(&mut self.moved);
        self.know_lanes(moved.keys().map(|(lane, _)| lane))?;
        for ((lane, state), moved) in moved {
            if moved != 0 {
                lanes.number(self.lane_id(&lane)?);
                states.number(code(state));
                by.number(moved);
            }
        }
        if !lanes.is_empty() {
            self.write(COUNTS, vec![number.into(), lanes.into(), states.into(), by.into()], None)?;
        }
        let Some(Fold { sum, end, rows }) = Fold::by(number, self.lanes_known()) else { return Ok(base) };
        self.write(FOLD, vec![base.into(), sum.into(), end.into(), rows.into()], None)?;
        Ok(if rows == i64::MAX { sum } else { base.min(sum) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_node_may_add_to_what_it_knows_stays_separate() {
        let (mut sums, mut last) = (Vec::new(), 0);
        for number in 1..3 * SUM_EVERY {
            let Some(Fold { sum, end, rows }) = Fold::by(number, 0) else { continue };
            assert!(sum < end && number - end == COMMITS_READ_MAX, "{number}");
            assert!(end - last <= COMMITS_READ_MAX, "all changes are added up once");
            last = end;
            if sums.last() != Some(&sum) {
                sums.push(sum);
            }
            assert_eq!(rows == i64::MAX, Fold::by(number + FOLD_EVERY, 0).is_none_or(|next| next.sum != sum));
        }
        assert_eq!(sums, [0, SUM_EVERY - SEPARATE - 1, 2 * SUM_EVERY - SEPARATE - 1]);
    }
}
