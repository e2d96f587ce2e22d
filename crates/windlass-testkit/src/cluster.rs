//! A PostgreSQL server for the tests: one for the whole run, thrown away with it, unless `WINDLASS_TEST_POSTGRES` names
//! another. A machine without PostgreSQL fails; it is not skipped.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::store_folder::store_folder;

/// The server that most tests share; it need not survive a loss of power.
static SHARED: LazyLock<Shared> = LazyLock::new(|| {
    if let Ok(address) = std::env::var("WINDLASS_TEST_POSTGRES") {
        return Shared { address, _cluster: None };
    }
    let cluster = Cluster::start(&["-c fsync=off", "-c full_page_writes=off", "-c max_connections=300"]);
    Shared { address: cluster.address(), _cluster: Some(cluster) }
});

struct Shared {
    address: String,
    _cluster: Option<Cluster>,
}

static SCHEMAS: AtomicU64 = AtomicU64::new(0);

/// The address of a schema that does not exist yet, on the shared server.
pub fn new_schema() -> String {
    schema_at(&SHARED.address)
}

/// The address of a schema that does not exist yet, on the server at `address`.
pub fn schema_at(address: &str) -> String {
    let number = SCHEMAS.fetch_add(1, Ordering::Relaxed);
    let sign = if address.contains('?') { '&' } else { '?' };
    format!("{address}{sign}schema=t{}_{number}", std::process::id())
}

/// The name of the schema in an address.
pub fn schema_of(address: &str) -> &str {
    address.rsplit_once("schema=").expect("the address names a schema").1
}

/// A server of its own.
#[must_use = "it ends when it is dropped"]
pub struct Cluster {
    folder: PathBuf,
    options: String,
    environment: Vec<(&'static str, String)>,
    keeper: Child,
}

impl Cluster {
    /// Starts a server with these options.
    pub fn start(options: &[&str]) -> Cluster {
        Cluster::start_in(options, &|_| Vec::new())
    }

