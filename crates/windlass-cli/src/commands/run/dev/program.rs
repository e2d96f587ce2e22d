//! A program beside a server for development: started, restarted when a file changes, and stopped with the server.

use std::ffi::OsString;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::limits::DEV_PROGRAM_GRACE;
use crate::output;

/// A program and its arguments.
pub(super) struct Program {
    words: Vec<OsString>,
    shown: String,
}

impl Program {
    /// A command as a person types it.
    pub(super) fn by_shell(command: &str) -> Program {
        Program { words: vec!["sh".into(), "-c".into(), command.into()], shown: command.to_owned() }
    }

    /// A program and its arguments; `None` without any.
    pub(super) fn new(words: &[OsString]) -> Option<Program> {
        let shown = words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        (!words.is_empty()).then(|| Program { words: words.to_vec(), shown })
    }

    /// Runs it until `stop`.
    /// `clock` is what workers must know of the server's clock.
    pub(super) async fn run(
        self,
        url: String,
        clock: Option<&'static str>,
        mut changes: watch::Receiver<()>,
        stop: CancellationToken,
    ) {
        while !stop.is_cancelled() {
            changes.mark_unchanged();
            let mut child = match self.start(&url, clock) {
                Ok(child) => Some(child),
                Err(error) => {
                    self.say(&format!("cannot be run: {error}"));
                    None
                }
            };
            let ended = async {
                match &mut child {
                    Some(child) => child.wait().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                status = ended => {
                    self.say(&match status {
                        Ok(status) => format!("ended ({status}); it starts again when a file changes"),
                        Err(error) => format!("is lost: {error}"),
                    });
                    tokio::select! {
                        () = stop.cancelled() => {}
                        () = next(&mut changes) => {}
                    }
                    continue;
                }
                () = stop.cancelled() => {}
                () = next(&mut changes) => self.say("a file has changed: restarting"),
            }
            if let Some(child) = child {
                end(child, DEV_PROGRAM_GRACE).await;
            }
        }
    }

    /// Starts it in its own process group, so that everything that it starts is stopped with it.
    fn start(&self, url: &str, clock: Option<&str>) -> std::io::Result<Child> {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).env("WINDLASS_URL", url).env_remove("WINDLASS_KEY");
        command.envs(clock.map(|clock| ("WINDLASS_CLOCK", clock)));
        command.process_group(0).kill_on_drop(true).spawn()
    }

    fn say(&self, text: &str) {
        output::note(&format!("windlass dev: {}: {text}", output::escaped(&self.shown)));
    }
}

/// Returns at the next change; never if nothing is watched.
async fn next(changes: &mut watch::Receiver<()>) {
    if changes.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Asks a program to stop, and kills what is left of it after the grace period.
async fn end(mut child: Child, grace: Duration) {
    let Some(group) = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)) else { return };
    // It may have ended by itself.
    let _ended_or_gone = kill_process_group(group, Signal::TERM);
    if tokio::time::timeout(grace, child.wait()).await.is_err() {
        let _ended_or_gone = kill_process_group(group, Signal::KILL);
        let _reaped = child.wait().await;
    }
}
