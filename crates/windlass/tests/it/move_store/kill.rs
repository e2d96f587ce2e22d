//! A move that is killed: run again it continues, and in the end everything is there as if nothing had happened.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;

use windlass::clock::{Clock, SystemClock};
use windlass::store::move_store::{Move, MoveReport};

use super::{end, moved, options, refusal};
use crate::fixture::On;
use crate::move_store::rich;

const VARIABLE: &str = "WINDLASS_MOVE_CHILD";
/// Rows per commit: few, so that there are many moments to be killed at.
const ROWS: usize = 5;

/// Not a test by itself: what the killed processes do.
#[tokio::test]
async fn child() {
    let Ok(ends) = std::env::var(VARIABLE) else { return };
    let (from, to) = ends.split_once(' ').expect("the parent names both ends");
    let mut options = options(Arc::new(SystemClock::new()), ROWS);
    // The connections of the one that was killed may need a moment to be noticed.
    options.wait = windlass::limits::MOVE_WAIT_MAX;
    let moving = Move::open(&end(from), &end(to), &options).expect("both ends can be opened");
    let progress = |_| {
        let mut output = std::io::stdout().lock();
        // The reader may be gone.
        let _ = output.write_all(b"@\n").and_then(|()| output.flush());
    };
    moving.run(progress).await.expect("the move ends");
    moving.close();
}

/// Runs a move in a process of its own and kills it after so many commits; tells whether it has ended before.
fn run_and_kill(from: &str, to: &str, after: usize) -> bool {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "move_store::kill::child", "--nocapture", "--test-threads=1"]);
    command.env(VARIABLE, format!("{from} {to}")).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let commits = lines.map(Result::unwrap).filter(|line| line.contains('@')).take(after).count();
    if commits < after {
        assert!(child.wait().unwrap().success(), "it was not killed, and ended well");
        return true;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    false
}

/// The result of an undisturbed move.
async fn undisturbed(from: &str) -> MoveReport {
    let folder = tempfile::tempdir().unwrap();
    let copy = format!("sqlite:{}", folder.path().join("copy.db").display());
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    // There and back, so that the source stays one that can be moved.
    moved(from, &copy, clock, 1_000).await.expect("nothing is in its way")
}

async fn killed_again_and_again(one: On, other: On) {
    let ((_files, from), (_more, to)) = (one.address(), other.address());
    rich::fill(&from).await;
    let expected = undisturbed(&from).await;
    Move::undo(&end(&from), None, true).await.expect("it is taken back");
    let mut runs = 0;
    // A little further each time, so that every stage is reached and cut short.
    while !run_and_kill(&from, &to, 1 + runs * 2) {
        runs += 1;
        // Neither end is served, unless it had ended when it was killed.
        if windlass::store::Store::open(&to, windlass::store::StoreOptions::default()).is_err() {
            refusal(&to);
        }
        refusal(&from);
    }
    assert!(runs >= 5, "it was killed often enough to prove something: {runs}");
    let again = moved(&from, &to, Arc::new(SystemClock::new()), 1_000).await.unwrap();
    assert!(again.was_done);
    assert_eq!(again.parts, expected.parts, "everything is there as if nothing had happened");
}

#[tokio::test]
async fn a_move_to_a_server_that_is_killed_again_and_again_ends_the_same() {
    killed_again_and_again(On::Sqlite, On::Postgres).await;
}

#[tokio::test]
async fn a_move_to_a_file_that_is_killed_again_and_again_ends_the_same() {
    killed_again_and_again(On::Postgres, On::Sqlite).await;
}
