//! The head marker: a small file next to the database with the number of the last acknowledged commit. SQLite cannot
//! tell that a damaged log has lost commits at its end; the marker can. It is written after each commit's fsync and not
//! synced itself: it may lag behind the database but is never ahead.
//!
//! Deleting the marker accepts the loss, as after restoring an older backup of the same store. A file without its own
//! marker begins a new generation: earlier workers may hold leases that it does not know of.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::open::sync_folder;
use crate::error::OpenError;

const MAGIC: &[u8; 8] = b"windhead";
const BYTES: usize = 36;

/// The last commit of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    /// The store's id.
    pub(super) store: [u8; 16],
    /// The number of its last commit.
    pub(super) commits: u64,
}

impl Head {
    fn encode(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..24].copy_from_slice(&self.store);
        bytes[24..32].copy_from_slice(&self.commits.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..32]);
        bytes[32..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; BYTES]) -> Option<Head> {
        let (content, crc) = bytes.split_at(32);
        if &content[..8] != MAGIC || crc != crc32fast::hash(content).to_le_bytes() {
            return None;
        }
        let store = content[8..24].try_into().ok()?;
        let commits = u64::from_le_bytes(content[24..].try_into().ok()?);
        Some(Head { store, commits })
    }
}

/// The content of an existing marker; `None` if there is none or it cannot be read.
///
/// Read it before the database: commits acknowledged by then must be in the database afterwards, whatever other
/// processes commit meanwhile.
pub(super) fn read_head(path: &Path) -> Option<Head> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "cannot read the head marker: lost commits would go unnoticed");
            return None;
        }
    };
    let head = read(&file);
    if head.is_none() {
        tracing::warn!(path = %path.display(), "the head marker is torn: lost commits would go unnoticed");
    }
    head
}

fn read(file: &File) -> Option<Head> {
    let mut bytes = [0; BYTES];
    file.read_exact_at(&mut bytes, 0).ok()?;
    Head::decode(&bytes)
}

