//! The very tests that the library's workers, handlers and contexts pass embedded, with a server in between.

#[path = "../../../windlass/tests/it/worker/actions.rs"]
mod actions;
#[path = "../../../windlass/tests/it/worker/batch.rs"]
mod batch;
#[path = "../../../windlass/tests/it/worker/batch_collector.rs"]
mod batch_collector;
#[path = "../../../windlass/tests/it/worker/bench.rs"]
mod bench;
#[path = "../../../windlass/tests/it/worker/blocking.rs"]
mod blocking;
#[path = "../../../windlass/tests/it/worker/builder.rs"]
mod builder;
#[path = "../../../windlass/tests/it/worker/follow.rs"]
mod follow;
#[path = "../../../windlass/tests/it/worker/handlers.rs"]
mod handlers;
mod harness;
#[allow(dead_code, reason = "some kinds are for tests that no server can take part in")]
#[path = "../../../windlass/tests/it/worker/job_types.rs"]
mod job_types;
mod mirror;
mod network;
#[path = "../../../windlass/tests/it/worker/order.rs"]
mod order;
#[path = "../../../windlass/tests/it/worker/pause.rs"]
mod pause;
mod reach;
#[path = "../../../windlass/tests/it/worker/recovery.rs"]
mod recovery;
#[path = "../../../windlass/tests/it/worker/durable/replay.rs"]
mod replay;
#[path = "../../../windlass/tests/it/worker/schedules.rs"]
mod schedules;
#[path = "../../../windlass/tests/it/worker/shutdown.rs"]
mod shutdown;
#[path = "../../../windlass/tests/it/worker/steps.rs"]
mod steps;
#[path = "../../../windlass/tests/it/worker/waits.rs"]
mod waits;
