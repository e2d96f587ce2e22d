//! Pausing a job, a queue and a worker across a restart: the job is interrupted in the middle, the program stops and
//! opens the store again, and the job is still paused. Once resumed, it continues after the last saved step.
//!
//! Run it with `cargo run -p windlass --example pause_resume`.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use windlass::error::ActionError;
use windlass::{Client, Cx, Handle, Job, JobId, Pause, PauseMode, State, Suspend, Worker};

#[derive(Serialize, Deserialize, Job)]
#[job(type = "import", output = u32)]
struct Import {
    parts: u32,
}

/// Reports finished parts to `main`.
type PartSender = mpsc::Sender<u32>;

async fn import(job: Import, cx: Cx, State(sender): State<PartSender>) -> anyhow::Result<u32> {
    for part in 1..=job.parts {
        cx.step(&format!("part-{part}"), async {
            println!("import: part {part} (attempt {})", cx.attempt());
            anyhow::Ok(part)
        })
        .await?;
        sender.send(part).await?;
        if part == 2 && cx.attempt() == 1 {
            // Works forever, until asked to stop.
            cx.cancelled().await;
            anyhow::bail!("interrupted");
        }
    }
    Ok(job.parts)
}

/// Runs the import until its second part is done, and interrupts it there.
async fn before_the_restart(address: &str) -> anyhow::Result<JobId> {
    let client = Client::open(address).await?;
    let job = client.submit(Import { parts: 4 }).await?;
    let (sender, mut received): (PartSender, _) = mpsc::channel(16);
    let paused = async {
        while received.recv().await != Some(2) {}
        let how = Suspend::aggressive().reason("the disk is being replaced");
        println!("pause:  the job: {:?}", job.suspend(how.clone()).await);
        println!("pause:  again: {:?}", job.suspend(how.clone()).await);
        let strictly = job.suspend_strictly(how).await;
        println!("pause:  strictly: refused: {}", matches!(strictly, Err(ActionError::AlreadySuspended(_))));
        println!("pause:  its queue: {:?}", client.pause_queue("default", Pause::graceful()).await);
    };
    Worker::new(&client).with(sender).handle(import).run_until(paused).await?;
    client.close();
    Ok(job.id())
}

async fn after_the_restart(address: &str, id: JobId) -> anyhow::Result<()> {
    let client = Client::open(address).await?;
    let job: Handle<Import> = client.handle(id);
    let found = job.snapshot().await?.expect("the job is there").job;
    println!("reopen: the job is {} with {} failures", found.state, found.failures);
    for pause in client.pauses().await? {
        println!("reopen: paused by {}: {:?}", pause.by, pause.scope);
    }

    println!("resume: the job: {:?}", job.resume().await);
    for reason in job.explain().await?.unwrap_or_default() {
        println!("resume: it does not run yet: {}", reason.code);
    }
    println!("resume: its queue: {:?}", client.resume_queue("default").await);

    let (sender, _received): (PartSender, _) = mpsc::channel(16);
    let worker = Worker::new(&client).with(sender).handle(import);
    let control = worker.control();
    control.pause(PauseMode::Graceful);
    let ended = async {
        control.started().await;
        println!("worker: paused: {}", control.is_paused());
        control.resume();
        match job.result(Duration::from_secs(10)).await {
            Ok(parts) => println!("done:   {parts} parts, each imported once"),
            Err(error) => println!("failed: {error}"),
        }
    };
    worker.run_until(ended).await?;
    client.close();
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let address = format!("sqlite:{}", folder.path().join("jobs.db").display());
    let id = before_the_restart(&address).await?;
    println!("-- everything is stopped, and opened again");
    after_the_restart(&address, id).await
}
