//! A full disk: a file system of a few megabytes, mounted for one child process alone and gone with it. Where it may not be
//! mounted, the test fails; it never skips.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use windlass::clock::ManualClock;
use windlass::error::{StoreError, SubmitError};
use windlass::job::{JobId, JobState, NewJob};
use windlass::limits;
use windlass::store::caller::Caller;
use windlass::store::{
    ActionRequest, AttemptWrite, ClaimRequest, ClaimedJob, Finish, NewWorker, Outcome, Report, Store,
    SubmitOptions,
};

use super::load::{new_job, payload};
use super::process::{Process, Role, Task, say};
use super::{open_at, verify};
use crate::fixture::{START, lease_ref};

const DISK_MIB: u64 = 72;
/// The name of a run in which nothing but jobs takes space.
const OWN_JOBS: &str = "own";

/// Model: at-least-once
#[test]
fn on_a_full_disk_running_work_ends_and_submissions_wait_for_space() {
    for (seed, filler_kib) in [(1, 12_288), (2, 21_003), (3, 33_333), (4, 38_001)] {
        run_on_small_disk(seed, &filler_kib.to_string());
    }
}

/// Where the jobs themselves fill the disk, deleting them is what frees it: the file keeps its size, but has free pages.
#[test]
fn a_disk_that_jobs_have_filled_takes_submissions_once_they_are_deleted() {
    run_on_small_disk(5, OWN_JOBS);
}

