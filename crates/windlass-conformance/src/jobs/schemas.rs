//! Schemas of types: what does not match is refused, at submission and at completion.

use serde_json::json;
use windlass::error::{ActionError, SubmitError};
use windlass::job::{GroupStrategy, JobState, JobType, NewJob, Payload};
use windlass::settings::patch::{Field, SettingsPatch, TypePatch};
use windlass::store::{Finish, NewGroup, Outcome, Redrive};

use crate::fixture::{Fixture, lease_ref, new_job};

tests!(
    jobs_schemas, jobs::schemas:
    a_payload_that_does_not_match_is_refused_wherever_it_comes_from,
    a_result_that_does_not_match_is_rejected_and_the_lease_continues,
    a_schema_is_checked_when_it_is_set,
    the_schema_of_the_commit_decides,
    work_with_schemas_is_bounded,
);

fn job_type() -> JobType {
    JobType::new("typed").unwrap()
}

fn typed(json: &str) -> NewJob {
    NewJob::new(job_type(), Payload::json(json))
}

async fn set(t: &Fixture, patch: TypePatch) -> Result<(), ActionError> {
    t.store.configure(&t.me, SettingsPatch::Type(job_type(), patch)).await.map(drop)
}

fn integers() -> serde_json::Value {
    json!({"type": "array", "items": {"type": "integer"}})
}

/// Model: payload-schemas, atomic-changes
async fn a_payload_that_does_not_match_is_refused_wherever_it_comes_from(t: &Fixture) {
    let keyed = |json: &str| NewJob { idempotency_key: Some("k".into()), ..typed(json) };
    t.submit(keyed("7")).await;
    let payload_schema = Field::Set(integers().into());
    set(t, TypePatch { payload_schema, ..TypePatch::default() }).await.unwrap();
    let refused = |error: SubmitError| match error {
        SubmitError::Invalid { index, invalid } => (index, invalid.field),
        other => panic!("{other}"),
    };
    let before = t.everything().await;
    let batch = vec![typed("[1]"), new_job("other"), typed("[1, 2.5]")];
    let error = t.store.submit(&t.me, batch, <_>::default()).await.unwrap_err();
    assert_eq!(refused(error), (2, "payload.1".to_owned()));
    let bytes = NewJob::new(job_type(), Payload::bytes("[]", "text/plain"));
    let error = t.store.submit(&t.me, vec![bytes], <_>::default()).await.unwrap_err();
    assert_eq!(refused(error), (0, "payload".to_owned()));
    // A repeated submission finds the first job.
    t.store.submit(&t.me, vec![keyed("7")], <_>::default()).await.unwrap();
    assert_eq!(t.everything().await, before);

    let worker = t.steady_worker_for(&["default"]).await;
    let old = t.claim_one(worker).await;
    t.complete(worker, &old).await;
    let payload = |json: &str| Redrive { payload: Some(Payload::json(json)), ..Redrive::default() };
    let error = t.store.redrive(&t.me, old.job.id, payload("[null]")).await.unwrap_err();
    assert!(matches!(&error, ActionError::Invalid(invalid) if invalid.field == "payload.0"), "{error}");
    t.store.redrive(&t.me, old.job.id, payload("[1]")).await.unwrap();

    let parent = t.claim_one(worker).await;
    let group = NewGroup { name: "all".into(), strategy: GroupStrategy::CollectAll, jobs: vec![typed("{}")] };
    t.store.spawn(&t.me, lease_ref(&parent), group).await.unwrap_err();
    assert_eq!(t.state(parent.job.id).await, JobState::Running);
    set(t, TypePatch { payload_schema: Field::Clear, ..TypePatch::default() }).await.unwrap();
    t.submit(typed("{}")).await;
}

/// Model: payload-schemas
async fn a_result_that_does_not_match_is_rejected_and_the_lease_continues(t: &Fixture) {
    let result_schema = Field::Set(json!({"type": "integer"}).into());
    set(t, TypePatch { result_schema, ..TypePatch::default() }).await.unwrap();
    let worker = t.steady_worker_for(&["default"]).await;
    t.submit(typed("1")).await;
    let claimed = t.claim_one(worker).await;
    for result in [None, Some(b"\"7\"".to_vec())] {
        let finish = t.finish(worker, claimed.job.id, claimed.job.fence, Outcome::Completed { result }).await;
        assert!(matches!(&finish, Finish::Rejected(invalid) if invalid.field == "result"), "{finish:?}");
    }
    let done = Outcome::Completed { result: Some(b"7".to_vec()) };
    let finish = t.finish(worker, claimed.job.id, claimed.job.fence, done).await;
    assert_eq!(finish, Finish::Applied(JobState::Completed));
}

