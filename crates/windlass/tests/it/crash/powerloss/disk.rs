//! A disk that loses power: what is certain after a sync, what is only perhaps there, and what may be found afterwards.

use std::collections::{BTreeMap, HashMap};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::recording::DiskEvent;

/// A disk writes sectors of this size whole or not at all.
const SECTOR: usize = 512;

/// Which writes that were not synced survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Loss {
    /// All are there: only the process was lost.
    None,
    /// None is there.
    All,
    /// Some are there, as if they had been reordered.
    Some,
    /// Only the last one of each file is there.
    AllButLast,
    /// Each file has its first ones, and the next is torn.
    Torn,
    /// Sectors of any of them are there.
    Sectors,
    /// Files have their length, but zeros where data was written.
    Zeros,
    /// Sectors hold noise where data was written.
    Noise,
}

impl Loss {
    pub(super) const ALL: [Loss; 8] = [
        Loss::None,
        Loss::All,
        Loss::Some,
        Loss::AllButLast,
        Loss::Torn,
        Loss::Sectors,
        Loss::Zeros,
        Loss::Noise,
    ];
}

#[derive(Debug, Clone)]
enum Change {
    Write { offset: usize, data: Vec<u8> },
    Truncate(usize),
}

#[derive(Debug, Default, Clone)]
struct File {
    synced: Vec<u8>,
    unsynced: Vec<Change>,
}

#[derive(Debug, Clone)]
enum NameChange {
    Put(String, u64),
    Remove(String),
}

/// The files of one folder. Names are synced apart from content, as POSIX has it.
#[derive(Debug, Default, Clone)]
pub(super) struct Disk {
    files: HashMap<u64, File>,
    synced_names: BTreeMap<String, u64>,
    unsynced_names: Vec<Vec<NameChange>>,
    /// As the process sees them.
    names: BTreeMap<String, u64>,
}

/// Files by name, as they are found when the machine starts again.
pub(super) type Image = BTreeMap<String, Vec<u8>>;

impl Disk {
    pub(super) fn apply(&mut self, event: &DiskEvent) {
        match event {
            DiskEvent::Write { file, offset, data } => {
                let change = Change::Write { offset: *offset, data: data.clone() };
                self.files.entry(*file).or_default().unsynced.push(change);
            }
            DiskEvent::Truncate { file, length } => {
                self.files.entry(*file).or_default().unsynced.push(Change::Truncate(*length));
            }
            DiskEvent::Sync { file } => {
                let file = self.files.entry(*file).or_default();
                for change in std::mem::take(&mut file.unsynced) {
                    change.apply(&mut file.synced);
                }
            }
            DiskEvent::SyncNames => {
                self.unsynced_names.clear();
                self.synced_names = self.names.clone();
            }
            DiskEvent::Create { name, file } => self.rename(vec![NameChange::Put(name.clone(), *file)]),
            DiskEvent::Remove { name } => self.rename(vec![NameChange::Remove(name.clone())]),
            DiskEvent::Rename { from, to } => {
                // The file may have been there before the record began.
                if let Some(file) = self.names.get(from).copied() {
                    self.rename(vec![NameChange::Remove(from.clone()), NameChange::Put(to.clone(), file)]);
                }
            }
        }
    }

    /// The changes happen together or not at all.
    fn rename(&mut self, changes: Vec<NameChange>) {
        for change in &changes {
            change.apply(&mut self.names);
        }
        self.unsynced_names.push(changes);
    }

    /// What is found after a loss of power now.
    pub(super) fn lose(&self, loss: Loss, seed: u64) -> Image {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut names = self.synced_names.clone();
        let count = self.unsynced_names.len();
        // A journal keeps the order of names; without one any may be missing.
        let is_ordered = rng.random();
        let first = if loss == Loss::None { count } else { rng.random_range(0..=count) };
        for (place, changes) in self.unsynced_names.iter().enumerate() {
            let is_there = match loss {
                Loss::None => true,
                Loss::All => false,
                _ if is_ordered => place < first,
                _ => rng.random(),
            };
            if is_there {
                for change in changes {
                    change.apply(&mut names);
                }
            }
        }
        let mut image = Image::new();
        for (name, file) in names {
            let empty = File::default();
            image.insert(name, self.files.get(&file).unwrap_or(&empty).lose(loss, &mut rng));
        }
        image
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, u64>) {
        match self {
            NameChange::Put(name, file) => names.insert(name.clone(), *file),
            NameChange::Remove(name) => names.remove(name),
        };
    }
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Change::Write { offset, data } => {
                let end = offset + data.len();
                set_length(content, content.len().max(end));
                content[*offset..end].copy_from_slice(data);
            }
            Change::Truncate(length) => set_length(content, *length),
        }
    }

    /// The change with its data replaced.
    fn with(&self, mut fill: impl FnMut(&mut [u8])) -> Change {
        match self {
            Change::Write { offset, data } => {
                let mut data = vec![0; data.len()];
                fill(&mut data);
                Change::Write { offset: *offset, data }
            }
            Change::Truncate(length) => Change::Truncate(*length),
        }
    }

    /// The sectors of the change that `is_there` accepts; a sector begins at a multiple of its size in the file.
    fn sectors(&self, mut is_there: impl FnMut() -> bool) -> Vec<Change> {
        let Change::Write { offset, data } = self else {
            return if is_there() { vec![self.clone()] } else { Vec::new() };
        };
        let mut parts = Vec::new();
        let (mut at, end) = (*offset, offset + data.len());
        while at < end {
            let next = ((at / SECTOR + 1) * SECTOR).min(end);
            if is_there() {
                parts.push(Change::Write { offset: at, data: data[at - offset..next - offset].to_vec() });
            }
            at = next;
        }
        parts
    }
}

