//! When workers were last seen. Every heartbeat changes it, so it is not part of the configuration, which every
//! reader and every other node would have to read again. It is a document per worker, read when a worker's liveness
//! matters.

use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::clock::Timestamp;
use crate::job::WorkerId;
use crate::limits;
use crate::store::documents::config::{Config, Worker, encode, parse};
use crate::store::engine::{Document, DocumentKind, EngineResult, Read};

/// When workers were last seen, as far as known.
#[derive(Debug, Default)]
pub(crate) struct Liveness {
    seen: FxHashMap<WorkerId, LastSeen>,
    /// How often other connections may have written.
    epoch: u64,
    /// Whether all documents were read in this epoch.
    is_whole: bool,
}

/// What is known of one worker.
#[derive(Debug, Clone, Copy)]
struct LastSeen {
    /// `None` if it was not seen since its registration.
    at: Option<Timestamp>,
    /// The epoch in which this was read.
    epoch: u64,
}

/// Maximum number of cached workers; the cache is cleared when there are more.
const REMEMBERED_MAX: usize = 100_000;

/// A worker seen within this time is alive, even if the cached value is outdated: the value only grows.
const SURELY_ALIVE: Duration = Duration::from_secs(limits::WORKER_SILENCE_MAX.as_secs() / 2);

impl Liveness {
    /// Another connection may have written: cached values may be too early, but never too late.
    pub(crate) fn outdate(&mut self) {
        self.epoch += 1;
        self.is_whole = false;
    }

    /// A worker with its latest heartbeat time.
    pub(crate) fn look_up(
        &mut self,
        db: &mut (impl Read + ?Sized),
        worker: Worker,
        now: Timestamp,
    ) -> EngineResult<Worker> {
        let is_current =
            self.is_whole || self.seen.get(&worker.id).is_some_and(|known| known.epoch == self.epoch);
        if !is_current && now.since(self.seen_at(&worker)) >= SURELY_ALIVE {
            let found = db.document(DocumentKind::Liveness, &worker.id.to_string())?;
            let found = found.map(|document| read(&document)).transpose()?;
            self.insert(worker.id, found);
        }
        Ok(Worker { seen_at: self.seen_at(&worker), ..worker })
    }

    /// Reads all documents if needed.
    pub(crate) fn read_all(&mut self, db: &mut (impl Read + ?Sized)) -> EngineResult<()> {
        if self.is_whole {
            return Ok(());
        }
        for document in db.documents(DocumentKind::Liveness)? {
            if let Ok(worker) = document.key.parse() {
                let seen = LastSeen { at: Some(read(&document)?), epoch: self.epoch };
                self.seen.insert(worker, seen);
            }
        }
        self.is_whole = true;
        Ok(())
    }

    /// Caches when a worker was seen.
    pub(crate) fn insert(&mut self, worker: WorkerId, at: Option<Timestamp>) {
        if self.seen.len() >= REMEMBERED_MAX && !self.seen.contains_key(&worker) {
            self.seen.clear();
            self.is_whole = false;
        }
        self.seen.insert(worker, LastSeen { at, epoch: self.epoch });
    }

    /// Drops a worker that is no longer registered.
    pub(crate) fn remove(&mut self, worker: WorkerId) {
        self.seen.remove(&worker);
    }

    /// When a worker was last seen; its registration counts.
    pub(crate) fn seen_at(&self, worker: &Worker) -> Timestamp {
        let seen = self.seen.get(&worker.id).and_then(|seen| seen.at);
        seen.map_or(worker.seen_at, |at| at.max(worker.seen_at))
    }

    /// Sets in a configuration when its workers were last seen.
    pub(crate) fn apply(&self, config: &mut Config) {
        for worker in config.workers.values_mut() {
            worker.seen_at = self.seen_at(worker);
        }
    }
}

fn read(document: &Document) -> EngineResult<Timestamp> {
    parse(&document.body)
}

/// The stored form.
pub(crate) fn body(at: Timestamp) -> Vec<u8> {
    encode(&at)
}
