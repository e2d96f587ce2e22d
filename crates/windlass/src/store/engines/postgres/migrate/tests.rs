//! Two builds on one schema: the previous one keeps working after the next has migrated, however they race, and is
//! refused only where the next says so. The next build is this one with one more step.

#[allow(dead_code, unreachable_pub, reason = "the tests of the whole store use more of it")]
#[path = "../../../../../../windlass-testkit/src/cluster.rs"]
pub(in crate::store::engines::postgres) mod cluster;
#[allow(unreachable_pub, reason = "as above")]
#[path = "../../../../../../windlass-testkit/src/store_folder.rs"]
mod store_folder;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use super::*;
use crate::job::{JobType, NewJob, Payload, Tenant};
use crate::store::Store;
use crate::store::caller::Caller;
use crate::store::command::claim::ClaimRequest;
use crate::store::command::finish::{Finish, Outcome, Report};
use crate::store::command::submit::{SubmitOptions, concurrency_key};
use crate::store::command::worker::NewWorker;
use crate::store::environment::StoreOptions;

/// Races of several nodes of each build.
const RACES: usize = 12;
const NODES_OF_EACH: usize = 3;
/// Jobs that run before, and after, the next build arrives.
const JOBS: usize = 40;
/// Only adds, but to tables that every commit writes to.
const ADDITION: &str = "ALTER TABLE @.hot ADD COLUMN later bigint; \
     ALTER TABLE @.commits ADD COLUMN later bigint NOT NULL DEFAULT 7; CREATE INDEX ready_later ON @.ready (rank); \
     CREATE TABLE @.later (id bigint PRIMARY KEY);";

/// The steps of the next build.
fn next(sql: &'static str, works_with: usize) -> Vec<Step> {
    let works_with = u32::try_from(works_with).unwrap();
    STEPS.iter().copied().chain([Step { name: "later", sql, works_with }]).collect()
}

/// Starts a node with these steps; returns which were applied, in order. On a thread of its own: a connection is driven
/// by the thread that waits for it, and a test may be inside a runtime.
fn start(steps: &[Step], address: &str) -> Result<Vec<i64>, OpenError> {
    let starting = || {
        let address = Address::parse(address)?;
        let mut link = Connection::connect(&address)?;
        migrate_by(steps, &mut link, &address)?;
        let rows = link.fetch("SELECT version FROM @.migrations ORDER BY version", Vec::new())?;
        Ok(rows.iter().map(|row| get(row, 0)).collect::<Result<_, StoreError>>()?)
    };
    std::thread::scope(|scope| scope.spawn(starting).join().unwrap())
}

fn open(address: &str) -> Result<Store, OpenError> {
    Store::open(address, StoreOptions::default())
}

/// Submits a job and runs everything that is due.
async fn work(store: &Store) {
    let me = Caller::local();
    let worker = store.register(&me, NewWorker::default()).await.unwrap().id;
    let job = NewJob::new(JobType::new("count").unwrap(), Payload::json("1"));
    store.submit(&me, vec![job], SubmitOptions::default()).await.unwrap();
    let claimed = store.claim(&me, &ClaimRequest::new(worker, 10), Duration::ZERO).await.unwrap().jobs;
    let reports = claimed
        .iter()
        .map(|claimed| Report::new(claimed.job.id, claimed.job.fence, Outcome::Completed { result: None }));
    let answers = store.finish(&me, worker, reports.collect()).await.unwrap();
    assert!(answers.iter().all(|answer| matches!(answer, Finish::Applied(_))), "{answers:?}");
    store.deregister(&me, worker).await.unwrap();
}

async fn verify(store: &Store) {
    for report in store.verify().await.unwrap() {
        assert!(report.holds(), "{}: {}: {:#?}", report.code, report.promise, report.findings);
    }
}

