//! `windlass move`: a store to another database, everything in it, and back out of it again.

use std::io::{IsTerminal, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use windlass::clock::Stopwatch;
use windlass::store::transfer::{End, Move, MoveOptions, MoveReport, Progress, Stage};

use crate::config::shown;

/// How often progress is told to somebody who looks, and to a log.
const TOLD_EVERY: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(10)];

/// Flags of `move`.
#[derive(Args)]
pub(super) struct MoveArgs {
    /// The store to be moved: `sqlite:PATH` or `postgres://HOST/DATABASE`. Nobody may have it open.
    #[arg(long, value_name = "ADDRESS")]
    from: String,
    /// Where to: an empty database or schema, or a file that is not there.
    #[arg(long, value_name = "ADDRESS", required_unless_present = "undo")]
    to: Option<String>,
    /// Take the source back instead, and shut the target for good if it is named.
    #[arg(long)]
    undo: bool,
    /// With --undo: also after the move has ended, losing what happened in the target since.
    #[arg(long, requires = "undo")]
    force: bool,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

fn end(address: &str) -> End {
    End { address: address.to_owned(), shown: shown(address) }
}

pub(super) async fn move_store(args: &MoveArgs) -> anyhow::Result<ExitCode> {
    let from = end(&args.from);
    let to = args.to.as_deref().map(end);
    if args.undo {
        Move::undo(&from, to.as_ref(), args.force).await?;
        match to {
            Some(to) => eprintln!("{} is open again, and {} is shut", from.shown, to.shown),
            None => eprintln!("{} is open again; see to it that the target is never served", from.shown),
        }
        return Ok(ExitCode::SUCCESS);
    }
    let Some(to) = to else { anyhow::bail!("--to is missing") };
    let began = Stopwatch::start();
    let moving = Move::open(&from, &to, &MoveOptions::default())?;
    let mut teller = Teller::new();
    let outcome = moving.run(|progress| teller.tell(progress)).await;
    teller.end();
    moving.close();
    report(&outcome?, &from, &to, began.elapsed(), args.json);
    Ok(ExitCode::SUCCESS)
}

fn report(report: &MoveReport, from: &End, to: &End, took: Duration, is_json: bool) {
    if is_json {
        let parts: Vec<_> = report
            .parts
            .iter()
            .map(|part| json!({"part": part.part, "rows": part.rows, "sha256": part.sha256}))
            .collect();
        let whole = json!({
            "from": from.shown, "to": to.shown, "parts": parts, "leases": report.leases,
            "invariants": report.invariants, "broken_before": report.broken_before,
            "was_done": report.was_done, "seconds": took.as_secs_f64(),
        });
        println!("{whole}");
    } else {
        println!("{:<16} {:>12}  sha256 of both", "part", "rows");
        for part in &report.parts {
            println!("{:<16} {:>12}  {}", part.part, part.rows, part.sha256);
        }
    }
    for promise in &report.broken_before {
        eprintln!("broken before the move, and still: {promise}");
    }
    if report.leases > 0 {
        eprintln!("{} running jobs went along with their leases and fences", report.leases);
    }
    let word = if report.was_done { "was moved before" } else { "is moved" };
    eprintln!(
        "{} {word} to {} in {:.1} s, {} invariants hold; use it with --store {}",
        from.shown,
        to.shown,
        took.as_secs_f64(),
        report.invariants,
        to.shown
    );
}

/// Tells progress: one line that changes to a person, a line now and then to a log.
struct Teller {
    is_watched: bool,
    since: Stopwatch,
    last: Option<(Stage, Stopwatch)>,
}

impl Teller {
    fn new() -> Teller {
        Teller { is_watched: std::io::stderr().is_terminal(), since: Stopwatch::start(), last: None }
    }

    fn tell(&mut self, progress: Progress) {
        let every = TOLD_EVERY[usize::from(!self.is_watched)];
        match self.last {
            Some((stage, told)) if stage == progress.stage && told.elapsed() < every => return,
            Some((stage, _)) if stage != progress.stage => self.since = Stopwatch::start(),
            _ => {}
        }
        self.last = Some((progress.stage, Stopwatch::start()));
        let line = line(progress, self.since.elapsed());
        if self.is_watched {
            eprint!("\r\x1b[2K{line}");
            // A line that is not shown is not worth failing for.
            let _ = std::io::stderr().flush();
        } else {
            eprintln!("{line}");
        }
    }

    fn end(&self) {
        if self.is_watched && self.last.is_some() {
            eprint!("\r\x1b[2K");
        }
    }
}

fn line(progress: Progress, elapsed: Duration) -> String {
    let Progress { stage, part, done, expected } = progress;
    let verb = match stage {
        Stage::Copying => "copying",
        Stage::Comparing => "comparing",
        Stage::Verifying => return "verifying every invariant on what arrived".to_owned(),
    };
    let rate = u128::from(done) * 1_000 / elapsed.as_millis().max(1);
    let left = u128::from(expected.saturating_sub(done));
    let remaining = match left.checked_div(rate) {
        Some(seconds) if rate > 0 && elapsed > Duration::from_secs(2) => format!(", some {seconds} s left"),
        _ => String::new(),
    };
    format!("{verb} {part}: {done} rows, {rate}/s{remaining}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_says_what_how_many_how_fast_and_how_long() {
        let progress = Progress { stage: Stage::Copying, part: "jobs", done: 40_000, expected: 100_000 };
        assert_eq!(line(progress, Duration::from_secs(4)), "copying jobs: 40000 rows, 10000/s, some 6 s left");
        assert_eq!(line(progress, Duration::from_secs(1)), "copying jobs: 40000 rows, 40000/s");
        let none = Progress { done: 0, ..progress };
        assert_eq!(line(none, Duration::ZERO), "copying jobs: 0 rows, 0/s");
        assert_eq!(line(none, Duration::from_secs(9)), "copying jobs: 0 rows, 0/s");
    }
}