    /// The same with what `environment` makes of the folder of its socket and its data.
    pub fn start_in(options: &[&str], environment: &dyn Fn(&Path) -> Vec<(&'static str, String)>) -> Cluster {
        let folder = new_folder();
        let data = folder.join("data");
        let created = as_user(&binary("initdb"))
            .args(["--username=windlass", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C", "-D"])
            .arg(&data)
            .output()
            .expect("initdb runs");
        assert!(created.status.success(), "initdb: {}", String::from_utf8_lossy(&created.stderr));
        let environment = environment(&folder);
        Cluster::kept(folder, options, environment)
    }

    /// The server whose data is in this folder, started.
    fn kept(folder: PathBuf, options: &[&str], environment: Vec<(&'static str, String)>) -> Cluster {
        let options = format!("-k '{}' -c listen_addresses= {}", folder.display(), options.join(" "));
        let keeper = keep(&folder, &folder.join("data"), &options, &environment);
        Cluster { folder, options, environment, keeper }
    }

    /// Its address, without a schema.
    pub fn address(&self) -> String {
        format!("postgres:///postgres?user=windlass&host={}", self.folder.display())
    }

    /// The folder of its socket and its data.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Stops the server and starts it again; `how` is `fast`, or `immediate` for a crash.
    pub fn restart(&self, how: &str) {
        self.control(&["-m", how, "-w", "-l", "/dev/null", "restart"]);
    }

    /// Crashes the server; it is not started again.
    pub fn crash(&self) {
        self.control(&["-m", "immediate", "-w", "stop"]);
    }

    /// Stops the server, keeps a copy of its files under this name, and starts it again.
    pub fn keep_copy(&self, name: &str) {
        self.while_stopped(|| self.copy_files(&self.folder.join("data"), &self.folder.join(name)));
    }

    /// Stops the server, puts the copy with this name in place of its files, and starts it again.
    pub fn put_back(&self, name: &str) {
        self.while_stopped(|| {
            let data = self.folder.join("data");
            std::fs::remove_dir_all(&data).expect("the files can be removed");
            self.copy_files(&self.folder.join(name), &data);
        });
    }

    fn while_stopped(&self, work: impl FnOnce()) {
        self.control(&["-m", "fast", "-w", "stop"]);
        work();
        self.control(&["-w", "-l", "/dev/null", "-o", self.options.as_str(), "start"]);
    }

    fn copy_files(&self, from: &Path, to: &Path) {
        let copied = as_user(Path::new("/bin/cp")).arg("-a").args([from, to]).status().expect("cp runs");
        assert!(copied.success(), "{} is copied in {}", from.display(), self.folder.display());
    }

    /// A dump of one schema, as SQL.
    pub fn dump(&self, schema: &str) -> String {
        let mut command = as_user(&binary("pg_dump"));
        command.args(["-U", "windlass", "-n", schema, "-h"]).arg(&self.folder).arg("postgres");
        let done = command.output().expect("pg_dump runs");
        assert!(done.status.success(), "pg_dump: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).expect("a dump is text")
    }

    /// Drops a schema and makes it again from a dump.
    pub fn restore_dump(&self, schema: &str, dump: &str) {
        let mut command = as_user(&binary("psql"));
        command
            .args(["-U", "windlass", "-q", "-v", "ON_ERROR_STOP=1", "-h"])
            .arg(&self.folder)
            .arg("postgres");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut psql = command.spawn().expect("psql runs");
        let mut input = psql.stdin.take().expect("it is piped");
        write!(input, "DROP SCHEMA {schema} CASCADE;\n{dump}").expect("psql reads");
        drop(input);
        let done = psql.wait_with_output().expect("psql ends");
        assert!(done.status.success(), "psql: {}", String::from_utf8_lossy(&done.stderr));
    }

    /// Kills the server's first process (SIGKILL), which leaves the others to find out, and starts it again at once.
    pub fn kill_postmaster(&self) {
        let file = self.folder.join("data/postmaster.pid");
        let first = std::fs::read_to_string(file).expect("a server that runs says its number");
        kill(first.lines().next().expect("its number comes first"));
        // It is refused as long as one of the others has not found out.
        let options = ["-w", "-l", "/dev/null", "-o", self.options.as_str(), "start"];
        assert!((0..STARTS_MAX).any(|_| self.is_done(&options)), "the server starts again");
    }

    /// Stops the process that writes the log without being asked, until the server is restarted.
    pub fn freeze_wal_writer(&self) {
        signal("STOP", &self.query("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'"));
    }

    /// Kills one of the processes that serve a connection (SIGKILL), whereupon the server drops all of them and recovers.
    pub fn kill_backend(&self) {
        let sql = "SELECT pid FROM pg_stat_activity WHERE application_name = 'windlass' LIMIT 1";
        let pid = self.query(sql);
        if !pid.is_empty() {
            kill(&pid);
        }
    }

    /// What a question to a server that runs is answered with.
    pub fn query(&self, sql: &str) -> String {
        let mut command = as_user(&binary("psql"));
        command.args(["-U", "windlass", "-qtA", "-c", sql, "-h"]).arg(&self.folder).arg("postgres");
        let done = command.output().expect("psql runs");
        assert!(done.status.success(), "{sql}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).expect("it answers with text").trim().to_owned()
    }

    /// Makes a standby a primary.
    pub fn promote(&self) {
        self.control(&["-w", "promote"]);
    }

    /// Returns once a commit on this primary waits for a standby: from then on no commit there is answered.
    pub fn wait_until_nothing_is_committed(&self) {
        while self.query("SELECT count(*) FROM pg_stat_replication") != "0" {}
        let mut command = as_user(&binary("psql"));
        command.env("PGAPPNAME", "probe").args(["-U", "windlass", "-q", "-h"]).arg(&self.folder);
        command.args(["-c", "SELECT pg_logical_emit_message(true, 'probe', '')", "postgres"]);
        let mut probe = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("psql runs");
        let waits =
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'probe' AND wait_event = 'SyncRep'";
        while self.query(waits).is_empty() {
            assert!(probe.try_wait().expect("psql can be waited for").is_none(), "the old primary commits");
        }
        probe.kill().expect("psql can be ended");
        probe.wait().expect("psql ends");
    }

    /// Makes this server, which is stopped, a standby of another one, in the same place.
    pub fn follow(&self, primary: &Cluster) {
        let data = self.folder.join("data");
        std::fs::remove_dir_all(&data).expect("the files can be removed");
        primary.copy_to(&data);
        self.control(&["-w", "-l", "/dev/null", "-o", self.options.as_str(), "start"]);
    }

    /// Sets an option of a server that runs.
    pub fn set(&self, option: &str, value: &str) {
        self.query(&format!("ALTER SYSTEM SET {option} = '{value}'"));
        self.query("SELECT pg_reload_conf()");
    }

    /// Lets every commit wait for a standby that does not exist, and returns when they do: the checkpointer process applies
    /// the setting some time after the server was reconfigured.
    pub fn wait_for_a_missing_standby(&self) {
        self.set("synchronous_standby_names", "missing");
        let waits = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity \
            WHERE application_name = 'probe' AND wait_event = 'SyncRep'";
        loop {
            let mut command = as_user(&binary("psql"));
            command.env("PGAPPNAME", "probe").args(["-U", "windlass", "-q", "-h"]).arg(&self.folder);
            command.args(["-c", "SELECT pg_logical_emit_message(true, 'probe', '')", "postgres"]);
            let mut probe = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("psql runs");
            while probe.try_wait().expect("psql can be waited for").is_none() {
                if !self.query(waits).is_empty() {
                    probe.wait().expect("psql ends");
                    return;
                }
            }
        }
    }

    fn control(&self, arguments: &[&str]) {
        let log = || std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        assert!(self.is_done(arguments), "pg_ctl {arguments:?}: {}", log());
    }

    fn is_done(&self, arguments: &[&str]) -> bool {
        // A server that is started again has the environment of the first start. It is that of the server's own user: what is
        // loaded into a process leaves files behind that another user may not open.
        let mut command = as_user(Path::new("env"));
        command.args(self.environment.iter().map(|(name, value)| format!("{name}={value}")));
        command.arg(binary("pg_ctl")).arg("-D").arg(self.folder.join("data")).args(arguments);
        // A server that inherits a pipe would keep it open forever.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().expect("pg_ctl runs").success()
    }

    /// A server, its synchronous standby, and the address of a new schema on whichever of them can be written to.
    pub fn pair() -> (Cluster, Cluster, String) {
        let primary = Cluster::start(&[]);
        let standby = primary.standby();
        primary.wait_for_a_missing_standby();
        primary.set("synchronous_standby_names", "*");
        let hosts = format!("{}&host={}", primary.folder.display(), standby.folder.display());
        let address =
            format!("postgres:///postgres?user=windlass&host={hosts}&target_session_attrs=read-write");
        (primary, standby, schema_at(&address))
    }

    /// A standby of this server, which from here on waits for it at every commit.
    pub fn standby(&self) -> Cluster {
        self.standby_in(&[], &|_| Vec::new())
    }

    /// The same with these options and what `environment` makes of its folder, as with [`Cluster::start_in`].
    pub fn standby_in(
        &self,
        options: &[&str],
        environment: &dyn Fn(&Path) -> Vec<(&'static str, String)>,
    ) -> Cluster {
        let folder = new_folder();
        self.copy_to(&folder.join("data"));
        let environment = environment(&folder);
        Cluster::kept(folder, options, environment)
    }

    /// Copies the files of this server, which runs, for a standby.
    fn copy_to(&self, data: &Path) {
        let copied = as_user(&binary("pg_basebackup"))
            .args(["-U", "windlass", "-h"])
            .arg(&self.folder)
            .args(["-R", "-X", "stream", "-c", "fast", "--no-sync", "-D"])
            .arg(data)
            .output()
            .expect("pg_basebackup runs");
        assert!(copied.status.success(), "pg_basebackup: {}", String::from_utf8_lossy(&copied.stderr));
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The keeper ends the server once its input is closed, also when this process is killed.
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

pub fn new_folder() -> PathBuf {
    let folder = store_folder().keep();
    own(&folder);
    folder
}

/// Starts the server under a shell that ends it, and removes its files, once no process holds the other end of its input.
fn keep(folder: &Path, data: &Path, options: &str, environment: &[(&'static str, String)]) -> Child {
    let control = binary("pg_ctl");
    let script = r#"
        control=$1 data=$2 folder=$3 options=$4
        shift 4
        env "$@" "$control" -D "$data" -w -t 60 -l "$folder/log" -o "$options" start >/dev/null \
            || { cat "$folder/log" >&2; exit 1; }
        echo started
        cat >/dev/null
        "$control" -D "$data" -m immediate stop >/dev/null 2>&1
        rm -rf "$folder"
    "#;
    let mut keeper = as_user(Path::new("/bin/sh"))
        .args(["-c", script, "keeper"])
        .args([control.as_path(), data, folder])
        .arg(options)
        .args(environment.iter().map(|(name, value)| format!("{name}={value}")))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a shell");
    let mut line = String::new();
    let output = keeper.stdout.take().expect("it is piped");
    BufReader::new(output).read_line(&mut line).expect("the server starts");
    assert_eq!(line, "started\n", "the server starts");
    keeper.stdin.as_mut().expect("it is piped").flush().expect("the keeper listens");
    keeper
}

/// One of PostgreSQL's programs, of the newest version there is.
pub fn binary(name: &str) -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let found = versions.map(|version| version.path().join("bin").join(name)).filter(|path| path.exists());
    found.max().unwrap_or_else(|| panic!("PostgreSQL is needed: no {name} in /usr/lib/postgresql/*/bin"))
}

/// Starts that are tried after a kill; each takes a good part of a second.
const STARTS_MAX: usize = 200;

fn kill(pid: &str) {
    signal("KILL", pid);
}

fn signal(name: &str, pid: &str) {
    let sent = Command::new("kill").args(["-s", name, pid]).stderr(Stdio::null()).status();
    // It may have ended meanwhile.
    let _is_gone = sent.expect("kill runs");
}

/// The user that runs the server, which refuses to be run by root.
const USER: &str = "postgres";

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output().expect("id runs");
    output.stdout == b"0\n"
}

pub fn own(folder: &Path) {
    if is_root() {
        let status = Command::new("chown").arg(USER).arg(folder).status().expect("chown runs");
        assert!(status.success(), "the folder can be given to {USER}");
    }
}

/// A command, run by a user whom PostgreSQL's programs accept.
pub fn as_user(program: &Path) -> Command {
    let mut command = if is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", USER, "--regid", USER, "--clear-groups", "--"]).arg(program);
        command
    } else {
        Command::new(program)
    };
    command.current_dir("/");
    command
}
