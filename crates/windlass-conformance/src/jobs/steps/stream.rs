//! Partial output: its order and numbers, repeats, attempts that start over, limits, and readers that wait.

use std::time::Duration;

use windlass::error::WorkError;
use windlass::job::{Failure, JobId, JobState};
use windlass::limits;
use windlass::store::{
    AttemptWrite, ClaimedJob, Finish, Outcome, Park, Redrive, Report, StreamChunk, StreamPage,
};

use crate::fixture::{Fixture, lease_ref, new_job, secs};

tests!(
    jobs_steps_stream, jobs::steps::stream:
    output_is_numbered_in_order_and_read_page_by_page,
    a_repeated_write_adds_nothing_twice_and_a_gap_is_refused,
    output_starts_over_unless_the_attempt_before_has_parked,
    the_oldest_output_is_dropped_when_there_is_too_much,
    chunks_have_limits_and_are_json,
    an_outcome_carries_the_last_output,
    a_reader_waits_for_output_and_for_the_end_of_the_job,
    output_stays_with_its_job_and_is_not_in_the_audit_trail,
);

fn chunks(offset: Option<u64>, chunks: &[&str]) -> AttemptWrite {
    AttemptWrite::Stream { offset, chunks: chunks.iter().map(|chunk| chunk.as_bytes().to_vec()).collect() }
}

async fn write(t: &Fixture, claimed: &ClaimedJob, write: AttemptWrite) -> Result<(), WorkError> {
    t.store.record(&t.me, lease_ref(claimed), vec![write]).await
}

async fn page(t: &Fixture, id: JobId, after: u64, limit: usize) -> StreamPage {
    t.store.stream(&t.me, id, after, limit, Duration::ZERO).await.unwrap().unwrap()
}

/// Each chunk: its number, its attempt, whether output starts over, its JSON.
fn shown(chunks: &[StreamChunk]) -> Vec<(u64, u32, bool, &str)> {
    chunks.iter().map(|found| (found.number, found.attempt, found.is_restart, found.chunk.get())).collect()
}

