//! How many workers a key and a tenant may have registered, and how much they may name.

use windlass::error::{FieldProblem, WorkError};
use windlass::job::{JobType, QueueName};
use windlass::key::KeyId;
use windlass::limits;
use windlass::store::NewWorker;
use windlass::store::caller::{Caller, Role};

use crate::fixture::{Fixture, tenant};

tests!(
    claims_registry, claims::registry:
    a_worker_names_a_bounded_number_of_bytes,
    a_key_registers_a_bounded_number_of_workers,
    lost_workers_make_room_for_new_ones,
);

/// A caller with an API key of a tenant.
fn bearer(digit: char, whose: &str) -> Caller {
    let key: KeyId = digit.to_string().repeat(16).parse().unwrap();
    Caller { key: Some(key), ..Caller::new(format!("bearer-{digit}"), Role::Worker, Some(tenant(whose))) }
}

/// As many types of 224 characters, each of which counts as 256 bytes.
fn naming(types: usize) -> NewWorker {
    let name = |number: usize| JobType::new(&format!("t{number:03}{}", "x".repeat(220))).unwrap();
    NewWorker { types: (0..types).map(name).collect(), ..NewWorker::default() }
}

/// As many as one worker may name.
const MOST: usize = limits::WORKER_BYTES_MAX / 256;

async fn a_worker_names_a_bounded_number_of_bytes(t: &Fixture) {
    t.store.register(&t.me, naming(MOST)).await.unwrap();
    let refused = t.store.register(&t.me, naming(MOST + 1)).await.unwrap_err();
    let WorkError::Invalid(invalid) = refused else { panic!("{refused}") };
    let length = limits::WORKER_BYTES_MAX + 256;
    let problem = FieldProblem::TooManyBytes { length, limit: limits::WORKER_BYTES_MAX };
    assert_eq!((invalid.field.as_str(), invalid.problem), ("types", problem));
    // A thousand names of ordinary length are few.
    let names = (0..limits::WORKER_NAMES_MAX).map(|number| QueueName::new(&format!("reports.{number}")));
    let queues = names.map(Result::unwrap).collect();
    t.store.register(&t.me, NewWorker { queues, ..NewWorker::default() }).await.unwrap();
}

/// Registers workers until they name as much as a key's may.
async fn fill(t: &Fixture, caller: &Caller) {
    for _ in 0..limits::WORKERS_BYTES_PER_KEY_MAX / limits::WORKER_BYTES_MAX {
        t.store.register(caller, naming(MOST)).await.unwrap();
    }
}

async fn refused(t: &Fixture, caller: &Caller) -> &'static str {
    let refused = t.store.register(caller, naming(MOST)).await.unwrap_err();
    let WorkError::TooManyWorkers { of, .. } = refused else { panic!("{refused}") };
    of
}

async fn a_key_registers_a_bounded_number_of_workers(t: &Fixture) {
    let (ada, bob, cleo) = (bearer('a', "acme"), bearer('b', "acme"), bearer('c', "acme"));
    fill(t, &ada).await;
    assert_eq!(refused(t, &ada).await, "key");
    t.store.register(&ada, NewWorker::default()).await.unwrap();
    fill(t, &bob).await;
    assert_eq!(refused(t, &cleo).await, "tenant", "its keys have a bound together");
    t.store.register(&bearer('d', "other"), naming(MOST)).await.unwrap();
    // A worker that leaves makes room.
    let config = t.store.config(&t.me).await.unwrap();
    let first = config.workers.values().find(|worker| worker.key == ada.key && !worker.types.is_empty());
    t.store.deregister(&ada, first.unwrap().id).await.unwrap();
    t.store.register(&ada, naming(MOST)).await.unwrap();
}

async fn lost_workers_make_room_for_new_ones(t: &Fixture) {
    let ada = bearer('a', "acme");
    fill(t, &ada).await;
    assert_eq!(refused(t, &ada).await, "key");
    t.advance(limits::WORKER_SILENCE_MAX * 2);
    t.tick().await;
    let before = t.store.config(&t.me).await.unwrap().workers.len();
    let new = t.store.register(&ada, naming(MOST)).await.unwrap();
    let config = t.store.config(&t.me).await.unwrap();
    assert_eq!(config.workers.len(), before, "one was forgotten for it");
    assert!(config.workers.contains_key(&new.id));
}
