//! The statistics that a commit writes: at most once a second, by lane and minute.

use std::collections::BTreeMap;

use super::WriteTx;
use crate::store::documents::config::encode;
use crate::store::documents::error_stats::minute_key;
use crate::store::documents::minute_stats::{minute_of, rate_key};
use crate::store::engine::{Document, DocumentKind, EngineResult};

impl WriteTx<'_> {
    /// Writes what is due.
    pub(super) fn write_rates(&mut self) -> EngineResult<()> {
        // By key: of two entries for one minute and lane the last counts.
        let (mut rates, mut errors) = (BTreeMap::new(), BTreeMap::new());
        for due in self.cache.rates.due(self.now) {
            self.effects.has_late_rates |= due.minute < minute_of(self.now);
            let key = rate_key(due.minute, &self.env.node, &due.lane);
            let body = encode(&due.whole);
            rates.insert(key.clone(), Document { key, body });
            if let Some(counts) = &due.errors {
                let key = minute_key(due.minute, &self.env.node, &due.lane);
                errors.insert(key.clone(), Document { key, body: encode(counts) });
            }
            self.effects.rates.push((due.lane, due.fresh));
        }
        if !rates.is_empty() {
            self.db.put_documents(DocumentKind::Rate, &rates.into_values().collect::<Vec<_>>())?;
        }
        if !errors.is_empty() {
            self.db.put_documents(DocumentKind::History, &errors.into_values().collect::<Vec<_>>())?;
        }
        Ok(())
    }
}