/// Model: partial-output
async fn output_is_numbered_in_order_and_read_page_by_page(t: &Fixture) {
    let (_, claimed) = t.running(new_job("story")).await;
    let id = claimed.job.id;
    let empty = page(t, id, 0, 10).await;
    assert_eq!((empty.chunks.len(), empty.last, empty.state), (0, 0, JobState::Running));
    write(t, &claimed, chunks(None, &[r#""Once""#, r#""upon""#])).await.unwrap();
    t.advance(secs(1));
    write(t, &claimed, chunks(None, &[r#"{"a": [1, null]}"#])).await.unwrap();
    let all = page(t, id, 0, 10).await;
    let expected =
        [(1, 1, false, r#""Once""#), (2, 1, false, r#""upon""#), (3, 1, false, r#"{"a": [1, null]}"#)];
    assert_eq!(shown(&all.chunks), expected, "and byte for byte");
    assert_eq!((all.last, all.dropped), (3, 0));
    assert_eq!(all.chunks[2].at.since(all.chunks[1].at), secs(1));
    assert_eq!(shown(&page(t, id, 1, 1).await.chunks), expected[1..2]);
    assert_eq!(shown(&page(t, id, 2, 10).await.chunks), expected[2..]);
    assert!(page(t, id, 3, 10).await.chunks.is_empty());
    assert!(page(t, id, u64::MAX, 10).await.chunks.is_empty());
    let unknown = JobId::new(t.now(), 7);
    assert!(t.store.stream(&t.me, unknown, 0, 1, Duration::ZERO).await.unwrap().is_none());
}

/// Model: partial-output
async fn a_repeated_write_adds_nothing_twice_and_a_gap_is_refused(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("story")).await;
    let id = claimed.job.id;
    for _ in 0..2 {
        write(t, &claimed, chunks(Some(0), &["1", "2"])).await.unwrap();
    }
    write(t, &claimed, chunks(Some(1), &["2", "3"])).await.unwrap();
    assert_eq!(page(t, id, 0, 10).await.last, 3);
    let before = t.everything().await;
    let refused = write(t, &claimed, chunks(Some(4), &["5"])).await;
    assert!(matches!(&refused, Err(WorkError::Invalid(invalid)) if invalid.field == "offset"), "{refused:?}");
    assert_eq!(t.everything().await, before);
    t.park(worker, &claimed, Park::For(secs(1))).await;
    t.advance(secs(1));
    let again = t.claim_one(worker).await;
    write(t, &again, chunks(Some(0), &["4"])).await.unwrap();
    let read = page(t, id, 0, 10).await;
    let expected = [(1, 1, "1"), (2, 1, "2"), (3, 1, "3"), (4, 2, "4")];
    let found: Vec<_> = shown(&read.chunks).into_iter().map(|found| (found.0, found.1, found.3)).collect();
    assert_eq!(found, expected, "each attempt counts from 0");
}

/// Model: partial-output
async fn output_starts_over_unless_the_attempt_before_has_parked(t: &Fixture) {
    let worker = t.steady_worker().await;
    let id = t.submit(new_job("story")).await.id;
    let attempt = async |chunk: &str| {
        let claimed = t.claim_one(worker).await;
        write(t, &claimed, chunks(Some(0), &[chunk, "0"])).await.unwrap();
        claimed
    };
    let claimed = attempt("1").await;
    t.park(worker, &claimed, Park::For(secs(1))).await;
    t.advance(secs(1));
    let claimed = attempt("2").await;
    t.fail(worker, &claimed, Failure::temporary("busy")).await;
    t.advance(secs(2));
    // An attempt without output in between changes nothing.
    let claimed = t.claim_one(worker).await;
    t.park(worker, &claimed, Park::For(secs(1))).await;
    t.advance(secs(1));
    let claimed = attempt("4").await;
    t.finish(worker, id, claimed.job.fence, Outcome::Released).await;
    let claimed = attempt("5").await;
    t.advance(claimed.job.policy.timeouts.lease);
    t.tick().await;
    t.advance(secs(5));
    let claimed = attempt("6").await;
    t.complete(worker, &claimed).await;
    let read = page(t, id, 0, 100).await;
    let found: Vec<_> = shown(&read.chunks).into_iter().map(|found| (found.1, found.2, found.3)).collect();
    let expected = [(1, false, "1"), (2, false, "2"), (4, true, "4"), (5, true, "5"), (6, true, "6")];
    let expected: Vec<_> = expected.into_iter().flat_map(|first| [first, (first.0, false, "0")]).collect();
    assert_eq!(found, expected);
}

/// Model: partial-output
async fn the_oldest_output_is_dropped_when_there_is_too_much(t: &Fixture) {
    let (_, claimed) = t.running(new_job("story")).await;
    let id = claimed.job.id;
    let large = format!("{:?}", "x".repeat(limits::STREAM_CHUNK_BYTES_MAX - 2));
    let per_call = limits::STREAM_CALL_BYTES_MAX / limits::STREAM_CHUNK_BYTES_MAX;
    let call = vec![large.as_str(); per_call];
    let fit =
        limits::STREAM_BYTES_MAX / (limits::STREAM_CALL_BYTES_MAX as u64 + 2 * limits::STREAM_BLOCK_OVERHEAD);
    for _ in 0..fit {
        write(t, &claimed, chunks(None, &call)).await.unwrap();
    }
    write(t, &claimed, chunks(None, &["1"])).await.unwrap();
    assert_eq!(page(t, id, 0, 1).await.dropped, 0);
    write(t, &claimed, chunks(None, &call)).await.unwrap();
    let first = page(t, id, 0, 1).await;
    let dropped = per_call as u64;
    assert_eq!(
        (first.dropped, first.chunks[0].number),
        (dropped, dropped + 1),
        "the chunks of the first call"
    );
    let (mut after, mut count) = (0, 0);
    loop {
        let read = page(t, id, after, limits::STREAM_PAGE_CHUNKS_MAX).await;
        let Some(last) = read.chunks.last() else { break };
        let bytes: usize = read.chunks.iter().map(|chunk| chunk.chunk.get().len()).sum();
        assert!(
            bytes < limits::STREAM_PAGE_BYTES + limits::STREAM_CHUNK_BYTES_MAX,
            "a page has {bytes} bytes"
        );
        (after, count) = (last.number, count + read.chunks.len() as u64);
    }
    assert_eq!((after, count), (first.last, first.last - dropped), "all others are there");
    assert!(t.get(id).await.job.details.stream.unwrap().bytes <= limits::STREAM_BYTES_MAX);
}

/// Model: partial-output, refused-changes
async fn chunks_have_limits_and_are_json(t: &Fixture) {
    let (_, claimed) = t.running(new_job("story")).await;
    let before = t.everything().await;
    let too_large = "1".repeat(limits::STREAM_CHUNK_BYTES_MAX + 1);
    let fits = "1".repeat(limits::STREAM_CHUNK_BYTES_MAX);
    let most = limits::STREAM_CALL_BYTES_MAX / limits::STREAM_CHUNK_BYTES_MAX;
    for (wrong, field) in [
        (vec![], "chunks".to_owned()),
        (vec!["1"; limits::STREAM_CHUNKS_PER_CALL_MAX + 1], "chunks".to_owned()),
        (vec!["1", &too_large], "chunks.1".to_owned()),
        (vec![fits.as_str(); most + 1], format!("chunks.{most}")),
        (vec!["1", "not json"], "chunks.1".to_owned()),
    ] {
        let refused = write(t, &claimed, chunks(None, &wrong)).await;
        assert!(
            matches!(&refused, Err(WorkError::Invalid(invalid)) if invalid.field == field),
            "{refused:?}"
        );
    }
    assert_eq!(t.everything().await, before);
    write(t, &claimed, chunks(None, &vec![fits.as_str(); most])).await.unwrap();
}

/// Model: partial-output, atomic-changes
async fn an_outcome_carries_the_last_output(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("story")).await;
    let id = claimed.job.id;
    write(t, &claimed, chunks(Some(0), &["1"])).await.unwrap();
    let outcome = Outcome::Completed { result: None };
    let report =
        Report { writes: vec![chunks(Some(0), &["1", "2"])], ..Report::new(id, claimed.job.fence, outcome) };
    let answer = t.store.finish(&t.me, worker, vec![report.clone()]).await.unwrap();
    assert_eq!(answer, [Finish::Applied(JobState::Completed)]);
    assert_eq!(t.store.finish(&t.me, worker, vec![report]).await.unwrap(), [Finish::Stale]);
    let read = page(t, id, 0, 10).await;
    assert_eq!(shown(&read.chunks), [(1, 1, false, "1"), (2, 1, false, "2")]);
    assert!(read.is_end(0) && !page(t, id, 0, 1).await.is_end(0));
    let refused = write(t, &claimed, chunks(None, &["3"])).await;
    assert_eq!(refused, Err(WorkError::Stale(id)));
}

/// Model: partial-output
async fn a_reader_waits_for_output_and_for_the_end_of_the_job(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("story")).await;
    let id = claimed.job.id;
    let waiting = |after| t.store.stream(&t.me, id, after, 10, limits::SERVER_WAIT_MAX);
    let (read, written) = tokio::join!(waiting(0), write(t, &claimed, chunks(None, &["1"])));
    written.unwrap();
    assert_eq!(shown(&read.unwrap().unwrap().chunks), [(1, 1, false, "1")]);
    let (read, _) = tokio::join!(waiting(1), t.complete(worker, &claimed));
    let last = read.unwrap().unwrap();
    assert!(last.chunks.is_empty() && last.is_end(1));
    assert_eq!(last.state, JobState::Completed);
}

/// Model: partial-output, retention
async fn output_stays_with_its_job_and_is_not_in_the_audit_trail(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("story")).await;
    let id = claimed.job.id;
    let (version, trail) = (t.get(id).await.version(), t.trail().await);
    write(t, &claimed, chunks(None, &["1"])).await.unwrap();
    assert_eq!(t.get(id).await.version(), version, "output does not change the job");
    assert_eq!(t.trail().await, trail);
    t.fail(worker, &claimed, Failure::permanent("gone", "never")).await;
    assert_eq!(page(t, id, 0, 10).await.chunks.len(), 1, "also of a job that has failed");
    let again = t.store.redrive(&t.me, id, Redrive::default()).await.unwrap();
    assert_eq!(page(t, again.id, 0, 10).await.last, 0, "a new job has its own output");
    t.store.delete(&t.me, id).await.unwrap();
    assert!(t.store.stream(&t.me, id, 0, 1, Duration::ZERO).await.unwrap().is_none());
}