fn run_on_small_disk(seed: u64, name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("sqlite:{}", folder.path().join("jobs.db").display());
    let name = name.to_owned();
    let task = Task { role: Role::Full, address, seed, now: Some(START), name };
    let mount = format!(r#"mount -t tmpfs -o size={DISK_MIB}m tmpfs "$0" && exec "$@""#);
    let folder = folder.path().to_str().unwrap();
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let as_root: &[&str] = if is_root { &[] } else { &["--user", "--map-root-user"] };
    let own_mounts = [&["unshare", "--mount"], as_root, &["sh", "-c", &mount, folder]].concat();
    let mut process = Process::start_under(&own_mounts, &task);
    let lines = process.hear_all();
    println!("{lines:?}");
    assert!(process.end().success() && lines.last().is_some_and(|line| line == "done"), "{lines:?}");
}

/// What the child does on its small disk.
pub(super) async fn fill(task: &Task) {
    let path = task.address.strip_prefix("sqlite:").unwrap();
    let folder = Path::new(path).parent().unwrap();
    let filler = folder.join("filler");
    let filler_kib = task.name.parse::<usize>().unwrap_or(0);
    fs::write(&filler, vec![1; filler_kib << 10]).unwrap();
    let (store, clock) = open_at(&task.address, START).unwrap();
    let mut kept = submit(&store, "early", 60, 0).await.unwrap();
    let (running, worker) = claim(&store, 50).await;

    let (big, refusal) = fill_up(&store).await;
    assert_eq!(refusal, SubmitError::Store(StoreError::Full));
    say(&format!("full after {} big jobs: {}", big.len(), sizes(folder)));
    if task.name != OWN_JOBS {
        kept.extend(big.clone());
    }
    end_all(&store, running, worker, &clock).await;
    verify(&store, "on a full disk").await;

    if task.name == OWN_JOBS {
        delete_all(&store, &big).await;
    } else {
        fs::remove_file(&filler).unwrap();
    }
    clock.advance(limits::RESERVE_RETRY_EVERY);
    let late = submit(&store, "late", 10, 0).await.expect("submissions are taken again");
    kept.extend(late);
    say("healed");
    check(&store, &kept).await;
    verify(&store, "with space again").await;
    store.close();
    let (store, _) = open_at(&task.address, START).unwrap();
    check(&store, &kept).await;
    verify(&store, "opened again").await;
    store.close();
}

/// What takes the space, in KiB.
fn sizes(folder: &Path) -> String {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let sizes = entries.map(|entry| (entry.file_name(), entry.metadata().unwrap().blocks() / 2));
    format!("{:?}", sizes.collect::<Vec<_>>())
}

type Kept = Vec<(JobId, String)>;

async fn submit(store: &Store, name: &str, count: usize, fill: usize) -> Result<Kept, SubmitError> {
    let tags: Vec<String> = (0..count).map(|number| format!("{name}.{number}")).collect();
    let jobs: Vec<NewJob> = tags
        .iter()
        .map(|tag| {
            let mut job = new_job(tag);
            // The fill is not part of the tag: it is there to take space.
            job.metadata.correlation_id = Some(tag.clone());
            // Time passes while the disk is full, and no worker beats.
            job.lease_timeout = None;
            if fill > 0 {
                job.payload.bytes = big_payload(tag, fill).into_bytes().into();
            }
            job
        })
        .collect();
    let receipts = store.submit(&Caller::local(), jobs, SubmitOptions::default()).await?;
    let kept = |(receipt, tag): (windlass::store::Receipt, String)| {
        let payload = if fill > 0 { big_payload(&tag, fill) } else { payload(&tag) };
        (receipt.job.id, payload)
    };
    Ok(receipts.into_iter().zip(tags).map(kept).collect())
}

fn big_payload(tag: &str, fill: usize) -> String {
    format!(r#"{{"tag":"{tag}","fill":"{}"}}"#, "y".repeat(fill))
}

/// Submits big jobs until the disk is full.
async fn fill_up(store: &Store) -> (Kept, SubmitError) {
    let mut kept = Vec::new();
    for number in 0..2_000 {
        match submit(store, &format!("big{number}"), 1, 200_000).await {
            Ok(more) => kept.extend(more),
            Err(error) => return (kept, error),
        }
    }
    panic!("the disk is not full after {} big jobs", kept.len());
}

async fn claim(store: &Store, count: usize) -> (Vec<ClaimedJob>, windlass::job::WorkerId) {
    let me = Caller::local();
    let worker = store.register(&me, NewWorker::default()).await.unwrap().id;
    let claimed = store.claim(&me, &ClaimRequest::new(worker, count), Duration::ZERO).await.unwrap().jobs;
    assert_eq!(claimed.len(), count);
    (claimed, worker)
}

/// Every running job notes something and completes, while submissions are still refused.
async fn end_all(
    store: &Store,
    running: Vec<ClaimedJob>,
    worker: windlass::job::WorkerId,
    clock: &Arc<ManualClock>,
) {
    let me = Caller::local();
    let mut refused = 0;
    for (number, claimed) in running.iter().enumerate() {
        let note = AttemptWrite::Checkpoint { step: "last".into(), value: b"1".to_vec() };
        store.record(&me, lease_ref(claimed), vec![note]).await.expect("a checkpoint fits");
        let report = Report::new(
            claimed.job.id,
            claimed.job.fence,
            Outcome::Completed { result: Some(b"2".to_vec()) },
        );
        let answers = store.finish(&me, worker, vec![report]).await.expect("a completion fits");
        assert_eq!(answers, [Finish::Applied(JobState::Completed)]);
        if number % 10 == 0 {
            clock.advance(limits::RESERVE_RETRY_EVERY);
            refused += usize::from(submit(store, &format!("while{number}"), 1, 200_000).await.is_err());
        }
    }
    say(&format!("{} jobs ended, {refused} of 5 submissions refused meanwhile", running.len()));
}

async fn delete_all(store: &Store, jobs: &Kept) {
    for (id, _) in jobs {
        store
            .act(&Caller::local(), *id, ActionRequest::Cancel { reason: None })
            .await
            .expect("a cancellation fits");
        store.delete(&Caller::local(), *id).await.expect("a deletion fits");
    }
}

async fn check(store: &Store, kept: &Kept) {
    for (id, payload) in kept {
        let found = store.get(&Caller::local(), *id).await.unwrap().expect("an acknowledged job is there");
        assert!(*found.spec.payload.bytes == *payload.as_bytes(), "{id} reads back as it was submitted");
    }
}
