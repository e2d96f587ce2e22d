//! Child processes: started with a task, read through a pipe, killed without warning. A child whose parent is gone ends
//! by itself, since its input does.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use serde::{Deserialize, Serialize};

const VARIABLE: &str = "WINDLASS_CRASH_CHILD";

/// What a child process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Role {
    /// Submits and works, in several tasks at once.
    Mixed,
    /// Only submits; asked to be quiet, it submits one job for each word it is sent.
    Web,
    /// Only works.
    Worker,
    /// One thing after the other; continues trying for a while after the store has stopped.
    Serial,
    /// Opens the store and says so.
    Open,
    /// Fills the disk that the store is on.
    Full,
    /// Lives a life that is recorded, to be cut off at every moment.
    Recorded,
}

/// A task for a child process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) role: Role,
    pub(super) address: String,
    pub(super) seed: u64,
    /// The time on a clock that stands still; the machine's clock if none.
    pub(super) now: Option<i64>,
    /// Begins the tags of all jobs that this child submits.
    pub(super) name: String,
}

impl Task {
    pub(super) fn from_environment() -> Option<Task> {
        let text = std::env::var(VARIABLE).ok()?;
        Some(serde_json::from_str(&text).expect("the parent wrote the task"))
    }
}

/// A running child process.
pub(super) struct Process {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Process {
    pub(super) fn start(task: &Task) -> Process {
        Process::start_under(&[], task)
    }

    /// Starts the child by means of another program, such as `strace`.
    pub(super) fn start_under(wrapper: &[&str], task: &Task) -> Process {
        let program = std::env::current_exe().expect("the test binary has a path");
        let mut command = match wrapper.split_first() {
            Some((wrapper, arguments)) => {
                let mut command = Command::new(wrapper);
                command.args(arguments).arg(program);
                command
            }
            None => Command::new(program),
        };
        command.args(["--exact", "crash::child", "--nocapture", "--test-threads=1"]);
        command.env(VARIABLE, serde_json::to_string(task).expect("a task can be written out"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot start {wrapper:?}: {error}"));
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("the output is a pipe"));
        Process { child, input, output }
    }

    /// The next thing that the child says; none when it is gone. Half a line was never said.
    pub(super) fn read_line(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            self.output.read_line(&mut line).expect("the child writes text");
            let line = line.strip_suffix('\n')?;
            // The test harness has its say as well, and its last words share a line with the child's first.
            if let Some((_, said)) = line.split_once('@') {
                return Some(said.to_owned());
            }
        }
    }

    /// Everything that it says until it is gone.
    pub(super) fn hear_all(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.read_line()).collect()
    }

    /// Sends it a word.
    pub(super) fn say(&mut self, word: &str) {
        let input = self.input.as_mut().expect("the child is still listening");
        writeln!(input, "{word}").expect("the child is still listening");
    }

    /// Kills it (SIGKILL) without waiting; what it has said by then can still be read.
    pub(super) fn kill(&mut self) {
        self.child.kill().expect("the child can be killed");
    }

    /// What the system calls it.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its input; dropping it asks the child to end.
    pub(super) fn take_input(&mut self) -> ChildStdin {
        self.input.take().expect("the input is taken once")
    }

    pub(super) fn end(&mut self) -> ExitStatus {
        self.child.wait().expect("the child can be waited for")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A test that failed leaves nothing running.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Says something to the parent, in one write; nothing in a process that has none.
pub(super) fn say(line: &str) {
    if std::env::var_os(VARIABLE).is_none() {
        return;
    }
    let mut output = std::io::stdout().lock();
    // The parent may be gone; then this is not read, and the process is about to end.
    let _ = output.write_all(format!("@{line}\n").as_bytes());
    let _ = output.flush();
}
