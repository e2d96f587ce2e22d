//! `move`, `migrate`, `backup` and `restore` as an operator runs them.

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use serde_json::Value;
use windlass::job::{JobType, NewJob, Payload};
use windlass::store::caller::Caller;
use windlass::store::engine::RecordQuery;
use windlass::store::{ClaimRequest, Finish, NewWorker, Outcome, Report, Store, StoreOptions, SubmitOptions};
use windlass_testkit::cluster::new_schema;
use windlass_testkit::{store_folder, store_in, windlass};

async fn run(arguments: &[&str]) -> Output {
    windlass(arguments).output().await.unwrap()
}

fn said(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

async fn filled(folder: &Path) -> String {
    let address = store_in(folder);
    let store = Store::open(&address, StoreOptions::default()).unwrap();
    let new = || NewJob::new(JobType::new("email.send").unwrap(), Payload::json("{}"));
    store.submit(&Caller::local(), vec![new(), new(), new()], SubmitOptions::default()).await.unwrap();
    store.close();
    address
}

#[tokio::test]
async fn a_store_is_moved_and_the_old_one_says_where_it_went() {
    let folder = store_folder();
    let from = filled(folder.path()).await;
    let to = format!("sqlite:{}", folder.path().join("other.db").display());
    let done = run(&["move", "--from", &from, "--to", &to, "--json"]).await;
    assert!(done.status.success(), "{}", said(&done.stderr));
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(report["parts"][2]["part"], "jobs");
    assert_eq!(report["parts"][2]["rows"], 3);
    assert_eq!(report["parts"][2]["sha256"].as_str().unwrap().len(), 64);
    assert!(said(&done.stderr).contains("was moved to"));
    let old = run(&["stats", "--store", &from]).await;
    assert!(!old.status.success());
    assert!(said(&old.stderr).contains("was moved to"), "{}", said(&old.stderr));
    let new = run(&["stats", "--store", &to, "--json"]).await;
    assert!(said(&new.stdout).contains("\"scheduled\":3"), "{}", said(&new.stdout));
    let again = run(&["move", "--from", &from, "--to", &to]).await;
    assert!(said(&again.stderr).contains("was moved before"), "{}", said(&again.stderr));
    assert!(said(&again.stdout).contains("jobs"));
    let undone = run(&["move", "--undo", "--from", &from, "--to", &to]).await;
    assert!(said(&undone.stderr).contains("--force"), "{}", said(&undone.stderr));
    let undone = run(&["move", "--undo", "--force", "--from", &from, "--to", &to]).await;
    assert!(undone.status.success(), "{}", said(&undone.stderr));
    assert!(run(&["stats", "--store", &from]).await.status.success());
    assert!(!run(&["stats", "--store", &to]).await.status.success());
}

#[tokio::test]
async fn what_cannot_be_moved_is_reported_with_what_to_do() {
    let folder = store_folder();
    let from = filled(folder.path()).await;
    let other = store_folder();
    let full = filled(other.path()).await;
    let missing = format!("sqlite:{}", folder.path().join("none.db").display());
    for (from, to, word) in [
        (missing.as_str(), full.as_str(), "no store"),
        (&from, &full, "is not empty"),
        (&from, "http://127.0.0.1:1", "give `sqlite:PATH`"),
        (&from, "postgres://me:secret@127.0.0.1:1/x", "postgres://me:***@127.0.0.1:1/x"),
    ] {
        let done = run(&["move", "--from", from, "--to", to]).await;
        let words = said(&done.stderr);
        assert!(!done.status.success() && words.contains(word), "{words}");
        assert!(!words.contains("secret"), "{words}");
    }
    let done = run(&["move", "--from", &from]).await;
    assert!(said(&done.stderr).contains("--to"));
    let user = Store::open(&from, StoreOptions::default()).unwrap();
    let done = run(&["move", "--from", &from, "--to", &missing]).await;
    assert!(said(&done.stderr).contains("is in use"), "{}", said(&done.stderr));
    user.close();
}

#[tokio::test]
async fn a_backup_is_restored_to_a_new_file_only() {
    let folder = store_folder();
    let store = filled(folder.path()).await;
    let copy = folder.path().join("copy.db").display().to_string();
    assert!(run(&["backup", "--store", &store, &copy]).await.status.success());
    let refused = run(&["restore", &copy, "--store", &store]).await;
    assert!(said(&refused.stderr).contains("is not overwritten"), "{}", said(&refused.stderr));
    let new = format!("sqlite:{}", folder.path().join("new.db").display());
    let done = run(&["restore", &copy, "--store", &new, "--json"]).await;
    assert!(done.status.success(), "{}", said(&done.stderr));
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!((&report["jobs"], &report["open"], &report["released"]), (&3.into(), &3.into(), &0.into()));
    assert_eq!(report["generation"], 2);
    assert!(run(&["verify", "--store", &new]).await.status.success());
    let refused = run(&["restore", &copy, "--store", "postgres://db/app"]).await;
    assert!(said(&refused.stderr).contains("PostgreSQL's own tools"));
}

/// A plan changes nothing, `--yes` does what follows, and what does not follow is left to a person.
#[tokio::test]
async fn a_store_is_repaired_as_far_as_it_follows() {
    let folder = store_folder();
    let store = filled(folder.path()).await;
    let path = store.strip_prefix("sqlite:").unwrap().to_owned();
    let spoil = |sql: &str| rusqlite::Connection::open(&path).unwrap().execute(sql, []).unwrap();
    assert!(run(&["verify", "--repair", "--store", &store]).await.status.success());
    assert_eq!(spoil("UPDATE counts SET n = n + 4 WHERE n > 0"), 1);
    let planned = run(&["verify", "--repair", "--store", &store]).await;
    let (out, err) = (said(&planned.stdout), said(&planned.stderr));
    assert!(
        out.contains("scheduled: counter 7, jobs 3") && out.contains("by -4: counters are sums"),
        "{out}"
    );
    assert!(err.contains("nothing was changed") && !planned.status.success(), "{err}");
    let repaired = run(&["verify", "--repair", "--yes", "--store", &store]).await;
    assert!(said(&repaired.stderr).contains("1 of 1 repaired"), "{}", said(&repaired.stderr));
    assert!(repaired.status.success());
    let audit = Store::open(&store, StoreOptions::default()).unwrap();
    let records = audit.audit(&Caller::local(), RecordQuery { limit: 10, ..RecordQuery::default() }).await;
    audit.close();
    let last = records.unwrap().pop().unwrap();
    assert_eq!(last.event.as_str(), "store.ops.repaired");
    assert!(last.context.contains("counter 7, jobs 3") && last.context.contains("by -4"), "{}", last.context);
    assert_eq!(spoil("DELETE FROM jobs WHERE seq = 1"), 1);
    let refused = run(&["verify", "--repair", "--yes", "--json", "--store", &store]).await;
    let report: Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert!(!refused.status.success());
    let [repair] = &report["repairs"].as_array().unwrap()[..] else { panic!("{report}") };
    assert_eq!((&repair["code"], &repair["repair"]), (&"payloads".into(), &Value::Null));
    assert!(repair["advice"].as_str().unwrap().contains("restore a backup"), "{repair}");
}

/// Model: store-generation. For a database that was put back by PostgreSQL's own tools.
#[tokio::test]
async fn a_database_that_was_put_back_begins_a_new_generation() {
    let address = new_schema();
    let store = Store::open(&address, StoreOptions::default()).unwrap();
    let new = NewJob::new(JobType::new("email.send").unwrap(), Payload::json("{}"));
    store.submit(&Caller::local(), vec![new], SubmitOptions::default()).await.unwrap();
    let worker = store.register(&Caller::local(), NewWorker::default()).await.unwrap().id;
    let request = ClaimRequest::new(worker, 1);
    let held = store.claim(&Caller::local(), &request, Duration::ZERO).await.unwrap().jobs.remove(0);
    let done = run(&["restore", "--store", &address, "--json"]).await;
    assert!(done.status.success(), "{}", said(&done.stderr));
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(report, serde_json::json!({"generation": 2, "released": 1}));
    let outcome = Report::new(held.job.id, held.job.fence, Outcome::Completed { result: None });
    let answer = store.finish(&Caller::local(), worker, vec![outcome]).await.unwrap();
    assert_eq!(answer, [Finish::Stale]);
    store.close();
    let refused = run(&["restore", "--store", "sqlite:jobs.db"]).await;
    assert!(said(&refused.stderr).contains("the backup is missing"), "{}", said(&refused.stderr));
}

#[tokio::test]
async fn a_migration_is_shown_before_it_is_done() {
    let folder = store_folder();
    let store = store_in(folder.path());
    let shown = run(&["migrate", "--store", &store, "--dry-run"]).await;
    assert!(said(&shown.stdout).contains("would be done: 0001_foundation"), "{}", said(&shown.stdout));
    assert!(!folder.path().join("jobs.db").exists(), "nothing was done");
    let done = run(&["migrate", "--store", &store]).await;
    assert!(said(&done.stdout).contains("done: 0001_foundation"), "{}", said(&done.stdout));
    let again = run(&["migrate", "--store", &store, "--json"]).await;
    let report: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(report["found"], report["known"]);
    assert_eq!(report["steps"].as_array().map(Vec::len), Some(0));
}

/// Reading a store must not create one: an empty backup would pass for a sound store.
#[tokio::test]
async fn what_is_no_store_is_refused_by_commands_that_look_and_left_as_it_was() {
    let folder = store_folder();
    let (empty, foreign) = (folder.path().join("empty.db"), folder.path().join("app.db"));
    std::fs::write(&empty, b"").unwrap();
    let connection = rusqlite::Connection::open(&foreign).unwrap();
    connection.execute_batch("CREATE TABLE mine (a)").unwrap();
    drop(connection);
    let copy = folder.path().join("copy.db").display().to_string();
    for path in [&empty, &foreign] {
        let (address, before) = (format!("sqlite:{}", path.display()), std::fs::read(path).unwrap());
        for command in [&["verify"][..], &["backup", &copy], &["stats"], &["audit", "verify"]] {
            let refused = run(&[command, &["--store", &address]].concat()).await;
            assert!(!refused.status.success(), "{command:?} {address}");
            assert!(said(&refused.stderr).contains("no store"), "{}", said(&refused.stderr));
        }
        assert_eq!(std::fs::read(path).unwrap(), before);
        assert!(!Path::new(&format!("{}-head", path.display())).exists());
    }
    let schema = new_schema();
    let refused = run(&["verify", "--store", &schema]).await;
    assert!(said(&refused.stderr).contains("no store"), "{}", said(&refused.stderr));
}
