//! `windlass verify`: checks the stored data and reports broken invariants; with `--repair` it repairs what follows from
//! other stored data.

use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use clap::Args;
use serde_json::{Value, json};
use windlass::Store;
use windlass::store::caller::Caller;
use windlass::store::verify::{Remedy, Repair, RepairPlan, RepairResult, VerifyProgress, VerifyReport};
use windlass_server::number::grouped;

use crate::commands::jobs::actions::{can_ask, confirmed};
use crate::commands::store_args::{Missing, ReportArgs};
use crate::exit_code::Exit;
use crate::output;
use crate::output::color::{Colour, Paint};
use crate::output::progress::Progress;
use crate::output::table::{cut_end, terminal_width};

/// Flags of `verify`.
#[derive(Args)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    report: ReportArgs,
    /// Say what can be done about each finding, and do what follows from other stored data after asking.
    #[arg(long)]
    repair: bool,
    /// Repair without asking.
    #[arg(long, requires = "repair")]
    yes: bool,
}

pub(crate) async fn verify(args: &VerifyArgs) -> anyhow::Result<ExitCode> {
    if args.repair { repair(args).await } else { check(&args.report).await }
}

async fn check(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let store = args.store.open(Missing::Refuse)?;
    let bar = Bar::new("jobs and records", args.json);
    let results = store.verify_with_progress(bar.teller()).await;
    bar.remove();
    let generation = store.generation().await;
    store.close();
    let generation = generation?;
    if !args.json {
        output::note(&format!("the store is in generation {generation}"));
    }
    report(&results?, args.json)
}

async fn repair(args: &VerifyArgs) -> anyhow::Result<ExitCode> {
    let store = args.report.store.open(Missing::Refuse)?;
    let ended = repair_store(&store, args).await;
    store.close();
    ended
}

async fn repair_store(store: &Store, args: &VerifyArgs) -> anyhow::Result<ExitCode> {
    let is_json = args.report.json;
    let bar = Bar::new("jobs and records", is_json);
    let plan = store.plan_repairs(bar.teller()).await;
    bar.remove();
    let plan = plan?;
    if !is_json {
        report(&plan.reports, false)?;
        tell(&plan.repairs)?;
    }
    let derived = plan.repairs.iter().filter(|repair| matches!(repair.remedy, Remedy::Derived(_))).count();
    let question =
        format!("do {} {}?", grouped(derived as u64), if derived == 1 { "repair" } else { "repairs" });
    let is_wanted = derived > 0 && (args.yes || (can_ask() && !is_json && confirmed(&question)?));
    if !is_wanted {
        if is_json {
            output::json(&json!({"invariants": all_as_json(&plan.reports), "repairs": planned(&plan, &[])}))?;
        } else if derived > 0 {
            output::note("nothing was changed; --yes repairs without asking");
        }
        let is_sound = plan.reports.iter().all(VerifyReport::holds);
        return Ok(if is_sound { Exit::Done } else { Exit::No }.into());
    }
    let mut outcomes = Vec::with_capacity(plan.repairs.len());
    for repair in &plan.repairs {
        let outcome = match repair.remedy {
            Remedy::Derived(_) => Some(store.repair(&Caller::local(), &plan, repair).await?),
            _ => None,
        };
        if let Some(RepairResult::Refused(why)) = &outcome {
            output::note(&format!("not repaired: {}: {why}", repair.code));
        }
        outcomes.push(outcome);
    }
    let done = outcomes.iter().filter(|outcome| **outcome == Some(RepairResult::Done)).count();
    let after = store.verify().await?;
    if is_json {
        let repairs = planned(&plan, &outcomes);
        output::json(&json!({"invariants": all_as_json(&after), "repairs": repairs}))?;
        return Ok(if after.iter().all(VerifyReport::holds) { Exit::Done } else { Exit::No }.into());
    }
    output::note(&format!(
        "{} of {} repaired, each with a record `store.ops.repaired` in the audit trail; now:",
        grouped(done as u64),
        grouped(derived as u64)
    ));
    report(&after, false)
}

