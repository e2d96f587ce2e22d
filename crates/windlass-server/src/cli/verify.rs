//! `windlass verify`: proves that what is stored is sound, or says what is not.

use std::process::ExitCode;

use serde_json::json;
use windlass::store::verify::Verdict;

use super::{Missing, ReportArgs};

pub(super) async fn verify(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let store = args.store.open(Missing::Refuse)?;
    let verdicts = store.verify().await?;
    store.close();
    Ok(report(&verdicts, args.json))
}

/// Prints verdicts; the exit code says whether all promises hold.
pub(super) fn report(verdicts: &[Verdict], is_json: bool) -> ExitCode {
    let broken = verdicts.iter().filter(|verdict| !verdict.holds()).count();
    if is_json {
        let all: Vec<_> = verdicts.iter().map(as_json).collect();
        println!("{}", json!({"invariants": all, "broken": broken}));
    } else {
        for verdict in verdicts {
            let word = if verdict.holds() { "holds " } else { "BROKEN" };
            println!("{word}  {:<5} {} ({} checked)", verdict.code, verdict.promise, verdict.checked);
            for finding in &verdict.findings {
                println!("          {finding}");
            }
            let untold = verdict.broken.saturating_sub(verdict.findings.len() as u64);
            if untold > 0 {
                println!("          … and {untold} more");
            }
        }
        match broken {
            0 => eprintln!("all {} invariants hold", verdicts.len()),
            broken => eprintln!("{broken} of {} invariants are broken", verdicts.len()),
        }
    }
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn as_json(verdict: &Verdict) -> serde_json::Value {
    json!({
        "code": verdict.code,
        "promise": verdict.promise,
        "checked": verdict.checked,
        "broken": verdict.broken,
        "findings": verdict.findings,
    })
}
