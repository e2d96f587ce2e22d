//! Loss of power on real files. Every write, sync, rename and removal of a store is recorded with what it acknowledged
//! meanwhile (`recorder.c`); then the disk is put together as it may be found after a loss of power at each moment, and
//! opened. What was acknowledged is there, whole, and everything else is there whole or not at all.
//!
//! It believes that a sync is kept and that a write changes nothing beside it; sectors of 512 bytes are written whole.

mod check;
mod disk;
mod life;
mod recording;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use windlass::clock::Stopwatch;
use windlass::limits;

pub(super) use self::life::live;
use self::recording::Event;
use super::process::{Process, Role, Task};
use super::{address, lend_reserve, open_at, verify};
use crate::fixture::{START, store_folder};

/// The life and the images by default; `WINDLASS_POWERLOSS_SEED` says otherwise.
const SEED: u64 = 0x5EED_0023;
/// Images by default; `WINDLASS_POWERLOSS_IMAGES` says otherwise, and `WINDLASS_POWERLOSS_SECONDS` how long they may take.
const IMAGES: usize = 10_000;

fn setting<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

fn seed() -> u64 {
    setting("WINDLASS_POWERLOSS_SEED").unwrap_or(SEED)
}

/// A folder with a reserve that others may link.
fn lender() -> TempDir {
    let lender = store_folder();
    let (store, _) = open_at(&address(lender.path()), START).unwrap();
    store.close();
    lender
}

/// Runs the life of a store under the recorder, or reads an earlier record.
fn record(lender: &Path) -> (PathBuf, Vec<Event>) {
    if let Ok(path) = std::env::var("WINDLASS_POWERLOSS_RECORD") {
        let path = PathBuf::from(path);
        let events = read(&path);
        return (path, events);
    }
    let (place, tools) = (store_folder(), store_folder());
    lend_reserve(lender, place.path());
    let (library, kept) = (recording::compile(tools.path()), tools.path().join("record"));
    fs::write(&kept, format!("{}\n", place.path().display())).unwrap();
    let name = "life".to_owned();
    let task =
        Task { role: Role::Recorded, address: address(place.path()), seed: seed(), now: Some(START), name };
    let setting = |name: &str, value: &Path| format!("{name}={}", value.display());
    let wrapper = [
        "env".to_owned(),
        setting("WINDLASS_RECORD_FOLDER", place.path()),
        setting("WINDLASS_RECORD_TO", &kept),
        setting("LD_PRELOAD", &library),
    ];
    let mut process = Process::start_under(&wrapper.each_ref().map(String::as_str), &task);
    let lines = process.hear_all();
    assert!(process.end().success() && lines.last().is_some_and(|line| line == "done"), "{lines:?}");
    let path = std::env::temp_dir().join(format!("windlass-powerloss-{}.record", std::process::id()));
    fs::copy(&kept, &path).unwrap();
    let events = read(&path);
    let said = events.iter().filter(|event| matches!(event, Event::Said(_))).count();
    assert_eq!(said, lines.len(), "everything that was said is in the record");
    (path, events)
}

/// The first line of a record is the folder.
fn read(path: &Path) -> Vec<Event> {
    let record = fs::read(path).unwrap();
    let end = record.iter().position(|byte| *byte == b'\n').expect("a record begins with its folder");
    recording::parse(&record[end + 1..], std::str::from_utf8(&record[..end]).unwrap())
}

/// Model: at-least-once. A store, its backup and what is restored from it lose nothing that was acknowledged.
#[test]
fn a_loss_of_power_at_any_moment_loses_nothing_that_was_acknowledged() {
    let seconds = setting("WINDLASS_POWERLOSS_SECONDS").map(Duration::from_secs);
    let wanted = check::Wanted {
        images: setting("WINDLASS_POWERLOSS_IMAGES").unwrap_or(IMAGES),
        in_round: IMAGES,
        limit: seconds.map(|seconds| (Stopwatch::start(), seconds)),
        seed: seed().wrapping_sub(SEED),
    };
    let lender = lender();
    let (path, events) = record(lender.path());
    let summary = check::check_all(&events, wanted, &path, lender.path());
    println!("seed {}: {summary}", seed());
    if std::env::var_os("WINDLASS_POWERLOSS_RECORD").is_none() {
        fs::remove_file(&path).unwrap();
    }
}

/// The reserve has no content: whatever a loss of power made of it, it takes up its space again.
#[tokio::test]
async fn a_reserve_that_lost_its_space_takes_it_again() {
    let bytes = limits::RESERVE_BYTES;
    // Its name without its length, its length without its space, and a part of both.
    for (length, written) in [(None, 0), (Some(0), 0), (Some(bytes), 0), (Some(bytes), bytes / 3)] {
        let place = store_folder();
        let reserve = place.path().join("jobs.db-reserve");
        if let Some(length) = length {
            let file = fs::File::create(&reserve).unwrap();
            fs::write(&reserve, vec![0; usize::try_from(written).unwrap()]).unwrap();
            file.set_len(length).unwrap();
        }
        let (store, _) = open_at(&address(place.path()), START).unwrap();
        let found = fs::metadata(&reserve).unwrap();
        assert!(
            found.len() >= bytes && found.blocks() * 512 >= bytes,
            "{length:?} with {written}: {found:?}"
        );
        verify(&store, "after the loss of a reserve").await;
        store.close();
    }
}