/// Refuses a database that lacks commits which its marker lists as acknowledged.
pub(super) fn refuse_lost_commits(marked: Option<Head>, stored: Head) -> Result<(), OpenError> {
    match marked {
        Some(marked) if marked.store == stored.store && marked.commits > stored.commits => {
            let first_missing = stored.commits + 1;
            Err(OpenError::CommitsMissing { first_missing, last_acknowledged: marked.commits })
        }
        Some(marked) if marked.store != stored.store => {
            tracing::warn!("the head marker belongs to another store: it is overwritten");
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Why the file must have been put in place by hand, if so: a store that was written to has its own marker. A torn
/// marker counts as its own: it was written while the machine went down.
pub(super) fn why_put_back(marked: Option<Head>, is_there: bool, stored: Head) -> Option<&'static str> {
    match marked {
        _ if stored.commits == 0 => None,
        None if is_there => None,
        None => Some("the file has no head marker: it was put in place by hand, or the marker was deleted"),
        Some(marked) if marked.store != stored.store => Some("the head marker belongs to another store"),
        Some(_) => None,
    }
}

/// The marker of an open store.
pub(super) struct Marker {
    path: PathBuf,
    mode: u32,
    /// `None` until it is written for the first time.
    file: Option<File>,
    store: [u8; 16],
    /// Whether no other process had the store open when this one opened it.
    is_alone: bool,
}

impl Marker {
    /// Opens or creates the marker, and moves it to `head`.
    pub(super) fn open(path: &Path, mode: u32, head: Head) -> io::Result<Marker> {
        let mut marker = Marker::later(path, mode, head.store);
        let (file, is_alone) = marker.create()?;
        (marker.file, marker.is_alone) = (Some(file), is_alone);
        marker.advance(head.commits);
        Ok(marker)
    }

    /// Whether no other process had the store open when this one opened it.
    pub(super) fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// A marker that is opened or created with the first commit.
    pub(super) fn later(path: &Path, mode: u32, store: [u8; 16]) -> Marker {
        Marker { path: path.to_owned(), mode, file: None, store, is_alone: true }
    }

    /// Opens or creates the file; also returns whether no other process has it open.
    fn create(&self) -> io::Result<(File, bool)> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(self.mode);
        let is_new = !self.path.exists();
        let file = options.open(&self.path)?;
        if is_new {
            // Its content may lag behind, but its name must survive a power cut: without a marker, the file would count as
            // put in place by hand, and every lease would end.
            sync_folder(&self.path)?;
        }
        // Every process that has the store open locks it; the system releases the lock when a process ends in any way.
        let is_alone = file.try_lock().is_ok();
        if let Err(error) = file.lock_shared() {
            tracing::warn!(%error, "cannot lock the head marker: other processes cannot detect this one");
        }
        Ok((file, is_alone))
    }

    /// Records that a commit is on disk. Never goes back, because another process may be ahead.
    pub(super) fn advance(&mut self, commits: u64) {
        if self.file.is_none() {
            match self.create() {
                Ok((file, _)) => self.file = Some(file),
                Err(error) => return tracing::warn!(%error, "cannot create the head marker"),
            }
        }
        let Some(file) = &self.file else { return };
        let is_ahead = |marked: Head| marked.store == self.store && marked.commits >= commits;
        if read(file).is_some_and(is_ahead) {
            return;
        }
        let bytes = Head { store: self.store, commits }.encode();
        if let Err(error) = file.write_all_at(&bytes, 0) {
            // A marker that lags behind is safe: it only detects less.
            tracing::warn!(%error, "cannot write the head marker");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A marker is the head that was written, or none.
    #[test]
    fn a_changed_marker_is_no_marker() {
        let head = Head { store: *b"0123456789abcdef", commits: 77 };
        let other = Head { store: [0; 16], commits: u64::MAX };
        let family = windlass_fuzz::Family::new("head-marker").seeds([head.encode(), other.encode()]);
        family.words([&MAGIC[..], &[0; 8]]).bytes(|bytes| {
            let Some(whole) = bytes.first_chunk::<BYTES>() else { return Ok(()) };
            match Head::decode(whole) {
                Some(read) if read.encode() == *whole => Ok(()),
                Some(read) => Err(format!("is read as {read:?}")),
                None if *whole == head.encode() => Err("is refused".to_owned()),
                None => Ok(()),
            }
        });
    }

    const HEAD: Head = Head { store: [7; 16], commits: 41 };

    #[test]
    fn a_head_comes_back_and_a_changed_byte_is_noticed() {
        assert_eq!(Head::decode(&HEAD.encode()), Some(HEAD));
        for at in 0..BYTES {
            let mut bytes = HEAD.encode();
            bytes[at] ^= 1;
            assert_eq!(Head::decode(&bytes), None, "byte {at}");
        }
    }

    #[test]
    fn only_a_marker_of_the_same_store_that_is_ahead_is_refused() {
        let marked = |commits, store| Some(Head { store: [store; 16], commits });
        let missing = OpenError::CommitsMissing { first_missing: 42, last_acknowledged: 44 };
        assert_eq!(refuse_lost_commits(marked(44, 7), HEAD), Err(missing));
        assert_eq!(refuse_lost_commits(marked(41, 7), HEAD), Ok(()));
        assert_eq!(refuse_lost_commits(marked(3, 7), HEAD), Ok(()));
        assert_eq!(refuse_lost_commits(marked(44, 8), HEAD), Ok(()));
        assert_eq!(refuse_lost_commits(None, HEAD), Ok(()));
    }

    #[test]
    fn a_file_without_a_marker_of_its_own_was_put_in_place() {
        let marked = |store| Some(Head { store: [store; 16], commits: 3 });
        assert_eq!(why_put_back(marked(7), true, HEAD), None);
        assert!(why_put_back(marked(8), true, HEAD).is_some_and(|why| why.contains("another store")));
        assert!(why_put_back(None, false, HEAD).is_some_and(|why| why.contains("no head marker")));
        assert_eq!(why_put_back(None, true, HEAD), None, "it is torn");
        assert_eq!(why_put_back(None, false, Head { commits: 0, ..HEAD }), None, "a new file has none yet");
    }

    #[test]
    fn a_marker_goes_forward_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("head");
        let mut marker = Marker::open(&path, 0o600, HEAD).unwrap();
        marker.advance(43);
        marker.advance(42);
        assert_eq!(read_head(&path).map(|head| head.commits), Some(43));
    }
}
