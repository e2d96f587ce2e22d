//! `windlass move`: a store to another database, everything in it, and back out of it again.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use windlass::clock::Stopwatch;
use windlass::store::move_store::{self, End, Move, MoveOptions, MoveReport, Stage};

use crate::cli::output;
use crate::cli::progress::Progress;
use crate::config::shown;

/// Flags of `move`.
#[derive(Args)]
pub(in crate::cli) struct MoveArgs {
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

pub(in crate::cli) async fn move_store(args: &MoveArgs) -> anyhow::Result<ExitCode> {
    let from = end(&args.from);
    let to = args.to.as_deref().map(end);
    if args.undo {
        Move::undo(&from, to.as_ref(), args.force).await?;
        match &to {
            Some(to) => output::note(&format!("{} is open again, and {} is shut", from.shown, to.shown)),
            None => output::note(&format!(
                "{} is open again; see to it that the target is never served",
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
    let outcome = moving.run(|told| show(&mut shown, told, args.json)).await;
    drop(shown);
    moving.close();
    report(&outcome?, &from, &to, began.elapsed(), args.json)?;
    Ok(ExitCode::SUCCESS)
}

/// Shows how far it has come; every stage has a bar of its own.
fn show(shown: &mut Option<(Stage, Progress)>, told: move_store::Progress, is_json: bool) {
    if shown.as_ref().is_none_or(|(stage, _)| *stage != told.stage) {
        let what = match told.stage {
            Stage::Copying => "rows copied",
            Stage::Comparing => "rows compared",
            Stage::Verifying => {
                *shown = None;
                output::note("checking every invariant on what arrived");
                return;
            }
        };
        *shown = Some((told.stage, Progress::start(what, Some(told.expected)).unless(is_json)));
    }
    if let Some((_, bar)) = shown {
        bar.set(told.done);
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
        output::note(&format!("broken before the move, and still: {promise}"));
    }
    if report.leases > 0 {
        output::note(&format!("{} running jobs went along with their leases and fences", report.leases));
    }
    let word = if report.was_done { "was moved before" } else { "is moved" };
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
