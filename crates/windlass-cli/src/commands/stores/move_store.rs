//! `windlass move`: moves a store with all its data to another database, and undoes a move.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use windlass::clock::Stopwatch;
use windlass::store::move_store::{self, End, Move, MoveOptions, MoveReport, Stage};

use crate::config::shown;
use crate::output;
use crate::output::progress::Progress;

/// Flags of `move`.
#[derive(Args)]
pub(crate) struct MoveArgs {
    /// The store to move: `sqlite:PATH` or `postgres://HOST/DATABASE`. No process may have it open.
    #[arg(long, value_name = "ADDRESS")]
    from: String,
    /// The target: an empty database or schema, or a file that does not exist.
    #[arg(long, value_name = "ADDRESS", required_unless_present = "undo")]
    to: Option<String>,
    /// Undo a move: reopen the source, and close the target permanently if it is given.
    #[arg(long)]
    undo: bool,
    /// With --undo: also undo a finished move, which loses all changes made in the target since.
    #[arg(long, requires = "undo")]
    force: bool,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

fn end(address: &str) -> End {
    End { address: address.to_owned(), shown: shown(address) }
}

pub(crate) async fn move_store(args: &MoveArgs) -> anyhow::Result<ExitCode> {
    let from = end(&args.from);
    let to = args.to.as_deref().map(end);
    if args.undo {
        Move::undo(&from, to.as_ref(), args.force).await?;
        match &to {
            Some(to) => output::note(&format!("{} is open again, and {} is closed", from.shown, to.shown)),
            None => output::note(&format!(
                "{} is open again; make sure that the target is never served",
                from.shown
            )),
        }
        if args.json {
            output::json(&json!({"from": from.shown, "undone": true}))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let Some(to) = to else { anyhow::bail!("--to is missing") };
    let began = Stopwatch::start();
    let moving = Move::open(&from, &to, &MoveOptions::default())?;
    let mut shown: Option<(Stage, Progress)> = None;
    let outcome = moving.run(|progress| show(&mut shown, progress, args.json)).await;
    drop(shown);
    moving.close();
    report(&outcome?, &from, &to, began.elapsed(), args.json)?;
    Ok(ExitCode::SUCCESS)
}

/// Shows the progress; every stage has its own bar.
fn show(shown: &mut Option<(Stage, Progress)>, progress: move_store::Progress, is_json: bool) {
    if shown.as_ref().is_none_or(|(stage, _)| *stage != progress.stage) {
        let what = match progress.stage {
            Stage::Copying => "rows copied",
            Stage::Comparing => "rows compared",
            Stage::Verifying => {
                *shown = None;
                output::note("checking every invariant of the copy");
                return;
            }
            _ => "rows",
        };
        *shown = Some((progress.stage, Progress::start(what, Some(progress.expected)).unless(is_json)));
    }
    if let Some((_, bar)) = shown {
        bar.set(progress.done);
    }
}

fn report(report: &MoveReport, from: &End, to: &End, took: Duration, is_json: bool) -> anyhow::Result<()> {
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
        output::json(&whole)?;
    } else {
        output::line(&format!("{:<16} {:>12}  SHA256 OF BOTH", "PART", "ROWS"))?;
        for part in &report.parts {
            output::line(&format!("{:<16} {:>12}  {}", part.part, part.rows, part.sha256))?;
        }
    }
    for promise in &report.broken_before {
        output::note(&format!("broken before the move, and still broken: {promise}"));
    }
    if report.leases > 0 {
        output::note(&format!("{} running jobs were moved with their leases and fences", report.leases));
    }
    let word = if report.was_done { "was moved before" } else { "was moved" };
    output::note(&format!(
        "{} {word} to {} in {:.1} s, {} invariants hold; use it with --store {}",
        from.shown,
        to.shown,
        took.as_secs_f64(),
        report.invariants,
        to.shown
    ));
    Ok(())
}
