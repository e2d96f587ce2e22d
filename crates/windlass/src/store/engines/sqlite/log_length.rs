//! Detects that another program has cut the log of an open store: what is written after the gap would be lost at the next
//! start.

use std::path::PathBuf;

use rusqlite::Connection;

use super::checkpoint;
use super::damage;
use super::tables::store_error;
use crate::store::engine::EngineResult;

/// Bytes of the log before the first page, and before each page.
const HEADER_BYTES: u64 = 32;
const FRAME_HEADER_BYTES: u64 = 24;
/// How often the log is looked at while other processes change it.
const LOOKS: usize = 5;

/// The length of the log.
pub(super) struct LogLength {
    path: PathBuf,
    /// The length after this process last wrote or checked.
    seen: u64,
}

impl LogLength {
    pub(super) fn new(path: PathBuf) -> LogLength {
        let mut log = LogLength { path, seen: 0 };
        log.note();
        log
    }

    pub(super) fn bytes(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |log| log.len())
    }

    /// Remembers the length after a commit.
    pub(super) fn note(&mut self) {
        self.seen = self.bytes();
    }

    /// Returns an error if the log was cut. A checkpoint cuts it too, then its pages are no longer counted.
    pub(super) fn check(&mut self, connection: &Connection) -> EngineResult<()> {
        if self.bytes() >= self.seen {
            return Ok(());
        }
        let page: i64 =
            connection.query_row("PRAGMA page_size", [], |row| row.get(0)).map_err(store_error)?;
        for _ in 0..LOOKS {
            let pages = checkpoint::pages(connection)?;
            let found = self.bytes();
            // Else another process has written in between.
            if checkpoint::pages(connection)? == pages {
                let expected = HEADER_BYTES + pages * (FRAME_HEADER_BYTES + page.unsigned_abs());
                if pages > 0 && found < expected {
                    let what = format!(
                        "the log `{}` was truncated: it has {found} bytes instead of {expected}",
                        self.path.display()
                    );
                    return Err(damage::stopped(&what));
                }
                self.seen = found;
                return Ok(());
            }
        }
        Ok(())
    }
}