impl File {
    fn lose(&self, loss: Loss, rng: &mut StdRng) -> Vec<u8> {
        let mut content = self.synced.clone();
        for change in self.kept(loss, rng) {
            change.apply(&mut content);
        }
        content
    }

    fn kept(&self, loss: Loss, rng: &mut StdRng) -> Vec<Change> {
        let all = &self.unsynced;
        match loss {
            Loss::None => all.clone(),
            Loss::All => Vec::new(),
            Loss::Some => all.iter().filter(|_| rng.random()).cloned().collect(),
            Loss::AllButLast => all.last().cloned().into_iter().collect(),
            Loss::Torn => {
                let whole = rng.random_range(0..=all.len());
                let mut kept = all[..whole].to_vec();
                if let Some(torn) = all.get(whole) {
                    let mut left = rng.random_range(0..=17);
                    kept.extend(torn.sectors(|| {
                        left -= 1;
                        left >= 0
                    }));
                }
                kept
            }
            Loss::Sectors => all.iter().flat_map(|change| change.sectors(|| rng.random())).collect(),
            Loss::Zeros => all.iter().map(|change| change.with(|_| {})).collect(),
            Loss::Noise => all.iter().map(|change| change.with(|data| rng.fill(data))).collect(),
        }
    }
}

/// Like `Vec::resize`, which sets byte by byte in tests.
fn set_length(content: &mut Vec<u8>, length: usize) {
    content.truncate(length);
    content.extend_from_slice(&vec![0; length - content.len()]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(file: u64, offset: usize, data: &[u8]) -> DiskEvent {
        DiskEvent::Write { file, offset, data: data.to_vec() }
    }

    fn disk(events: &[DiskEvent]) -> Disk {
        let mut disk = Disk::default();
        for event in events {
            disk.apply(event);
        }
        disk
    }

    fn create(name: &str, file: u64) -> DiskEvent {
        DiskEvent::Create { name: name.into(), file }
    }

    #[test]
    fn what_was_synced_is_there_whatever_is_lost() {
        let disk = disk(&[
            create("a", 1),
            DiskEvent::SyncNames,
            write(1, 0, &[7; 1_500]),
            DiskEvent::Sync { file: 1 },
            write(1, 1_000, &[8; 1_000]),
        ]);
        for loss in Loss::ALL {
            for seed in 0..20 {
                let image = disk.lose(loss, seed);
                assert_eq!(image["a"][..1_000], [7; 1_000], "{loss:?}");
            }
        }
        assert_eq!(disk.lose(Loss::All, 0)["a"], [7; 1_500]);
        assert_eq!(disk.lose(Loss::None, 0)["a"].len(), 2_000);
        assert_eq!(disk.lose(Loss::Zeros, 0)["a"][1_000..], [0; 1_000]);
    }

    #[test]
    fn a_sector_is_whole_or_not_there() {
        let disk = disk(&[create("a", 1), DiskEvent::SyncNames, write(1, 100, &[9; 2_000])]);
        let mut kinds = std::collections::BTreeSet::new();
        for seed in 0..50 {
            let image = disk.lose(Loss::Sectors, seed);
            let mut content = image["a"].clone();
            content.resize(2_100, 0);
            for sector in content.chunks(SECTOR) {
                let written = sector.iter().map(|byte| usize::from(*byte == 9)).sum::<usize>();
                kinds.insert(written);
            }
        }
        // The first and the last sector are written in part, the others whole.
        assert_eq!(kinds.into_iter().collect::<Vec<_>>(), [0, 52, 412, 512]);
    }

    #[test]
    fn a_name_that_was_not_synced_may_be_missing_while_its_file_is_synced() {
        let disk = disk(&[
            create("a-partial", 1),
            write(1, 0, b"whole"),
            DiskEvent::Sync { file: 1 },
            DiskEvent::Rename { from: "a-partial".into(), to: "a".into() },
        ]);
        assert!(disk.lose(Loss::All, 0).is_empty());
        assert_eq!(disk.lose(Loss::None, 0), Image::from([("a".into(), b"whole".to_vec())]));
        let found: std::collections::BTreeSet<Vec<String>> =
            (0..40).map(|seed| disk.lose(Loss::Some, seed).into_keys().collect()).collect();
        assert!(found.len() >= 3, "{found:?}");
    }
}
