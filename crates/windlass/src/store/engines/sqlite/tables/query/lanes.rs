//! Lists by lane: which lanes to read.

use std::sync::Arc;

use rusqlite::types::Value;
use rusqlite::{OptionalExtension, params_from_iter};

use super::super::{Holds, Tables, prepare, store_error};
use super::source::{Query, continue_claim_order};
use crate::job::{JobState, Lane};
use crate::store::engine::EngineResult;
use crate::store::engines::sql::columns::{SET_ASIDE, code};
use crate::store::filter::Scan;

impl<C: Holds> Tables<C> {
    /// Whether at most `most` jobs are blocked on concurrency keys.
    pub(super) fn has_few_aside(&self, most: u64) -> EngineResult<bool> {
        let sql = "SELECT 1 FROM hot INDEXED BY hot_order WHERE state = ? LIMIT 1 OFFSET ?";
        let mut statement = prepare(self.connection.get(), sql)?;
        let beyond = statement.query_row([SET_ASIDE, i64::try_from(most).unwrap_or(i64::MAX)], |_| Ok(()));
        Ok(beyond.optional().map_err(store_error)?.is_none())
    }

    /// The lanes whose first jobs come first: no other lane has a job on the requested page.
    pub(super) fn first_lanes(&mut self, lanes: &[Arc<Lane>], scan: &Scan) -> EngineResult<Vec<i64>> {
        let mut ids = Vec::with_capacity(lanes.len());
        for lane in lanes {
            ids.extend(self.interned.find_lane(self.connection.get(), lane)?);
        }
        let sql = "SELECT h.rank, h.at, h.seq FROM hot h INDEXED BY hot_order WHERE h.state = ? AND h.order_key = ?";
        let parameters = vec![code(JobState::Scheduled).into(), Value::Null];
        let mut query = Query { sql: sql.to_owned(), parameters };
        continue_claim_order(&mut query, scan);
        query.sql.push_str(" LIMIT 1");
        let mut statement = prepare(self.connection.get(), &query.sql)?;
        let mut heads: Vec<((i64, i64, i64), i64)> = Vec::new();
        for id in ids {
            query.parameters[1] = id.into();
            let head = statement.query_row(params_from_iter(&query.parameters), |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            });
            heads.extend(head.optional().map_err(store_error)?.map(|head| (head, id)));
        }
        heads.sort_unstable();
        heads.truncate(scan.limit);
        Ok(heads.into_iter().map(|(_, id)| id).collect())
    }
}
