//! What a process did to its files, event by event: a library that is loaded into it (`recorder.c`) writes it down.

use std::path::{Path, PathBuf};
use std::process::Command;

/// One event, in the order in which they took effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    /// The process said something: from here on it may not be lost.
    Said(String),
    Disk(DiskEvent),
}

/// A change to the files of a folder. Files are known by their inode, since names change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DiskEvent {
    Write {
        file: u64,
        offset: usize,
        data: Vec<u8>,
    },
    Truncate {
        file: u64,
        length: usize,
    },
    Sync {
        file: u64,
    },
    /// The names of the folder are on disk.
    SyncNames,
    Create {
        name: String,
        file: u64,
    },
    Rename {
        from: String,
        to: String,
    },
    Remove {
        name: String,
    },
}

/// Compiles the recorder.
pub(super) fn compile(folder: &Path) -> PathBuf {
    let library = folder.join("recorder.so");
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../windlass/tests/it/crash/powerloss/recorder.c");
    let compiler =
        Command::new("cc").args(["-shared", "-fPIC", "-O2", "-o"]).arg(&library).arg(source).status();
    assert!(compiler.is_ok_and(|status| status.success()), "the recorder needs a C compiler");
    library
}

/// Reads a record; names are those within the folder.
pub(super) fn parse(record: &[u8], folder: &str) -> Vec<Event> {
    let mut events = Vec::new();
    let mut rest = record;
    let mut said = String::new();
    while !rest.is_empty() {
        let (header, after) = rest.split_at(48);
        let field = |at: usize| u64::from_le_bytes(*header[at * 8..].first_chunk().unwrap());
        let size = |at: usize| usize::try_from(field(at)).unwrap();
        let (name, after) = after.split_at(size(4));
        let (data, after) = after.split_at(size(5));
        rest = after;
        let kind = header[0];
        if kind == b'O' {
            said.push_str(&String::from_utf8_lossy(data));
            while let Some((line, more)) = said.split_once('\n') {
                if let Some((_, line)) = line.split_once('@') {
                    events.push(Event::Said(line.to_owned()));
                }
                said = more.to_owned();
            }
            continue;
        }
        let inside = |path: &[u8]| {
            let path = std::str::from_utf8(path).unwrap();
            path.strip_prefix(folder).unwrap().trim_start_matches('/').to_owned()
        };
        let (name, file) = (inside(name), field(1));
        // SQLite makes it again, and nothing in it is synced.
        if name.ends_with("-shm") {
            continue;
        }
        events.push(Event::Disk(match kind {
            b'W' if data.is_empty() => DiskEvent::Write { file, offset: size(2), data: vec![0xA5; size(3)] },
            b'W' => DiskEvent::Write { file, offset: size(2), data: data.to_vec() },
            b'T' => DiskEvent::Truncate { file, length: size(3) },
            b'S' if name.is_empty() => DiskEvent::SyncNames,
            b'S' => DiskEvent::Sync { file },
            b'L' => DiskEvent::Create { name, file },
            b'R' => DiskEvent::Rename { from: name, to: inside(data) },
            b'U' => DiskEvent::Remove { name },
            other => panic!("an event of kind {other}"),
        }));
    }
    events
}