/// Model: payload-schemas
async fn a_schema_is_checked_when_it_is_set(t: &Fixture) {
    let before = t.everything().await;
    for wrong in [json!({"type": "text"}), json!({"$ref": "https://example.com/a.json"})] {
        let payload_schema = Field::Set(wrong.into());
        set(t, TypePatch { payload_schema, ..TypePatch::default() }).await.unwrap_err();
    }
    assert_eq!(t.everything().await, before);
}

/// Payloads and results are compared before the transaction; a schema that has changed meanwhile decides.
///
/// Model: payload-schemas
async fn the_schema_of_the_commit_decides(t: &Fixture) {
    let both = |json: serde_json::Value| TypePatch {
        payload_schema: Field::Set(json.clone().into()),
        result_schema: Field::Set(json.into()),
        ..TypePatch::default()
    };
    let worker = t.steady_worker_for(&["default"]).await;
    let (numbers, texts) = (json!({"type": "integer"}), json!({"type": "string"}));
    for (schema, fits, differs) in
        [(&numbers, "1", "\"a\""), (&texts, "\"a\"", "1"), (&numbers, "1", "\"a\"")]
    {
        set(t, both(schema.clone())).await.unwrap();
        for _ in 0..2 {
            t.store.submit(&t.me, vec![typed(differs)], <_>::default()).await.unwrap_err();
            t.submit(typed(fits)).await;
            let claimed = t.claim_one(worker).await;
            let outcome = |json: &str| Outcome::Completed { result: Some(json.as_bytes().to_vec()) };
            let refused = t.finish(worker, claimed.job.id, claimed.job.fence, outcome(differs)).await;
            assert!(matches!(refused, Finish::Rejected(_)), "{refused:?}");
            let done = t.finish(worker, claimed.job.id, claimed.job.fence, outcome(fits)).await;
            assert_eq!(done, Finish::Applied(JobState::Completed));
        }
    }
    let cleared =
        TypePatch { payload_schema: Field::Clear, result_schema: Field::Clear, ..TypePatch::default() };
    set(t, cleared).await.unwrap();
    t.submit(typed("{}")).await;
    let claimed = t.claim_one(worker).await;
    t.complete(worker, &claimed).await;
}

/// Model: payload-schemas
async fn work_with_schemas_is_bounded(t: &Fixture) {
    let mut definitions = serde_json::Map::new();
    for number in 0..40 {
        let next = json!({"$ref": format!("#/$defs/a{}", number + 1)});
        definitions.insert(format!("a{number}"), json!({"allOf": [next.clone(), next]}));
    }
    definitions.insert("a40".to_owned(), json!(true));
    let doubling = json!({"properties": {"x": {"$ref": "#/$defs/a0"}}, "$defs": definitions});
    let patch = TypePatch {
        payload_schema: Field::Set(doubling.clone().into()),
        result_schema: Field::Set(doubling.into()),
        ..TypePatch::default()
    };
    set(t, patch).await.unwrap();
    let worker = t.steady_worker_for(&["default"]).await;
    t.submit(typed("{}")).await;
    let claimed = t.claim_one(worker).await;
    let before = t.everything().await;
    let heavy = "{\"x\": 1}";
    let error = t.store.submit(&t.me, vec![typed(heavy)], <_>::default()).await.unwrap_err();
    assert!(error.to_string().contains("comparisons"), "{error}");
    let group =
        NewGroup { name: "all".into(), strategy: GroupStrategy::CollectAll, jobs: vec![typed(heavy)] };
    t.store.spawn(&t.me, lease_ref(&claimed), group).await.unwrap_err();
    let done = Outcome::Completed { result: Some(heavy.as_bytes().to_vec()) };
    let finish = t.finish(worker, claimed.job.id, claimed.job.fence, done).await;
    assert!(matches!(finish, Finish::Rejected(_)), "{finish:?}");
    assert_eq!(t.everything().await, before);
}
