//! Submitting in SQL: jobs submitted by a function inside other programs' transactions.

mod sqlx;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio_postgres::{Client as PgClient, NoTls};
use uuid::Uuid;
use windlass::client::Client;
use windlass::clock::Timestamp;
use windlass::error::{StoreError, SubmitError};
use windlass::internal::REFUSED_SUBMISSION;
use windlass::job::{
    Category, Dependency, JitterMode, JobId, JobState, JobType, NewJob, Payload, Priority, RetryPolicy,
    Strategy, WorkerVersion,
};
use windlass::settings::patch::{Field, SettingsPatch, TenantPatch};
use windlass::store::caller::Caller;
use windlass::store::{ActionRequest, Redrive, Snapshot, Store, SubmitOptions};
use windlass::worker::Worker;
use windlass_api::submission::Submission;

use super::{LONG, open, verify};
use crate::fixture::cluster::new_schema;
use crate::fixture::{queue, tenant};
use crate::worker::job_types::{Greet, greet};

/// A program beside the store, with a connection of its own.
pub(super) async fn stranger(address: &str) -> (PgClient, String) {
    let (server, schema) = address.rsplit_once("&schema=").expect("the schema comes last");
    let (client, connection) = tokio_postgres::connect(server, NoTls).await.unwrap();
    tokio::spawn(connection);
    // Two tests that made it at once would be in each other's way, `IF NOT EXISTS` or not.
    let orders = "SELECT pg_advisory_xact_lock(1); CREATE TABLE IF NOT EXISTS orders (id bigint)";
    client.batch_execute(orders).await.unwrap();
    (client, schema.split('&').next().unwrap().to_owned())
}

/// Submits a job whose payload is JSON; the error is the field that was refused and the message.
async fn submit(client: &PgClient, schema: &str, options: &str) -> Result<JobId, (String, String)> {
    let sql = format!("SELECT {schema}.submit('greet', '{{\"name\": \"a\"}}', $1::text::jsonb)");
    let rows = client.query_typed(&sql, &[(&options, tokio_postgres::types::Type::TEXT)]).await;
    let row = rows.map_err(|error| {
        let answer = error.as_db_error().unwrap_or_else(|| panic!("{error}"));
        (answer.column().unwrap_or_default().to_owned(), answer.message().to_owned())
    })?;
    Ok(JobId::from_bytes(*row[0].get::<_, Uuid>(0).as_bytes()))
}

/// The job, once it was taken in.
async fn taken_in(store: &Store, id: JobId) -> Snapshot {
    let mut events = store.events(&Caller::local(), 0);
    // A commit that was under way tells of nothing below the audit level to those who came later. This one comes after it.
    store.tick().await.unwrap();
    let found = async {
        loop {
            if let Some(found) = store.get(&Caller::local(), id).await.unwrap() {
                return found;
            }
            events.next().await.unwrap();
        }
    };
    tokio::time::timeout(LONG, found).await.expect("it is taken in")
}

type Change = fn(&mut NewJob);

const MINUTE: Duration = Duration::from_secs(60);

