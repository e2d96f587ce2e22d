//! Lanes and policies in the file: read once, and added when they are new. The cache is in `sql/interner.rs`.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::store_error;
use crate::job::{Lane, Policy};
use crate::store::engine::EngineResult;
use crate::store::engines::sql::checksum::checksum_of_texts;
use crate::store::engines::sql::columns::damaged;
pub(crate) use crate::store::engines::sql::interner::Interner;
use crate::store::engines::sql::interner::{lane_check, lane_names, read_lane, read_policy};

impl Interner {
    /// The lane with this number.
    pub(crate) fn lane(&mut self, connection: &Connection, id: i64) -> EngineResult<Arc<Lane>> {
        if let Some(lane) = self.known_lane(id) {
            return Ok(lane.clone());
        }
        let found: Option<([String; 4], u32)> = connection
            .prepare_cached("SELECT tenant, queue, type, version, \"check\" FROM lanes WHERE id = ?1")
            .and_then(|mut statement| {
                let read =
                    |row: &Row<'_>| Ok(([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?], row.get(4)?));
                statement.query_row([id], read).optional()
            })
            .map_err(store_error)?;
        let Some((names, check)) = found else { return Err(damaged("lanes", id, "is missing")) };
        let lane = read_lane(id, names.each_ref().map(String::as_str), check)?;
        self.remember_lane(&lane, id);
        Ok(lane)
    }

    /// The number of a lane; `None` if it never had a job.
    pub(crate) fn find_lane(
        &mut self,
        connection: &Connection,
        lane: &Arc<Lane>,
    ) -> EngineResult<Option<i64>> {
        let mut found = self.known_lane_id(lane);
        if found.is_none() {
            found = connection
                .prepare_cached(
                    "SELECT id FROM lanes WHERE tenant = ?1 AND queue = ?2 AND type = ?3 AND version = ?4",
                )
                .and_then(|mut statement| statement.query_row(lane_names(lane), |row| row.get(0)).optional())
                .map_err(store_error)?;
            if let Some(id) = found {
                self.remember_lane(lane, id);
            }
        }
        Ok(found)
    }

    /// The number of a lane; adds it if it is new.
    pub(crate) fn lane_id(&mut self, connection: &Connection, lane: &Arc<Lane>) -> EngineResult<i64> {
        if let Some(id) = self.find_lane(connection, lane)? {
            return Ok(id);
        }
        let names @ [tenant, queue, job_type, version] = lane_names(lane);
        let id = connection
            .prepare_cached(
                "INSERT INTO lanes (tenant, queue, type, version, \"check\") VALUES (?1, ?2, ?3, ?4, ?5)",
            )
            .and_then(|mut statement| {
                statement.insert(params![tenant, queue, job_type, version, lane_check(names)])
            })
            .map_err(store_error)?;
        self.remember_lane(lane, id);
        Ok(id)
    }

    /// The policy with this number.
    pub(crate) fn policy(&mut self, connection: &Connection, id: i64) -> EngineResult<Arc<Policy>> {
        if let Some(policy) = self.known_policy(id) {
            return Ok(policy.clone());
        }
        let found: Option<(String, u32)> = connection
            .prepare_cached("SELECT body, \"check\" FROM policies WHERE id = ?1")
            .and_then(|mut statement| {
                statement.query_row([id], |row| Ok((row.get(0)?, row.get(1)?))).optional()
            })
            .map_err(store_error)?;
        let Some((body, check)) = found else { return Err(damaged("policies", id, "is missing")) };
        let policy = read_policy(id, &body, check)?;
        self.remember_policy(&policy, body.into_bytes(), id);
        Ok(policy)
    }

    /// The number of a policy; adds it if it is new.
    pub(crate) fn policy_id(&mut self, connection: &Connection, policy: &Arc<Policy>) -> EngineResult<i64> {
        match self.known_policy_id(policy) {
            Ok(id) => Ok(id),
            Err(body) => self.add_policy(connection, policy, body),
        }
    }

    fn add_policy(
        &mut self,
        connection: &Connection,
        policy: &Arc<Policy>,
        body: Vec<u8>,
    ) -> EngineResult<i64> {
        let text = String::from_utf8_lossy(&body).into_owned();
        let found: Option<i64> = connection
            .prepare_cached("SELECT id FROM policies WHERE body = ?1")
            .and_then(|mut statement| statement.query_row([&text], |row| row.get(0)).optional())
            .map_err(store_error)?;
        let id = match found {
            Some(id) => id,
            None => connection
                .prepare_cached("INSERT INTO policies (body, \"check\") VALUES (?1, ?2)")
                .and_then(|mut statement| statement.insert(params![text, checksum_of_texts(&[&text])]))
                .map_err(store_error)?,
        };
        self.remember_policy(policy, body, id);
        Ok(id)
    }
}
