//! The reaper of a killed worker: a second, small process that knows the worker's process groups and kills them if the
//! worker dies without doing so. A retried job must not run beside its previous attempt.

use std::collections::BTreeSet;
use std::io::{self, BufRead, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, test_kill_process_group};
use tokio::signal::unix::{SignalKind, signal};

use super::process::signal_group;
use crate::limits;

/// The pipe to the reaper; it acts when the pipe closes.
#[derive(Clone)]
pub struct Guard(Arc<Mutex<Option<ChildStdin>>>);

impl Guard {
    /// Starts a reaper for this process: `command` runs [`guard`].
    pub fn start(mut command: Command) -> io::Result<Guard> {
        use std::os::unix::process::CommandExt;
        // The terminal's Ctrl-C is for the worker only.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut started = command.spawn()?;
        Ok(Guard(Arc::new(Mutex::new(started.stdin.take()))))
    }

    /// Registers a group, until the returned value is dropped.
    pub(super) fn watch(&self, group: Pid) -> WatchedGroup {
        self.send_command('+', group);
        WatchedGroup { guard: self.clone(), group }
    }

    fn send_command(&self, sign: char, group: Pid) {
        let mut line = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let written = line.as_mut().map(|line| writeln!(line, "{sign}{}", group.as_raw_nonzero()));
        if let Some(Err(error)) = written {
            tracing::warn!(%error, "the reaper is gone: programs would outlive a killed worker");
            *line = None;
        }
    }
}

/// A registered group.
pub(super) struct WatchedGroup {
    guard: Guard,
    group: Pid,
}

impl Drop for WatchedGroup {
    fn drop(&mut self) {
        self.guard.send_command('-', self.group);
    }
}

/// The reaper's main loop: reads standard input, and kills the registered groups when it closes.
pub async fn guard(grace: Duration) -> io::Result<()> {
    // A supervisor may signal the reaper as well; it exits only after the worker.
    let _heard = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()].map(signal);
    let listened = tokio::task::spawn_blocking(|| left_behind(io::stdin().lock())).await;
    let groups = listened.map_err(io::Error::other)?;
    for group in &groups {
        signal_group(*group, Signal::TERM);
    }
    let gone = async {
        while groups.iter().any(|group| test_kill_process_group(*group).is_ok()) {
            tokio::time::sleep(limits::REAPER_POLL_INTERVAL).await;
        }
    };
    // Well before the lease of a lost worker expires.
    let _gone_or_not = tokio::time::timeout(grace.min(limits::PROGRAM_LEASE_LOST_GRACE), gone).await;
    for group in groups {
        signal_group(group, Signal::KILL);
    }
    Ok(())
}

/// The groups that are registered when the pipe closes.
fn left_behind(line: impl BufRead) -> Vec<Pid> {
    let mut groups = BTreeSet::new();
    for entry in line.lines().map_while(Result::ok) {
        let Some((sign, Ok(number))) =
            entry.split_at_checked(1).map(|(sign, rest)| (sign, rest.parse::<i32>()))
        else {
            continue;
        };
        match sign {
            "+" => groups.insert(number),
            _ => groups.remove(&number),
        };
    }
    // Never 1 or below: those address other processes.
    groups.into_iter().filter(|number| *number > 1).filter_map(Pid::from_raw).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_back_is_left_alone() {
        let left = left_behind(&b"+20\n+30\n-20\n+1\n+0\n+x\n\n+40"[..]);
        let numbers: Vec<i32> = left.into_iter().map(|group| group.as_raw_nonzero().get()).collect();
        assert_eq!(numbers, [30, 40]);
    }
}
