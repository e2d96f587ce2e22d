//! Migrates a schema to the version of this build, step by step. It never goes back: a newer schema is used if the
//! build that made it allows this one, and refused otherwise.

#[cfg(test)]
pub(super) mod tests;

use super::connection::address::Address;
use super::connection::{Connection, get};
use crate::error::{OpenError, StoreError};
use crate::limits;
use crate::store::engines::sql::thread::panicked;
use crate::store::schema::Schema;

/// A migration step.
#[derive(Clone, Copy)]
struct Step {
    name: &'static str,
    sql: &'static str,
    /// The oldest schema version whose builds keep working once this step is done. A step that only adds leaves it at
    /// least one behind its own number, so that a fleet can be replaced node by node.
    works_with: u32,
}

/// The steps; the first one creates the tables in an empty schema.
const STEPS: [Step; 13] = [
    Step { name: "0001_foundation", sql: include_str!("migrations/0001_foundation.sql"), works_with: 1 },
    // No older version was ever released.
    Step { name: "0002_inbox", sql: include_str!("migrations/0002_inbox.sql"), works_with: 2 },
    Step {
        name: "0003_inline_timers",
        sql: include_str!("migrations/0003_inline_timers.sql"),
        works_with: 2,
    },
    // Earlier builds know neither generations nor the rules of store time.
    Step { name: "0004_recovery", sql: include_str!("migrations/0004_recovery.sql"), works_with: 4 },
    // Earlier builds would not take in what was appended.
    Step { name: "0005_appends", sql: include_str!("migrations/0005_appends.sql"), works_with: 5 },
    // It replaces a function that was never released.
    Step { name: "0006_lost_appends", sql: "", works_with: 6 },
    // Earlier builds cannot read lanes with a version.
    Step { name: "0007_versions", sql: include_str!("migrations/0007_versions.sql"), works_with: 7 },
    // It changed functions only.
    Step { name: "0008_plans", sql: "", works_with: 7 },
    // Earlier builds use the old names.
    Step { name: "0009_plain_names", sql: include_str!("migrations/0009_plain_names.sql"), works_with: 9 },
    // Commits of earlier builds count as having changed any job.
    Step { name: "0010_running", sql: include_str!("migrations/0010_running.sql"), works_with: 9 },
    Step {
        name: "0011_inline_appends",
        sql: include_str!("migrations/0011_inline_appends.sql"),
        works_with: 9,
    },
    // Earlier builds read counts only from where the last ones were added up.
    Step { name: "0012_counts_bit_by_bit", sql: "", works_with: 12 },
    // It changed a function only.
    Step { name: "0013_quick_appends", sql: "", works_with: 12 },
];
/// The SQL functions, installed again after the last step. A change to them needs a step of its own, if only an empty one.
const FUNCTIONS: [&str; 3] = [
    include_str!("migrations/functions/fields.sql"),
    include_str!("migrations/functions/submit.sql"),
    include_str!("migrations/functions/append.sql"),
];

/// From the catalogue's rows: the cache behind `to_regclass` may be older than the lock.
const IS_THERE: &str = "SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_class c \
     JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = 'migrations'), \
     pg_is_in_recovery()";
const VERSION: &str = "SELECT max(version), max(works_with) FROM @.migrations";
/// `CREATE SCHEMA IF NOT EXISTS` needs the right to create schemas even where the schema exists; owning it is enough.
const HAS_SCHEMA: &str = "SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1)";
const CREATE_SCHEMA: &str = "CREATE SCHEMA \"SCHEMA\"";
const BEGIN: &str = "CREATE TABLE IF NOT EXISTS @.migrations (version bigint PRIMARY KEY, at timestamptz NOT NULL DEFAULT now(), \
     works_with bigint NOT NULL);";
const DONE: &str = "INSERT INTO @.migrations (version, works_with) VALUES ($1, $2)";

/// Migrates the schema to the last of [`STEPS`].
pub(super) fn migrate(link: &mut Connection, address: &Address) -> Result<(), OpenError> {
    migrate_by(&STEPS, link, address)
}

