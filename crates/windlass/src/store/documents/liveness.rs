//! When workers were last heard of. Every heartbeat changes it, so it is no part of the configuration, which every reader and
//! every other node would have to read again: a document for each worker, looked up by those who ask whether it is alive.

use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::clock::Timestamp;
use crate::job::WorkerId;
use crate::limits;
use crate::store::documents::config::{Config, Worker, encode, parse};
use crate::store::engine::{Document, DocumentKind, EngineResult, Read};

/// When workers were last heard of, as far as that is known.
#[derive(Debug, Default)]
pub(crate) struct Liveness {
    heard: FxHashMap<WorkerId, LastSeen>,
    /// How often others may have written since the beginning.
    epoch: u64,
    /// Whether all there are were read in this epoch.
    is_whole: bool,
}

/// What is known of one worker.
#[derive(Debug, Clone, Copy)]
struct LastSeen {
    /// None if it was not heard of since its registration.
    at: Option<Timestamp>,
    /// Since when nobody else can have changed it.
    epoch: u64,
}

/// Workers remembered; all are forgotten when there are more.
const REMEMBERED_MAX: usize = 100_000;

/// A worker that was heard of within this time is alive, whatever others know of it: it is only ever heard of later.
const SURELY_ALIVE: Duration = Duration::from_secs(limits::WORKER_SILENCE_MAX.as_secs() / 2);

impl Liveness {
    /// Somebody else may have written: what is known may be too early, but never too late.
    pub(crate) fn outdate(&mut self) {
        self.epoch += 1;
        self.is_whole = false;
    }

    /// A worker as last heard of.
    pub(crate) fn look_up(
        &mut self,
        db: &mut (impl Read + ?Sized),
        worker: Worker,
        now: Timestamp,
    ) -> EngineResult<Worker> {
        let is_current =
            self.is_whole || self.heard.get(&worker.id).is_some_and(|known| known.epoch == self.epoch);
        if !is_current && now.since(self.seen_at(&worker)) >= SURELY_ALIVE {
            let found = db.document(DocumentKind::Liveness, &worker.id.to_string())?;
            let found = found.map(|document| read(&document)).transpose()?;
            self.learn(worker.id, found);
        }
        Ok(Worker { seen_at: self.seen_at(&worker), ..worker })
    }

    /// Makes sure that all are known.
    pub(crate) fn read_all(&mut self, db: &mut (impl Read + ?Sized)) -> EngineResult<()> {
        if self.is_whole {
            return Ok(());
        }
        for document in db.documents(DocumentKind::Liveness)? {
            if let Ok(worker) = document.key.parse() {
                let heard = LastSeen { at: Some(read(&document)?), epoch: self.epoch };
                self.heard.insert(worker, heard);
            }
        }
        self.is_whole = true;
        Ok(())
    }

    /// Remembers when a worker was heard of.
    pub(crate) fn learn(&mut self, worker: WorkerId, at: Option<Timestamp>) {
        if self.heard.len() >= REMEMBERED_MAX && !self.heard.contains_key(&worker) {
            self.heard.clear();
            self.is_whole = false;
        }
        self.heard.insert(worker, LastSeen { at, epoch: self.epoch });
    }

    /// Forgets a worker that is not registered any more.
    pub(crate) fn forget(&mut self, worker: WorkerId) {
        self.heard.remove(&worker);
    }

    /// When a worker was last heard of; its registration counts.
    pub(crate) fn seen_at(&self, worker: &Worker) -> Timestamp {
        let heard = self.heard.get(&worker.id).and_then(|heard| heard.at);
        heard.map_or(worker.seen_at, |at| at.max(worker.seen_at))
    }

    /// Says in a configuration when its workers were last heard of.
    pub(crate) fn apply(&self, config: &mut Config) {
        for worker in config.workers.values_mut() {
            worker.seen_at = self.seen_at(worker);
        }
    }
}

fn read(document: &Document) -> EngineResult<Timestamp> {
    parse(&document.body)
}

/// As it is kept.
pub(crate) fn body(at: Timestamp) -> Vec<u8> {
    encode(&at)
}
