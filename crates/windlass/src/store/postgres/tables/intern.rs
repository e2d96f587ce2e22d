//! Lanes and policies in the database: whatever a set of rows needs is read or added in one go. What is remembered of them
//! is kept elsewhere.

use std::sync::Arc;

use super::super::link::get;
use super::super::parameter::Column;
use super::Tables;
use crate::error::StoreError;
use crate::job::{Lane, Policy};
use crate::store::durable::checksum::checksum_of_texts;
use crate::store::durable::interned::{lane_names, read_lane, read_policy};
use crate::store::engine::EngineResult;

const LANES: &str = "SELECT id, tenant, queue, type, \"check\" FROM @.lanes WHERE id = ANY($1) ORDER BY id";
const POLICIES: &str = "SELECT id, body, \"check\" FROM @.policies WHERE id = ANY($1) ORDER BY id";
const FIND_LANE: &str = "SELECT id FROM @.lanes WHERE tenant = $1 AND queue = $2 AND type = $3";
const ADD_LANE: &str =
    "INSERT INTO @.lanes (tenant, queue, type, \"check\") VALUES ($1, $2, $3, $4) RETURNING id";
const FIND_POLICY: &str = "SELECT id FROM @.policies WHERE md5(body) = md5($1) AND body = $1";
const ADD_POLICY: &str = "INSERT INTO @.policies (body, \"check\") VALUES ($1, $2) RETURNING id";

impl Tables {
    /// Makes sure that these lanes and policies are remembered.
    pub(in super::super) fn learn(
        &mut self,
        lanes: impl Iterator<Item = i64>,
        policies: impl Iterator<Item = i64>,
    ) -> EngineResult<()> {
        let interned = &self.interned;
        let unknown = |ids: Vec<i64>| {
            let mut ids = ids;
            ids.sort_unstable();
            ids.dedup();
            ids
        };
        let lanes = unknown(lanes.filter(|id| interned.known_lane(*id).is_none()).collect());
        let policies = unknown(policies.filter(|id| interned.known_policy(*id).is_none()).collect());
        if !lanes.is_empty() {
            for row in self.link.fetch(LANES, vec![Column::of(lanes).into()])? {
                let id = get(&row, 0)?;
                let names = [get(&row, 1)?, get(&row, 2)?, get(&row, 3)?];
                let lane = read_lane(id, names, check(get(&row, 4)?))?;
                self.interned.remember_lane(&lane, id);
            }
        }
        if !policies.is_empty() {
            for row in self.link.fetch(POLICIES, vec![Column::of(policies).into()])? {
                let (id, body): (i64, &str) = (get(&row, 0)?, get(&row, 1)?);
                let policy = read_policy(id, body, check(get(&row, 2)?))?;
                self.interned.remember_policy(&policy, body.as_bytes().to_vec(), id);
            }
        }
        Ok(())
    }

    /// The number of a lane; none if no job was ever in it.
    pub(in super::super) fn find_lane(&mut self, lane: &Arc<Lane>) -> EngineResult<Option<i64>> {
        if let Some(id) = self.interned.known_lane_id(lane) {
            return Ok(Some(id));
        }
        let names = lane_names(lane).map(Into::into);
        let found = self.link.fetch(FIND_LANE, Vec::from(names))?;
        let Some(row) = found.first() else { return Ok(None) };
        let id = get(row, 0)?;
        self.interned.remember_lane(lane, id);
        Ok(Some(id))
    }

    /// The number of a lane, which is added if it is new.
    pub(in super::super) fn lane_id(&mut self, lane: &Arc<Lane>) -> EngineResult<i64> {
        if let Some(id) = self.find_lane(lane)? {
            return Ok(id);
        }
        let names = lane_names(lane);
        let [tenant, queue, job_type] = names.map(Into::into);
        let values = vec![tenant, queue, job_type, i64::from(checksum_of_texts(&names)).into()];
        let id = self.added(ADD_LANE, values)?;
        self.interned.remember_lane(lane, id);
        Ok(id)
    }

    /// The number of a policy, which is added if it is new.
    pub(in super::super) fn policy_id(&mut self, policy: &Arc<Policy>) -> EngineResult<i64> {
        let body = match self.interned.known_policy_id(policy) {
            Ok(id) => return Ok(id),
            Err(body) => body,
        };
        let text = String::from_utf8_lossy(&body).into_owned();
        let found = self.link.fetch(FIND_POLICY, vec![text.as_str().into()])?;
        let id = if let Some(row) = found.first() {
            get(row, 0)?
        } else {
            let check = i64::from(checksum_of_texts(&[&text]));
            self.added(ADD_POLICY, vec![text.as_str().into(), check.into()])?
        };
        self.interned.remember_policy(policy, body, id);
        Ok(id)
    }

    fn added(&mut self, sql: &str, values: Vec<super::super::parameter::Parameter>) -> EngineResult<i64> {
        self.has_written = true;
        let rows = self.link.fetch(sql, values)?;
        rows.first().map_or_else(
            || Err(StoreError::Database("a row was added without a number".into())),
            |row| get(row, 0),
        )
    }

    /// Reads all lanes and policies, which compares them with their checksums.
    pub(in super::super) fn check_interned(&mut self) -> EngineResult<()> {
        self.interned.clear();
        for (table, sql) in [
            ("lanes", "SELECT id FROM @.lanes ORDER BY id"),
            ("policies", "SELECT id FROM @.policies ORDER BY id"),
        ] {
            let rows = self.link.fetch(sql, Vec::new())?;
            let ids = rows.iter().map(|row| get(row, 0)).collect::<EngineResult<Vec<i64>>>()?;
            for some in ids.chunks(1_000) {
                let none = std::iter::empty();
                match table {
                    "lanes" => self.learn(some.iter().copied(), none)?,
                    _ => self.learn(none, some.iter().copied())?,
                }
            }
        }
        Ok(())
    }
}

/// A checksum as stored; one that is out of range matches nothing.
pub(in super::super) fn check(stored: i64) -> u32 {
    u32::try_from(stored).unwrap_or(u32::MAX)
}
