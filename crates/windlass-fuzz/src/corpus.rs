//! The corpus: inputs that were written by hand or found by a run, one file each.

use std::cell::OnceCell;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The entries of one family, in the order of their names.
pub(crate) struct Corpus {
    entries: Vec<Vec<u8>>,
    /// Where failing inputs are written.
    kept: Option<PathBuf>,
    /// The input that is being tried.
    running: OnceCell<File>,
}

impl Corpus {
    /// Reads the folder of a family; without one there are no entries.
    pub(crate) fn read(family: &str) -> Corpus {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus").join(family);
        let mut files: Vec<PathBuf> =
            fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        files.sort();
        let entries = files.iter().map(|file| fs::read(file).expect("an entry can be read")).collect();
        let kept = std::env::var_os("WINDLASS_FUZZ_KEEP").map(|folder| PathBuf::from(folder).join(family));
        Corpus { entries, kept, running: OnceCell::new() }
    }

    pub(crate) fn extend(&mut self, entries: impl Iterator<Item = Vec<u8>>) {
        self.entries.extend(entries);
    }

    pub(crate) fn entries(&self) -> &[Vec<u8>] {
        &self.entries
    }

    /// Writes the input that is about to be tried: an abort of the process leaves it there.
    pub(crate) fn note(&self, input: &[u8]) {
        let Some(folder) = &self.kept else { return };
        let file = self.running.get_or_init(|| {
            fs::create_dir_all(folder).expect("the folder can be made");
            File::create(folder.join("running")).expect("the file can be made")
        });
        let written = file.set_len(0).and_then(|()| file.write_all_at(input, 0));
        written.expect("the input can be written");
    }

    /// Removes the last noted input.
    pub(crate) fn forget(&self) {
        if let Some(folder) = &self.kept {
            let _may_be_absent = fs::remove_file(folder.join("running"));
            let _may_hold_findings = fs::remove_dir(folder);
        }
    }

    /// Writes a failing input, and says where.
    pub(crate) fn keep(&self, input: &[u8]) -> String {
        self.forget();
        let Some(folder) = &self.kept else { return String::new() };
        fs::create_dir_all(folder).expect("the folder can be made");
        let hash = input.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let file = folder.join(format!("found-{hash:016x}"));
        fs::write(&file, input).expect("the input can be written");
        format!(", also in {}", file.display())
    }
}
