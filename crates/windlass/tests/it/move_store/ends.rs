//! Which end may be served when: a store that is being moved, was moved, or is only half there is refused, also to those who
//! had it open before.

use std::sync::Arc;

use windlass::clock::SystemClock;
use windlass::error::{MoveError, StoreError, SubmitError};
use windlass::store::caller::Caller;
use windlass::store::move_store::{Move, MoveReport};
use windlass::store::{Store, StoreOptions, SubmitOptions};

use super::{end, options, refusal};
use crate::fixture::{On, new_job};

const EVERY_PAIR: [(On, On); 4] = [
    (On::Sqlite, On::Postgres),
    (On::Postgres, On::Sqlite),
    (On::Sqlite, On::Sqlite),
    (On::Postgres, On::Postgres),
];

fn open(address: &str) -> Store {
    Store::open(address, StoreOptions::default()).expect("the store opens")
}

async fn moved(from: &str, to: &str) -> Result<MoveReport, MoveError> {
    super::moved(from, to, Arc::new(SystemClock::new()), 3).await
}

/// A store that no process has open, with some jobs in it.
async fn filled(on: On) -> (Option<tempfile::TempDir>, String) {
    let (files, address) = on.address();
    let store = open(&address);
    let jobs = (0..10).map(|_| new_job("email.send")).collect();
    store.submit(&Caller::local(), jobs, SubmitOptions::default()).await.unwrap();
    store.close();
    (files, address)
}

#[tokio::test]
async fn after_a_move_only_the_target_is_served() {
    for (one, other) in EVERY_PAIR {
        let ((_files, from), (_more, to)) = (filled(one).await, other.address());
        let report = moved(&from, &to).await.unwrap();
        assert_eq!(report.parts[2].rows, 10);
        assert!(refusal(&from).contains("was moved to"));
        let store = open(&to);
        assert_eq!(store.stats(&Caller::local()).await.unwrap().states.values().sum::<u64>(), 10);
        store.close();
        assert!(moved(&from, &to).await.unwrap().was_done, "asked again, there is nothing to do");
    }
}

#[tokio::test]
async fn a_store_that_another_process_has_open_is_not_moved() {
    for on in [On::Sqlite, On::Postgres] {
        let ((_files, from), (_more, to)) = (filled(on).await, On::Sqlite.address());
        let server = open(&from);
        // A node shows itself a moment after it has begun.
        let mut outcome = Move::open(&end(&from), &end(&to), &options(Arc::new(SystemClock::new()), 3));
        while let Ok(moving) = outcome {
            assert_eq!(on, On::Postgres);
            moving.close();
            outcome = Move::open(&end(&from), &end(&to), &options(Arc::new(SystemClock::new()), 3));
        }
        assert_eq!(outcome.err(), Some(MoveError::InUse(from.clone())));
        server
            .submit(&Caller::local(), vec![new_job("a")], SubmitOptions::default())
            .await
            .expect("continues");
        server.close();
    }
}

#[tokio::test]
async fn a_target_that_holds_anything_is_refused_and_the_source_stays_open() {
    for on in [On::Sqlite, On::Postgres] {
        let ((_files, from), (_more, to)) = (filled(On::Sqlite).await, filled(on).await);
        assert_eq!(moved(&from, &to).await, Err(MoveError::NotEmpty(to.clone())));
        open(&from).close();
        open(&to).close();
    }
    let (_files, from) = filled(On::Sqlite).await;
    assert_eq!(moved(&from, &from).await, Err(MoveError::NotEmpty(from.clone())));
    let (_files, empty) = On::Sqlite.address();
    open(&empty).close();
    assert_eq!(moved(&empty, &empty).await, Err(MoveError::SamePlace));
    open(&empty).close();
}

#[tokio::test]
async fn what_is_half_moved_is_served_at_neither_end_until_the_move_has_ended() {
    for (one, other) in EVERY_PAIR {
        let ((_files, from), (_more, to)) = (filled(one).await, other.address());
        let moving = Move::open(&end(&from), &end(&to), &options(Arc::new(SystemClock::new()), 3)).unwrap();
        // A program that opens it in between is cut off as well.
        let late = open(&from);
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let mut stop = Some(stop);
        let run = moving.run(|_| drop(stop.take()));
        // Given up after the first commit.
        tokio::select! {
            biased;
            _ = stopped => {}
            ended = run => panic!("it should not have come that far: {ended:?}"),
        }
        moving.close();
        let refused = late.submit(&Caller::local(), vec![new_job("a")], SubmitOptions::default()).await;
        assert!(matches!(refused, Err(SubmitError::Store(StoreError::Moved(_)))), "{refused:?}");
        late.close();
        assert!(refusal(&from).contains("is being moved to"));
        assert!(refusal(&to).contains("it is being moved here"));
        let report = moved(&from, &to).await.unwrap();
        assert_eq!(report.parts[2].rows, 10);
        open(&to).close();
    }
}

#[tokio::test]
async fn a_running_process_is_cut_off_the_moment_its_store_is_moved() {
    for (one, other) in EVERY_PAIR {
        let ((_files, from), (_more, to)) = (filled(one).await, other.address());
        let moving = Move::open(&end(&from), &end(&to), &options(Arc::new(SystemClock::new()), 3)).unwrap();
        let late = open(&from);
        moving.run(|_| {}).await.unwrap();
        let refused = late.submit(&Caller::local(), vec![new_job("a")], SubmitOptions::default()).await;
        assert!(matches!(refused, Err(SubmitError::Store(StoreError::Moved(_)))), "{refused:?}");
        assert!(matches!(late.stats(&Caller::local()).await, Err(StoreError::Moved(_))));
        late.close();
        moving.close();
    }
}

#[tokio::test]
async fn a_move_that_has_ended_is_undone_only_by_force_and_never_leaves_two_stores() {
    for (one, other) in EVERY_PAIR {
        let ((_files, from), (_more, to)) = (filled(one).await, other.address());
        assert_eq!(
            Move::undo(&end(&from), Some(&end(&to)), false).await,
            Err(MoveError::NotMoved(from.clone()))
        );
        moved(&from, &to).await.unwrap();
        assert_eq!(Move::undo(&end(&from), Some(&end(&to)), false).await, Err(MoveError::NeedsForce));
        open(&to).close();
        Move::undo(&end(&from), Some(&end(&to)), true).await.unwrap();
        open(&from).close();
        assert!(refusal(&to).contains("the move was undone"));
        assert_eq!(moved(&to, &from).await, Err(MoveError::NotWhole(to.clone())));
    }
}

#[tokio::test]
async fn a_store_goes_to_one_place_only() {
    let ((_files, from), (_one, to), (_other, third)) =
        (filled(On::Sqlite).await, On::Postgres.address(), On::Sqlite.address());
    moved(&from, &to).await.unwrap();
    let refused = moved(&from, &third).await;
    assert_eq!(refused, Err(MoveError::AlreadyMoved { from, to: to.clone() }));
    // It continues from there, though.
    moved(&to, &third).await.unwrap();
    open(&third).close();
    let nowhere = end("http://127.0.0.1:7788");
    let refused = Move::undo(&nowhere, None, false).await;
    assert_eq!(refused, Err(MoveError::NoDatabase(nowhere.shown)));
}
