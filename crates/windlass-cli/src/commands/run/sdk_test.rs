//! `windlass sdk-test`: drives a worker in any language through cases with real processes that die, and compares what its jobs
//! did with what the worker protocol asks for.

mod case;
mod cases;
mod lossy;
mod stage;
mod worker;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use windlass::clock::Stopwatch;

use crate::output;

/// Arguments of `sdk-test`.
#[derive(Args)]
pub(crate) struct SdkTestArgs {
    /// Run only cases whose name contains this.
    #[arg(long, value_name = "TEXT")]
    case: Option<String>,
    /// Print the names of the cases.
    #[arg(long)]
    list: bool,
    /// How many cases run at once.
    #[arg(long, default_value_t = 4, value_name = "COUNT")]
    parallel: usize,
    /// The worker program and its arguments; docs/sdk-test.md says what it must do.
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

pub(crate) async fn sdk_test(args: &SdkTestArgs) -> anyhow::Result<ExitCode> {
    let wanted = |name: &str| args.case.as_ref().is_none_or(|text| name.contains(text.as_str()));
    let cases: Vec<case::Case> = cases::all().into_iter().filter(|case| wanted(&case.name)).collect();
    if args.list {
        for case in &cases {
            output::line(&case.name)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    anyhow::ensure!(!args.program.is_empty(), "give the worker's program after `--`");
    anyhow::ensure!(!cases.is_empty(), "no case has such a name");
    let (count, places) = (cases.len(), Arc::new(Semaphore::new(args.parallel.max(1))));
    let mut running = JoinSet::new();
    for case in cases {
        let (places, program) = (places.clone(), args.program.clone());
        running.spawn(async move {
            let _place = places.acquire_owned().await;
            let watch = Stopwatch::start();
            let ended = case.run(&program).await;
            (case.name, ended, watch.elapsed())
        });
    }
    let mut failed = 0;
    while let Some(ended) = running.join_next().await {
        let (name, ended, took) = ended?;
        match ended {
            Ok(()) => output::line(&format!("ok      {name} ({:.1}s)", took.as_secs_f64()))?,
            Err(error) => {
                failed += 1;
                output::line(&format!("FAILED  {name}: {error:#}"))?;
            }
        }
    }
    output::line(&format!("{} of {count} cases passed", count - failed))?;
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
