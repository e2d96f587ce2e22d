//! Pushes to a durable target: a program that lives for one request runs jobs with steps, waits, children and follow-ups.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use windlass::job::{Category, JobId, JobState, JobType};
use windlass::settings::Push;
use windlass::store::{Filter, ListRequest};
use windlass_server::webhooks::signature::Purpose;
use windlass_testkit::receiver::{Receiver, answer};

use super::calling_store::{CallingStore, job, once};
use super::push::verify;

/// A receiver that answers each claim with an outcome.
async fn receiver(decide: fn(&Value) -> Value) -> Receiver {
    Receiver::start(move |request, mut stream| async move {
        let claimed: Value = serde_json::from_slice(&request.body).unwrap();
        let mut outcome = decide(&claimed);
        for name in ["id", "fence"] {
            if outcome.get(name).is_none() {
                outcome[name] = claimed[name].clone();
            }
        }
        let plain = answer("200 OK", &outcome.to_string());
        let kind = "\r\ncontent-type: application/vnd.windlass.outcome+json\r\n\r\n";
        stream.write_all(plain.replacen("\r\n\r\n", kind, 1).as_bytes()).await
    })
    .await
}

fn durable(receiver: &Receiver) -> Push {
    Push { durable: true, ..Push::to(receiver.url()) }
}

/// The value of a checkpoint that came with a claim.
fn saved<'a>(claimed: &'a Value, step: &str) -> Option<&'a Value> {
    let all = claimed["checkpoints"].as_array().unwrap();
    all.iter().find(|one| one["step"] == step).map(|one| &one["value"])
}

/// Model: steps, sleeps-and-signals, follow-ups, partial-output
#[tokio::test]
async fn a_function_of_one_request_runs_steps_waits_and_submits_what_follows() {
    let mut receiver = receiver(|claimed| {
        let Some(seat) = saved(claimed, "reserve") else {
            let record = json!({"step": "reserve", "value": {"at": 0, "value": 12}});
            return json!({"outcome": "parked", "park": {"for": "0ms"}, "checkpoints": [record], "logs": ["reserved"],
                "stream": {"offset": 0, "chunks": ["seat 12"]}});
        };
        let Some(paid) = saved(claimed, "signal:paid") else {
            let park = json!({"signal": "paid", "step": "signal:paid", "timeout": "1h"});
            return json!({"outcome": "parked", "park": park, "progress": {"percent": 50.0}});
        };
        json!({"outcome": "completed", "result": [seat["value"], paid["signal"]],
            "submit": [{"type": "receipt", "queue": "other", "payload": paid["signal"]}]})
    })
    .await;
    let office = CallingStore::open();
    office.push("mail", Some(durable(&receiver))).await;
    let id = office.submit(job("mail", r#"{"name": "a"}"#)).await;
    let first = receiver.request().await;
    let claimed: Value = serde_json::from_slice(&first.body).unwrap();
    assert_eq!(first.header("content-type"), "application/vnd.windlass.claim+json");
    assert_eq!((&claimed["id"], &claimed["payload"]), (&json!(id), &json!({"name": "a"})));
    assert_eq!((&claimed["attempt"], first.header("windlass-attempt")), (&json!(1), "1"));
    assert!(first.header("windlass-time").ends_with('Z'));
    verify(&first, &office.secret("default", Purpose::Push, &receiver.url()).await);
    receiver.request().await;
    office.store.signal(&office.me, id, "paid", b"500".to_vec()).await.unwrap();
    assert_eq!(office.outcome(id).await, (JobState::Completed, None));
    assert_eq!(office.result(id).await.as_deref(), Some("[12,500]"));
    let found = office.store.get(&office.me, id).await.unwrap().unwrap().job;
    assert_eq!((found.attempt, found.failures), (3, 0));
    assert_eq!(office.store.logs(&office.me, id, 0).await.unwrap().unwrap().len(), 1);
    let output = office.store.stream(&office.me, id, 0, 10, Duration::ZERO).await.unwrap().unwrap();
    assert_eq!(output.chunks[0].text(), "seat 12");
    let filter = Filter { job_type: Some(JobType::new("receipt").unwrap()), ..Filter::default() };
    let request = ListRequest { filter, ..ListRequest::default() };
    assert_eq!(office.store.list(&office.me, request).await.unwrap().jobs.len(), 1);
    office.close().await;
}

/// Model: child-groups
#[tokio::test]
async fn a_pushed_job_spawns_children_and_is_called_again_with_their_results() {
    let receiver = receiver(|claimed| {
        if claimed["payload"] == json!("part") {
            return json!({"outcome": "completed", "result": 7});
        }
        let groups = claimed["groups"].as_array().cloned().unwrap_or_default();
        let Some(group) = groups.first() else {
            let part = json!({"type": "greet", "queue": "mail", "payload": "part"});
            let record = json!({"step": "children:", "value": {"at": 0,
                "group": {"strategy": "collect_all", "count": 2, "types": ["greet"]}}});
            return json!({"outcome": "parked", "checkpoints": [record],
                "children": {"name": "children:", "strategy": "collect_all", "jobs": [part.clone(), part]}});
        };
        let results: Vec<&Value> =
            group["children"].as_array().unwrap().iter().map(|one| &one["result"]).collect();
        json!({"outcome": "completed", "result": results})
    })
    .await;
    let office = CallingStore::open();
    office.push("mail", Some(durable(&receiver))).await;
    let id = office.submit(job("mail", r#""whole""#)).await;
    assert_eq!(office.outcome(id).await, (JobState::Completed, None));
    assert_eq!(office.result(id).await.as_deref(), Some("[7,7]"));
    office.close().await;
}

/// Model: error-categories, refused-changes
#[tokio::test]
async fn an_outcome_that_is_not_one_of_the_job_fails_it_and_a_failure_is_the_receivers_own() {
    async fn ended(decide: fn(&Value) -> Value) -> (JobState, Option<(Category, String)>) {
        let receiver = receiver(decide).await;
        let office = CallingStore::open();
        office.push("mail", Some(durable(&receiver))).await;
        let id: JobId = office.submit(once("mail", "{}")).await;
        let outcome = office.outcome(id).await;
        office.close().await;
        outcome
    }
    let rejected = (JobState::Failed, Some((Category::Permanent, "outcome_rejected".to_owned())));
    let other = |_: &Value| json!({"id": "00000000-0000-4000-8000-000000000000", "outcome": "completed"});
    assert_eq!(ended(other).await, rejected);
    assert_eq!(ended(|_| json!({"outcome": "done"})).await, rejected);
    assert_eq!(ended(|_| json!({"outcome": "parked", "children": {"jobs": [{"type": ""}]}})).await, rejected);
    let nameless = |_: &Value| json!({"outcome": "completed", "checkpoints": [{"step": "", "value": 1}]});
    assert_eq!(ended(nameless).await, rejected, "what the store refuses");
    let failed = |_: &Value| json!({"outcome": "failed", "error": {"category": "permanent", "code": "mine", "message": "no"}});
    assert_eq!(ended(failed).await, (JobState::Failed, Some((Category::Permanent, "mine".to_owned()))));
}

#[tokio::test]
async fn a_durable_target_may_answer_as_any_other() {
    let receiver = Receiver::answering(answer("200 OK", r#"{"plain": true}"#)).await;
    let office = CallingStore::open();
    office.push("mail", Some(durable(&receiver))).await;
    let id = office.submit(job("mail", "{}")).await;
    assert_eq!(office.outcome(id).await, (JobState::Completed, None));
    assert_eq!(office.result(id).await.as_deref(), Some(r#"{"plain": true}"#));
    office.close().await;
}
