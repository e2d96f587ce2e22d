//! Partial output of handlers, and how it is followed.

use windlass::client::StreamChunk;
use windlass::context::Cx;
use windlass::error::WorkError;
use windlass::job::JobState;
use windlass::testing::TestClient;
use windlass::worker::Worker;
use windlass::{BatchOptions, JobHandle};

use super::harness::step_by_step_on_every_engine;
use super::job_types::{Add, Greet, greet};
use crate::fixture::secs;

step_by_step_on_every_engine!(
    what_a_handler_streams_is_followed_in_order_to_its_end,
    output_starts_over_after_a_failure_but_not_that_of_a_saved_step,
    output_of_a_handler_that_parks_continues,
    blocking_and_batch_handlers_stream_too,
    a_chunk_that_is_too_large_is_refused_and_nothing_else,
);

async fn followed(job: JobHandle) -> (Vec<StreamChunk>, Option<JobState>) {
    let (mut stream, mut chunks) = (job.stream(), Vec::new());
    while let Some(chunk) = stream.next().await.unwrap() {
        chunks.push(chunk);
    }
    (chunks, stream.ended())
}

/// Model: partial-output
async fn what_a_handler_streams_is_followed_in_order_to_its_end(t: &TestClient) {
    // More than a worker buffers.
    const COUNT: u64 = 2_500;
    let handler = |_: Greet, cx: Cx| async move {
        for number in 0..COUNT {
            cx.stream(&number).await?;
        }
        anyhow::Ok(String::new())
    };
    let job = t.client().submit(greet("a")).await.unwrap();
    t.run_due(Worker::new(t.client()).handle(handler)).await;
    let (chunks, ended) = followed(t.client().job(job.id())).await;
    let read: Vec<String> = chunks.iter().map(StreamChunk::text).collect();
    assert_eq!(read, (0..COUNT).map(|number| number.to_string()).collect::<Vec<_>>());
    assert!(chunks.iter().zip(1..).all(|(chunk, number)| chunk.number == number && chunk.attempt == 1));
    assert_eq!(ended, Some(JobState::Completed));
    let mut rest = t.client().job(job.id()).stream().after(COUNT - 1);
    assert_eq!(rest.next().await.unwrap().unwrap().number, COUNT);
    assert!(rest.next().await.unwrap().is_none());
}

/// Model: partial-output, steps
async fn output_starts_over_after_a_failure_but_not_that_of_a_saved_step(t: &TestClient) {
    let handler = |_: Greet, cx: Cx| async move {
        cx.step("plan", async {
            cx.stream("plan ").await?;
            anyhow::Ok(())
        })
        .await?;
        cx.stream("text").await?;
        if cx.attempt() == 1 { Err(anyhow::anyhow!("once")) } else { Ok(String::new()) }
    };
    let job = t.client().submit(greet("a")).await.unwrap();
    for _ in 0..2 {
        t.run_due(Worker::new(t.client()).handle(handler)).await;
        t.advance(secs(2)).await;
    }
    let (chunks, _) = followed(t.client().job(job.id())).await;
    let read: Vec<_> = chunks.iter().map(|chunk| (chunk.attempt, chunk.is_restart, chunk.text())).collect();
    let read: Vec<_> =
        read.iter().map(|(attempt, restart, text)| (*attempt, *restart, text.as_str())).collect();
    assert_eq!(read, [(1, false, "plan "), (1, false, "text"), (2, true, "text")]);
}

/// Model: partial-output, sleeps-and-signals
async fn output_of_a_handler_that_parks_continues(t: &TestClient) {
    let handler = |_: Greet, cx: Cx| async move {
        if cx.attempt() == 1 {
            cx.stream("before ").await?;
        }
        cx.sleep(secs(60)).await?;
        cx.stream("after").await?;
        anyhow::Ok(String::new())
    };
    let job = t.client().submit(greet("a")).await.unwrap();
    t.run_due(Worker::new(t.client()).handle(handler)).await;
    t.assert_state(job.id(), JobState::Waiting).await;
    t.advance(secs(60)).await;
    t.run_due(Worker::new(t.client()).handle(handler)).await;
    let (chunks, ended) = followed(t.client().job(job.id())).await;
    assert!(chunks.iter().all(|chunk| !chunk.is_restart));
    assert_eq!(chunks.iter().map(StreamChunk::text).collect::<String>(), "before after");
    assert_eq!(ended, Some(JobState::Completed));
}

/// Model: partial-output
async fn blocking_and_batch_handlers_stream_too(t: &TestClient) {
    async fn batch(jobs: Vec<Add>, contexts: Vec<Cx>) -> anyhow::Result<Vec<u64>> {
        for cx in contexts {
            cx.stream("from a batch").await?;
        }
        Ok(jobs.iter().map(|_| 0).collect())
    }
    let blocking = |_: Greet, cx: Cx| -> anyhow::Result<String> {
        cx.block_on(cx.stream("from a thread"))?;
        Ok(String::new())
    };
    let one = t.client().submit(greet("a")).await.unwrap().id();
    let two = t.client().submit(Add { numbers: vec![] }).await.unwrap().id();
    t.run_due(
        Worker::new(t.client())
            .handle_blocking(blocking)
            .handle_batch(BatchOptions::new(10, secs(60)), batch),
    )
    .await;
    for (id, text) in [(one, "from a thread"), (two, "from a batch")] {
        let (chunks, ended) = followed(t.client().job(id)).await;
        assert_eq!(chunks.iter().map(StreamChunk::text).collect::<String>(), text);
        assert_eq!(ended, Some(JobState::Completed));
    }
}

/// Model: partial-output, refused-changes
async fn a_chunk_that_is_too_large_is_refused_and_nothing_else(t: &TestClient) {
    let handler = |_: Greet, cx: Cx| async move {
        cx.stream("good").await?;
        let refused = cx.stream(&"x".repeat(64 << 10)).await;
        assert!(
            matches!(&refused, Err(WorkError::Invalid(invalid)) if invalid.field == "chunk"),
            "{refused:?}"
        );
        anyhow::Ok(String::new())
    };
    let job = t.client().submit(greet("a")).await.unwrap();
    t.run_due(Worker::new(t.client()).handle(handler)).await;
    let (chunks, ended) = followed(t.client().job(job.id())).await;
    assert_eq!((chunks.len(), ended), (1, Some(JobState::Completed)));
}
