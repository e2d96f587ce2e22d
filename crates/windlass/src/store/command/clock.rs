//! Accepting the wall clock after it jumped: kept in the store, so that every process on it believes its own reading too.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::audit::RecordActor;
use crate::audit::AuditEvent;
use crate::clock::{ClockReport, Timestamp};
use crate::error::{ActError, StoreError};
use crate::job::Tenant;
use crate::limits;
use crate::store::caller::{Caller, Permission};
use crate::store::documents::config::{Worker, encode, parse};
use crate::store::engine::{DocumentKind, EngineResult};
use crate::store::tx::write_tx::WriteTx;

/// The only document of its kind.
const KEY: &str = "accepted";
/// The only document of its kind, too.
const GRACE_KEY: &str = "grace";
/// When maintenance last showed that the store is served.
const SERVED_KEY: &str = "served";

/// How often the wall clock was accepted, and the last time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Accepted {
    pub(crate) number: u64,
    /// Store time.
    at: Timestamp,
    wall: Timestamp,
    by: String,
}

/// Notes that an operator accepts the wall clock as it was read for this commit.
pub(crate) fn accept(tx: &mut WriteTx<'_>, caller: &Caller) -> Result<Accepted, ActError> {
    caller.require(Permission::Administer)?;
    let ClockReport { wall, ahead_ms, is_believed, .. } = tx.env.clock.report();
    let number = tx.accepted_clock()?.number + 1;
    let accepted = Accepted { number, at: tx.now, wall, by: caller.id.clone() };
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
    fn accepted_clock(&mut self) -> Result<Accepted, StoreError> {
        let found = self.db()?.document(DocumentKind::Clock, KEY)?;
        found.map_or(Ok(Accepted::default()), |document| parse(&document.body))
    }

    /// Takes in what other nodes know of gaps and leaps, and tells them what this one knows, before anything else is done in
    /// this commit: a node that is started next goes by the time of this commit.
    pub(crate) fn share_grace(&mut self) -> EngineResult<()> {
        let known = self.config()?.grace;
        let shared;
        (self.grace, shared) = self.env.clock.learn_grace(known);
        if shared != known {
            let body = encode(&shared);
            self.put_document(DocumentKind::Grace, GRACE_KEY, Some(&body), |config| config.grace = shared)?;
        }
        Ok(())
    }

    /// Commits now and then although nothing happens, while there are workers whose silence counts: a process that looks at
    /// the store for the first time in a while knows by the last commit whether it was served meanwhile.
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

    /// Looks whether an operator accepted the wall clock through another process. Not worth a question while it is believed.
    pub(crate) fn learn_accepted_clock(&mut self) -> Result<(), StoreError> {
        if self.env.clock.report().is_off() {
            let number = self.accepted_clock()?.number;
            self.env.clock.learn_accepted(number);
        }
        Ok(())
    }
}
