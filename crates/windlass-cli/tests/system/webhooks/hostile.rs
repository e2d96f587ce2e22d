//! Hostile receivers: whatever one of them does, the jobs of others are worked on as if it were not there.

use tokio::io::AsyncWriteExt;
use windlass::job::{JobId, JobMetadata, JobState, NewJob};
use windlass::settings::Push;
use windlass_testkit::receiver::{Receiver, answer};

use super::calling_store::{CallingStore, job, once};

/// Takes requests and says nothing, forever.
async fn tarpit() -> Receiver {
    Receiver::start(|_, stream| async move {
        std::future::pending::<()>().await;
        drop(stream);
        Ok(())
    })
    .await
}

/// Sends forever.
async fn flood() -> Receiver {
    Receiver::start(|_, mut stream| async move {
        stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await?;
        loop {
            stream.write_all(b"1000\r\n").await?;
            stream.write_all(&[b'x'; 4096]).await?;
            stream.write_all(b"\r\n").await?;
        }
    })
    .await
}

fn reporting_to(url: String) -> NewJob {
    NewJob {
        metadata: JobMetadata { callback_url: Some(url), ..JobMetadata::default() },
        ..job("mail", "{}")
    }
}

async fn all_complete(office: &CallingStore, ids: Vec<JobId>) {
    for id in ids {
        assert_eq!(office.outcome(id).await, (JobState::Completed, None));
    }
}

/// Five hundred callbacks to a receiver that never answers take eight places, and not one more.
#[tokio::test]
async fn a_receiver_that_never_answers_holds_up_no_other_callbacks() {
    let (mut slow, healthy) = (tarpit().await, Receiver::answering(answer("200 OK", "")).await);
    let office = CallingStore::open();
    for _ in 0..500 {
        office.end(reporting_to(slow.url())).await;
    }
    slow.request().await;
    let mut reports = Vec::new();
    for _ in 0..100 {
        reports.push(office.end_and_report(reporting_to(healthy.url())).await.1.id);
    }
    all_complete(&office, reports).await;
    for _ in 1..8 {
        slow.request().await;
    }
    assert!(slow.is_quiet(), "more than its share was sent");
}

#[tokio::test]
async fn every_kind_of_bad_receiver_leaves_the_good_ones_alone() {
    let reset = Receiver::start(|_, stream| async move { stream.set_zero_linger() }).await;
    let canary = Receiver::answering(answer("200 OK", "")).await;
    let redirect = format!("HTTP/1.1 307 Go\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", canary.url());
    let bad = [
        tarpit().await,
        flood().await,
        reset,
        Receiver::answering("\u{1}\u{2}\u{3}").await,
        Receiver::answering(redirect).await,
        Receiver::answering(answer("200 OK", "{\"half\":")).await,
    ];
    let healthy = Receiver::answering(answer("200 OK", "1")).await;
    let office = CallingStore::open();
    for (index, receiver) in bad.iter().enumerate() {
        office.push(&format!("bad-{index}"), Some(Push::to(receiver.url()))).await;
        for _ in 0..20 {
            office.submit(once(&format!("bad-{index}"), "{}")).await;
            office.end(reporting_to(receiver.url())).await;
        }
    }
    office.push("good", Some(Push::to(healthy.url()))).await;
    let mut good = Vec::new();
    for _ in 0..50 {
        good.push(office.submit(job("good", "{}")).await);
        good.push(office.end_and_report(reporting_to(healthy.url())).await.1.id);
    }
    all_complete(&office, good).await;
    assert!(canary.is_quiet(), "a redirect was followed");
}
