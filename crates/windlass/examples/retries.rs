//! What an error means: retry, retry later, never retry, not now; and who sets the delay.
//!
//! Run it with `cargo run -p windlass --example retries`.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::{Client, Cx, Failure, Handle, Job, RetryPolicy, Snooze, Worker};

#[derive(Serialize, Deserialize, Job)]
#[job(type = "charge", output = String)]
struct Charge {
    card: String,
}

async fn charge(job: Charge, cx: Cx) -> anyhow::Result<String> {
    let attempt = cx.attempt();
    match (job.card.as_str(), attempt) {
        // Any error is temporary: retried after the policy's delay.
        ("flaky", 1 | 2) => anyhow::bail!("the bank hung up"),
        // This error sets its own delay.
        ("busy", 1) => Err(Failure::retry_after(Duration::from_millis(50), "the bank is busy").into()),
        // Permanent: never retried.
        ("stolen", _) => Err(Failure::permanent("card_stolen", "the card was reported stolen").into()),
        // Not a failure, only too early.
        ("early", 1) => Err(Snooze(Duration::from_millis(50)).into()),
        ("broken", _) => anyhow::bail!("the bank is on fire"),
        _ => Ok(format!("charged in attempt {attempt}, after {} failures", cx.failures())),
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let client = Client::open("memory:").await?;
    let quick = RetryPolicy { initial_delay: Duration::from_millis(20), ..RetryPolicy::fixed() };
    let mut jobs: Vec<Handle<Charge>> = Vec::new();
    for card in ["flaky", "busy", "stolen", "early", "broken"] {
        let job = Charge { card: card.into() };
        jobs.push(client.submit(job).tag("card", card).retry(quick.clone()).await?);
    }
    // Here the worker's retry function sets the delay, depending on the error.
    jobs.push(client.submit(Charge { card: "flaky".into() }).retry(RetryPolicy::custom()).await?);

    let worker = Worker::new(&client).handle(charge).retry_delay(|cx, failure| {
        println!("custom:  failure {} was: {failure}", cx.failures() + 1);
        Duration::from_millis(20)
    });
    let all_ended = async {
        for job in &jobs {
            let ended = job.wait(Duration::from_secs(10)).await.ok().flatten().expect("the job is there");
            let card = ended.spec.metadata.tags.get("card").map_or("custom", String::as_str);
            let said = job.result(Duration::ZERO).await.unwrap_or_else(|error| error.to_string());
            let said = said.replace(&job.id().to_string(), "…");
            println!(
                "{:<8} {} after {} attempts: {said}",
                format!("{card}:"),
                ended.job.state,
                ended.job.attempt
            );
        }
    };
    worker.run_until(all_ended).await?;
    Ok(())
}
