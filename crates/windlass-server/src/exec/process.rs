//! One process in a group of its own: signals reach all that it started, and nothing of the group is left when it is
//! reaped. It does not follow those who leave the group with `setsid`.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::process::{Child, Command};
use tokio::signal::unix::{self, SignalKind};

use super::exit_status::Exit;

/// A process that was started and not reaped yet.
pub(super) struct Process {
    pub(super) child: Child,
    group: Pid,
    children: unix::Signal,
}

impl Process {
    /// Starts it in a group of its own, away from the terminal's Ctrl-C.
    pub(super) fn start(command: &mut Command) -> io::Result<Process> {
        // Before the process: its end must not be missed.
        let children = unix::signal(SignalKind::child())?;
        let child = command.process_group(0).kill_on_drop(true).spawn()?;
        let id = child.id().expect("it was not waited for yet");
        let group =
            i32::try_from(id).ok().and_then(Pid::from_raw).expect("the kernel numbers from 1 within i32");
        Ok(Process { child, group, children })
    }

    /// The number of its group.
    pub(super) fn group(&self) -> Pid {
        self.group
    }

    /// Returns when it has ended. It is not reaped here: until then its number, and so its group's, is nobody else's.
    pub(super) async fn ended(&mut self) {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        while let Ok(None) = waitid(WaitId::Pid(self.group), look) {
            self.children.recv().await;
        }
    }

    /// Signals the whole group; one that stands still goes on, or it could not hear it.
    pub(super) fn signal(&self, signal: Signal) {
        signal_group(self.group, signal);
    }

    /// Ends what is left of the group once the process itself has ended, and tells how that was.
    pub(super) async fn reap(&mut self) -> io::Result<Exit> {
        self.ended().await;
        signal_group(self.group, Signal::KILL);
        let status = self.child.wait().await?;
        let exit = status.code().map(Exit::Code).or_else(|| status.signal().map(Exit::Signal));
        exit.ok_or_else(|| io::Error::other("it ended neither by itself nor by a signal"))
    }
}

/// Signals all of a group; one that is not there any more has nobody left to hear it.
pub(super) fn signal_group(group: Pid, signal: Signal) {
    let _heard_or_gone = kill_process_group(group, signal);
    let _heard_or_gone = kill_process_group(group, Signal::CONT);
}

/// Whether a program can be found, where the machine would look for it.
pub(crate) fn is_runnable(command: &Path) -> bool {
    let is_program = |path: &Path| {
        path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if command.components().count() > 1 || command.is_absolute() {
        return is_program(command);
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| is_program(&folder.join(command)))
}
