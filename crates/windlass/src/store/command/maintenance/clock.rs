//! Accepting the wall clock after it jumped. The acceptance is stored, so that every process on the store also trusts
//! its own clock again.

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::audit::AuditEvent;
use crate::clock::{ClockReport, SharedGrace, Timestamp};
use crate::error::{ActionError, StoreError};
use crate::job::Tenant;
use crate::limits;
use crate::store::caller::{Caller, Permission};
use crate::store::command::effects::audit::RecordActor;
use crate::store::documents::config::{Worker, encode, parse};
use crate::store::engine::{DocumentKind, EngineResult};
use crate::store::move_store::marker::MoveMarker;
use crate::store::tx::write_tx::WriteTx;

/// The key of the only document of its kind.
const KEY: &str = "accepted";
/// The key of the document with gaps and skipped periods.
const GRACE_KEY: &str = "grace";
/// The key of the document that records when maintenance last ran.
const SERVED_KEY: &str = "served";

/// How often the wall clock was accepted, and when last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AcceptedWall {
    pub(crate) number: u64,
    /// Store time.
    at: Timestamp,
    wall: Timestamp,
    by: String,
}

/// Records that an operator accepts the wall clock as read for this commit.
pub(crate) fn accept(tx: &mut WriteTx<'_>, caller: &Caller) -> Result<AcceptedWall, ActionError> {
    caller.require(Permission::Administer)?;
    let ClockReport { wall, ahead_ms, is_believed, .. } = tx.env.clock.report();
    let number = tx.accepted_clock()?.number + 1;
    let accepted = AcceptedWall { number, at: tx.now, wall, by: caller.id.clone() };
    tx.put_document(DocumentKind::Clock, KEY, Some(&encode(&accepted)), |_| {})?;
    let context = json!({
        "actor_id": caller.id,
        "store_time": tx.now.to_string(),
        "wall_clock": wall.to_string(),
        "ahead_ms": ahead_ms,
        "was_believed": is_believed,
    });
    let cause = RecordActor::caller(caller, None);
    tx.record_operation(AuditEvent::ClockAccepted, Tenant::default(), &cause, &context);
    Ok(accepted)
}

impl WriteTx<'_> {
    fn accepted_clock(&mut self) -> Result<AcceptedWall, StoreError> {
        let found = self.db()?.document(DocumentKind::Clock, KEY)?;
        found.map_or(Ok(AcceptedWall::default()), |document| parse(&document.body))
    }

    /// Merges what other nodes recorded about gaps and clock jumps with what this node knows, before anything else in
    /// this commit: a node started next uses the time of this commit.
    pub(crate) fn share_grace(&mut self) -> EngineResult<()> {
        let known = self.config()?.grace;
        let shared;
        (self.grace, shared) = self.env.clock.merge_grace(known);
        if shared != known && !self.is_being_moved()? {
            self.put_grace(shared)?;
        }
        Ok(())
    }

    /// Whether a move copies this store: it must not change what it has copied.
    fn is_being_moved(&mut self) -> EngineResult<bool> {
        Ok(self.env.is_moving && MoveMarker::read(self.db()?)?.is_some_and(|mark| mark.is_shut()))
    }

    /// Records that the store is served from now on: no worker could report to it while it was being moved.
    pub(crate) fn begin_service(&mut self) -> EngineResult<()> {
        let grace = SharedGrace { served_since: self.now, ..SharedGrace::default() };
        let shared = self.config()?.grace.with(grace);
        self.put_grace(shared)
    }

    fn put_grace(&mut self, shared: SharedGrace) -> EngineResult<()> {
        self.put_document(DocumentKind::Grace, GRACE_KEY, Some(&encode(&shared)), |config| {
            config.grace = shared;
        })
    }

    /// Commits periodically even if nothing happens, while there are workers with heartbeats. A process that reads the
    /// store for the first time in a while can tell from the last commit whether it was being served.
    pub(crate) fn show_service(&mut self) -> Result<(), StoreError> {
        let counts = |worker: &Worker| worker.heartbeats && !worker.is_lost;
        if self.env.clock.since_last_commit() < limits::SERVICE_SHOWN_EVERY
            || !self.config()?.workers.values().any(counts)
        {
            return Ok(());
        }
        let at = encode(&self.now);
        self.put_document(DocumentKind::Clock, SERVED_KEY, Some(&at), |_| {})
    }

    /// Checks whether an operator accepted the wall clock through another process. Reads nothing while the clock is
    /// trusted.
    pub(crate) fn apply_accepted_clock(&mut self) -> Result<(), StoreError> {
        if self.env.clock.report().is_off() {
            let number = self.accepted_clock()?.number;
            self.env.clock.apply_accepted(number);
        }
        Ok(())
    }
}
