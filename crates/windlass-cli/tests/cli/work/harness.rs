//! A server, workers that run shell scripts for it, and what can be waited for: jobs, lines, and the end of processes.

use std::path::PathBuf;
use std::process::Stdio;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use windlass_testkit::client::Request;
use windlass_testkit::{PATIENCE, Site, cluster, windlass};

/// Runs a test on both engines that keep jobs on disk.
macro_rules! on_both_engines {
    ($($name:ident)*) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name(&crate::work::harness::Bench::on_sqlite().await).await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name(&crate::work::harness::Bench::on_postgres().await).await;
            })*
        }
    };
}
pub(crate) use on_both_engines;

/// The program, not started yet, with nothing of the caller's environment but where programs are.
pub(crate) fn with_path(arguments: &[&str]) -> Command {
    let mut command = windlass(arguments);
    command.env("PATH", std::env::var_os("PATH").unwrap()).stdin(Stdio::null());
    command
}

/// A server with a folder beside it, in which scripts leave what tests look for.
pub(crate) struct Bench {
    site: Site,
    key: String,
}

impl Bench {
    pub(crate) async fn on_sqlite() -> Bench {
        Bench { site: Site::start().await, key: "none".to_owned() }
    }

    pub(crate) async fn on_postgres() -> Bench {
        let store = tokio::task::spawn_blocking(cluster::new_schema).await.unwrap();
        let site = Site::on(windlass_testkit::store_folder(), store, &[]).await;
        Bench { site, key: "none".to_owned() }
    }

    pub(crate) fn store(&self) -> &str {
        &self.site.store
    }

    /// The same, asked with a key.
    pub(crate) fn with_key(self, key: &str) -> Bench {
        Bench { key: key.to_owned(), ..self }
    }

    pub(crate) fn url(&self) -> &str {
        &self.site.url
    }

    /// Starts a worker that runs a script for jobs of type `t`; `$D` in it is a folder of the test's.
    pub(crate) fn work(&self, flags: &[&str], script: &str) -> Working {
        let flags: Vec<&str> = [&["work", "t", "--json"], flags].concat();
        self.start(with_path(&flags), script)
    }

    /// The same with a command of the test's.
    pub(crate) fn start(&self, mut command: Command, script: &str) -> Working {
        let path = self.site.folder.path();
        command.args(["--", "sh", "-c", script]).env("D", path).env("WINDLASS_URL", self.url());
        Working::start(command)
    }

    /// A file that scripts know as `$D/NAME`.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.site.folder.path().join(name)
    }

    /// The number of a process that a script has written down before it said that it was ready.
    pub(crate) fn process(&self, name: &str) -> Process {
        let text = std::fs::read_to_string(self.file(name)).unwrap();
        Process(Pid::from_raw(text.trim().parse().unwrap()).unwrap())
    }

    fn request(&self, method: &str, path: &str) -> Request {
        self.site.served.request(method, path).header("Authorization", &format!("Bearer {}", self.key))
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let answer = self.request("GET", path).send().await;
        assert_eq!(answer.status, 200, "{path}: {}", String::from_utf8_lossy(&answer.body));
        answer.json()
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Value {
        let answer = self.request("POST", path).json(body).send().await;
        assert!(answer.status < 300, "{path}: {}", String::from_utf8_lossy(&answer.body));
        answer.json()
    }

    /// Submits a job of type `t` with these fields and gives its id.
    pub(crate) async fn submit(&self, mut fields: Value) -> String {
        fields["type"] = json!("t");
        self.post("/jobs", &fields).await["id"].as_str().unwrap().to_owned()
    }

    /// The job once it is as wanted.
    pub(crate) async fn until(&self, id: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let waiting = async {
            loop {
                // The server waits, unless the job is final.
                last = self.get(&format!("/jobs/{id}?wait=50ms")).await;
                if is_so(&last) {
                    return;
                }
            }
        };
        let waited = tokio::time::timeout(PATIENCE, waiting).await;
        assert!(waited.is_ok(), "never {what}: {last:#}");
        last
    }

    pub(crate) async fn until_state(&self, id: &str, state: &str) -> Value {
        self.until(id, state, |job| job["state"] == state).await
    }

    /// Waits until the script has said `windlass:progress 1 ready`.
    pub(crate) async fn until_ready(&self, id: &str) -> Value {
        self.until(id, "ready", |job| job["progress"]["message"] == "ready").await
    }

    /// The lines of a job's log.
    pub(crate) async fn logs(&self, id: &str) -> Vec<String> {
        let logs = self.get(&format!("/jobs/{id}/logs")).await;
        let lines = logs["logs"].as_array().unwrap_or_else(|| panic!("{logs}"));
        lines.iter().map(|line| line["text"].as_str().unwrap().to_owned()).collect()
    }
}

/// A process that a script has started.
pub(crate) struct Process(Pid);

impl Process {
    /// Returns when it has ended.
    pub(crate) async fn gone(&self) {
        let Ok(descriptor) = pidfd_open(self.0, PidfdFlags::empty()) else { return };
        let looking = tokio::task::spawn_blocking(move || {
            let patience = PATIENCE.try_into().unwrap();
            poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&patience)).unwrap()
        });
        assert_eq!(looking.await.unwrap(), 1, "the process ends");
    }

    /// Whether it has not ended; a process that ended but was not reaped has.
    pub(crate) fn is_alive(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.as_raw_nonzero()));
        stat.is_ok_and(|stat| !stat.rsplit_once(") ").unwrap().1.starts_with(['Z', 'X']))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.0, signal).unwrap();
    }
}

/// A worker that runs.
pub(crate) struct Working {
    child: Child,
    ends: tokio::io::Lines<BufReader<tokio::process::ChildStdout>>,
    said: watch::Receiver<String>,
    talk: JoinHandle<()>,
}

impl Working {
    fn start(mut command: Command) -> Working {
        let mut child = command.spawn().unwrap();
        let ends = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (say, said) = watch::channel(String::new());
        let talk = tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                say.send_modify(|said| said.extend([line.as_str(), "\n"]));
            }
        });
        Working { child, ends, said, talk }
    }

    /// Waits until it has printed something.
    pub(crate) async fn until_said(&mut self, words: &str) {
        let said = tokio::time::timeout(PATIENCE, self.said.wait_for(|said| said.contains(words))).await;
        said.expect("it says so").unwrap();
    }

    /// Its output about the next job that ends.
    pub(crate) async fn next_end(&mut self) -> Value {
        let line = tokio::time::timeout(PATIENCE, self.ends.next_line()).await.expect("a job ends").unwrap();
        serde_json::from_str(&line.expect("the worker continues")).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id().unwrap()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    /// How it ended, and what it said.
    pub(crate) async fn ended(mut self) -> (Option<i32>, String) {
        let status = tokio::time::timeout(PATIENCE, self.child.wait()).await.expect("it ends").unwrap();
        self.talk.await.unwrap();
        let said = self.said.borrow().clone();
        (status.code(), said)
    }

    /// Signals it to stop, and expects success.
    pub(crate) async fn stop(self) -> String {
        self.signal(Signal::TERM);
        let (code, said) = self.ended().await;
        assert_eq!(code, Some(0), "{said}");
        said
    }
}
