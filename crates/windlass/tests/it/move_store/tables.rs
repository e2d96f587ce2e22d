//! Every table and column of every engine, and how it is moved. A new one fails this test until it says how it is moved:
//! teach `store/transfer/`, then say so below.

use std::collections::BTreeMap;

use rusqlite::Connection;
use tokio_postgres::NoTls;

use crate::fixture::{Fixture, On};

/// A table, its columns, and how they are moved.
type Table = (&'static str, &'static str, &'static str);

const JOB: &str = "seq, owner, content_type, idempotency_key, unique_key, concurrency_key, tags, correlation_id, \
                   callback_url, traceparent, after, after_any, check, payload";
const AUDIT: &str =
    "seq, event, alias, at, actor_type, actor_id, tenant, job, trace_id, context, queue, type";

/// What both engines have.
const BOTH: [Table; 12] = [
    ("lanes", "id, tenant, queue, type, check, version", "with the jobs; the numbers are the engine's own"),
    ("policies", "id, body, check", "with the jobs; the numbers are the engine's own"),
    ("jobs", JOB, "as jobs"),
    ("tags", "name, value, seq", "follow from the jobs"),
    ("keys", "kind, tenant, type, key, seq, expires_at, check, job, payload, ended", "as keys"),
    ("edges", "dependency, dependent, need", "as dependencies"),
    ("facets", "seq, kind, name, number, check, body", "as side records"),
    ("documents", "kind, key, check, body", "as documents"),
    ("audit", AUDIT, "as audit records"),
    ("concurrency_keys", "tenant, key, n", "follow from the jobs"),
    ("concurrency_key_totals", "tenant, n", "follow from the jobs"),
    ("migrations", "version, at, works_with", "the schema's own"),
];

const SQLITE: [Table; 3] = [
    (
        "meta",
        "one, store_id, commits, next_seq, next_record, config_version, generation, at, boot, uptime",
        "as numbers; the others are the file's own",
    ),
    (
        "hot",
        "seq, id, lane, policy, state, order_key, rank, at, expires_at, created_at, concurrency, parent, record, \
         due_rank, worker",
        "as jobs",
    ),
    ("counts", "lane, state, n", "follow from the jobs"),
];

const POSTGRES: [Table; 11] = [
    (
        "commits",
        "n, nonce, at, next_seq, next_record, config_version, counts_base, lowered, timer_at, has_swept, generation, is_early, \
         absorbed, appends_from, running",
        "as numbers; the others are the schema's own",
    ),
    ("hot", "seq, id, lane, policy, created_at, parent, state, record", "as jobs"),
    ("counts", "n, lane, state, by", "follow from the jobs"),
    ("ready", "lane, rank, at, seq", "follow from the jobs"),
    ("slots", "key, state, lane, rank, at, seq", "follow from the jobs"),
    ("states", "state, seq", "follow from the jobs"),
    ("timers", "at, first, n, part, is_running, seqs, worker", "follow from the jobs"),
    (
        "inbox",
        "n, id, owner, tenant, type, idempotency_key, unique_key, content_type, body, refusal, payload",
        "becomes jobs before the move; what was set aside is in its way",
    ),
    ("appends", "n, nonce, body, refusal", "become jobs before the move; what was set aside is in its way"),
    ("cluster", "is_only, system_identifier, timeline, relation", "the database's own"),
    ("inbox_options", "is_only, payload_bytes_max", "written again by the next node that starts"),
];

fn known(own: &[Table], without: &[&str]) -> BTreeMap<String, String> {
    let all = BOTH.iter().chain(own).filter(|(table, ..)| !without.contains(table));
    all.map(|(table, columns, _)| ((*table).to_owned(), (*columns).to_owned())).collect()
}

fn grouped(rows: impl Iterator<Item = (String, String)>) -> BTreeMap<String, String> {
    let mut tables: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (table, column) in rows {
        tables.entry(table).or_default().push(column);
    }
    tables.into_iter().map(|(table, columns)| (table, columns.join(", "))).collect()
}

#[test]
fn every_table_of_a_file_is_known_to_a_move() {
    let fixture = Fixture::new(On::Sqlite);
    let path = fixture.address.strip_prefix("sqlite:").unwrap();
    let connection = Connection::open(path).unwrap();
    let sql = "SELECT t.name, c.name FROM sqlite_schema t, pragma_table_info(t.name) c WHERE t.type = 'table' \
               AND t.name NOT LIKE 'sqlite_%' ORDER BY t.name, c.cid";
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    assert_eq!(grouped(rows.map(Result::unwrap)), known(&SQLITE, &["migrations"]));
}

#[tokio::test]
async fn every_table_of_a_schema_is_known_to_a_move() {
    let fixture = Fixture::new(On::Postgres);
    let (server, schema) = fixture.address.rsplit_once("&schema=").unwrap();
    let (client, connection) = tokio_postgres::connect(server, NoTls).await.unwrap();
    tokio::spawn(connection);
    let sql = format!(
        "SELECT table_name::text, column_name::text FROM information_schema.columns WHERE table_schema = '{schema}' \
         ORDER BY table_name, ordinal_position"
    );
    let rows = client.query(&sql, &[]).await.unwrap();
    let rows = rows.iter().map(|row| (row.get::<_, String>(0), row.get::<_, String>(1)));
    assert_eq!(grouped(rows), known(&POSTGRES, &[]));
}