/// Options in SQL, and the same options in the library.
const TAKEN: [(&str, Change); 22] = [
    ("{}", |_| {}),
    (r#"{"queue": "mail", "priority": "high", "run_at": null}"#, |job| {
        job.queue = queue("mail");
        job.priority = Some(Priority::HIGH);
    }),
    (r#"{"priority": 0}"#, |job| job.priority = Some(Priority::BULK)),
    (r#"{"delay": "1h30m"}"#, |job| job.delay = Some(90 * MINUTE)),
    (r#"{"delay": 1.5}"#, |job| job.delay = Some(Duration::from_millis(1500))),
    (r#"{"run_at": "2090-01-31T13:00:00.250+01:00"}"#, |job| {
        job.run_at = Some("2090-01-31T12:00:00.250Z".parse().unwrap());
    }),
    (r#"{"hold": true}"#, |job| job.hold = true),
    (r#"{"idempotency_key": "a ✓", "idempotency_window": "7d"}"#, |job| {
        job.idempotency_key = Some("a ✓".into());
        job.idempotency_window = Some(Duration::from_secs(7 * 86_400));
    }),
    (r#"{"unique_key": "u", "concurrency_key": "c"}"#, |job| {
        job.unique_key = Some("u".into());
        job.concurrency_key = Some("c".into());
    }),
    (r#"{"retry": "backoff"}"#, |job| job.retry = Some(RetryPolicy::backoff())),
    (r#"{"retry": {"preset": "fixed", "max_retries": 7, "initial_delay": "10ms"}}"#, |job| {
        let initial_delay = Duration::from_millis(10);
        job.retry = Some(RetryPolicy { initial_delay, ..RetryPolicy::fixed().attempts(8) });
    }),
    (
        r#"{"retry": {"strategy": "linear", "multiplier": 3, "jitter": 0.5, "max_delay": 60, "retry_on": ["timeout"]}}"#,
        |job| {
            job.retry = Some(RetryPolicy {
                strategy: Strategy::Linear,
                multiplier: 3.0,
                jitter: 0.5,
                max_delay: MINUTE,
                retry_on: vec![Category::Timeout],
                ..RetryPolicy::standard()
            });
        },
    ),
    (r#"{"timeouts": {"execution": "1ms", "lease": "1s", "lifetime": null}}"#, |job| {
        job.execution_timeout = Some(Duration::from_millis(1));
        job.lease_timeout = Some(Duration::from_secs(1));
    }),
    (r#"{"timeouts": {"visibility": "1m", "lease": null}}"#, |job| job.lease_timeout = Some(MINUTE)),
    (r#"{"timeouts": {"visibility": "1m", "lease": 60}}"#, |job| job.lease_timeout = Some(MINUTE)),
    (r#"{"timeouts": {"start": "1m"}}"#, |job| job.start_timeout = Some(MINUTE)),
    (r#"{"retry": {"jitter_mode": "hashed", "retry_on": ["resource", "system"]}}"#, |job| {
        job.retry = Some(RetryPolicy {
            jitter_mode: JitterMode::Hashed,
            retry_on: vec![Category::Resource, Category::System],
            ..RetryPolicy::standard()
        });
    }),
    (r#"{"tags": {"a": "b", "ä": ""}, "correlation_id": "order 1"}"#, |job| {
        job.metadata.tags = BTreeMap::from([("a".into(), "b".into()), ("ä".into(), String::new())]);
        job.metadata.correlation_id = Some("order 1".into());
    }),
    (r#"{"requires_version": "1.2.3-rc.1+7"}"#, |job| {
        job.requires_version = Some(WorkerVersion::new("1.2.3-rc.1+7").unwrap());
    }),
    (r#"{"tracestate": "v=1", "baggage": "user=7"}"#, |job| {
        job.tracestate = Some("v=1".into());
        job.baggage = Some("user=7".into());
    }),
    (r#"{"tenant": "acme", "traceparent": "00-ab-cd-01"}"#, |job| {
        job.tenant = Some(windlass::job::Tenant::new("acme").unwrap());
        job.traceparent = Some("00-ab-cd-01".into());
    }),
    (r#"{"callback_url": "https://example.com/ends"}"#, |job| {
        job.metadata.callback_url = Some("https://example.com/ends".into());
    }),
];

