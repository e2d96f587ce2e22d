//! The identity of the database that contains a schema: compared on connecting with what the last writing node stored.
//! Another system identifier, timeline or table means that the database was restored or that a standby took over, and
//! that an unknown number of commits may be missing.

use tokio_postgres::Row;

use crate::error::StoreError;
use crate::store::engine::EngineResult;
use crate::store::engines::postgres::connection::get;
use crate::store::engines::postgres::parameter::Parameter;
use crate::store::engines::postgres::tables::Tables;

/// Changes with `initdb`, and so with every restore into a new server that is not a copy of the old one's files.
const SYSTEM: &str = "SELECT system_identifier FROM pg_control_system()";
/// The first eight digits of a log file's name. Unlike `pg_control_checkpoint()` it is correct from the promotion on.
const TIMELINE: &str = "SELECT ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint";
/// Changes when the table is created again, as `pg_restore` does.
const RELATION: &str = "SELECT tableoid::bigint FROM @.commits LIMIT 1";
const STORED: &str = "SELECT system_identifier, timeline, relation FROM @.cluster";
const STORE: &str = "INSERT INTO @.cluster (system_identifier, timeline, relation) VALUES ($1, $2, $3) \
     ON CONFLICT (is_only) DO UPDATE SET system_identifier = excluded.system_identifier, \
     timeline = excluded.timeline, relation = excluded.relation";

/// The identity of a database; `None` for values that the role may not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Cluster {
    system_identifier: Option<i64>,
    timeline: Option<i64>,
    relation: Option<i64>,
}

/// Commits that a node knew of and that are missing.
#[derive(Debug, Clone)]
pub(in super::super) struct Loss {
    /// A description of what is missing.
    pub(in super::super) reason: String,
    /// The generation that the node knew. A later one in the database means that another node has found the loss
    /// before.
    pub(in super::super) generation: i64,
}

/// What a connection knows about the identity of the database.
#[derive(Debug, Default)]
pub(in super::super) struct Identity {
    /// Whether the database was found to be the one whose identity is stored in it.
    is_confirmed: bool,
    /// Commits that were found missing.
    pub(in super::super) loss: Option<Loss>,
}

impl Cluster {
    fn read(row: &Row) -> EngineResult<Cluster> {
        let (system_identifier, timeline, relation) = (get(row, 0)?, get(row, 1)?, get(row, 2)?);
        Ok(Cluster { system_identifier, timeline, relation })
    }

    /// A description of how this database differs from the stored one.
    fn difference(self, stored: Cluster) -> Option<String> {
        let differs =
            |here: Option<i64>, there: Option<i64>| here.zip(there).filter(|(here, there)| here != there);
        if let Some((here, there)) = differs(self.system_identifier, stored.system_identifier) {
            return Some(format!("the database's system identifier is {here}, it was {there}"));
        }
        if let Some((here, there)) = differs(self.timeline, stored.timeline) {
            return Some(format!("the database is on timeline {here}, it was on {there}"));
        }
        differs(self.relation, stored.relation)
            .map(|_| "the tables were created again, as when a dump is restored".to_owned())
    }
}

impl Tables {
    /// Why current leases must be invalidated, if so: commits are missing, or this is another database than the last
    /// node wrote to. The finding is stored with the commit. The caller must hold the lock.
    pub(in super::super) fn find_put_back(&mut self) -> EngineResult<Option<String>> {
        let known_loss = self.identity.loss.as_ref().filter(|loss| self.meta.generation <= loss.generation);
        let mut why = known_loss.map(|loss| loss.reason.clone());
        if self.identity.is_confirmed {
            return Ok(why);
        }
        let here = Cluster {
            system_identifier: self.ask_permitted(SYSTEM)?,
            timeline: self.ask_permitted(TIMELINE)?,
            relation: self.ask_permitted(RELATION)?,
        };
        let rows = self.link.fetch(STORED, Vec::new())?;
        let stored = rows.first().map(Cluster::read).transpose()?;
        if let Some(difference) = stored.and_then(|stored| here.difference(stored)) {
            why.get_or_insert(difference);
        }
        // Confirmed only once it is read from the database: this commit may fail.
        self.identity.is_confirmed = stored == Some(here);
        if !self.identity.is_confirmed {
            let values = [here.system_identifier, here.timeline, here.relation].map(Parameter::Number);
            self.write(STORE, values.into(), None)?;
        }
        Ok(why)
    }

    /// The result of a query that the role may not be permitted to run; `None` then. A refusal does not abort the
    /// transaction.
    fn ask_permitted(&mut self, sql: &str) -> EngineResult<Option<i64>> {
        self.link.run("SAVEPOINT cluster")?;
        match self.link.fetch(sql, Vec::new()) {
            Ok(rows) => {
                self.link.run("RELEASE SAVEPOINT cluster")?;
                rows.first().map(|row| get(row, 0)).transpose()
            }
            Err(error @ StoreError::Database(_)) => {
                self.link.run("ROLLBACK TO SAVEPOINT cluster; RELEASE SAVEPOINT cluster")?;
                tracing::info!(
                    %error,
                    "the role may not read the server's identity: some restores and failovers go unnoticed"
                );
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(numbers: [i64; 3]) -> Cluster {
        let [system_identifier, timeline, relation] = numbers.map(Some);
        Cluster { system_identifier, timeline, relation }
    }

    #[test]
    fn every_difference_is_named_and_what_is_not_known_is_none() {
        let stored = cluster([1, 1, 1]);
        assert_eq!(stored.difference(stored), None);
        for (here, word) in [([2, 1, 1], "system"), ([1, 2, 1], "timeline"), ([1, 1, 2], "tables")] {
            let difference = cluster(here).difference(stored).expect("they differ");
            assert!(difference.contains(word), "{difference}");
        }
        let unknown = Cluster { system_identifier: None, timeline: None, relation: None };
        assert_eq!((unknown.difference(stored), stored.difference(unknown)), (None, None));
    }
}
