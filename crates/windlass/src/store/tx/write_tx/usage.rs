//! Values a write transaction caches: usage of rate limits, turns and budgets (small documents that many commands of
//! one group change and that are written once at the end), and the time until which no timer is due.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::WriteTx;
use crate::clock::Timestamp;
use crate::job::{Payload, Seq};
use crate::limits;
use crate::store::documents::cascade::{Budget, Cascade};
use crate::store::documents::config::{encode, parse};
use crate::store::engine::{DocumentKind, EngineResult};

/// Maximum number of usage documents cached between commits; the cache is cleared when there are more.
const REMEMBERED_MAX: usize = 10_000;

impl WriteTx<'_> {
    /// A usage document with pending changes.
    pub(crate) fn usage<T: DeserializeOwned>(&mut self, key: &str) -> EngineResult<Option<T>> {
        if !self.cache.usage.documents.contains_key(key) {
            let stored = self.document(DocumentKind::Bucket, key)?.map(|document| document.body);
            self.cache.usage.documents.insert(key.to_owned(), (stored, false));
        }
        let (body, _) = &self.cache.usage.documents[key];
        body.as_deref().map(parse).transpose()
    }

    /// Changes or removes a usage document. This is not undone with its command: nothing may be refused after this.
    pub(crate) fn put_usage<T: Serialize>(&mut self, key: String, value: Option<&T>) {
        self.cache.usage.documents.insert(key, (value.map(encode), true));
    }

    /// Writes all changed usage documents.
    pub(super) fn write_usage(&mut self) -> EngineResult<()> {
        let documents = &mut self.cache.usage.documents;
        for (key, (body, is_dirty)) in documents.iter_mut().filter(|(_, (_, is_dirty))| *is_dirty) {
            self.db.put_document(DocumentKind::Bucket, key, body.as_deref())?;
            *is_dirty = false;
        }
        if documents.len() > REMEMBERED_MAX {
            documents.clear();
        }
        Ok(())
    }

    /// Replaces the payload of a job immediately. Like a usage document, it is not undone with its command alone.
    pub(crate) fn rewrite(&mut self, seq: Seq, payload: &Payload) -> EngineResult<()> {
        self.flush()?;
        self.is_beyond_undoing = true;
        self.raw(|db| db.rewrite(seq, payload))
    }

    /// Up to `max` jobs with timers due by now; reads nothing if it is known that there are none.
    pub(crate) fn due(&mut self, max: usize) -> EngineResult<Vec<Seq>> {
        if self.cache.is_quiet(self.now) {
            return Ok(Vec::new());
        }
        let now = self.now;
        let due = self.db()?.due(now, max)?;
        if due.is_empty() && !self.cache.is_shared {
            let next = self.db()?.next_due()?;
            self.cache.quiet_until(next);
        }
        Ok(due.into_iter().map(|job| self.cache_job(job)).collect())
    }

    /// The time before which no timer is due, if known.
    pub(crate) fn no_timer_before(&self) -> Option<Timestamp> {
        self.cache.usage.no_timer_before
    }

    /// Whether other connections write too, so that caching is not worthwhile.
    pub(crate) fn is_shared(&self) -> bool {
        self.cache.is_shared
    }

    /// Extends the budget for the consequences of so many outcomes.
    pub(crate) fn expect_outcomes(&mut self, count: usize) {
        let jobs = count * limits::CASCADE_JOBS_PER_OUTCOME;
        self.budgets[0] = Budget::new(self.env.options.cascade_jobs_per_commit.max(jobs));
    }

    /// Whether it is known that no cascade is left.
    pub(crate) fn has_no_cascades(&self) -> bool {
        self.cache.usage.has_no_cascades
    }

    /// Records that no cascade is left.
    pub(crate) fn cache_no_cascades(&mut self) {
        self.cache.usage.has_no_cascades = !self.cache.is_shared;
    }

    /// Stores a cascade for a later commit, replacing one with the same key.
    pub(crate) fn keep_cascade(&mut self, cascade: Cascade) {
        self.cache.usage.has_no_cascades = false;
        self.effects.has_cascades = true;
        self.pending.cascades.push(cascade);
    }

    /// Discards what this connection has cached of stored jobs, after a change that bypassed them.
    pub(crate) fn outdate_cache(&mut self) {
        self.cache.outdate();
    }

    /// Records the time before which no timer is due.
    pub(crate) fn remember_no_timer_before(&mut self, at: Option<Timestamp>) {
        self.cache.usage.no_timer_before = at;
    }
}