fn greeting() -> NewJob {
    NewJob::new(JobType::new("greet").unwrap(), Payload::json(r#"{"name": "a"}"#))
}

/// Model: setting-levels, one-lease-at-a-time. A submission in SQL becomes the job that the library would have made of it.
#[tokio::test]
async fn sql_and_the_library_make_the_same_jobs() {
    for (options, change) in TAKEN {
        let (sql_address, library_address) = (new_schema(), new_schema());
        let (sql, library) = (open(&sql_address), open(&library_address));
        let (client, schema) = stranger(&sql_address).await;
        let id = submit(&client, &schema, options).await.unwrap_or_else(|e| panic!("{options}: {e:?}"));
        let found = taken_in(&sql, id).await;
        let mut job = greeting();
        change(&mut job);
        let expected = library.submit(&Caller::local(), vec![job], SubmitOptions::default()).await;
        let expected = expected.unwrap_or_else(|error| panic!("{options}: {error}")).remove(0).job;
        let expected = library.get(&Caller::local(), expected.id).await.unwrap().unwrap();
        let spec = windlass::job::Spec { owner: expected.spec.owner.clone(), ..found.spec.clone() };
        assert_eq!(spec, expected.spec, "{options}");
        let facts = |job: &windlass::job::JobRecord| {
            let delay = job.run_at.since(job.created_at);
            (job.lane.clone(), job.state, job.priority, delay, job.policy.clone(), job.concurrency)
        };
        let (ours, theirs) = (facts(&found.job), facts(&expected.job));
        let is_moment = options.contains("run_at\": \"");
        assert!(is_moment || ours.3 == theirs.3, "{options}: {:?} {:?}", ours.3, theirs.3);
        assert_eq!(
            (ours.0, ours.1, ours.2, ours.4, ours.5),
            (theirs.0, theirs.1, theirs.2, theirs.4, theirs.5)
        );
        assert!(!is_moment || found.job.run_at == expected.job.run_at, "{options}");
        assert!(id.to_string().as_bytes()[14] == b'4', "a UUID of version 4");
        verify(&sql).await;
        sql.close();
        library.close();
    }
}

/// Options that are refused, the field that is to blame, and the same asked of the library, if it can be.
const REFUSED_OPTIONS: [(&str, &str, Option<Change>); 33] = [
    (r#"{"traceparent": "a\tb"}"#, "traceparent", Some(|job| job.traceparent = Some("a\tb".into()))),
    (r#"{"baggage": "a\u0085b"}"#, "baggage", Some(|job| job.baggage = Some("a\u{85}b".into()))),
    (r#"{"priority": 101}"#, "priority", None),
    (r#"{"priority": "50"}"#, "priority", None),
    (r#"{"priority": 1.5}"#, "priority", None),
    (r#"{"queue": "1st"}"#, "queue", None),
    (r#"{"queue": "windlass.callbacks"}"#, "queue", Some(|job| job.queue = queue("windlass.callbacks"))),
    (r#"{"tenant": ""}"#, "tenant", None),
    (r#"{"requires_version": ""}"#, "requires_version", None),
    (r#"{"requires_version": "1 2"}"#, "requires_version", None),
    (r#"{"requires_version": "v1\n"}"#, "requires_version", None),
    (r#"{"delay": "1x"}"#, "delay", None),
    (r#"{"delay": ""}"#, "delay", None),
    (r#"{"delay": -1}"#, "delay", None),
    (r#"{"delay": "36501d"}"#, "delay", Some(|job| job.delay = Some(Duration::from_secs(36_501 * 86_400)))),
    (r#"{"run_at": "tomorrow"}"#, "run_at", None),
    (r#"{"run_at": "2030-02-31T00:00:00Z"}"#, "run_at", None),
    (
        r#"{"run_at": "2030-01-31T12:00:00Z", "delay": 1}"#,
        "run_at",
        Some(|job| {
            job.delay = Some(MINUTE);
            job.run_at = Some(Timestamp::from_millis(0));
        }),
    ),
    (r#"{"retry": "never"}"#, "retry.preset", None),
    (
        r#"{"retry": {"max_attempts": 101}}"#,
        "retry.max_attempts",
        Some(|job| {
            job.retry = Some(RetryPolicy::standard().attempts(101));
        }),
    ),
    (
        r#"{"retry": {"max_attempts": 0}}"#,
        "retry.max_attempts",
        Some(|job| {
            job.retry = Some(RetryPolicy::standard().attempts(0));
        }),
    ),
    (r#"{"retry": {"max_attempts": 3, "max_retries": 3}}"#, "retry.max_retries", None),
    (
        r#"{"retry": {"jitter": 1.1}}"#,
        "retry.jitter",
        Some(|job| {
            job.retry = Some(RetryPolicy { jitter: 1.1, ..RetryPolicy::standard() });
        }),
    ),
    (
        r#"{"retry": {"retry_on": ["permanent"]}}"#,
        "retry.retry_on",
        Some(|job| {
            job.retry = Some(RetryPolicy { retry_on: vec![Category::Permanent], ..RetryPolicy::standard() });
        }),
    ),
    (r#"{"retry": {"tries": 1}}"#, "retry.tries", None),
    (
        r#"{"timeouts": {"lease": "10ms"}}"#,
        "timeouts.lease",
        Some(|job| {
            job.lease_timeout = Some(Duration::from_millis(10));
        }),
    ),
    (r#"{"timeouts": {"lease": "1m", "visibility": "2m"}}"#, "timeouts.visibility", None),
    (r#"{"hold": "yes"}"#, "hold", None),
    (
        r#"{"tags": {"": "x"}}"#,
        "tags",
        Some(|job| {
            job.metadata.tags = BTreeMap::from([(String::new(), "x".to_owned())]);
        }),
    ),
    (
        r#"{"after": ["01a1de3e-daed-4ac6-8169-9a0a84e88577"]}"#,
        "after.0",
        Some(|job| {
            job.after = vec![Dependency::Job("01a1de3e-daed-4ac6-8169-9a0a84e88577".parse().unwrap())];
        }),
    ),
    (r#"{"after": ["@other"]}"#, "after.0", Some(|job| job.after = vec![Dependency::Named("other".into())])),
    (r#"{"debounce": {"key": "a", "delay": 1}}"#, "debounce", None),
    ("[]", "options", None),
];

/// Those, and longer ones.
fn refused() -> Vec<(String, &'static str, Option<Change>)> {
    let long = "x".repeat(257);
    let many: BTreeMap<String, &str> = (0..65).map(|number| (format!("t{number}"), "x")).collect();
    let mut all: Vec<(String, &'static str, Option<Change>)> = vec![
        (
            format!(r#"{{"idempotency_key": "{long}"}}"#),
            "idempotency_key",
            Some(|job| {
                job.idempotency_key = Some("x".repeat(257));
            }),
        ),
        (
            format!(r#"{{"unique_key": "{long}"}}"#),
            "unique_key",
            Some(|job| job.unique_key = Some("x".repeat(257))),
        ),
        (
            serde_json::json!({"tags": many}).to_string(),
            "tags",
            Some(|job| {
                job.metadata.tags = (0..65).map(|number| (format!("t{number}"), String::new())).collect();
            }),
        ),
        (
            format!(r#"{{"tags": {{"a": "{long}"}}}}"#),
            "tags.a",
            Some(|job| {
                job.metadata.tags = BTreeMap::from([("a".to_owned(), "x".repeat(257))]);
            }),
        ),
    ];
    all.extend(REFUSED_OPTIONS.map(|(options, field, change)| (options.to_owned(), field, change)));
    all
}

/// Model: type-and-queue-names, payload, idempotency-key, writable-fields, priority-values, dependency-limits. SQL and library reject the same field.
#[tokio::test]
async fn sql_and_the_library_refuse_the_same() {
    let address = new_schema();
    let store = open(&address);
    let (client, schema) = stranger(&address).await;
    for (options, field, change) in refused() {
        let (to_blame, message) = submit(&client, &schema, &options).await.expect_err(&options);
        assert_eq!(to_blame, field, "{options}: {message}");
        let Some(change) = change else { continue };
        let mut job = greeting();
        change(&mut job);
        let result = store.submit(&Caller::local(), vec![job], SubmitOptions::default()).await;
        let Err(SubmitError::Invalid { invalid, .. }) = result else { panic!("{options}: {result:?}") };
        assert_eq!(invalid.field, field, "{options}");
    }
    for (call, field) in [
        ("submit('1', 'null')", "type"),
        ("submit('windlass.callback', 'null')", "type"),
        ("submit('t', '{')", "payload"),
        ("submit('t', convert_to(repeat('x', 1048577), 'UTF8'))", "payload"),
        ("submit('t', 'null', '{\"content_type\": \"text/plain\"}')", "content_type"),
    ] {
        let error = client.batch_execute(&format!("SELECT {schema}.{call}")).await.expect_err(call);
        let answer = error.as_db_error().unwrap();
        assert_eq!((answer.code().code(), answer.column()), ("22023", Some(field)), "{call}");
        assert_eq!(answer.detail(), Some(format!("field: {field}").as_str()));
    }
    assert_eq!(super::numbers_of_jobs(&store).await, 0);
    store.close();
}

async fn hello(job: Greet) -> anyhow::Result<String> {
    Ok(format!("hello, {}", job.name))
}

/// Model: atomic-changes, wake-ups. A commit wakes a worker that waits, with notifications and without, in Rust and by any statement.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_committed_transaction_makes_its_jobs_and_wakes_a_worker() {
    for option in ["", "&notify=off", "&statement_cache=off"] {
        let address = new_schema();
        let jobs = Client::open(&format!("{address}{option}")).await.unwrap();
        let (mut client, schema) = stranger(&address).await;
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let running = tokio::spawn(Worker::new(&jobs).handle(hello).run_until(async { drop(stopped.await) }));
        let transaction = client.transaction().await.unwrap();
        transaction.execute("INSERT INTO orders VALUES (1)", &[]).await.unwrap();
        let first = jobs.submit(greet("a")).key("once").in_postgres_tx(&transaction).await.unwrap();
        let again = jobs.submit(greet("a")).key("once").in_postgres_tx(&transaction).await.unwrap();
        assert_eq!(again.id(), first.id());
        let second = jobs.submit(greet("b")).after(&first).in_postgres_tx(&transaction).await.unwrap();
        assert_eq!(first.state().await.unwrap(), None, "it is not visible before the commit");
        transaction.commit().await.unwrap();
        assert_eq!(first.result(LONG).await.unwrap(), "hello, a");
        assert_eq!(second.result(LONG).await.unwrap(), "hello, b");
        let call = jobs.submit(greet("c")).priority("high").submit_sql().unwrap();
        let row = client.query_one(&call.statement, &[&call.job_type, &call.payload, &call.options]).await;
        let third = JobId::from_bytes(*row.unwrap().get::<_, Uuid>(0).as_bytes());
        assert_eq!(jobs.handle::<Greet>(third).result(LONG).await.unwrap(), "hello, c", "{schema}");
        verify(jobs.store().unwrap()).await;
        stop.send(()).unwrap();
        running.await.unwrap().unwrap();
        jobs.close();
    }
}

/// The options of `submit` in SQL are the fields of a submission over HTTP.
#[tokio::test]
async fn the_function_takes_every_field_of_a_submission() {
    let address = new_schema();
    let jobs = Client::open(&address).await.unwrap();
    let (client, schema) = stranger(&address).await;
    let (_, refusal) = submit(&client, &schema, r#"{"no such option": 1}"#).await.unwrap_err();
    let (_, known) = refusal.split_once("known are ").expect("it says what is known");
    let mut known: BTreeSet<String> = known.split(", ").map(str::to_owned).collect();
    // Over HTTP it is a parameter of the request.
    assert!(known.remove("strict"));
    // These are parameters of the function, and another submission's job cannot be replaced in a transaction of its own.
    known.extend(["type", "payload", "payload_base64", "debounce"].map(str::to_owned));
    assert_eq!(known, Submission::field_names());
    jobs.close();
}

/// Model: atomic-changes
#[tokio::test]
async fn a_rolled_back_transaction_leaves_nothing_and_a_refusal_leaves_the_rest() {
    let address = new_schema();
    let jobs = Client::open(&address).await.unwrap();
    let (mut client, schema) = stranger(&address).await;
    let transaction = client.transaction().await.unwrap();
    let gone = jobs.submit(greet("a")).key("k").in_postgres_tx(&transaction).await.unwrap();
    transaction.rollback().await.unwrap();
    let holder = jobs.submit(greet("b")).key("k").unique("u").await.unwrap();
    assert_ne!(holder.id(), gone.id(), "the key was never used");
    let transaction = client.transaction().await.unwrap();
    let taken = jobs.submit(greet("c")).unique("u").in_postgres_tx(&transaction).await.err();
    let expected = SubmitError::UniqueKeyTaken { index: 0, key: "u".into(), holder: holder.id() };
    assert_eq!(taken, Some(expected));
    let differs = jobs.submit(greet("c")).key("k").strict().in_postgres_tx(&transaction).await.err();
    assert_eq!(differs, Some(SubmitError::PayloadDiffers { index: 0, existing: holder.id() }));
    let kept = jobs.submit(greet("d")).in_postgres_tx(&transaction).await.unwrap();
    transaction.commit().await.unwrap();
    taken_in(jobs.store().unwrap(), kept.id()).await;
    assert_eq!(jobs.api().get(jobs.caller(), gone.id()).await.unwrap(), None);
    assert_eq!(super::numbers_of_jobs(jobs.store().unwrap()).await, 2, "{schema}");
    verify(jobs.store().unwrap()).await;
    jobs.close();
}

/// Model: idempotency-key. However many transactions use a key, in SQL or in the library, there is one job.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_transactions_with_one_key_make_one_job() {
    let address = new_schema();
    let jobs = Client::open(&address).await.unwrap();
    let mut callers = Vec::new();
    for number in 0..32 {
        let (jobs, address) = (jobs.clone(), address.clone());
        callers.push(tokio::spawn(async move {
            if number % 4 == 0 {
                loop {
                    match jobs.submit(greet("a")).key("one").await {
                        Err(SubmitError::Store(StoreError::Overloaded { .. })) => {
                            tokio::task::yield_now().await;
                        }
                        submitted => return submitted.unwrap().id(),
                    }
                }
            }
            let (mut client, _) = stranger(&address).await;
            let transaction = client.transaction().await.unwrap();
            let id = jobs.submit(greet("a")).key("one").in_postgres_tx(&transaction).await.unwrap().id();
            transaction.commit().await.unwrap();
            id
        }));
    }
    let mut ids = std::collections::BTreeSet::new();
    for caller in callers {
        ids.insert(tokio::time::timeout(LONG, caller).await.expect("in time").unwrap());
    }
    assert_eq!(ids.len(), 1);
    taken_in(jobs.store().unwrap(), ids.pop_first().unwrap()).await;
    assert_eq!(super::numbers_of_jobs(jobs.store().unwrap()).await, 1);
    verify(jobs.store().unwrap()).await;
    jobs.close();
}

/// Model: idempotency-key. A submission that becomes a job while another with its key comes in is found, in `inbox` or in `keys`.
#[tokio::test]
async fn a_key_is_found_while_its_submission_becomes_a_job() {
    let address = new_schema();
    open(&address).close();
    let (mut node, schema) = stranger(&address).await;
    let (client, _) = stranger(&address).await;
    let options = r#"{"idempotency_key": "one"}"#;
    let first = submit(&client, &schema, options).await.unwrap();
    // As a node does it, and so slowly that the other submission comes in between.
    let taking = node.transaction().await.unwrap();
    taking.batch_execute(&format!("LOCK TABLE {schema}.inbox")).await.unwrap();
    let name = schema.clone();
    let second = tokio::spawn(async move { submit(&client, &name, options).await.unwrap() });
    let waiting = format!("SELECT FROM pg_locks WHERE relation = '{schema}.inbox'::regclass AND NOT granted");
    let waits = async {
        while taking.query(&waiting, &[]).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, waits).await.expect("it looks into the inbox");
    let take = format!(
        "INSERT INTO {schema}.keys (kind, tenant, type, key, seq, expires_at, \"check\", job, payload) \
         SELECT 0, tenant, type, idempotency_key, 1, {}, 0, id, '' FROM {schema}.inbox; DELETE FROM {schema}.inbox",
        i64::MAX
    );
    taking.batch_execute(&take).await.unwrap();
    taking.commit().await.unwrap();
    let second = tokio::time::timeout(LONG, second).await.expect("in time").unwrap();
    assert_eq!(second, first);
}

/// Model: idempotency-key, backpressure. An open transaction delays only submissions with the same keys, and those not forever.
#[tokio::test]
async fn a_transaction_that_stays_open_stops_no_other_caller() {
    let address = new_schema();
    let jobs = Client::open(&address).await.unwrap();
    let (mut client, _) = stranger(&address).await;
    let transaction = client.transaction().await.unwrap();
    let open = jobs.submit(greet("a")).key("mine").unique("too").in_postgres_tx(&transaction).await.unwrap();
    let busy = jobs.submit(greet("a")).key("mine");
    let also_busy = jobs.submit(greet("a")).unique("too");
    let others =
        (0..200).map(|number| windlass::client::JobBuilder::new(&greet("b")).key(&format!("k{number}")));
    let (busy, also_busy, others, plain) = tokio::join!(
        busy.into_future(),
        also_busy.into_future(),
        jobs.submit_all(others),
        jobs.submit(greet("c")).into_future()
    );
    for refused in [busy.err(), also_busy.err()] {
        assert!(matches!(refused, Some(SubmitError::Store(StoreError::Overloaded { .. }))), "{refused:?}");
    }
    assert_eq!((others.unwrap().len(), plain.is_ok()), (200, true));
    transaction.commit().await.unwrap();
    let found = jobs.submit(greet("a")).key("mine").await.unwrap();
    assert_eq!(found.id(), open.id(), "what was committed came first, whether it was taken in or not");
    verify(jobs.store().unwrap()).await;
    jobs.close();
}

/// The limit on concurrency keys: the refused job keeps its id, fails and does not hold the key.
#[tokio::test]
async fn a_key_beyond_the_limit_is_rejected_in_the_inbox() {
    let address = new_schema();
    let (store, me) = (open(&address), Caller::local());
    let patch = TenantPatch { max_concurrency_keys: Field::Set(1), ..TenantPatch::default() };
    store.configure(&me, SettingsPatch::Tenant(tenant("default"), patch)).await.unwrap();
    let (client, schema) = stranger(&address).await;
    let with_key = |key: &str| format!(r#"{{"concurrency_key": "{key}"}}"#);
    let first = submit(&client, &schema, &with_key("a")).await.unwrap();
    assert_eq!(taken_in(&store, first).await.job.state, JobState::Scheduled);
    let same = submit(&client, &schema, &with_key("a")).await.unwrap();
    assert_eq!(taken_in(&store, same).await.job.state, JobState::Scheduled);
    let options = r#"{"concurrency_key": "b", "unique_key": "u", "retry": {"max_attempts": 7}, "timeouts": {"execution": "9s"}}"#;
    let refused = submit(&client, &schema, options).await.unwrap();
    let found = taken_in(&store, refused).await;
    let error = found.job.details.error.as_ref().expect("it says why");
    assert_eq!((found.job.state, error.code.as_deref()), (JobState::Failed, Some(REFUSED_SUBMISSION)));
    assert!(
        error.message.contains("`b`") && error.message.contains("max_concurrency_keys is 1"),
        "{error:?}"
    );
    verify(&store).await;
    for id in [first, same] {
        store.act(&me, id, ActionRequest::Cancel { reason: None }).await.unwrap();
    }
    let third = submit(&client, &schema, &with_key("b")).await.unwrap();
    assert_eq!(taken_in(&store, third).await.job.state, JobState::Scheduled);
    verify(&store).await;
    // A redrive repeats what was submitted, not only its payload.
    let again = store.redrive(&me, refused, Redrive::default()).await.unwrap();
    let again = store.get(&me, again.id).await.unwrap().unwrap();
    assert_eq!(again.spec.concurrency_key.as_deref(), Some("b"));
    assert_eq!(again.spec.unique_key.as_deref(), Some("u"));
    let policy = &again.job.policy;
    assert_eq!((policy.retry.max_attempts, policy.timeouts.execution), (7, Duration::from_secs(9)));
    verify(&store).await;
    store.close();
}

/// What only a node can refuse becomes a job that failed and says why; what cannot be read at all is set aside.
#[tokio::test]
async fn what_is_refused_inside_is_not_lost_and_blocks_no_other() {
    let address = new_schema();
    let store = open(&address);
    let (client, schema) = stranger(&address).await;
    let inside = submit(&client, &schema, r#"{"callback_url": "http://127.0.0.1/x", "tags": {"a": "b"}}"#)
        .await
        .unwrap();
    let found = taken_in(&store, inside).await;
    assert_eq!(found.job.state, JobState::Failed);
    let error = found.job.details.error.as_ref().expect("it says why");
    assert_eq!(error.code.as_deref(), Some(REFUSED_SUBMISSION));
    assert!(error.message.contains("callback_url"), "{}", error.message);
    verify(&store).await;
    let sql = format!(
        "INSERT INTO {schema}.inbox (id, owner, tenant, type, content_type, body, payload) \
         VALUES (gen_random_uuid(), 'x', 'default', 'greet', 'application/json', '{{\"queue\": 1}}', 'null')"
    );
    client.batch_execute(&sql).await.unwrap();
    let next = submit(&client, &schema, "{}").await.unwrap();
    taken_in(&store, next).await;
    let results = store.verify().await.unwrap();
    let findings: Vec<&String> = results.iter().flat_map(|result| &result.findings).collect();
    assert!(findings.len() == 1 && findings[0].contains("was quarantined"), "{findings:?}");
    store.close();
}

/// Model: roles. A role that was granted the function can submit, and nothing else; one that was not, cannot.
#[tokio::test]
async fn a_role_needs_a_grant_and_can_only_submit() {
    let address = new_schema();
    let store = open(&address);
    let (client, schema) = stranger(&address).await;
    let role = format!("app_{schema}");
    client
        .batch_execute(&format!("CREATE ROLE {role}; GRANT USAGE ON SCHEMA {schema} TO {role}"))
        .await
        .unwrap();
    client.batch_execute(&format!("SET ROLE {role}")).await.unwrap();
    let denied = submit(&client, &schema, "{}").await.expect_err("it was not granted");
    assert!(denied.1.contains("permission denied"), "{}", denied.1);
    let grants = ["bytea", "text", "json", "jsonb"]
        .map(|kind| format!("GRANT EXECUTE ON FUNCTION {schema}.submit(text, {kind}, jsonb) TO {role};"));
    client.batch_execute(&format!("RESET ROLE; {} SET ROLE {role}", grants.concat())).await.unwrap();
    let id = submit(&client, &schema, "{}").await.unwrap();
    assert!(client.batch_execute(&format!("SELECT * FROM {schema}.inbox")).await.is_err());
    assert!(client.batch_execute(&format!("SELECT * FROM {schema}.jobs")).await.is_err());
    let found = taken_in(&store, id).await;
    assert_eq!(found.spec.owner, "windlass", "the user who logged in");
    store.close();
}
