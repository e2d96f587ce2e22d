//! Workers that run: claims, handlers, extractors, results, and leaving.

use std::time::Duration;

use windlass::client::Client;
use windlass::handler::State;
use windlass::job::JobState;
use windlass::worker::Worker;

use crate::worker::job_types::{Greet, greet};

const LONG: Duration = Duration::from_secs(20);

async fn hello(job: Greet, State(word): State<&'static str>) -> anyhow::Result<String> {
    Ok(format!("{word}, {}", job.name))
}

#[tokio::test]
async fn a_job_is_handled_and_its_result_is_typed() {
    let client = Client::open("memory:").await.unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let worker = Worker::new(&client).with("hello").queue("default", 4).handle(hello);
    let running = tokio::spawn(worker.run_until(async { drop(stopped.await) }));
    let handle = client.submit(greet("world")).priority(80).tag("a", "b").await.unwrap();
    assert_eq!(handle.result(LONG).await.unwrap(), "hello, world");
    assert_eq!(handle.state().await.unwrap(), Some(JobState::Completed));
    stop.send(()).unwrap();
    running.await.unwrap().unwrap();
}
