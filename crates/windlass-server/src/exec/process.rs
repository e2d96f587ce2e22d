//! A process in its own group: signals reach all its descendants in the group, and none is left when it is reaped.
//! Processes that leave the group with `setsid` are not followed.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::process::{Child, Command};
use tokio::signal::unix::{self, SignalKind};

use super::exit_status::Exit;

/// A started process that was not reaped yet.
pub(super) struct Process {
    pub(super) child: Child,
    group: Pid,
    children: unix::Signal,
}

impl Process {
    /// Starts it in its own group, so that the terminal's Ctrl-C does not reach it.
    pub(super) fn start(command: &mut Command) -> io::Result<Process> {
        // Registered before the start, so that its end is not missed.
        let children = unix::signal(SignalKind::child())?;
        let child = command.process_group(0).kill_on_drop(true).spawn()?;
        let id = child.id().expect("it was not waited for yet");
        let group =
            i32::try_from(id).ok().and_then(Pid::from_raw).expect("process ids are positive and fit i32");
        Ok(Process { child, group, children })
    }

    /// Its process group id.
    pub(super) fn group(&self) -> Pid {
        self.group
    }

    /// Returns when it has ended. It is not reaped here: until then its id, and its group's, cannot be reused.
    pub(super) async fn ended(&mut self) {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        while let Ok(None) = waitid(WaitId::Pid(self.group), look) {
            self.children.recv().await;
        }
    }

    /// Signals the whole group; also continues a stopped one, so that it can handle the signal.
    pub(super) fn signal(&self, signal: Signal) {
        signal_group(self.group, signal);
    }

    /// Kills the rest of the group once the process itself has ended; returns how it ended.
    pub(super) async fn reap(&mut self) -> io::Result<Exit> {
        self.ended().await;
        signal_group(self.group, Signal::KILL);
        let status = self.child.wait().await?;
        let exit = status.code().map(Exit::Code).or_else(|| status.signal().map(Exit::Signal));
        exit.ok_or_else(|| io::Error::other("it neither exited nor was killed by a signal"))
    }
}

/// Signals a group; ignores a group that no longer exists.
pub(super) fn signal_group(group: Pid, signal: Signal) {
    let _ended_or_gone = kill_process_group(group, signal);
    let _ended_or_gone = kill_process_group(group, Signal::CONT);
}

/// Whether the program exists as a path or in PATH.
pub fn is_runnable(command: &Path) -> bool {
    let is_program = |path: &Path| {
        path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if command.components().count() > 1 || command.is_absolute() {
        return is_program(command);
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| is_program(&folder.join(command)))
}