/// Applies all steps in one transaction under a lock, so that a crash leaves a complete schema and many nodes may start
/// at once: the second one finds it done.
fn migrate_by(steps: &[Step], link: &mut Connection, address: &Address) -> Result<(), OpenError> {
    if version(steps, link, address)? >= steps.len() {
        return Ok(());
    }
    // Read-write even if the role's default is read-only.
    link.run("BEGIN READ WRITE")?;
    let migrated = migrate_locked(steps, link, address);
    link.run(if migrated.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
    migrated
}

/// Reads the schema version at an address, which need not exist.
pub(crate) fn read_schema(address: &str) -> Result<Schema, OpenError> {
    let address = Address::parse(address)?;
    let read_version = || version(&STEPS, &mut Connection::connect(&address)?, &address);
    // On a thread of its own: the caller may be inside a runtime.
    let found = std::thread::scope(|scope| scope.spawn(read_version).join());
    let found = found.map_err(|payload| panicked(payload.as_ref()))??;
    Ok(Schema::at(found, STEPS.iter().map(|step| step.name)))
}

fn migrate_locked(steps: &[Step], link: &mut Connection, address: &Address) -> Result<(), OpenError> {
    // A migration takes as long as it takes, whatever the role's own limits are; waits for locks are bounded below.
    link.run("SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0")?;
    lock(link, address, "migrate")?;
    // Read again: another node may have migrated while this one waited for the lock.
    let found = version(steps, link, address)?;
    if found == 0 {
        let rows = link.fetch(HAS_SCHEMA, vec![address.schema.as_str().into()])?;
        if !rows.first().map_or(Ok(false), |row| get::<bool>(row, 0))? {
            link.run(&CREATE_SCHEMA.replace("SCHEMA\"", &format!("{}\"", address.schema)))?;
        }
        link.run(BEGIN)?;
    } else if found < steps.len() {
        // No node writes meanwhile: a writer and a step that locked tables in different orders would wait for each
        // other.
        lock(link, address, "write")?;
    }
    // No node can write until it is over: a step that has to wait for a VACUUM gives up, and is tried at the next
    // start.
    link.run(&format!("SET LOCAL lock_timeout = {}", limits::LOCK_WAIT_MAX.as_millis()))?;
    for (step, number) in steps.iter().zip(1_i64..).skip(found) {
        link.run(step.sql)?;
        link.send(DONE, vec![number.into(), i64::from(step.works_with).into()], None)?;
    }
    for functions in FUNCTIONS {
        link.run(functions)?;
    }
    link.flush_replies()?;
    Ok(())
}

fn lock(link: &mut Connection, address: &Address, part: &str) -> Result<(), OpenError> {
    link.fetch("SELECT pg_advisory_xact_lock($1)", vec![address.lock_key(part).into()])?;
    Ok(())
}

/// The schema's version, 0 if there is none; an error if a build with these steps cannot work on it, or the server is
/// read-only.
fn version(steps: &[Step], link: &mut Connection, address: &Address) -> Result<usize, OpenError> {
    let rows = link.fetch(IS_THERE, vec![address.schema.as_str().into()])?;
    let Some(row) = rows.first() else { return Ok(0) };
    if get(row, 1)? {
        return Err(OpenError::Standby);
    }
    if !get::<bool>(row, 0)? {
        return Ok(0);
    }
    let rows = link.fetch(VERSION, Vec::new())?;
    let number = |place| rows.first().map_or(Ok(None), |row| get::<Option<i64>>(row, place));
    let (found, works_with) = (number(0)?.unwrap_or(0), number(1)?.unwrap_or(0));
    let known = i64::try_from(steps.len()).unwrap_or(i64::MAX);
    if found > known && works_with > known {
        let small = |version: i64| u32::try_from(version).unwrap_or(u32::MAX);
        return Err(OpenError::NewerSchema { found: small(found), known: small(known) });
    }
    Ok(usize::try_from(found).unwrap_or(0))
}

/// Refuses to continue if a later build changed the schema meanwhile in a way that this one cannot work with.
pub(super) fn refuse_newer(works_with: i64) -> Result<(), StoreError> {
    if works_with <= i64::try_from(STEPS.len()).unwrap_or(i64::MAX) {
        return Ok(());
    }
    Err(StoreError::Stopped(
        "a newer version of Windlass has changed the database in a way that this one cannot work with: start the newer one"
            .to_owned(),
    ))
}

/// Refuses a read-only server, which after a failover may be the one that answers.
pub(super) fn refuse_standby(link: &mut Connection) -> Result<(), StoreError> {
    let rows = link.fetch("SELECT pg_is_in_recovery()", Vec::new())?;
    let is_standby = rows.first().map_or(Ok(false), |row| get::<bool>(row, 0))?;
    if is_standby { Err(StoreError::Unavailable("the server is a standby".to_owned())) } else { Ok(()) }
}
