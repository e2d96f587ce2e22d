//! Processes whose wall clock is wrong, by `faketime`: this test binary started again, or a database server. Monotonic clocks
//! stay as they are.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::sync::mpsc;

/// Longer than anything takes to be said, however slow the machine.
const LONG: Duration = Duration::from_secs(120);

/// This test binary, started again to run one test by a clock that is off; it ends when this is dropped.
pub struct SkewedProcess {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl SkewedProcess {
    /// Starts `test` with the clock off by `by`, such as `+1h`, and one variable for it to find its work by.
    pub fn start(by: &str, test: &str, variable: (&str, &str)) -> SkewedProcess {
        let mut child = Command::new("faketime")
            .args(["-m", "--exclude-monotonic", "-f", by])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(variable.0, variable.1)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("faketime is needed (Debian: apt-get install faketime)");
        let (said, lines) = mpsc::channel(100);
        let spoken = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let own = spoken.filter_map(|line| line.strip_prefix('@').map(str::to_owned));
        std::thread::spawn(move || own.for_each(|line| said.blocking_send(line).unwrap_or_default()));
        SkewedProcess { child, lines }
    }

    /// What it says next.
    pub async fn read_line(&mut self) -> String {
        let replies = tokio::time::timeout(LONG, self.lines.recv()).await;
        replies.expect("it says something in time").expect("it still runs")
    }
}

impl Drop for SkewedProcess {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// What a process is started with so that its wall clock is off by what a file says, and changes when the file does.
pub fn by_file(file: &Path) -> Vec<(&'static str, String)> {
    let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let libraries = folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"));
    let library: PathBuf = libraries
        .filter(|path| path.exists())
        .max()
        .expect("faketime is needed (Debian: apt-get install faketime)");
    vec![
        ("LD_PRELOAD", library.display().to_string()),
        ("FAKETIME_TIMESTAMP_FILE", file.display().to_string()),
        ("FAKETIME_NO_CACHE", "1".to_owned()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
    ]
}

/// Sets the clock of all processes that go by this file off by so many seconds.
pub fn set(file: &Path, seconds: i64) {
    // All at once: it is read at every look at the clock.
    let draft = file.with_extension("draft");
    std::fs::write(&draft, format!("{seconds:+}\n")).unwrap();
    std::fs::rename(&draft, file).unwrap();
}
