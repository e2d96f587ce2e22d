//! A store that refuses a write: what waits to be saved is saved later.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use windlass::client::Client;
use windlass::clock::{ManualClock, Timestamp};
use windlass::context::Cx;
use windlass::entropy::Entropy;
use windlass::error::StoreError;
use windlass::handler::State;
use windlass::store::caller::Caller;
use windlass::store::engine::{Engine, ReadTask, WriteTask};
use windlass::store::engines::memory::MemoryEngine;
use windlass::store::{Environment, Store, StoreOptions};
use windlass::worker::Worker;

use crate::fixture::{START, secs};
use crate::worker::harness::Started;
use crate::worker::job_types::{Greet, greet};

/// A database that refuses the next so many writes.
struct Refusing(MemoryEngine, Arc<AtomicUsize>);

impl Engine for Refusing {
    fn write(&self, task: Box<dyn WriteTask>) {
        let less = |left: usize| left.checked_sub(1);
        if self.1.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok() {
            return task.done(Err(StoreError::Unavailable("the connection was lost".to_owned())));
        }
        self.0.write(task);
    }

    fn read(&self, task: Box<dyn ReadTask>) {
        self.0.read(task);
    }

    fn close(&self) {
        self.0.close();
    }
}

/// Model: sleeps-and-signals
#[tokio::test(start_paused = true)]
async fn the_end_of_a_sleep_beside_a_long_step_is_saved_after_writes_that_failed() {
    let refusals: Arc<AtomicUsize> = Arc::default();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(START)));
    let env = Environment::new(clock, Entropy::seeded(1), StoreOptions::default());
    let engine = |env| Ok::<_, ()>(Refusing(MemoryEngine::new(env), refusals.clone()));
    let store = Store::with_engine(env, engine).unwrap();
    let client = Client::from_store_without_maintenance(store.clone());
    let handler = |_: Greet, cx: Cx, State(refusals): State<Arc<AtomicUsize>>| async move {
        refusals.store(3, Ordering::SeqCst);
        let long = cx.step("long", async {
            tokio::time::sleep(secs(20)).await;
            anyhow::Ok(())
        });
        let (slept, worked) = tokio::join!(cx.sleep(secs(3600)), long);
        slept.and(worked)?;
        anyhow::Ok(String::new())
    };
    let job = client.submit(greet("x")).await.unwrap();
    let running = Started::new(Worker::new(&client).with(refusals.clone()).handle(handler));
    tokio::time::sleep(secs(10)).await;
    assert_eq!(refusals.load(Ordering::SeqCst), 0, "writes were refused");
    let saved = store.checkpoints(&Caller::local(), job.id()).await.unwrap().unwrap();
    let steps: Vec<&str> = saved.iter().map(|record| record.step.as_str()).collect();
    assert_eq!(steps, ["sleep:"], "the step still works");
    tokio::time::sleep(Duration::from_secs(20)).await;
    running.stop().await;
}
