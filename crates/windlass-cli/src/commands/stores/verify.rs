//! `windlass verify`: checks the stored data and reports broken invariants.

use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use serde_json::json;
use windlass::store::verify::{Checked, VerifyReport};
use windlass_server::number::grouped;

use crate::commands::store_args::{Missing, ReportArgs};
use crate::exit_code::Exit;
use crate::output;
use crate::output::color::{Colour, Paint};
use crate::output::progress::Progress;
use crate::output::table::{cut_end, room};

pub(crate) async fn verify(args: &ReportArgs) -> anyhow::Result<ExitCode> {
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
    pub(crate) fn teller(&self) -> impl FnMut(Checked) + Send + 'static {
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
        let all: Vec<_> = results.iter().map(as_json).collect();
        output::json(&json!({"invariants": all, "broken": broken}))?;
    } else {
        for result in results {
            let (word, colour) =
                if result.holds() { ("holds ", Colour::Good) } else { ("BROKEN", Colour::Bad) };
            let word = paint.paint(word, Some(colour));
            let VerifyReport { code, promise, checked, .. } = result;
            let looked = format!("({} checked)", grouped(*checked));
            // A description is cut so that it stays on one line.
            let used = 8 + 6 + looked.len() + 1;
            let promise = room().map_or_else(
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

fn as_json(result: &VerifyReport) -> serde_json::Value {
    json!({
        "code": result.code,
        "promise": result.promise,
        "checked": result.checked,
        "broken": result.broken,
        "findings": result.findings,
    })
}
