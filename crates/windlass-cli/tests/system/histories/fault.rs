//! The faults that happen to nodes, their database and their disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::place::Place;

/// A fault; those of a database and of clocks happen to PostgreSQL alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    NodeKilled,
    AllNodesKilled,
    NodeFrozen,
    /// What clients ask of a node is lost.
    RequestsLost,
    /// What a node answers is lost.
    AnswersLost,
    NodeCutOff,
    /// What passes between a node and its database is lost, in one direction or in both.
    DatabaseCutOff,
    DatabaseCrashed,
    /// A synchronous standby takes over.
    DatabaseFailedOver,
    NodeClockSet,
    DatabaseClockSet,
    /// Every sync takes a fifth of a second longer.
    DiskSlow,
    DiskFull,
}

impl Fault {
    const ALL: [Fault; 13] = [
        Fault::NodeKilled,
        Fault::AllNodesKilled,
        Fault::NodeFrozen,
        Fault::RequestsLost,
        Fault::AnswersLost,
        Fault::NodeCutOff,
        Fault::DatabaseCutOff,
        Fault::DatabaseCrashed,
        Fault::DatabaseFailedOver,
        Fault::NodeClockSet,
        Fault::DatabaseClockSet,
        Fault::DiskSlow,
        Fault::DiskFull,
    ];

    fn applies(self, place: &Place) -> bool {
        match self {
            Fault::DatabaseCutOff
            | Fault::DatabaseCrashed
            | Fault::DatabaseFailedOver
            | Fault::NodeClockSet
            | Fault::DatabaseClockSet => !place.is_on_a_file(),
            _ => true,
        }
    }

    pub(super) fn all_at(place: &Place) -> impl Iterator<Item = Fault> {
        Fault::ALL.into_iter().filter(|fault| fault.applies(place))
    }
}

/// Compiles the library by which the disk of a process goes wrong.
pub(super) fn compile_disk(folder: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/system/histories/disk_fault.c");
    let arguments = ["-shared", "-fPIC", "-O2", "-o"];
    let done = Command::new("cc").args(arguments).arg(library(folder)).arg(source).status();
    assert!(done.is_ok_and(|status| status.success()), "faults of disks need a C compiler");
}

fn library(folder: &Path) -> PathBuf {
    folder.join("disk_fault.so")
}

fn state(folder: &Path) -> PathBuf {
    folder.join("disk")
}

/// What a node or a database server is started with, so that its disk can go wrong.
pub(super) fn disk(folder: &Path) -> [(&'static str, PathBuf); 2] {
    [("LD_PRELOAD", library(folder)), ("WINDLASS_DISK_FAULT", state(folder))]
}

pub(super) fn begin_disk(place: &Place, fault: Fault) {
    let draft = place.folder().join("disk.draft");
    let kind = match fault {
        Fault::DiskSlow => "slow",
        _ if place.is_on_a_file() => "full",
        // What is there can still be written: the log is, ahead of its use, and a server that cannot write it crashes.
        _ => "no growth",
    };
    fs::write(&draft, kind).unwrap();
    fs::rename(&draft, state(place.folder())).unwrap();
}

pub(super) fn end_disk(place: &Place) {
    fs::remove_file(state(place.folder())).unwrap();
    if !place.is_on_a_file() {
        place.revive();
    }
}
