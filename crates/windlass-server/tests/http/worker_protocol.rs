//! The protocol of workers over HTTP.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

use crate::fixture::{Fixture, assert_refused};

#[tokio::test]
async fn a_worker_registers_claims_and_reports() {
    let t = Fixture::new().await;
    let id = t
        .submit(json!({"type": "a", "payload": {"x": 1}, "idempotency_key": "k", "correlation_id": "c"}))
        .await;
    let registered = t
        .post_ok(
            201,
            "/workers",
            json!({"name": "w", "queues": ["default"], "types": ["a"], "concurrency": 2, "version": "1"}),
        )
        .await;
    assert_eq!((&registered["heartbeat_every"], &registered["protocol"]), (&json!("10s"), &json!(1)));
    let worker = registered["worker_id"].as_str().unwrap();
    let claimed = t.post_ok(200, "/claims", json!({"worker_id": worker, "limit": 5, "wait": "1s"})).await;
    assert_eq!(claimed["paused"], false);
    let job = &claimed["jobs"][0];
    assert_eq!((&job["id"], &job["attempt"], &job["payload"]), (&json!(id), &json!(1), &json!({"x": 1})));
    assert_eq!(
        (&job["type"], &job["queue"], &job["idempotency_key"]),
        (&json!("a"), &json!("default"), &json!("k"))
    );
    assert_eq!((&job["correlation_id"], &job["checkpoints"]), (&json!("c"), &json!([])));
    assert_eq!(job["lease_expires_at"], "2030-01-01T00:05:00.000Z");
    assert_eq!(job["deadline"], "2030-01-01T00:30:00.000Z");
    assert_eq!(job["expires_at"], "2030-01-08T00:00:00.000Z");
    let running = t.get_ok(&format!("/jobs/{id}")).await;
    assert_eq!((&running["state"], &running["lease"]["worker"]), (&json!("running"), &json!(worker)));
    let outcome =
        json!({"id": id, "fence": job["fence"], "outcome": "completed", "result": [1, 2], "cost_cents": 7});
    let done = t.report(worker, outcome.clone()).await;
    assert_eq!(done, json!({"id": id, "status": "applied", "state": "completed"}));
    assert_eq!(t.report(worker, outcome).await, json!({"id": id, "status": "stale"}));
    let job = t.get_ok(&format!("/jobs/{id}")).await;
    assert_eq!((&job["result"], &job["cost_cents"]), (&json!([1, 2]), &json!(7)));
    assert_eq!(t.get_ok(&format!("/jobs/{id}/result")).await["result"], json!([1, 2]));
    assert_eq!(t.request("DELETE", &format!("/workers/{worker}")).send().await.status, 204);
    let gone = t.post("/claims", json!({"worker_id": worker})).await;
    assert_refused(&gone, 404, "not_found", None);
}

#[tokio::test]
async fn checkpoints_progress_logs_and_follow_ups_go_with_an_outcome() {
    let t = Fixture::new().await;
    let worker = t.worker().await;
    let id = t.submit(json!({"type": "a"})).await;
    let job = t.post_ok(200, "/claims", json!({"worker_id": worker})).await["jobs"][0].clone();
    let path = format!("/jobs/{id}/checkpoints");
    let saved = json!({"fence": job["fence"], "worker_id": worker, "checkpoints": [{"step": "a", "value": 1},
        {"step": "b", "value": {"c": [2]}}], "progress": {"percent": 10.0}, "logs": ["one"]});
    assert_eq!(t.post(&path, saved.clone()).await.status, 204);
    let stale = json!({"fence": 1, "checkpoints": [{"step": "a", "value": 2}]});
    assert_refused(&t.post(&path, stale).await, 409, "stale_fence", None);
    let nameless = json!({"fence": job["fence"], "checkpoints": [{"step": "", "value": 2}]});
    assert_refused(&t.post(&path, nameless).await, 422, "invalid_value", Some("step"));
    let found = t.get_ok(&path).await;
    assert_eq!(found["checkpoints"][1], json!({"step": "b", "value": {"c": [2]}}));

    let outcome = |submit: Value| {
        json!({"id": id, "fence": job["fence"], "outcome": "completed", "checkpoints": [{"step": "c", "value": 3}],
            "logs": ["two"], "progress": {"percent": 100.0}, "submit": submit})
    };
    for (submit, field) in [
        (json!([{"type": "next"}, {"type": "a b"}]), "submit.1.type"),
        (json!([{"type": "next", "priority": 101}]), "submit.0.priority"),
        (json!([{"type": "next", "after": ["@x"]}]), "submit.0.after.0"),
    ] {
        let rejected = t.report(worker.as_str(), outcome(submit)).await;
        assert_eq!(
            (&rejected["status"], &rejected["error"]["details"]["field"]),
            (&json!("rejected"), &json!(field))
        );
    }
    let done = t.report(worker.as_str(), outcome(json!([{"type": "next", "payload": 7}]))).await;
    assert_eq!(done, json!({"id": id, "status": "applied", "state": "completed"}));
    assert_eq!(t.get_ok(&path).await["checkpoints"].as_array().unwrap().len(), 3);
    assert_eq!(t.get_ok(&format!("/jobs/{id}/logs")).await["logs"].as_array().unwrap().len(), 2);
    let next = t.get_ok("/jobs?type=next").await;
    assert_eq!((next["jobs"].as_array().unwrap().len(), &next["jobs"][0]["state"]), (1, &json!("scheduled")));
}

