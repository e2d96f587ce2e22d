//! The store that the nodes share: a file, or a database server whose standby may take its place.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use windlass_testkit::cluster::{Cluster, as_user, binary, schema_at, schema_of};
use windlass_testkit::{faketime, store_in};

use super::fault;
use super::proxy::Target;

const OPTIONS: [&str; 1] = ["-c max_connections=100"];
/// How often a server that recovers is asked whether it is ready; each time takes some milliseconds.
const QUESTIONS_MAX: usize = 5_000;

pub(super) struct Place {
    /// The file, the clocks of nodes, and what is wrong with the disk.
    folder: TempDir,
    /// None for a file.
    cluster: Option<Cluster>,
    /// The address of the store.
    pub(super) store: String,
}

impl Place {
    pub(super) fn file() -> Place {
        let folder = new_folder();
        let store = store_in(folder.path());
        Place { folder, cluster: None, store }
    }

    pub(super) fn database() -> Place {
        let folder = new_folder();
        let cluster = Cluster::start_in(&OPTIONS, &|own| environment(folder.path(), own));
        let store = schema_at(&cluster.address());
        Place { folder, cluster: Some(cluster), store }
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn is_on_a_file(&self) -> bool {
        self.cluster.is_none()
    }

    pub(super) fn schema(&self) -> &str {
        schema_of(&self.store)
    }

    pub(super) fn cluster(&self) -> &Cluster {
        self.cluster.as_ref().expect("faults of databases do not come to files")
    }

    /// Where proxies before the database lead.
    pub(super) fn database_target(&self) -> Option<Target> {
        let cluster = self.cluster.as_ref()?;
        Some(Target::Socket(cluster.folder().join(".s.PGSQL.5432")))
    }

    /// The clock of the database.
    pub(super) fn clock(&self) -> PathBuf {
        clock_in(self.cluster().folder())
    }

    /// Starts a standby, and returns once every commit waits for it.
    pub(super) async fn start_standby(&mut self) -> Cluster {
        let (primary, folder) = (self.take_cluster(), self.folder().to_owned());
        let started = tokio::task::spawn_blocking(move || {
            let standby = primary.standby_in(&OPTIONS, &|own| environment(&folder, own));
            primary.wait_for_a_missing_standby();
            primary.set("synchronous_standby_names", "*");
            (primary, standby)
        });
        let (primary, standby) = started.await.expect("a standby starts");
        self.cluster = Some(primary);
        standby
    }

    /// The standby takes over. After a split the old primary still runs then, and does not know: it can commit nothing that a
    /// caller is answered.
    pub(super) async fn fail_over(&mut self, standby: Cluster, is_split: bool) {
        let primary = self.take_cluster();
        let taken_over = tokio::task::spawn_blocking(move || {
            if is_split {
                standby.promote();
                primary.wait_until_nothing_is_committed();
                primary.crash();
            } else {
                primary.crash();
                standby.promote();
            }
            standby
        });
        let standby = taken_over.await.expect("it takes over");
        self.store = format!("{}&schema={}", standby.address(), self.schema());
        self.cluster = Some(standby);
    }

    /// Starts the database if it has given up, as it does if its log cannot be written in recovery either, and returns once it
    /// answers.
    pub(super) fn revive(&self) {
        let cluster = self.cluster();
        let is_ready = || {
            let mut command = as_user(&binary("pg_isready"));
            command.args(["-q", "-h"]).arg(cluster.folder()).status().expect("pg_isready runs").success()
        };
        let start_if_ended = || {
            if !cluster.folder().join("data/postmaster.pid").exists() {
                cluster.restart("fast");
            }
            false
        };
        assert!((0..QUESTIONS_MAX).any(|_| is_ready() || start_if_ended()), "the server is there again");
    }

    fn take_cluster(&mut self) -> Cluster {
        self.cluster.take().expect("faults of databases do not come to files")
    }
}

/// A folder that a database server may read, whose user is another one.
fn new_folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    fault::compile_disk(folder.path());
    folder
}

fn clock_in(own: &Path) -> PathBuf {
    own.join("clock")
}

/// What a database server with this folder is started with, so that its clock and its disk can go wrong.
fn environment(folder: &Path, own: &Path) -> Vec<(&'static str, String)> {
    let clock = clock_in(own);
    faketime::set(&clock, 0);
    let mut environment = faketime::by_file(&clock);
    for (name, value) in fault::disk(folder) {
        let value = value.display().to_string();
        match environment.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => known.extend([":", &value]),
            None => environment.push((name, value)),
        }
    }
    environment
}
