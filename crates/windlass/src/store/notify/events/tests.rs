//! An event feed misses nothing that is answered after it was opened.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;

use tokio::sync::oneshot;

use super::*;
use crate::error::SubmitError;
use crate::job::{JobType, NewJob, Payload};
use crate::store::command::submit::{self, SubmitOptions};
use crate::store::environment::StoreOptions;

fn job() -> NewJob {
    NewJob::new(JobType::new("mail").expect("a name"), Payload::json("{}"))
}

async fn is_pending<T>(future: &mut Pin<&mut impl Future<Output = T>>) -> bool {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await
}

#[tokio::test]
async fn a_feed_is_handed_out_when_the_commits_are_over_that_knew_of_no_listener() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("sqlite:{}", folder.path().join("jobs.db").display());
    let (store, me) = (Store::open(&address, StoreOptions::default()).unwrap(), Caller::local());
    let (entered, has_entered) = oneshot::channel();
    let (release, is_released) = std::sync::mpsc::sync_channel::<()>(1);
    let (writing, mut entered, submitter) = (store.clone(), Some(entered), me.clone());
    let slow = tokio::spawn(async move {
        let work = move |tx: &mut crate::store::tx::write_tx::WriteTx<'_>| {
            let receipts = submit::submit(tx, &submitter, &[job()], SubmitOptions::default(), None)?;
            entered.take().expect("it runs once").send(()).unwrap();
            is_released.recv().unwrap();
            Ok::<_, SubmitError>(receipts)
        };
        writing.write("slow", Kind::Ordinary, work).await.unwrap()
    });
    has_entered.await.unwrap();
    let mut opening = pin!(store.events_from_now(&me));
    for _ in 0..50 {
        assert!(is_pending(&mut opening).await, "a commit is in progress that notified no subscriber");
        // Long enough for the feed's read, if that were all it waits for.
        store.stats(&me).await.unwrap();
    }
    release.send(()).unwrap();
    let mut feed = opening.await.unwrap();
    slow.await.unwrap();
    let next = store.submit(&me, vec![job()], SubmitOptions::default()).await.unwrap();
    assert_eq!(feed.next().await.unwrap().job, Some(next[0].job.id));
}
