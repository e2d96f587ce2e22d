//! Brings a schema to what this build knows, step by step. It never goes back: a newer one is refused.

use super::address::Address;
use super::link::{Link, get};
use crate::error::{OpenError, StoreError};
use crate::store::durable::panic::panicked;
use crate::store::schema::Schema;

/// The steps by name, the first of which makes an empty schema a store.
const STEPS: [(&str, &str); 2] = [
    ("0001_foundation", include_str!("migrations/0001_foundation.sql")),
    ("0002_door", include_str!("migrations/0002_door.sql")),
];

/// The schema this build knows.
#[allow(clippy::cast_possible_truncation, reason = "there will never be four billion migrations")]
const SCHEMA: u32 = STEPS.len() as u32;

/// From the catalogue's rows: what `to_regclass` remembers may be older than the lock.
const IS_THERE: &str = "SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_class c \
     JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = 'migrations'), \
     pg_is_in_recovery()";
const VERSION: &str = "SELECT max(version) FROM @.migrations";
const BEGIN: &str = "CREATE SCHEMA IF NOT EXISTS \"SCHEMA\"; \
     CREATE TABLE IF NOT EXISTS @.migrations (version bigint PRIMARY KEY, at timestamptz NOT NULL DEFAULT now());";
const DONE: &str = "INSERT INTO @.migrations (version) VALUES ($1)";

/// Brings the schema to [`SCHEMA`], all steps in one transaction under a lock, so that a crash leaves a whole schema and
/// many nodes may start at once: whoever comes second finds it done.
pub(super) fn migrate(link: &mut Link, address: &Address) -> Result<(), OpenError> {
    if version(link, address)? == SCHEMA {
        return Ok(());
    }
    link.run("BEGIN")?;
    let migrated = migrate_locked(link, address);
    link.run(if migrated.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
    migrated
}

/// Looks at the schema at an address, which need not be there.
pub(crate) fn look(address: &str) -> Result<Schema, OpenError> {
    let address = Address::parse(address)?;
    let look = || version(&mut Link::connect(&address)?, &address);
    // On a thread of its own: whoever asks may be inside a runtime.
    let found = std::thread::scope(|scope| scope.spawn(look).join());
    let found = found.map_err(|payload| panicked(payload.as_ref()))??;
    Ok(Schema::at(found, STEPS.iter().map(|(name, _)| *name)))
}

fn migrate_locked(link: &mut Link, address: &Address) -> Result<(), OpenError> {
    link.fetch("SELECT pg_advisory_xact_lock($1)", vec![address.lock_key("migrate").into()])?;
    // Looked up again: another node may have been here while this one waited for the lock.
    let found = version(link, address)?;
    if found == 0 {
        link.run(&BEGIN.replace("SCHEMA\"", &format!("{}\"", address.schema)))?;
    }
    for ((_, step), number) in STEPS.iter().zip(1_i64..).skip(usize::try_from(found).unwrap_or(usize::MAX)) {
        link.run(step)?;
        link.send(DONE, vec![number.into()], None)?;
    }
    link.settle()?;
    Ok(())
}

/// The schema's version, 0 if there is none; an error if this build does not know it, or the server cannot be written to.
fn version(link: &mut Link, address: &Address) -> Result<u32, OpenError> {
    let rows = link.fetch(IS_THERE, vec![address.schema.as_str().into()])?;
    let Some(row) = rows.first() else { return Ok(0) };
    if get(row, 1)? {
        return Err(OpenError::Standby);
    }
    if !get::<bool>(row, 0)? {
        return Ok(0);
    }
    let rows = link.fetch(VERSION, Vec::new())?;
    let found: Option<i64> = rows.first().map_or(Ok(None), |row| get::<Option<i64>>(row, 0))?;
    let found = u32::try_from(found.unwrap_or(0)).unwrap_or(u32::MAX);
    if found > SCHEMA { Err(OpenError::NewerSchema { found, known: SCHEMA }) } else { Ok(found) }
}

/// Refuses a server that cannot be written to, which after a failover may be the one that answers.
pub(super) fn refuse_standby(link: &mut Link) -> Result<(), StoreError> {
    let rows = link.fetch("SELECT pg_is_in_recovery()", Vec::new())?;
    let is_standby = rows.first().map_or(Ok(false), |row| get::<bool>(row, 0))?;
    if is_standby { Err(StoreError::Away("the server is a standby".to_owned())) } else { Ok(()) }
}
