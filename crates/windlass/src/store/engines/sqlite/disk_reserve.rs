//! Disk space reserved in a file next to the database. When the disk is full the file is truncated, so that running
//! work can still finish; submissions are refused until the space can be reserved again. Free pages of the database
//! count: where deleted jobs left enough of them, less has to be reserved. The size is in `limits`; the file never
//! holds data.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::clock::Timestamp;
use crate::limits;

/// The disk reserve.
pub(super) struct Reserve {
    path: PathBuf,
    mode: u32,
    retry_at: Timestamp,
    /// Bytes that have to be reserved.
    needed: u64,
    /// Cleared if the file cannot be created for a reason other than space: then there is no reserve to wait for.
    is_possible: bool,
}

impl Reserve {
    /// Reserves the space if there is enough; otherwise this is tried again when jobs are submitted.
    pub(super) fn open(path: &Path, mode: u32) -> Reserve {
        let mut reserve = Reserve {
            path: path.to_owned(),
            mode,
            retry_at: Timestamp::MIN,
            needed: limits::RESERVE_BYTES,
            is_possible: true,
        };
        // A power cut may have left the length without the blocks.
        let is_whole = fs::metadata(path).is_ok_and(|file| file.blocks() * 512 >= limits::RESERVE_BYTES);
        if !is_whole {
            reserve.take();
        }
        reserve
    }

    /// Whether submissions may use the available space. The file is checked each time: another process may have
    /// truncated it. Before the space is reserved again, `regain` frees the log's space and returns the bytes of free
    /// pages in the database.
    pub(super) fn is_held(&mut self, now: Timestamp, regain: impl FnOnce() -> u64) -> bool {
        if !self.is_possible || self.has_length(limits::RESERVE_BYTES) {
            return true;
        }
        if now >= self.retry_at {
            self.retry_at = now.plus(limits::RESERVE_RETRY_EVERY);
            let has_free_pages = regain() >= limits::RESERVE_BYTES;
            self.needed =
                if has_free_pages { limits::RESERVE_BYTES_BESIDE_FREE_PAGES } else { limits::RESERVE_BYTES };
            self.take();
        }
        !self.is_possible || self.has_length(self.needed)
    }

    fn has_length(&self, bytes: u64) -> bool {
        fs::metadata(&self.path).is_ok_and(|file| file.len() >= bytes)
    }

    /// Reserves all of the space, or at least what is needed.
    fn take(&mut self) {
        for bytes in [limits::RESERVE_BYTES, self.needed] {
            let Err(error) = self.fill(bytes) else { return };
            self.is_possible = matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
            self.cut();
            tracing::warn!(path = %self.path.display(), bytes, %error, "cannot reserve disk space");
            if !self.is_possible || bytes == self.needed {
                return;
            }
        }
    }

    fn fill(&self, bytes: u64) -> io::Result<()> {
        let mut file = self.open_file()?;
        let mut block = noise();
        for _ in 0..bytes >> 20 {
            file.write_all(&block)?;
            for page in block.chunks_exact_mut(PAGE) {
                page[0] = page[0].wrapping_add(1);
            }
        }
        Ok(())
    }

    fn open_file(&self) -> io::Result<File> {
        OpenOptions::new().write(true).create(true).truncate(false).mode(self.mode).open(&self.path)
    }

    /// Frees the space for running work; it is not reserved again before some of that has finished.
    pub(super) fn release(&mut self, now: Timestamp) {
        self.retry_at = now.plus(limits::RESERVE_RETRY_EVERY);
        self.cut();
    }

    fn cut(&self) {
        if let Err(error) = self.open_file().and_then(|file| file.set_len(0)) {
            tracing::warn!(path = %self.path.display(), %error, "cannot release the reserved disk space");
        }
    }
}

/// What differs from one block to the next: file systems that keep equal parts once compare no smaller ones.
const PAGE: usize = 4096;

/// A block that takes its space on every file system: some store zeros without using any.
fn noise() -> Vec<u8> {
    let mut block = vec![0; 1 << 20];
    let mut noise = 0x9E37_79B9_7F4A_7C15_u64;
    for word in block.chunks_exact_mut(8) {
        noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        word.copy_from_slice(&(noise ^ (noise >> 29)).to_le_bytes());
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_taken_released_and_taken_back_at_intervals() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("reserve");
        let mut reserve = Reserve::open(&path, 0o600);
        assert_eq!(fs::metadata(&path).unwrap().len(), limits::RESERVE_BYTES);
        reserve.release(Timestamp::MIN);
        assert!(!reserve.is_held(Timestamp::MIN, || 0));
        assert_eq!(fs::metadata(&path).unwrap().len(), 0);
        assert!(reserve.is_held(Timestamp::MIN.plus(limits::RESERVE_RETRY_EVERY), || 0));
        assert_eq!(fs::metadata(&path).unwrap().len(), limits::RESERVE_BYTES);
    }

    #[test]
    fn no_page_of_it_is_like_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("reserve");
        Reserve::open(&path, 0o600);
        let reserved = fs::read(&path).unwrap();
        let pages: std::collections::HashSet<&[u8]> = reserved.chunks(PAGE).collect();
        assert_eq!(pages.len(), reserved.len() / PAGE);
    }

    #[test]
    fn a_store_that_can_have_no_reserve_does_without() {
        let folder = tempfile::tempdir().unwrap();
        let mut reserve = Reserve::open(folder.path(), 0o600);
        assert!(reserve.is_held(Timestamp::MIN, || 0));
    }
}
