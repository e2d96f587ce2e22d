//! Durable background jobs: work that runs later, survives crashes, is retried, can be paused and inspected, and leaves
//! an audit trail. There are four main types: a [`Job`] is a type of work, a [`Client`] stores jobs, a [`Worker`] runs
//! your async functions on them, and a [`Cx`] lets a function resume where it was interrupted.
//!
//! ```
//! use std::time::Duration;
//! use serde::{Deserialize, Serialize};
//! use windlass::{Client, Cx, Failure, Job, State, Worker};
//!
//! #[derive(Serialize, Deserialize, Job)]
//! #[job(type = "order", output = String)]
//! struct Order { cents: u32 }
//!
//! // A handler: the job first, then its extractors. Errors are retried unless they are permanent.
//! async fn order(order: Order, cx: Cx, State(shop): State<&'static str>) -> anyhow::Result<String> {
//!     if order.cents == 0 {
//!         return Err(Failure::permanent("empty", "there is nothing to pay").into());
//!     }
//!     // Runs once, even across crashes: later attempts get the saved value.
//!     let receipt = cx.step("pay", async { anyhow::Ok(format!("{} cents", order.cents)) }).await?;
//!     // Holds no slot, thread or process while it sleeps; survives a restart.
//!     cx.sleep(Duration::from_millis(10)).await?;
//!     Ok(format!("{shop}: {receipt}"))
//! }
//!
//! #[tokio::main]
//! async fn main() -> anyhow::Result<()> {
//!     # let folder = tempfile::tempdir()?;
//!     # let address = format!("sqlite:{}", folder.path().join("jobs.db").display());
//!     # let address = address.as_str();
//!     let client = Client::open(address).await?; // for example "sqlite:jobs.db"
//!     let job = client.submit(Order { cents: 1200 }).priority(80).key("order-7").await?; // on disk
//!
//!     // In this process, or in any other process that opens the same file.
//!     let worker = Worker::new(&client).with("the shop").queue("default", 10).handle(order);
//!     tokio::spawn(worker.run_until(tokio::signal::ctrl_c()));
//!
//!     assert_eq!(job.result(Duration::from_secs(10)).await?, "the shop: 1200 cents");
//!     Ok(())
//! }
//! ```
//!
//! - **Submit** with builders that you await: see [`client::Submit`] for all options, [`Client::batch`] and
//!   [`Client::chain`] for many jobs at once, `Client::submit_in_tx` to submit in your own transaction.
//! - **Inspect and act** through the [`Handle`]: [`result`](Handle::result), [`suspend`](client::JobHandle::suspend),
//!   [`cancel`](client::JobHandle::cancel), [`explain`](client::JobHandle::explain). Pause a queue, type, tenant or
//!   worker with [`Client::pause_queue`] and its siblings. Actions return whether they [changed](ActionResult)
//!   anything.
//! - **Handle** with [extractors](handler), [layers](Worker::layer) and [typed errors](Failure).
//! - **Resume** after a crash: [`Cx::step`], [`Cx::sleep`], [`Cx::wait_signal`], [`Cx::spawn_all`], [`Cx::checkpoint`].
//! - **Connect to a server**: with feature `remote`, `Client::open("http://…")` has the same API against a Windlass
//!   server.
//! - **Test** in virtual time, with workers that crash at chosen points: [`testing`].
//! - **Learn more** from the [guides](guides/index.html): a [tutorial](guides/tutorial/index.html), [embedding](guides/embedding/index.html),
//!   [durable steps](guides/durable_steps/index.html), a [cookbook](guides/cookbook/index.html) and others.
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `macros` | yes | `#[derive(Job)]` |
//! | `sqlite` | yes | `sqlite:PATH`, with SQLite compiled in; `Client::submit_in_tx` |
//! | `postgres` | | `postgres://…`, for many machines; `Submit::in_postgres_tx` |
//! | `sqlx` | | `Submit::in_sqlx_tx`: jobs in a transaction of `sqlx` on PostgreSQL |
//! | `remote` | | `http://…` and `https://…`, a store served by a Windlass server |
//! | `bench` | | the workloads of `windlass bench`; not covered by semantic versioning |
//!
//! `memory:` is always available, for tests.
//!
//! The [`Store`] is the lower layer, the only entry point to durable state: every operation of the job model as a
//! method, for programs that need more than typed jobs. [`job`] holds the rules as pure functions
//! ([`job::transition()`] decides every change of state); [`store::engine`] is the contract that a database must
//! implement, and [`Store::with_engine`] opens a store on one of your own.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod api;
#[cfg(feature = "bench")]
pub mod bench;
pub mod client;
pub mod clock;
pub mod context;
#[cfg(doctest)]
mod doctests;
#[cfg(all(doc, not(doctest)))]
pub mod guides;
pub mod handler;
#[doc(hidden)]
pub mod internal;
pub mod maintenance;
mod ordered;
#[cfg(feature = "remote")]
mod remote;
pub mod store;
pub mod testing;
pub mod worker;

pub use windlass_core::{
    alert, audit, callback, entropy, error, job, key, limits, schedule, settings, similar, ticket,
    webhook_url,
};

pub use api::Api;
pub use client::{
    ActionResult, Client, Handle, Job, JobBuilder, JobHandle, Pause, Redrive, Suspend, Trigger,
};
pub use clock::Timestamp;
pub use context::Cx;
pub use handler::{BatchOptions, Snooze, State};
pub use job::{Failure, GroupStrategy, JobId, JobState, Priority, RetryPolicy};
pub use settings::PauseMode;
pub use store::Store;
pub use worker::{Worker, WorkerControl};

/// Implements [`Job`] for a type of work.
#[cfg(feature = "macros")]
pub use windlass_macros::Job;

/// The SQLite library this crate is built with, for your own transactions on the same file.
#[cfg(feature = "sqlite")]
pub use rusqlite;
