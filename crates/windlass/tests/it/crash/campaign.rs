//! Three processes that load one store while something goes wrong with them or with it, and the comparison of the
//! replies they received with what is stored afterwards.

use std::process::ChildStdin;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{self, JoinHandle};

use windlass::clock::{Clock, SystemClock};

use super::ledger::{Ledger, drain};
use super::process::{Process, Role, Task};
use super::{open_at, verify};

/// Lines that may wait to be read.
const LINES_MAX: usize = 100_000;

/// One that submits, one that works, and one that does both.
pub(super) struct Campaign {
    inputs: Vec<ChildStdin>,
    /// What the system calls the processes.
    pub(super) pids: Vec<u32>,
    lines_read: Receiver<String>,
    reading: Vec<JoinHandle<()>>,
    /// All that they said so far.
    lines: Vec<String>,
}

impl Campaign {
    pub(super) fn start(address: &str, seed: u64) -> Campaign {
        let (said, lines_read) = sync_channel(LINES_MAX);
        let (mut inputs, mut pids, mut reading) = (Vec::new(), Vec::new(), Vec::new());
        for (role, name) in [(Role::Web, "web"), (Role::Worker, "worker"), (Role::Mixed, "mixed")] {
            let task = Task { role, address: address.to_owned(), seed, now: None, name: name.to_owned() };
            let (mut process, said) = (Process::start(&task), said.clone());
            inputs.push(process.take_input());
            pids.push(process.id());
            reading.push(thread::spawn(move || {
                while let Some(line) = process.read_line() {
                    said.send(line).expect("the test listens to the end");
                }
            }));
        }
        Campaign { inputs, pids, lines_read, reading, lines: Vec::new() }
    }

    /// Waits until they have said so many more lines.
    pub(super) fn read_lines(&mut self, more: usize) {
        for _ in 0..more {
            self.lines.push(self.lines_read.recv().expect("they continue"));
        }
    }

    /// Dismisses them; no caller received an error. Returns all output lines.
    pub(super) fn end(mut self) -> Vec<String> {
        drop(self.inputs);
        self.lines.extend(self.lines_read);
        for thread in self.reading {
            thread.join().unwrap();
        }
        let is_error = |line: &&String| line.starts_with("error") || line.starts_with("refused");
        let errors: Vec<_> = self.lines.iter().filter(is_error).collect();
        assert!(errors.is_empty(), "a caller noticed it: {errors:?}");
        self.lines
    }
}

/// Everything that was said is in the store, also after everything has been done.
pub(super) async fn check(address: &str, lines: &[String]) {
    let mut ledger = Ledger::default();
    ledger.take(lines);
    let (store, clock) = open_at(address, SystemClock::new().now().as_millis()).unwrap();
    ledger.check(&store, 0).await;
    verify(&store, "after the load").await;
    let jobs = drain(&store, &clock).await;
    ledger.check(&store, 0).await;
    verify(&store, "at the end").await;
    println!("{} acknowledged: {}; {jobs} jobs, all final", ledger.acks.len(), ledger.counts());
    store.close();
}
