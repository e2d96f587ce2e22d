//! One call for many jobs: rows are written a hundred at a time, and each job still has its own outcome.
//!
//! Run it with `cargo run -p windlass --example inserts`.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::{BatchOptions, Client, Cx, Failure, Handle, Job, RetryPolicy, State, Worker};

/// A row to be written.
#[derive(Serialize, Deserialize, Job)]
#[job(type = "insert", output = String)]
struct Insert {
    row: u32,
}

/// The sizes of the calls so far.
type Calls = Arc<Mutex<Vec<usize>>>;

/// Writes all rows with one statement, like a database; some rows are rejected.
async fn insert(
    jobs: Vec<Insert>,
    contexts: Vec<Cx>,
    State(calls): State<Calls>,
) -> Vec<Result<String, Failure>> {
    calls.lock().expect("no thread panics").push(jobs.len());
    let write = |(job, cx): (&Insert, &Cx)| match (job.row, cx.attempt()) {
        // Only this job fails; the others of its batch are written.
        (13, _) => Err(Failure::permanent("duplicate", "row 13 is there already")),
        // Only this job is retried, in a later batch.
        (77, 1) => Err(Failure::temporary("row 77 is locked")),
        (row, attempt) => Ok(format!("row {row} written in attempt {attempt}")),
    };
    jobs.iter().zip(&contexts).map(write).collect()
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let client = Client::open("memory:").await?;
    let quick = RetryPolicy { initial_delay: Duration::from_millis(20), ..RetryPolicy::fixed() };
    let mut jobs: Vec<Handle<Insert>> = Vec::new();
    for row in 0..250 {
        jobs.push(client.submit(Insert { row }).retry(quick.clone()).await?);
    }

    let calls = Calls::default();
    // Up to a hundred rows per call; the first row of a call waits 50 ms for the others.
    let options = BatchOptions::new(100, Duration::from_millis(50));
    let worker = Worker::new(&client).with(calls.clone()).queue("default", 100).handle_batch(options, insert);
    let all_ended = async {
        let mut written = 0;
        for job in &jobs {
            match job.result(Duration::from_secs(10)).await {
                Ok(said) if said.ends_with("attempt 1") => written += 1,
                Ok(said) => println!("{said}"),
                Err(error) => println!("{}", error.to_string().replace(&job.id().to_string(), "…")),
            }
        }
        println!("{written} rows written at once");
    };
    worker.run_until(all_ended).await?;
    let calls = calls.lock().expect("no thread panics");
    let largest = calls.iter().max().copied().unwrap_or(0);
    let attempts: usize = calls.iter().sum();
    println!("{attempts} attempts, up to {largest} of them in one call");
    Ok(())
}