#[tokio::test]
async fn checkpoints_of_several_jobs_are_saved_together_and_each_has_its_own_answer() {
    let t = Fixture::new().await;
    let worker = t.worker().await;
    let ids = [t.submit(json!({"type": "a"})).await, t.submit(json!({"type": "a"})).await];
    let jobs = t.post_ok(200, "/claims", json!({"worker_id": worker, "limit": 2})).await["jobs"].clone();
    let fence = |id: &str| {
        let found = jobs.as_array().unwrap().iter().find(|job| job["id"] == *id);
        found.expect("it is claimed")["fence"].clone()
    };
    let step = |name: &str, value: i32| json!([{"step": name, "value": value}]);
    let (one, two) = (ids[0].as_str(), ids[1].as_str());
    let body = json!({"worker_id": worker, "jobs": [
        {"id": one, "fence": fence(one), "checkpoints": step("a", 1), "progress": {"percent": 5.0}, "logs": ["first"],
         "stream": {"offset": 0, "chunks": ["x"]}},
        {"id": one, "fence": 1, "checkpoints": step("a", 2)},
        {"id": two, "fence": fence(two), "checkpoints": [{"step": "b", "value": 3}, {"step": "", "value": 4}]},
        {"id": "00000000-0000-4000-8000-000000000000", "fence": 1, "checkpoints": step("a", 1)},
        {"id": two, "fence": fence(two), "checkpoint": step("a", 1)},
        {"id": two, "fence": fence(two), "stream": {"offset": 7, "chunks": ["y"]}, "checkpoints": step("d", 5)},
        {"id": two, "fence": fence(two), "checkpoints": step("c", 6)},
    ]});
    let answers = t.post_ok(200, "/checkpoints", body.clone()).await["jobs"].clone();
    let answers: Vec<_> =
        answers.as_array().unwrap().iter().map(|one| (&one["id"], &one["status"])).collect();
    let unknown = json!("00000000-0000-4000-8000-000000000000");
    let (one_id, two_id) = (json!(one), json!(two));
    let wanted = [
        (&one_id, "saved"),
        (&one_id, "stale"),
        (&two_id, "rejected"),
        (&unknown, "stale"),
        (&two_id, "rejected"),
        (&two_id, "rejected"),
        (&two_id, "saved"),
    ];
    for (answer, (id, status)) in answers.iter().zip(wanted) {
        assert_eq!((answer.0, answer.1), (id, &json!(status)));
    }
    // What was rejected has written nothing, and a repeat changes nothing.
    t.post_ok(200, "/checkpoints", body).await;
    let saved = |id: &str| format!("/jobs/{id}/checkpoints");
    assert_eq!(t.get_ok(&saved(one)).await["checkpoints"], step("a", 1));
    assert_eq!(t.get_ok(&saved(two)).await["checkpoints"], step("c", 6));
    let streamed = t.get_ok(&format!("/jobs/{one}/stream")).await;
    assert_eq!(streamed["chunks"].as_array().unwrap().len(), 1);

    let many = json!({"worker_id": worker, "jobs": vec![json!({}); 1001]});
    assert_refused(&t.post("/checkpoints", many).await, 422, "invalid_value", Some("jobs"));
    let unknown = json!({"worker_id": "00000000-0000-4000-8000-000000000000", "jobs": []});
    assert_refused(&t.post("/checkpoints", unknown).await, 404, "not_found", None);
}