#[tokio::test]
async fn two_builds_that_start_at_once_both_work_however_they_race() {
    let steps = next(ADDITION, STEPS.len());
    for race in 0..RACES {
        let address = cluster::new_schema();
        if race % 2 == 0 {
            // The usual case: the next build finds the schema of the previous one.
            open(&address).unwrap().close();
        }
        let gate = Barrier::new(2 * NODES_OF_EACH);
        let stores: Vec<Store> = std::thread::scope(|scope| {
            let (gate, address, steps) = (&gate, &address, &steps);
            let after = |_| {
                scope.spawn(move || {
                    gate.wait();
                    start(steps, address).expect("the next build starts");
                })
            };
            let before = |_| {
                scope.spawn(move || {
                    gate.wait();
                    open(address).expect("the build before starts")
                })
            };
            let (after, before): (Vec<_>, Vec<_>) =
                (0..NODES_OF_EACH).map(|node| (after(node), before(node))).unzip();
            for node in after {
                node.join().expect("it starts");
            }
            before.into_iter().map(|node| node.join().expect("it starts")).collect()
        });
        for store in &stores {
            work(store).await;
        }
        verify(&stores[0]).await;
        stores.iter().for_each(Store::close);
        let all: Vec<i64> = (1..=i64::try_from(steps.len()).unwrap()).collect();
        assert_eq!(start(&steps, &address).unwrap(), all, "each step was taken once");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_build_at_work_does_not_notice_that_the_next_one_migrates() {
    let address = cluster::new_schema();
    let (stop, done) = (AtomicBool::new(false), AtomicUsize::new(0));
    let nodes = [open(&address).unwrap(), open(&address).unwrap()];
    let at_work = async |store: &Store| {
        while !stop.load(Ordering::SeqCst) {
            work(store).await;
            done.fetch_add(1, Ordering::SeqCst);
        }
    };
    let reached = async |count: usize| {
        while done.load(Ordering::SeqCst) < count {
            // Reads concurrent with the writes: they have locks of their own that can be in the way.
            nodes[0].stats(&Caller::local()).await.unwrap();
        }
    };
    let coming = async {
        reached(JOBS).await;
        let (steps, own) = (next(ADDITION, STEPS.len()), address.clone());
        let migrated = tokio::task::spawn_blocking(move || start(&steps, &own));
        migrated.await.unwrap().expect("the next build starts");
        reached(done.load(Ordering::SeqCst) + JOBS).await;
        stop.store(true, Ordering::SeqCst);
    };
    tokio::join!(at_work(&nodes[0]), at_work(&nodes[1]), coming);
    nodes.iter().for_each(Store::close);
    // Nor when it is started again.
    let again = open(&address).expect("the build before starts");
    work(&again).await;
    verify(&again).await;
    again.close();
}

#[test]
fn a_step_that_the_build_before_cannot_work_with_keeps_it_out() {
    let address = cluster::new_schema();
    open(&address).unwrap().close();
    let steps = next(ADDITION, STEPS.len() + 1);
    start(&steps, &address).expect("the next build starts");
    start(&steps, &address).expect("and starts again");
    let number = |steps: usize| u32::try_from(steps).unwrap();
    let refusal = OpenError::NewerSchema { found: number(steps.len()), known: number(STEPS.len()) };
    assert_eq!(open(&address).err(), Some(refusal));
    // A later step that would allow it does not undo that.
    let later = Step { name: "latest", sql: "CREATE TABLE @.latest (id bigint)", works_with: 1 };
    let latest: Vec<Step> = steps.iter().copied().chain([later]).collect();
    start(&latest, &address).expect("the build after that starts");
    assert!(matches!(open(&address).err(), Some(OpenError::NewerSchema { .. })));
    start(&steps, &address).expect("the one before it still may");
}

#[tokio::test]
async fn a_step_that_the_build_at_work_cannot_work_with_stops_it() {
    let address = cluster::new_schema();
    let store = open(&address).unwrap();
    work(&store).await;
    start(&next(ADDITION, STEPS.len() + 1), &address).expect("the next build starts");
    let me = Caller::local();
    let read = store.stats(&me).await.expect_err("it cannot know what it reads");
    let job = NewJob::new(JobType::new("count").unwrap(), Payload::json("1"));
    let written = store.submit(&me, vec![job], SubmitOptions::default()).await.expect_err("nor write");
    for message in [read.to_string(), written.to_string()] {
        assert!(message.contains("start the newer one"), "{message}");
    }
    store.close();
}

#[tokio::test]
async fn a_migration_that_fails_leaves_no_trace() {
    let address = cluster::new_schema();
    open(&address).unwrap().close();
    let broken = next("CREATE TABLE @.later (id bigint); SELECT 1 / 0;", STEPS.len());
    assert!(start(&broken, &address).is_err(), "the step fails");
    let store = open(&address).expect("the build before starts");
    work(&store).await;
    verify(&store).await;
    store.close();
    start(&next(ADDITION, STEPS.len()), &address).expect("nothing of the failed step is in the way");
}

/// The keys of jobs from before they were counted: SQL computes the same digests as the writer.
#[test]
fn concurrency_keys_of_earlier_jobs_are_counted() {
    let address = cluster::new_schema();
    start(&STEPS[..3], &address).expect("the earlier build starts");
    let keys = [
        "plain",
        "",
        "\"quoted\" \\ back",
        "\u{0}\u{1}\u{8}\t\n\u{b}\u{c}\r\u{1f}\u{7f}",
        "grün 🌱 \u{2028}/",
    ];
    let mut sql = vec![String::from(
        "INSERT INTO @.lanes (tenant, queue, type, \"check\") VALUES ('acme', 'q', 'a', 0), ('b-2', 'q', 'a', 0), \
         ('acme', 'windlass.callbacks', 'windlass.callback', 0);",
    )];
    let mut seq = 0;
    let mut add = |lane: usize, state: usize, key: Option<&str>| {
        seq += 1;
        let halves = |text: &str| text.bytes().flat_map(|byte| [byte >> 4, byte & 15]).collect::<Vec<u8>>();
        let digit = |half: u8| char::from_digit(half.into(), 16).unwrap();
        let digits = |text: &str| halves(text).into_iter().map(digit).collect::<String>();
        let key = key.map_or("NULL".to_owned(), |key| format!("'\\x{}'", digits(key)));
        sql.push(format!(
            "INSERT INTO @.hot VALUES ({seq}, gen_random_uuid(), {lane}, 1, 0, NULL, {state}, ''); \
             INSERT INTO @.jobs (seq, owner, concurrency_key, \"check\", payload) VALUES ({seq}, '', {key}, 0, '');"
        ));
    };
    for key in keys {
        (0..13).for_each(|state| add(1, state, Some(key)));
        add(3, 3, Some(key));
    }
    add(1, 3, None);
    add(2, 3, Some("plain"));
    add(2, 8, Some("ended"));
    let (acme, b) = (Tenant::new("acme").unwrap(), Tenant::new("b-2").unwrap());
    let own = |tenant: &Tenant, key: &str, n: i64| (tenant.to_string(), concurrency_key(tenant, key).0, n);
    let mut expected: Vec<(String, i64, i64)> = keys.iter().map(|key| own(&acme, key, 9)).collect();
    expected.push(own(&b, "plain", 1));
    expected.sort_unstable();
    let found = with_link(&address, |link| link.run(&sql.concat()))
        .and_then(|()| start(&STEPS, &address))
        .and_then(|_| {
            with_link(&address, |link| {
                link.fetch("SELECT tenant, key, n FROM @.concurrency_keys", Vec::new())
            })
        });
    let read = |row: &tokio_postgres::Row| {
        Ok::<_, StoreError>((get::<&str>(row, 0)?.to_owned(), get(row, 1)?, get(row, 2)?))
    };
    let mut found: Vec<(String, i64, i64)> = found.unwrap().iter().map(|row| read(row).unwrap()).collect();
    found.sort_unstable();
    assert_eq!(found, expected);
    let totals = "SELECT string_agg(tenant || ' ' || n, ', ' ORDER BY tenant) FROM @.concurrency_key_totals";
    let totals = with_link(&address, |link| link.fetch(totals, Vec::new())).unwrap();
    assert_eq!(get::<&str>(&totals[0], 0).unwrap(), "acme 5, b-2 1");
}

/// What a schema of the build before plain names has in place of today's, with a granted right, on a
/// store that was moved away.
const NAMES_BEFORE: &str = "ALTER TABLE @.inbox_options RENAME TO door; ALTER INDEX @.inbox_options_pkey RENAME TO door_pkey; \
     ALTER FUNCTION @.submit_refuse(text, text) RENAME TO door_refuse; \
     ALTER FUNCTION @.submit_text(text, jsonb, int) RENAME TO door_text; \
     CREATE OR REPLACE FUNCTION @.submit(type text, payload bytea, options jsonb DEFAULT '{}') RETURNS uuid \
     LANGUAGE plpgsql AS $$ BEGIN PERFORM @.door_refuse('a', 'b'); RETURN NULL; END $$; \
     GRANT EXECUTE ON FUNCTION @.submit(text, bytea, jsonb) TO pg_monitor; \
     CREATE FUNCTION @.door_is_shut() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
     RAISE EXCEPTION 'submissions are refused'; END $$; \
     CREATE TRIGGER door_is_shut BEFORE INSERT ON @.inbox FOR EACH STATEMENT EXECUTE FUNCTION @.door_is_shut(); \
     UPDATE @.door SET payload_bytes_max = 7;";

#[test]
fn names_of_the_build_before_are_replaced() {
    let address = cluster::new_schema();
    start(&STEPS[..8], &address).expect("the earlier build starts");
    with_link(&address, |link| link.run(NAMES_BEFORE)).unwrap();
    start(&STEPS, &address).expect("it is migrated");
    let left = "SELECT (SELECT count(*) FROM pg_proc WHERE pronamespace = n.oid AND proname LIKE 'door%') \
         + (SELECT count(*) FROM pg_class WHERE relnamespace = n.oid AND relname LIKE 'door%') \
         + (SELECT count(*) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid WHERE c.relnamespace = n.oid \
            AND tgname LIKE 'door%'), \
         has_function_privilege('pg_monitor', '@.submit(text, bytea, jsonb)', 'EXECUTE'), \
         NOT has_function_privilege('pg_read_all_data', '@.submit(text, bytea, jsonb)', 'EXECUTE'), \
         (SELECT payload_bytes_max FROM @.inbox_options) \
         FROM pg_namespace n WHERE n.nspname = btrim('@.', '\".')";
    let row = with_link(&address, |link| link.fetch(left, Vec::new())).unwrap();
    let bits: [bool; 2] = [get(&row[0], 1).unwrap(), get(&row[0], 2).unwrap()];
    assert_eq!((get::<i64>(&row[0], 0).unwrap(), bits, get::<i64>(&row[0], 3).unwrap()), (0, [true; 2], 7));
    let submit = || with_link(&address, |link| link.run("SELECT @.submit('a', '[1]'::json)"));
    let refused = submit().expect_err("the store was moved").to_string();
    assert!(refused.contains("submissions are refused"), "{refused}");
    with_link(&address, |link| link.run("DROP TRIGGER inbox_is_paused ON @.inbox")).unwrap();
    submit().expect("it is open again");
    let refused =
        with_link(&address, |link| link.run("SELECT @.submit('a', '[1, 2, 3]'::json)")).unwrap_err();
    assert!(refused.to_string().contains("the limit is 7"), "{refused}");
}

/// Uses a connection, on a thread of its own like [`start`].
fn with_link<T: Send>(
    address: &str,
    work: impl FnOnce(&mut Connection) -> Result<T, StoreError> + Send,
) -> Result<T, OpenError> {
    let working = || Ok(work(&mut Connection::connect(&Address::parse(address)?)?)?);
    std::thread::scope(|scope| scope.spawn(working).join().unwrap())
}
