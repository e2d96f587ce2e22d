//! The first job: a type, a function, a store in a file, a worker.
//!
//! Run it with `cargo run -p windlass --example hello`.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::{Client, Job, State, Worker};

#[derive(Serialize, Deserialize, Job)]
#[job(type = "greet", output = String)]
struct Greet {
    name: String,
}

/// A handler is an async function that takes its job and extractors.
async fn greet(job: Greet, State(word): State<&'static str>) -> anyhow::Result<String> {
    Ok(format!("{word}, {}!", job.name))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let client = Client::open(&format!("sqlite:{}", folder.path().join("jobs.db").display())).await?;

    let job = client.submit(Greet { name: "world".into() }).priority(80).await?;
    println!("submitted: the job is on disk");

    let answered = async {
        let answer = job.result(Duration::from_secs(10)).await;
        println!("answered:  {}", answer.unwrap_or_else(|error| error.to_string()));
    };
    Worker::new(&client).with("Hello").handle(greet).run_until(answered).await?;

    // Any process that has the id can read the result later.
    println!("kept:      {}", client.handle::<Greet>(job.id()).result(Duration::ZERO).await?);
    client.close();
    Ok(())
}
