//! Lanes and policies, which many jobs share: stored once, named by a number, and handed out as one shared value. Both
//! are only ever added, so what is remembered stays true whatever other processes do; only a rollback undoes it.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::super::checksum::checksum_of_texts;
use super::{damaged, store_error};
use crate::job::{Details, JobType, Lane, Policy, QueueName, Tenant};
use crate::store::config::{encode, parse};
use crate::store::engine::EngineResult;

/// Lanes or policies remembered; all are forgotten when there are more, since most of them are then no longer in use.
const REMEMBERED_MAX: usize = 10_000;

/// What is remembered.
#[derive(Default)]
pub(crate) struct Interned {
    lanes: HashMap<i64, Arc<Lane>>,
    lane_ids: HashMap<Arc<Lane>, i64>,
    recent_lane: Option<(Arc<Lane>, i64)>,
    policies: HashMap<i64, Arc<Policy>>,
    policy_ids: HashMap<Vec<u8>, i64>,
    /// By the address of a value in `policies`, which stays alive there: spares writing it out to compare it.
    policy_places: HashMap<usize, i64>,
    recent_policy: Option<(Arc<Policy>, i64)>,
    /// The details of the many jobs that have none.
    pub(crate) no_details: Arc<Details>,
}

impl Interned {
    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Interned { no_details: self.no_details.clone(), ..Interned::default() };
    }

    /// The lane with this number.
    pub(crate) fn lane(&mut self, connection: &Connection, id: i64) -> EngineResult<Arc<Lane>> {
        if let Some(lane) = self.lanes.get(&id) {
            return Ok(lane.clone());
        }
        let found: Option<([String; 3], u32)> = connection
            .prepare_cached("SELECT tenant, queue, type, \"check\" FROM lanes WHERE id = ?1")
            .and_then(|mut statement| {
                let read = |row: &Row<'_>| Ok(([row.get(0)?, row.get(1)?, row.get(2)?], row.get(3)?));
                statement.query_row([id], read).optional()
            })
            .map_err(store_error)?;
        let Some((names, check)) = found else { return Err(damaged("lanes", id, "is missing")) };
        let [tenant, queue, job_type] = names.each_ref().map(String::as_str);
        if checksum_of_texts(&[tenant, queue, job_type]) != check {
            return Err(damaged("lanes", id, "does not match its checksum"));
        }
        let bad = |problem: crate::error::Problem| damaged("lanes", id, &problem.to_string());
        let lane = Arc::new(Lane {
            tenant: Tenant::new(tenant).map_err(bad)?,
            queue: QueueName::new(queue).map_err(bad)?,
            job_type: JobType::new(job_type).map_err(bad)?,
        });
        self.remember_lane(&lane, id);
        Ok(lane)
    }

    /// The number of a lane; none if no job was ever in it.
    pub(crate) fn find_lane(
        &mut self,
        connection: &Connection,
        lane: &Arc<Lane>,
    ) -> EngineResult<Option<i64>> {
        if let Some((known, id)) = &self.recent_lane
            && (Arc::ptr_eq(known, lane) || known == lane)
        {
            return Ok(Some(*id));
        }
        let mut found = self.lane_ids.get(lane).copied();
        if found.is_none() {
            found = connection
                .prepare_cached("SELECT id FROM lanes WHERE tenant = ?1 AND queue = ?2 AND type = ?3")
                .and_then(|mut statement| statement.query_row(names(lane), |row| row.get(0)).optional())
                .map_err(store_error)?;
            if let Some(id) = found {
                self.remember_lane(lane, id);
            }
        }
        self.recent_lane = found.map(|id| (lane.clone(), id));
        Ok(found)
    }

    /// The number of a lane, which is added if it is new.
    pub(crate) fn lane_id(&mut self, connection: &Connection, lane: &Arc<Lane>) -> EngineResult<i64> {
        if let Some(id) = self.find_lane(connection, lane)? {
            return Ok(id);
        }
        let [tenant, queue, job_type] = names(lane);
        let check = checksum_of_texts(&[tenant, queue, job_type]);
        let id = connection
            .prepare_cached("INSERT INTO lanes (tenant, queue, type, \"check\") VALUES (?1, ?2, ?3, ?4)")
            .and_then(|mut statement| statement.insert(params![tenant, queue, job_type, check]))
            .map_err(store_error)?;
        self.remember_lane(lane, id);
        Ok(id)
    }

    fn remember_lane(&mut self, lane: &Arc<Lane>, id: i64) {
        if self.lanes.len() >= REMEMBERED_MAX {
            self.lanes.clear();
            self.lane_ids.clear();
        }
        self.lanes.insert(id, lane.clone());
        self.lane_ids.insert(lane.clone(), id);
    }

    /// The policy with this number.
    pub(crate) fn policy(&mut self, connection: &Connection, id: i64) -> EngineResult<Arc<Policy>> {
        if let Some(policy) = self.policies.get(&id) {
            return Ok(policy.clone());
        }
        let found: Option<(String, u32)> = connection
            .prepare_cached("SELECT body, \"check\" FROM policies WHERE id = ?1")
            .and_then(|mut statement| {
                statement.query_row([id], |row| Ok((row.get(0)?, row.get(1)?))).optional()
            })
            .map_err(store_error)?;
        let Some((body, check)) = found else { return Err(damaged("policies", id, "is missing")) };
        if checksum_of_texts(&[&body]) != check {
            return Err(damaged("policies", id, "does not match its checksum"));
        }
        let policy: Arc<Policy> = Arc::new(parse(body.as_bytes())?);
        self.remember_policy(&policy, body.into_bytes(), id);
        Ok(policy)
    }

    /// The number of a policy, which is added if it is new.
    pub(crate) fn policy_id(&mut self, connection: &Connection, policy: &Arc<Policy>) -> EngineResult<i64> {
        if let Some((known, id)) = &self.recent_policy
            && (Arc::ptr_eq(known, policy) || known == policy)
        {
            return Ok(*id);
        }
        if let Some(id) = self.policy_places.get(&Arc::as_ptr(policy).addr()) {
            return Ok(*id);
        }
        let body = encode(&**policy);
        let id = match self.policy_ids.get(&body) {
            Some(id) => *id,
            None => self.add_policy(connection, policy, body)?,
        };
        self.recent_policy = Some((policy.clone(), id));
        Ok(id)
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

    fn remember_policy(&mut self, policy: &Arc<Policy>, body: Vec<u8>, id: i64) {
        if self.policies.len() >= REMEMBERED_MAX {
            self.policies.clear();
            self.policy_ids.clear();
            self.policy_places.clear();
        }
        if let Some(replaced) = self.policies.insert(id, policy.clone()) {
            self.policy_places.remove(&Arc::as_ptr(&replaced).addr());
        }
        self.policy_places.insert(Arc::as_ptr(policy).addr(), id);
        self.policy_ids.insert(body, id);
    }
}

fn names(lane: &Lane) -> [&str; 3] {
    [lane.tenant.as_str(), lane.queue.as_str(), lane.job_type.as_str()]
}
