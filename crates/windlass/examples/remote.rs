//! The same client, worker and steps against a server: only the address differs.
//!
//! Start a server with `windlass serve`, then run it with
//! `cargo run -p windlass --features remote --example remote -- http://127.0.0.1:7788`.
//! A key goes into the address (`http://wl_…@127.0.0.1:7788`) or into the environment variable `WINDLASS_KEY`.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::{Client, Cx, Job, Worker};

#[derive(Serialize, Deserialize, Job)]
#[job(type = "resize", output = String)]
struct Resize {
    picture: String,
}

/// The server saves the steps, so any machine can continue the job.
async fn resize(job: Resize, cx: Cx) -> anyhow::Result<String> {
    let loaded = cx.step("load", async { anyhow::Ok(format!("{} (12 MB)", job.picture)) }).await?;
    cx.progress(50.0, "loaded").await?;
    // Parks the job at the server; this worker's slot is free in the meantime.
    cx.sleep(Duration::from_millis(100)).await?;
    Ok(format!("{loaded} made small"))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Some(address) = std::env::args().nth(1) else {
        println!("usage: pass the address of a server, for example http://127.0.0.1:7788");
        return Ok(());
    };
    let client = Client::open(&address).await?;
    // With an idempotency key, a submission whose response is lost is retried automatically, and never stored twice.
    let job = client.submit(Resize { picture: "lighthouse.jpg".into() }).key("lighthouse").await?;
    println!("submitted: {}", job.id());
    let answered = async {
        let answer = job.result(Duration::from_secs(30)).await;
        println!("answered:  {}", answer.unwrap_or_else(|error| error.to_string()));
    };
    let report = Worker::new(&client).name("example").handle(resize).run_until(answered).await?;
    println!("left:      {} jobs released", report.released);
    client.close();
    Ok(())
}
