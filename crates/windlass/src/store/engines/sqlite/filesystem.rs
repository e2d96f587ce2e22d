//! Detects the file system of a path. On a network file system, locks and shared memory are unreliable, so the store
//! refuses it. On systems without `/proc` nothing is refused.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Network file systems, as the kernel names them; a FUSE one comes after `fuse.`.
const NETWORK: [&str; 25] = [
    "afs",
    "afpfs",
    "beegfs",
    "ceph",
    "cephfs",
    "cifs",
    "coda",
    "curlftpfs",
    "davfs",
    "davfs2",
    "gcsfuse",
    "glusterfs",
    "goofys",
    "gpfs",
    "lustre",
    "moosefs",
    "mfs",
    "ncpfs",
    "orangefs",
    "pvfs2",
    "rclone",
    "s3fs",
    "sshfs",
    "weed",
    "juicefs",
];

/// The kind of network file system that contains `path`; `None` for a local one. `path` must be canonical.
pub(super) fn network_file_system(path: &Path) -> Option<String> {
    let mounts = std::fs::read("/proc/self/mountinfo").ok()?;
    let kind = file_system_of(path, &mounts)?;
    is_network(&kind).then_some(kind)
}

fn is_network(kind: &str) -> bool {
    let name = kind.strip_prefix("fuse.").unwrap_or(kind);
    name.starts_with("nfs") || name.starts_with("smb") || NETWORK.contains(&name)
}

/// The kind of file system at `path`, from the text of `mountinfo`: that of the deepest mount above it.
fn file_system_of(path: &Path, mounts: &[u8]) -> Option<String> {
    mounts
        .split(|byte| *byte == b'\n')
        .filter_map(parse_line)
        .filter(|(at, _)| path.starts_with(at))
        // Of several mounts on one path the last one counts: it hides the others.
        .max_by_key(|(at, _)| at.components().count())
        .map(|(_, kind)| kind)
}

/// `id parent major:minor root mount-point options [optional…] - kind source options`.
fn parse_line(line: &[u8]) -> Option<(PathBuf, String)> {
    let mut fields = line.split(|byte| *byte == b' ');
    let at = unescape(fields.nth(4)?);
    let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
    Some((PathBuf::from(OsString::from_vec(at)), String::from_utf8_lossy(kind).into_owned()))
}

/// Blanks, tabs, line ends and backslashes are escaped as `\040` and the like.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if *first == b'\\' => {
                plain.push(byte);
                rest = &after[3..];
            }
            _ => {
                plain.push(*first);
                rest = after;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &[u8] = b"22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n\
        30 22 0:26 / /mnt rw shared:15 master:2 - nfs4 server:/export rw\n\
        31 30 254:2 / /mnt/local rw - xfs /dev/vdb rw\n\
        32 22 0:40 / /media/my\\040share rw - fuse.sshfs me@there:/ rw\n\
        33 22 0:41 / /twice rw - cifs //there/share rw\n\
        34 22 0:42 / /twice rw - tmpfs tmpfs rw\n\
        not a mount\n";

    fn kind(path: &str) -> String {
        file_system_of(Path::new(path), MOUNTS).unwrap()
    }

    #[test]
    fn the_deepest_and_last_mount_counts() {
        assert_eq!(kind("/var/lib/jobs.db"), "ext4");
        assert_eq!(kind("/mnt/jobs.db"), "nfs4");
        assert_eq!(kind("/mnt/local/jobs.db"), "xfs");
        assert_eq!(kind("/mnt/localhost/jobs.db"), "nfs4");
        assert_eq!(kind("/media/my share/jobs.db"), "fuse.sshfs");
        assert_eq!(kind("/twice/jobs.db"), "tmpfs");
    }

    #[test]
    fn network_file_systems_are_distinguished_from_local_ones() {
        let network = [
            "nfs",
            "nfs4",
            "cifs",
            "smb3",
            "smbfs",
            "afs",
            "ceph",
            "glusterfs",
            "fuse.glusterfs",
            "fuse.sshfs",
            "lustre",
        ];
        for kind in network {
            assert!(is_network(kind), "{kind}");
        }
        for kind in ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "9p", "virtiofs", "fuseblk", "fuse"] {
            assert!(!is_network(kind), "{kind}");
        }
    }

    #[test]
    fn without_mounts_nothing_is_known() {
        assert_eq!(file_system_of(Path::new("/jobs.db"), b""), None);
    }
}