#[tokio::test]
async fn what_a_worker_says_wrongly_is_refused() {
    let t = Fixture::new().await;
    let worker = t.worker().await;
    for (path, body, field) in [
        ("/workers", json!({"queues": ["a b"]}), "queues.0"),
        ("/workers", json!({"concurrency": 0}), "concurrency"),
        ("/workers", json!({"slots": 1}), "slots"),
        ("/claims", json!({}), "worker_id"),
        ("/claims", json!({"worker_id": worker, "limit": 0}), "limit"),
        ("/claims", json!({"worker_id": worker, "limit": 1001}), "limit"),
        ("/claims", json!({"worker_id": worker, "wait": "61s"}), "wait"),
        ("/claims", json!({"worker_id": worker, "types": [""]}), "types.0"),
        ("/heartbeats", json!({"worker_id": worker, "jobs": [{"id": "x"}]}), "jobs.0.fence"),
        (
            "/heartbeats",
            json!({"worker_id": worker, "jobs": [{"id": "00000000-0000-4000-8000-000000000000", "fence": 1, "progress": {"percent": 101}}]}),
            "jobs.0.progress.percent",
        ),
        ("/outcomes", json!({"worker_id": worker}), "outcomes"),
        ("/outcomes", json!({"worker_id": worker, "outcomes": vec![json!({}); 1001]}), "outcomes"),
    ] {
        assert_refused(&t.post(path, body).await, 422, "invalid_value", Some(field));
    }
    for path in ["/claims", "/heartbeats", "/outcomes"] {
        let unknown = json!({"worker_id": "00000000-0000-4000-8000-000000000000", "outcomes": []});
        let unknown = if path == "/outcomes" { unknown } else { json!({"worker_id": "unknown"}) };
        assert_refused(&t.post(path, unknown).await, 404, "not_found", None);
    }
}

