//! The worker process of a case. One that dies is started again, as a supervisor does, and the server learns of its death.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use windlass::Store;
use windlass::store::caller::Caller;

/// The version that the worker registers with.
pub(super) const VERSION: &str = "1.0.0-sdk-test";

/// An order to the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// To die at once, and to be started again.
    Kill,
    /// To stop in order, with exit code 0, and to be started again.
    Stop,
}

/// A worker process that is kept alive.
pub(super) struct Worker {
    orders: mpsc::Sender<Order>,
    task: tokio::task::JoinHandle<anyhow::Result<()>>,
}

impl Worker {
    /// Starts it.
    pub(super) fn start(
        program: &[OsString],
        url: &str,
        folder: &Path,
        store: Store,
    ) -> anyhow::Result<Worker> {
        let (orders, inbox) = mpsc::channel(8);
        let kept = Setup { program: program.to_vec(), url: url.to_owned(), folder: folder.to_owned(), store };
        let first = kept.spawn()?;
        Ok(Worker { orders, task: tokio::spawn(kept.run(first, inbox)) })
    }

    /// Sends a command to the process.
    pub(super) async fn order(&self, order: Order) -> anyhow::Result<()> {
        self.orders.send(order).await.context("the worker is gone")
    }

    /// Returns once the process has ended by itself, and not because it killed itself.
    pub(super) async fn ended(&self) {
        self.orders.closed().await;
    }

    /// Ends the process; fails if it ever ended in a way that it should not.
    pub(super) async fn end(self) -> anyhow::Result<()> {
        drop(self.orders);
        self.task.await?
    }
}

struct Setup {
    program: Vec<OsString>,
    url: String,
    folder: PathBuf,
    store: Store,
}

impl Setup {
    fn spawn(&self) -> anyhow::Result<Child> {
        spawn(&self.program, &self.url, &self.folder)
    }

    async fn run(self, mut child: Child, mut inbox: mpsc::Receiver<Order>) -> anyhow::Result<()> {
        loop {
            let order = tokio::select! {
                order = inbox.recv() => order,
                status = child.wait() => {
                    let status = status?;
                    // A case lets it kill itself; everything else is a fault.
                    anyhow::ensure!(status.signal() == Some(9), "the worker ended by itself: {status}");
                    self.lost().await?;
                    child = self.spawn()?;
                    continue;
                }
            };
            match order {
                Some(Order::Stop) => {
                    signal(&child, Signal::TERM);
                    let status = child.wait().await?;
                    anyhow::ensure!(status.success(), "SIGTERM ended the worker with {status}");
                }
                Some(Order::Kill) | None => {
                    signal(&child, Signal::KILL);
                    child.wait().await?;
                    self.lost().await?;
                }
            }
            if order.is_none() {
                return Ok(());
            }
            child = self.spawn()?;
        }
    }

    /// The server notices that the process is gone.
    async fn lost(&self) -> anyhow::Result<()> {
        let me = Caller::local();
        for id in self.store.config(&me).await?.workers.into_keys() {
            self.store.crash_worker(&me, id).await?;
        }
        Ok(())
    }
}

/// Starts the process.
pub(super) fn spawn(program: &[OsString], url: &str, folder: &Path) -> anyhow::Result<Child> {
    let log = std::fs::File::options().create(true).append(true).open(folder.join("log"))?;
    let mut command = Command::new(&program[0]);
    command.args(&program[1..]).env("WINDLASS_URL", url).env_remove("WINDLASS_KEY");
    command
        .env("WINDLASS_CLOCK", "stopped")
        .env("WINDLASS_TEST_FOLDER", folder)
        .env("WINDLASS_TEST_VERSION", VERSION)
        .process_group(0)
        .kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    command.spawn().with_context(|| format!("cannot run {}", program[0].display()))
}

fn signal(child: &Child, signal: Signal) {
    if let Some(group) = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)) {
        // It may have ended by itself.
        let _ended_or_gone = kill_process_group(group, signal);
    }
}
