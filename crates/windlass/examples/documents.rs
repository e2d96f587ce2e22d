//! A document pipeline: split it into pages, process each page, merge the results. Some pages fail for a while, one is
//! corrupt, and one is poison: it crashes every handler. Each page fails on its own, and the document is merged without
//! those two.
//!
//! Run it with `cargo run -p windlass --example documents`.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::context::ChildError;
use windlass::{Client, Cx, Failure, GroupStrategy, Job, RetryPolicy, Worker};

#[derive(Serialize, Deserialize, Job)]
#[job(type = "document", output = Merged)]
struct Document {
    name: String,
    pages: u32,
}

#[derive(Debug, Serialize, Deserialize)]
struct Merged {
    words: u32,
    missing: Vec<u32>,
}

/// Three retries with a fixed delay: use `retry = "fixed"` in production, a second apart.
#[derive(Serialize, Deserialize, Job)]
#[job(type = "document.page", output = u32, queue = "pages")]
#[job(retry = RetryPolicy { initial_delay: Duration::from_millis(50), ..RetryPolicy::fixed() })]
struct Page {
    document: String,
    number: u32,
}

/// Split, fan out, merge. The job holds no slot while the pages are processed; it runs again when the last one has
/// finished.
async fn document(job: Document, cx: Cx) -> anyhow::Result<Merged> {
    let pages: Vec<u32> = cx
        .step("split", async {
            println!("split   {} into {} pages", job.name, job.pages);
            anyhow::Ok((1..=job.pages).collect())
        })
        .await?;
    let children = pages.iter().map(|number| Page { document: job.name.clone(), number: *number });
    let processed = cx.spawn_all(children, GroupStrategy::CollectAll).await?;

    let mut merged = Merged { words: 0, missing: Vec::new() };
    for (number, result) in pages.into_iter().zip(processed.results) {
        match result {
            Ok(words) => merged.words += words,
            Err(lost) => {
                let why = match lost {
                    ChildError::NotCompleted { state, error, .. } => {
                        format!("which is {state}: {}", error.map(|error| error.message).unwrap_or_default())
                    }
                    other => other.to_string(),
                };
                println!("merge   without page {number}, {why}");
                merged.missing.push(number);
            }
        }
    }
    cx.step("merge", async { anyhow::Ok(merged) }).await
}

async fn page(job: Page, cx: Cx) -> Result<u32, Failure> {
    match job.number {
        3 => return Err(Failure::permanent("corrupt", "the page cannot be decoded")),
        5 => panic!("page 5 does something terrible"),
        4 | 8 if cx.attempt() <= 2 => return Err(Failure::temporary("the scanner is busy")),
        _ => println!("process {} page {} in attempt {}", job.document, job.number, cx.attempt()),
    }
    Ok(100 + job.number)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // A panic in a handler is caught and counted; this hook only keeps the output short.
    std::panic::set_hook(Box::new(|panic| {
        println!("crash   {}", panic.payload().downcast_ref::<&str>().unwrap_or(&"somewhere"));
    }));
    let folder = tempfile::tempdir()?;
    let client = Client::open(&format!("sqlite:{}", folder.path().join("jobs.db").display())).await?;
    let job = client.submit(Document { name: "report.pdf".into(), pages: 8 }).await?;
    let merged = async {
        match job.result(Duration::from_secs(20)).await {
            Ok(merged) => println!("merged  {} words, missing pages: {:?}", merged.words, merged.missing),
            Err(error) => println!("failed  {error}"),
        }
    };
    // One slot is enough for any number of documents: they hold no slot while they wait for their pages.
    let worker = Worker::new(&client).queue("default", 1).queue("pages", 4).handle(document).handle(page);
    worker.run_until(merged).await?;
    client.close();
    Ok(())
}
