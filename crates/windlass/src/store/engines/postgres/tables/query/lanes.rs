//! Lists by lane: which lanes to read.

use std::sync::Arc;

use super::super::Tables;
use super::source::Query;
use crate::job::Lane;
use crate::store::engine::EngineResult;
use crate::store::engines::postgres::connection::get;
use crate::store::engines::postgres::parameter::Column;
use crate::store::engines::sql::columns::{SET_ASIDE, limit};
use crate::store::filter::Scan;

impl Tables {
    /// Whether at most `most` jobs are blocked on concurrency keys.
    pub(super) fn has_few_aside(&mut self, most: u64) -> EngineResult<bool> {
        let sql = "SELECT 1 FROM @.slots d WHERE d.state = $1::bigint LIMIT 1 OFFSET $2";
        let beyond = i64::try_from(most).unwrap_or(i64::MAX);
        Ok(self.link.fetch(sql, vec![SET_ASIDE.into(), beyond.into()])?.is_empty())
    }

    /// The lanes whose first jobs come first: no other lane has a job on the requested page.
    pub(super) fn first_lanes(&mut self, lanes: &[Arc<Lane>], scan: &Scan) -> EngineResult<Vec<i64>> {
        let ids = self.find_lanes(lanes.iter())?;
        let sql = "SELECT l.id FROM unnest($1::bigint[]) AS l (id) CROSS JOIN LATERAL \
                   (SELECT d.rank, d.at, d.seq FROM @.ready d WHERE d.lane = l.id";
        let mut query = Query { sql: sql.to_owned(), parameters: vec![Column::from_numbers(ids).into()] };
        if let Some(after) = scan.after {
            query.and_place(">", after);
        }
        query.parameters.push(limit(scan.limit).into());
        let most = query.parameters.len().to_string();
        let end = " ORDER BY d.rank, d.at, d.seq LIMIT 1) r ORDER BY r.rank, r.at, r.seq LIMIT $";
        query.sql.extend([end, &most]);
        let rows = self.link.fetch(&query.sql, query.parameters)?;
        rows.iter().map(|row| get(row, 0)).collect()
    }
}
