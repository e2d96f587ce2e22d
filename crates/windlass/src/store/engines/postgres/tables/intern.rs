//! Lanes and policies in the database: those needed by a set of rows are read or added in one query. The cache is in
//! `sql/interner.rs`.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::connection::get;
use super::super::parameter::Column;
use super::Tables;
use crate::error::StoreError;
use crate::job::{Lane, Policy};
use crate::ordered::CollectOrdered;
use crate::store::engine::EngineResult;
use crate::store::engines::sql::checksum::checksum_of_texts;
use crate::store::engines::sql::interner::{lane_check, lane_names, read_lane, read_policy};

const LANES: &str =
    "SELECT id, tenant, queue, type, version, \"check\" FROM @.lanes WHERE id = ANY($1) ORDER BY id";
const POLICIES: &str = "SELECT id, body, \"check\" FROM @.policies WHERE id = ANY($1) ORDER BY id";
const FIND_LANES: &str = "SELECT u.place, l.id \
     FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) WITH ORDINALITY u(tenant, queue, type, version, place) \
     CROSS JOIN LATERAL (SELECT l.id FROM @.lanes l WHERE l.tenant = u.tenant AND l.queue = u.queue \
     AND l.type = u.type AND l.version = u.version OFFSET 0) l";
const ADD_LANES: &str = "INSERT INTO @.lanes (tenant, queue, type, version, \"check\") \
     SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[]) \
     RETURNING id, tenant, queue, type, version, \"check\"";
const FIND_POLICY: &str = "SELECT id FROM @.policies WHERE md5(body) = md5($1) AND body = $1";
const ADD_POLICY: &str = "INSERT INTO @.policies (body, \"check\") VALUES ($1, $2) RETURNING id";

impl Tables {
    /// Reads these lanes and policies into the cache.
    pub(in super::super) fn cache_interned(
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
            for row in self.link.fetch(LANES, vec![Column::from_numbers(lanes).into()])? {
                let id = get(&row, 0)?;
                let names = [get(&row, 1)?, get(&row, 2)?, get(&row, 3)?, get(&row, 4)?];
                let lane = read_lane(id, names, check(get(&row, 5)?))?;
                self.interned.remember_lane(&lane, id);
            }
        }
        if !policies.is_empty() {
            for row in self.link.fetch(POLICIES, vec![Column::from_numbers(policies).into()])? {
                let (id, body): (i64, &str) = (get(&row, 0)?, get(&row, 1)?);
                let policy = read_policy(id, body, check(get(&row, 2)?))?;
                self.interned.remember_policy(&policy, body.as_bytes().to_vec(), id);
            }
        }
        Ok(())
    }

    /// The numbers of lanes, read together; 0, which no lane has, for a lane that never had a job.
    pub(in super::super) fn find_lanes<'l>(
        &mut self,
        lanes: impl Iterator<Item = &'l Arc<Lane>>,
    ) -> EngineResult<Vec<i64>> {
        let (mut ids, mut unknown) = (Vec::new(), Vec::new());
        for lane in lanes {
            let id = self.interned.known_lane_id(lane);
            if id.is_none() {
                unknown.push((ids.len(), lane));
            }
            ids.push(id.unwrap_or(0));
        }
        if unknown.is_empty() {
            return Ok(ids);
        }
        let names = lane_columns(unknown.iter().map(|(_, lane)| *lane));
        for row in self.link.fetch(FIND_LANES, names.map(Into::into).into())? {
            let (place, id): (i64, i64) = (get(&row, 0)?, get(&row, 1)?);
            let found = usize::try_from(place - 1).ok().and_then(|place| unknown.get(place));
            if let Some((at, lane)) = found {
                self.interned.remember_lane(lane, id);
                ids[*at] = id;
            }
        }
        Ok(ids)
    }

    /// Makes sure that these lanes have cached numbers: new ones are added together.
    pub(in super::super) fn know_lanes<'l>(
        &mut self,
        lanes: impl Iterator<Item = &'l Arc<Lane>>,
    ) -> EngineResult<()> {
        let mut wanted: Vec<&Arc<Lane>> = Vec::new();
        for lane in lanes {
            // Jobs mostly come lane by lane.
            if wanted.last().is_none_or(|last| !Arc::ptr_eq(last, lane)) {
                wanted.push(lane);
            }
        }
        let ids = self.find_lanes(wanted.iter().copied())?;
        let unknown = ids.iter().zip(&wanted).filter(|(id, _)| **id == 0);
        let new: BTreeSet<&Arc<Lane>> = unknown.map(|(_, lane)| *lane).collect_ordered();
        if new.is_empty() {
            return Ok(());
        }
        let [tenants, queues, types, versions] = lane_columns(new.iter().copied());
        let checks = Column::from_numbers(new.iter().map(|lane| i64::from(lane_check(lane_names(lane)))));
        self.begin_to_write()?;
        let values = vec![tenants.into(), queues.into(), types.into(), versions.into(), checks.into()];
        for row in self.link.fetch(ADD_LANES, values)? {
            let id = get(&row, 0)?;
            let names = [get(&row, 1)?, get(&row, 2)?, get(&row, 3)?, get(&row, 4)?];
            let lane = read_lane(id, names, check(get(&row, 5)?))?;
            self.interned.remember_lane(new.get(&lane).copied().unwrap_or(&lane), id);
        }
        Ok(())
    }

    /// The number of a lane; adds it if it is new.
    pub(in super::super) fn lane_id(&mut self, lane: &Arc<Lane>) -> EngineResult<i64> {
        if let Some(id) = self.interned.known_lane_id(lane) {
            return Ok(id);
        }
        self.know_lanes(std::iter::once(lane))?;
        let known = self.interned.known_lane_id(lane);
        known.ok_or_else(|| StoreError::Database("a lane was added without a number".into()))
    }

    /// The number of a policy; adds it if it is new.
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
        self.begin_to_write()?;
        let rows = self.link.fetch(sql, values)?;
        rows.first().map_or_else(
            || Err(StoreError::Database("a row was added without a number".into())),
            |row| get(row, 0),
        )
    }

    /// Reads all lanes and policies, which verifies their checksums.
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
                    "lanes" => self.cache_interned(some.iter().copied(), none)?,
                    _ => self.cache_interned(none, some.iter().copied())?,
                }
            }
        }
        Ok(())
    }
}

/// The names of lanes, as columns.
fn lane_columns<'l>(lanes: impl Iterator<Item = &'l Arc<Lane>>) -> [Column; 4] {
    let mut columns = [(); 4].map(|()| Column::texts());
    for lane in lanes {
        for (column, name) in columns.iter_mut().zip(lane_names(lane)) {
            column.push(name.as_bytes());
        }
    }
    columns
}

/// A checksum as stored; one that is out of range matches nothing.
pub(in super::super) fn check(stored: i64) -> u32 {
    u32::try_from(stored).unwrap_or(u32::MAX)
}
