//! The time of a move is not the silence of the workers, and a move that stood still for a while continues.

use std::sync::Arc;
use std::time::Duration;

use windlass::job::JobState;
use windlass::limits;
use windlass::store::engine::Page;
use windlass::store::move_store::{Move, MoveOptions};

use super::{Node, on_engines, open};
use crate::fixture::{On, new_job};
use crate::move_store::end;

/// Longer than a worker may be silent.
const AWAY: Duration = Duration::from_secs(120);

on_engines!([Sqlite, Postgres]
    a_move_that_stood_still_continues_and_ends_no_lease,
);

fn other(on: On) -> On {
    if on == On::Sqlite { On::Postgres } else { On::Sqlite }
}

/// Begins a move and leaves it in the middle of the jobs.
async fn interrupted(from: &Node, to: &str) {
    let moving = begin(from, to);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let mut stop = Some(stop);
    let run = moving.run(|progress| {
        if progress.part == "jobs" {
            drop(stop.take());
        }
    });
    tokio::select! {
        biased;
        _ = stopped => {}
        ended = run => panic!("it should not have come that far: {ended:?}"),
    }
    moving.close();
}

fn begin(from: &Node, to: &str) -> Move {
    let page = Page { rows: 1, bytes: limits::MOVE_BYTES_PER_COMMIT };
    let options = MoveOptions { page, wait: limits::MOVE_WAIT_MAX, clock: from.clocks.clone() };
    Move::open(&end(&from.address), &end(to), &options).expect("both ends can be opened")
}

/// Model: store-time, leases-and-heartbeats. A worker with five jobs cannot report while its store is being moved.
async fn a_move_that_stood_still_continues_and_ends_no_lease(on: On) {
    let t = Node::new(on);
    let worker = t.worker().await;
    t.submit(vec![new_job("email.send"); 5]).await;
    let held = t.claim(worker, 5).await;
    t.store.close();
    let (files, address) = other(on).address();
    interrupted(&t, &address).await;
    t.clocks.pass(AWAY);
    let moving = begin(&t, &address);
    moving.run(|_| t.clocks.pass(Duration::from_secs(1))).await.expect("the move continues");
    moving.close();

    let store = open(&address, &t.clocks);
    let moved = Node { store, clocks: Arc::clone(&t.clocks), address, me: t.me.clone(), _files: files };
    moved.tick().await;
    moved.pass(8).await;
    moved.pass_beating(30, worker, &held).await;
    assert_eq!(moved.states().await, [(JobState::Running, 5)]);
    assert_eq!(moved.job(held[0].job.id).await.crashes, 0);
    moved.verify().await;
}