/// Prints what can be done about each finding.
fn tell(repairs: &[Repair]) -> anyhow::Result<()> {
    for repair in repairs {
        let (word, text) = match &repair.remedy {
            Remedy::Derived(action) => ("repair", action.as_str()),
            Remedy::Person(advice) => ("yours ", *advice),
            _ => continue,
        };
        for finding in &repair.findings {
            output::line(&format!("        {}  {}", repair.code, output::escaped(finding)))?;
        }
        output::line(&format!("{word}    {}", output::escaped(text)))?;
    }
    Ok(())
}

/// The repairs of a plan, and the results of those that were tried.
fn planned(plan: &RepairPlan, outcomes: &[Option<RepairResult>]) -> Vec<Value> {
    let one = |(at, repair): (usize, &Repair)| {
        let (repaired, advice) = match &repair.remedy {
            Remedy::Derived(action) => (Some(action.as_str()), None),
            Remedy::Person(advice) => (None, Some(*advice)),
            _ => (None, None),
        };
        let outcome = outcomes.get(at).and_then(Option::as_ref).map(|outcome| match outcome {
            RepairResult::Done => "done".to_owned(),
            RepairResult::Gone => "gone".to_owned(),
            RepairResult::Refused(why) => format!("refused: {why}"),
            _ => "unknown".to_owned(),
        });
        json!({
            "code": repair.code, "findings": repair.findings, "repair": repaired, "advice": advice, "outcome": outcome,
        })
    };
    plan.repairs.iter().enumerate().map(one).collect()
}

/// A progress bar that is drawn by the thread that runs the check.
pub(crate) struct Bar {
    what: &'static str,
    is_unwanted: bool,
    shown: Arc<Mutex<Option<Progress>>>,
}

impl Bar {
    pub(crate) fn new(what: &'static str, is_unwanted: bool) -> Bar {
        Bar { what, is_unwanted, shown: Arc::default() }
    }

    /// The callback that draws it.
    pub(crate) fn teller(&self) -> impl FnMut(VerifyProgress) + Send + 'static {
        let (what, is_unwanted, shown) = (self.what, self.is_unwanted, self.shown.clone());
        move |checked| {
            let mut shown = shown.lock().expect("no code panics while holding this lock");
            let start = || Progress::start(what, Some(checked.expected)).unless(is_unwanted);
            shown.get_or_insert_with(start).set(checked.done);
        }
    }

    /// Removes the bar; call it before printing anything else.
    pub(crate) fn remove(self) {
        self.shown.lock().expect("no code panics while holding this lock").take();
    }
}

/// Prints the results; the exit code says whether all invariants hold.
pub(crate) fn report(results: &[VerifyReport], is_json: bool) -> anyhow::Result<ExitCode> {
    let paint = Paint::for_data();
    let broken = results.iter().filter(|result| !result.holds()).count();
    if is_json {
        output::json(&json!({"invariants": all_as_json(results), "broken": broken}))?;
    } else {
        for result in results {
            let (word, colour) =
                if result.holds() { ("holds ", Colour::Good) } else { ("BROKEN", Colour::Bad) };
            let word = paint.paint(word, Some(colour));
            let VerifyReport { code, promise, checked, .. } = result;
            let looked = format!("({} checked)", grouped(*checked));
            // A description is cut so that it stays on one line.
            let used = 8 + 6 + looked.len() + 1;
            let promise = terminal_width().map_or_else(
                || (*promise).to_owned(),
                |room| cut_end(promise, room.saturating_sub(used).max(20)),
            );
            output::line(&format!("{word}  {code:<18} {promise} {looked}"))?;
            for finding in &result.findings {
                output::line(&format!("          {}", output::escaped(finding)))?;
            }
            let hidden = result.broken.saturating_sub(result.findings.len() as u64);
            if hidden > 0 {
                output::line(&format!("          … and {hidden} more"))?;
            }
        }
        match broken {
            0 => output::note(&format!("all {} invariants hold", results.len())),
            broken => output::note(&format!("{broken} of {} invariants are broken", results.len())),
        }
    }
    Ok(if broken == 0 { Exit::Done } else { Exit::No }.into())
}

fn all_as_json(results: &[VerifyReport]) -> Vec<Value> {
    results.iter().map(as_json).collect()
}

fn as_json(result: &VerifyReport) -> serde_json::Value {
    json!({
        "code": result.code,
        "promise": result.promise,
        "checked": result.checked,
        "broken": result.broken,
        "findings": result.findings,
    })
}