#[tokio::test]
async fn one_bad_outcome_is_rejected_alone() {
    let t = Fixture::new().await;
    let worker = t.worker().await;
    for _ in 0..3 {
        t.submit(json!({"type": "a"})).await;
    }
    let claimed = t.post_ok(200, "/claims", json!({"worker_id": worker, "limit": 3})).await["jobs"].clone();
    let (a, b, c) = (&claimed[0], &claimed[1], &claimed[2]);
    let outcomes = json!([
        {"id": a["id"], "fence": a["fence"], "outcome": "finished"},
        {"id": a["id"], "fence": a["fence"], "outcome": "completed"},
        {"id": b["id"], "fence": b["fence"], "outcome": "failed"},
        {"id": b["id"], "fence": b["fence"], "outcome": "failed", "error": {"category": "unlucky", "message": "x"}},
        {"id": b["id"], "fence": b["fence"], "outcome": "failed", "error": {"message": "x", "category": "permanent", "code": "E"}},
        {"id": c["id"], "fence": 99, "outcome": "completed"},
        {"id": c["id"], "fence": c["fence"], "outcome": "completed", "cost_cents": -1},
        {"id": "what", "fence": 1, "outcome": "completed"},
        {"id": "00000000-0000-4000-8000-000000000000", "fence": 1, "outcome": "completed"},
        5,
    ]);
    let answer = t.post_ok(200, "/outcomes", json!({"worker_id": worker, "outcomes": outcomes})).await;
    let statuses: Vec<&str> = answer["outcomes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|outcome| outcome["status"].as_str().unwrap())
        .collect();
    assert_eq!(
        statuses,
        [
            "rejected", "applied", "rejected", "rejected", "applied", "stale", "rejected", "rejected",
            "stale", "rejected"
        ]
    );
    assert_eq!(answer["outcomes"][0]["id"], a["id"]);
    assert_eq!(answer["outcomes"][0]["error"]["details"]["field"], "outcome");
    assert_eq!(answer["outcomes"][2]["error"]["details"]["field"], "error");
    assert_eq!(answer["outcomes"][3]["error"]["details"]["field"], "error.category");
    assert_eq!(answer["outcomes"][4]["state"], "failed");
    assert_eq!(answer["outcomes"][6]["error"]["details"]["field"], "cost_cents");
    assert_eq!(answer["outcomes"][7]["id"], "what");
}

#[tokio::test]
async fn heartbeats_extend_leases_and_carry_directives() {
    let t = Fixture::new().await;
    let (id, worker) = (t.submit(json!({"type": "a"})).await, t.worker().await);
    let fence = t.claim(&worker).await["fence"].clone();
    t.advance(Duration::from_secs(20)).await;
    let beat = async |extra: Value| {
        let mut job = json!({"id": id, "fence": fence});
        job.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        t.post_ok(200, "/heartbeats", json!({"worker_id": worker, "jobs": [job, {"id": "x", "fence": 1}]}))
            .await
    };
    let answer = beat(json!({"progress": {"percent": 40, "message": "half"}, "logs": ["one", "two"]})).await;
    assert_eq!(
        answer["jobs"],
        json!([{"id": id, "directive": "continue"}, {"id": "x", "directive": "lost"}])
    );
    assert_eq!(answer["worker"], json!({"paused": false, "mode": null}));
    let job = t.get_ok(&format!("/jobs/{id}")).await;
    assert_eq!(job["progress"], json!({"percent": 40.0, "message": "half"}));
    assert_eq!(job["lease"]["expires_at"], "2030-01-01T00:05:20.000Z");
    let logs = t.get_ok(&format!("/jobs/{id}/logs")).await;
    assert_eq!((&logs["logs"][0]["text"], &logs["logs"][1]["text"]), (&json!("one"), &json!("two")));
    assert_eq!(t.get_ok(&format!("/jobs/{id}/logs?after=1")).await["logs"].as_array().unwrap().len(), 1);
    // A graceful suspension keeps going; an aggressive one does not.
    t.post_ok(200, &format!("/jobs/{id}/suspend"), json!({"mode": "graceful"})).await;
    assert_eq!(beat(json!({})).await["jobs"][0]["directive"], "continue");
    t.post_ok(200, &format!("/jobs/{id}/suspend"), json!({"mode": "aggressive"})).await;
    assert_eq!(beat(json!({})).await["jobs"][0]["directive"], "suspend");
}

/// Model: steps, counters-and-fences. Steps are saved under a fence and come with the next claim.
#[tokio::test]
async fn checkpoints_are_saved_and_a_stale_fence_is_refused() {
    let t = Fixture::new().await;
    let (id, worker) = (t.submit(json!({"type": "a"})).await, t.worker().await);
    let fence = t.claim(&worker).await["fence"].clone();
    let put = async |step: &str, body: Value| {
        t.request("PUT", &format!("/jobs/{id}/checkpoints/{step}")).json(&body).send().await
    };
    assert_eq!(put("charge%20card", json!({"fence": fence, "value": {"a": [1]}})).await.status, 204);
    assert_refused(&put("x", json!({"fence": 99, "value": 1})).await, 409, "stale_fence", None);
    assert_refused(&put("x", json!({"fence": fence})).await, 422, "invalid_value", Some("value"));
    assert_refused(
        &put(&"x".repeat(300), json!({"fence": fence, "value": 1})).await,
        422,
        "invalid_value",
        Some("step"),
    );
    let shown = t.get_ok(&format!("/jobs/{id}/checkpoints")).await;
    assert_eq!(shown, json!({"checkpoints": [{"step": "charge card", "value": {"a": [1]}}]}));
    t.report(&worker, json!({"id": id, "fence": fence, "outcome": "released"})).await;
    assert_eq!(t.claim(&worker).await["checkpoints"], shown["checkpoints"]);
}

/// Model: sleeps-and-signals. Parked on a signal or a moment.
#[tokio::test]
async fn an_attempt_parks_until_a_signal_or_a_moment_comes() {
    let t = Fixture::new().await;
    let (id, worker) = (t.submit(json!({"type": "a"})).await, t.worker().await);
    let fence = t.claim(&worker).await["fence"].clone();
    let bad = t.report(&worker, json!({"id": id, "fence": fence, "outcome": "parked"})).await;
    assert_eq!((&bad["status"], &bad["error"]["details"]["field"]), (&json!("rejected"), &json!("park")));
    for (park, field) in [
        (json!({"until": "2030-01-01T01:00:00Z", "timeout": "1h"}), "park.timeout"),
        (json!({"any": [{"signal": "go"}], "timeout": "1h"}), "park.timeout"),
        (json!({"group": "children", "step": "signal:go"}), "park.step"),
    ] {
        let report = json!({"id": id, "fence": fence, "outcome": "parked", "park": park});
        let bad = t.report(&worker, report).await;
        assert_eq!((&bad["status"], &bad["error"]["details"]["field"]), (&json!("rejected"), &json!(field)));
    }
    let parked =
        json!({"id": id, "fence": fence, "outcome": "parked", "park": {"signal": "go", "timeout": "1h"}});
    assert_eq!(t.report(&worker, parked).await["state"], "waiting");
    assert_eq!(t.get_ok(&format!("/jobs/{id}")).await["why"]["code"], "waiting");
    let sent = t.post(&format!("/jobs/{id}/signals/go"), json!({"value": {"n": 1}})).await;
    assert_eq!(sent.status, 202);
    let claimed = t.claim(&worker).await;
    assert_eq!(claimed["checkpoints"], json!([{"step": "signal:go", "value": {"signal": {"n": 1}}}]));
    let until = json!({"id": id, "fence": claimed["fence"], "outcome": "parked", "park": {"until": "2030-01-01T01:00:00Z"}});
    assert_eq!(t.report(&worker, until).await["state"], "waiting");
    t.advance(Duration::from_secs(3600)).await;
    assert_eq!(t.get_ok(&format!("/jobs/{id}")).await["state"], "scheduled");
}

/// Model: counters-and-fences. A worker that is named must be the one that claimed; who names none is known by the fence.
#[tokio::test]
async fn checkpoints_and_children_of_another_worker_are_refused() {
    let t = Fixture::new().await;
    let (id, worker, other) = (t.submit(json!({"type": "a"})).await, t.worker().await, t.worker().await);
    let fence = t.claim(&worker).await["fence"].clone();
    let put = async |worker: &str| {
        let body = json!({"fence": fence, "worker_id": worker, "value": 1});
        t.request("PUT", &format!("/jobs/{id}/checkpoints/s")).json(&body).send().await
    };
    let spawn = async |worker: &str| {
        let body = json!({"fence": fence, "worker_id": worker, "jobs": [], "strategy": "collect_all"});
        t.post(&format!("/jobs/{id}/children"), body).await
    };
    for (answer, status, code) in [
        (put(&other).await, 409, "stale_fence"),
        (spawn(&other).await, 409, "stale_fence"),
        (put("unknown").await, 404, "not_found"),
        (spawn("unknown").await, 404, "not_found"),
    ] {
        assert_refused(&answer, status, code, None);
    }
    assert_eq!(t.get_ok(&format!("/jobs/{id}/checkpoints")).await, json!({"checkpoints": []}));
    assert_eq!(put(&worker).await.status, 204);
    assert_eq!(spawn(&worker).await.status, 201);
}

/// Model: child-groups
#[tokio::test]
async fn children_park_their_parent_until_they_are_decided() {
    let t = Fixture::new().await;
    let (id, worker) = (t.submit(json!({"type": "parent"})).await, t.worker().await);
    let fence = t.claim(&worker).await["fence"].clone();
    let path = format!("/jobs/{id}/children");
    let jobs = json!([{"type": "child"}, {"type": "child"}]);
    for (body, field) in [
        (json!({"fence": fence, "jobs": jobs, "strategy": {"threshold": 3}}), "strategy.threshold"),
        (json!({"fence": fence, "jobs": jobs, "strategy": "best_effort"}), "strategy"),
        (
            json!({"fence": fence, "jobs": [{"type": "child"}, {"type": "child", "priority": 500}]}),
            "jobs.1.priority",
        ),
    ] {
        assert_refused(&t.post(&path, body).await, 422, "invalid_value", Some(field));
    }
    assert_refused(&t.post(&path, json!({"fence": 99, "jobs": []})).await, 409, "stale_fence", None);
    let spawned =
        t.post_ok(201, &path, json!({"fence": fence, "jobs": jobs, "strategy": "collect_all"})).await;
    assert_eq!(spawned["parent"], json!({"id": id, "state": "waiting"}));
    assert_eq!(spawned["children"].as_array().unwrap().len(), 2);
    for _ in 0..2 {
        let child = t.claim(&worker).await;
        assert_eq!(
            t.get_ok(&format!("/jobs/{}", child["id"].as_str().unwrap())).await["parent"],
            id.as_str()
        );
        t.report(
            &worker,
            json!({"id": child["id"], "fence": child["fence"], "outcome": "completed", "result": 1}),
        )
        .await;
    }
    let children = t.get_ok(&path).await;
    assert_eq!(
        (&children["children"][1]["result"], &children["groups"][0]["decided"]),
        (&json!(1), &json!("well"))
    );
    assert_eq!(ids_of_parent(&t, &id).await, 2);
    assert_eq!(t.claim(&worker).await["id"], id.as_str());
}

/// Model: child-groups
#[tokio::test]
async fn a_finished_child_cannot_be_deleted_while_its_parent_waits() {
    let t = Fixture::new().await;
    let (id, worker) = (t.submit(json!({"type": "parent"})).await, t.worker().await);
    let fence = t.claim(&worker).await["fence"].clone();
    let jobs = json!([{"type": "child"}, {"type": "child"}]);
    let body = json!({"fence": fence, "jobs": jobs, "strategy": "collect_all"});
    t.post_ok(201, &format!("/jobs/{id}/children"), body).await;
    let child = t.claim(&worker).await;
    t.report(&worker, json!({"id": child["id"], "fence": child["fence"], "outcome": "completed"})).await;
    let path = format!("/jobs/{}", child["id"].as_str().unwrap());
    let refused = t.request("DELETE", &path).send().await;
    assert_refused(&refused, 409, "job_needed", None);
    assert_eq!(
        refused.json()["error"]["details"],
        json!({"state": "completed", "action": "delete", "job_id": id, "role": "parent"})
    );
    let done = json!({"action": "delete", "filter": {"state": "completed"}});
    assert_eq!(
        t.post_ok(200, "/jobs/bulk", done.clone()).await,
        json!({"matched": 1, "changed": 0, "skipped": 1})
    );
    t.post_ok(200, &format!("/jobs/{id}/cancel"), json!({})).await;
    assert_eq!(t.post_ok(200, "/jobs/bulk", done).await, json!({"matched": 1, "changed": 1}));
}

async fn ids_of_parent(t: &Fixture, id: &str) -> usize {
    t.get_ok(&format!("/jobs?parent={id}")).await["jobs"].as_array().unwrap().len()
}

#[tokio::test]
async fn a_waiting_claim_gets_a_job_as_soon_as_it_comes() {
    let t = Fixture::new().await;
    let worker = t.worker().await;
    let request = t.request("POST", "/claims").json(&json!({"worker_id": worker, "wait": 60}));
    let polling = tokio::spawn(async move { request.send().await.json() });
    while !t.store.environment().wakeups.has_waiters() {
        tokio::task::yield_now().await;
    }
    let submitted = t.post_ok(201, "/jobs", json!({"type": "a"})).await;
    assert_eq!(submitted["state"], "scheduled", "the answer shows the job as it was submitted");
    assert_eq!(polling.await.unwrap()["jobs"][0]["id"], submitted["id"]);
}

/// A client that disconnects while it waits leaves no lease behind.
#[tokio::test]
async fn a_claim_of_a_caller_who_hung_up_gives_its_jobs_back() {
    let t = Fixture::new().await;
    let worker = t.worker().await;
    let request = t.request("POST", "/claims").json(&json!({"worker_id": worker, "wait": 60}));
    for _ in 0..5 {
        let waiting = request.start().await;
        while !t.store.environment().wakeups.has_waiters() {
            tokio::task::yield_now().await;
        }
        drop(waiting);
        let id = t.submit(json!({"type": "a"})).await;
        // Whether the claim or the disconnect came first, another worker gets the job.
        let other = t.worker().await;
        let claimed = t.post_ok(200, "/claims", json!({"worker_id": other, "wait": "30s"})).await;
        assert_eq!(claimed["jobs"][0]["id"], id.as_str());
    }
}

#[tokio::test]
async fn an_unread_answer_to_a_claim_is_still_an_answer() {
    let t = Fixture::new().await;
    let (_, worker) = (t.submit(json!({"type": "a"})).await, t.worker().await);
    let mut stream = t.request("POST", "/claims").json(&json!({"worker_id": worker})).start().await;
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    assert!(text.contains("content-length:") && text.contains("\"fence\":"), "{text}");
}

#[tokio::test]
async fn children_beside_their_parent_are_paged_and_come_with_the_claim() {
    let t = Fixture::new().await;
    let worker = t.worker().await;
    let id = t.submit(json!({"type": "parent"})).await;
    let claim = json!({"worker_id": worker, "limit": 10});
    let parent = t.post_ok(200, "/claims", claim.clone()).await["jobs"][0].clone();
    assert_eq!(parent.get("groups"), None);
    let path = format!("/jobs/{id}/children");
    for name in ["a", "b"] {
        let body = json!({"fence": parent["fence"], "name": name, "strategy": "collect_all", "park": false,
            "jobs": [{"type": "child"}, {"type": "child"}]});
        let spawned = t.post_ok(201, &path, body).await;
        assert_eq!(spawned["parent"]["state"], "running");
    }
    let woken =
        json!({"fence": parent["fence"], "name": "c", "park": false, "beside": [{"for": "1s"}], "jobs": []});
    assert_refused(&t.post(&path, woken).await, 422, "invalid_value", Some("beside"));
    let park = |park: Value| json!({"id": id, "fence": parent["fence"], "outcome": "parked", "park": park});
    let rejected = t.report(worker.as_str(), park(json!({"group": "c"}))).await;
    assert_eq!(rejected["error"]["details"]["field"], "park.group");
    let both = json!({"group": "a", "signal": "x"});
    assert_eq!(t.report(worker.as_str(), park(both)).await["error"]["details"]["field"], "park");
    let any = json!({"any": [{"group": "a"}, {"signal": "stop"}]});
    assert_eq!(t.report(worker.as_str(), park(any)).await["state"], "waiting");

    let children = t.post_ok(200, "/claims", claim.clone()).await["jobs"].clone();
    for (n, child) in children.as_array().unwrap()[..2].iter().enumerate() {
        let done = json!({"id": child["id"], "fence": child["fence"], "outcome": "completed", "result": n});
        assert_eq!(t.report(worker.as_str(), done).await["status"], "applied");
    }
    let first = t.get_ok(&format!("{path}?limit=1")).await;
    assert_eq!((&first["children"][0]["result"], &first["children"][1]), (&json!(0), &Value::Null));
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = t.get_ok(&format!("{path}?limit=1000&cursor={cursor}")).await;
    assert_eq!((rest["children"].as_array().unwrap().len(), &rest["next_cursor"]), (3, &Value::Null));
    assert_refused(&t.get(&format!("{path}?cursor=x")).await, 422, "invalid_value", Some("cursor"));
    assert_refused(&t.get(&format!("{path}?limit=1001")).await, 422, "invalid_value", Some("limit"));

    let again = t.post_ok(200, "/claims", claim).await["jobs"][0].clone();
    let groups = again["groups"].as_array().unwrap();
    assert_eq!((groups.len(), &groups[0]["name"], &groups[0]["decided"]), (1, &json!("a"), &json!("well")));
    assert_eq!((&groups[0]["children"][1]["result"], groups[0].get("next_cursor")), (&json!(1), None));
}
