//! Operations over HTTP: queues, workers, the global pause, settings, statistics, the audit trail.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_testkit::client::Request;

use crate::fixture::{Fixture, assert_refused};

async fn put(t: &Fixture, path: &str, body: Value) -> Value {
    let answer = t.request("PUT", path).json(&body).send().await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.json());
    answer.json()
}

/// Model: queue-pause, pause-reason-and-expiry. Stored with who, when, why; repeats keep the first reason.
#[tokio::test]
async fn a_queue_is_paused_and_resumed_and_repeats_change_nothing() {
    let t = Fixture::new().await;
    let id = t.submit(json!({"type": "a", "queue": "mail"})).await;
    let worker = t.worker().await;
    let paused = t.post_ok(200, "/queues/mail/pause", json!({"reason": "storm", "expires": "1h"})).await;
    assert_eq!(paused["changed"], true);
    let pause = json!({"by": "local", "at": "2030-01-01T00:00:00.000Z", "reason": "storm", "mode": "graceful",
        "expires_at": "2030-01-01T01:00:00.000Z"});
    assert_eq!(paused["paused"], pause);
    let again = t.post_ok(200, "/queues/mail/pause", json!({"reason": "again"})).await;
    assert_eq!((&again["changed"], &again["paused"]), (&json!(false), &pause));
    let strict = t.post("/queues/mail/pause?strict=true", json!({})).await;
    assert_refused(&strict, 409, "already_paused", None);
    assert_eq!(strict.json()["error"]["details"], json!({"state": "paused", "action": "pause"}));
    assert_eq!(t.post_ok(200, "/claims", json!({"worker_id": worker})).await["jobs"], json!([]));
    assert_eq!(t.get_ok(&format!("/jobs/{id}")).await["why"]["code"], "queue_paused");
    let reasons = t.get_ok(&format!("/jobs/{id}/explain")).await;
    assert_eq!(
        (&reasons["reasons"][0]["code"], &reasons["reasons"][0]["by"]),
        (&json!("queue_paused"), &json!("local"))
    );
    let resumed = t.request("POST", "/queues/mail/resume").send().await.json();
    assert_eq!((&resumed["changed"], &resumed["paused"]), (&json!(true), &Value::Null));
    assert_eq!(t.post_ok(200, "/queues/mail/resume", json!({})).await["changed"], false);
    assert_refused(&t.post("/queues/mail/resume?strict=true", json!({})).await, 409, "not_paused", None);
    assert_eq!(t.claim(&worker).await["id"], id.as_str());
    assert_refused(
        &t.post("/queues/mail/pause", json!({"mode": "x"})).await,
        422,
        "invalid_value",
        Some("mode"),
    );
    assert_refused(&t.post("/queues/1/pause", json!({})).await, 422, "invalid_value", Some("queue"));
}

/// Model: queue-pause. An aggressive pause suspends what runs.
#[tokio::test]
async fn an_aggressive_pause_suspends_running_jobs() {
    let t = Fixture::new().await;
    let (id, worker) = (t.submit(json!({"type": "a"})).await, t.worker().await);
    t.claim(&worker).await;
    t.post_ok(200, "/queues/default/pause", json!({"mode": "aggressive"})).await;
    assert_eq!(t.get_ok(&format!("/jobs/{id}")).await["state"], "suspended");
    // Resuming the queue leaves the jobs as they are, unless it is asked for.
    let resumed = t.post_ok(200, "/queues/default/resume", json!({})).await;
    assert_eq!((&resumed["changed"], resumed.get("jobs_resumed")), (&json!(true), None));
    assert_eq!(resumed["resumed"], json!({"by": "local", "at": "2030-01-01T00:00:00.000Z", "reason": null}));
    assert_eq!(t.get_ok("/jobs?suspended_by_pause=true").await["jobs"][0]["id"], id.as_str());
    let body = json!({"jobs": true, "reason": "over"});
    let resumed = t.post_ok(200, "/queues/default/resume", body.clone()).await;
    assert_eq!((&resumed["changed"], &resumed["jobs_resumed"]), (&json!(false), &json!(1)));
    assert_eq!(t.get_ok(&format!("/jobs/{id}")).await["state"], "scheduled");
    assert_refused(&t.post("/queues/default/resume?strict=true", body).await, 409, "not_paused", None);
}

/// Model: leases-and-heartbeats. `visibility` is another name for `lease`, and names of priorities are accepted in any letter case.
#[tokio::test]
async fn other_spellings_are_read() {
    let t = Fixture::new().await;
    let submit = async |timeouts: Value| t.post("/jobs", json!({"type": "a", "timeouts": timeouts})).await;
    for timeouts in [json!({"visibility": "2m"}), json!({"visibility": "120s", "lease": "2m"})] {
        let job = submit(timeouts).await;
        assert_eq!((job.status, &job.json()["timeouts"]["lease"]), (201, &json!("2m")));
    }
    let two = json!({"visibility": "1m", "lease": "2m"});
    assert_refused(&submit(two.clone()).await, 422, "invalid_value", Some("timeouts.visibility"));
    let batch = t.post("/jobs/batch", json!({"jobs": [{"type": "a", "timeouts": two}]})).await;
    assert_refused(&batch, 422, "invalid_value", Some("jobs.0.timeouts.visibility"));
    for path in ["/queues/q", "/types/t"] {
        let set = put(&t, path, json!({"timeouts": {"visibility": "3m"}})).await;
        assert_eq!(set["timeouts"]["lease"], "3m");
        let refused = t.request("PUT", path).json(&json!({"timeouts": two})).send().await;
        assert_refused(&refused, 422, "invalid_value", Some("timeouts.visibility"));
        let set = put(&t, path, json!({"timeouts": {"visibility": null}})).await;
        assert_eq!(set["timeouts"]["lease"], Value::Null);
    }
    for (name, value) in [("CRITICAL", 100), ("High", 80), ("nOrMaL", 50), ("low", 10), ("BULK", 0)] {
        let job = t.post_ok(201, "/jobs", json!({"type": "a", "priority": name})).await;
        assert_eq!(job["priority"], value, "{name}");
    }
    assert_refused(
        &t.post("/jobs", json!({"type": "a", "priority": "urgent"})).await,
        422,
        "invalid_value",
        Some("priority"),
    );
}

#[tokio::test]
async fn a_queue_shows_depth_age_rates_and_settings() {
    let t = Fixture::new().await;
    assert_eq!(t.get_ok("/queues").await["queues"], json!([]));
    t.completed(json!({"type": "a", "queue": "mail"})).await;
    t.submit(json!({"type": "a", "queue": "mail"})).await;
    t.advance(Duration::from_secs(90)).await;
    let queue = t.get_ok("/queues/mail").await;
    assert_eq!(
        (&queue["name"], &queue["depth"]["scheduled"], &queue["depth"]["completed"]),
        (&json!("mail"), &json!(1), &json!(1))
    );
    assert_eq!((&queue["oldest_age"], &queue["paused"]), (&json!("1m30s"), &Value::Null));
    assert_eq!(queue["rates"]["last_hour"]["submitted"], 2);
    assert_eq!(queue["rates"]["last_minute"]["completed"], 1);
    assert_eq!(t.get_ok("/queues").await["queues"], json!([queue]));
    let unused = t.get_ok("/queues/unused").await;
    assert_eq!((&unused["depth"]["scheduled"], &unused["oldest_age"]), (&json!(0), &Value::Null));
}

/// PUT merges; null clears.
#[tokio::test]
async fn settings_of_a_queue_are_merged_and_null_clears() {
    let t = Fixture::new().await;
    let set = json!({"max_running": 5, "rate": {"count": 10, "per": "1m"}, "max_depth": 100, "fair_by": "tenant", "aging": "30s",
        "audit": "all", "retry": "fixed", "timeouts": {"lease": "1m", "execution": "2m"}, "priority": "high", "max_running_per_key": 2});
    let queue = put(&t, "/queues/q", set.clone()).await;
    assert_eq!(queue["changed"], true);
    assert_eq!(queue["rate"], json!({"count": 10, "per": "1m"}));
    assert_eq!(
        (&queue["fair_by"], &queue["aging"], &queue["audit"]),
        (&json!("tenant"), &json!("30s"), &json!("all"))
    );
    assert_eq!((&queue["retry"]["strategy"], &queue["priority"]), (&json!("constant"), &json!(80)));
    assert_eq!(put(&t, "/queues/q", set).await["changed"], false);
    let queue = put(&t, "/queues/q", json!({"max_running": null, "timeouts": {"lease": null}})).await;
    assert_eq!((&queue["max_running"], &queue["max_depth"]), (&Value::Null, &json!(100)));
    assert_eq!(
        queue["timeouts"],
        json!({"execution": "2m", "lease": null, "lifetime": null, "start": null,
        "max_execution": null})
    );
    let job = t.post_ok(201, "/jobs", json!({"type": "a", "queue": "q"})).await;
    assert_eq!((&job["priority"], &job["max_attempts"]), (&json!(80), &json!(4)));
    assert_eq!(job["timeouts"]["execution"], "2m");
    // Audited at level `all` now.
    let events = t.get_ok(&format!("/jobs/{}/events", job["id"].as_str().unwrap())).await;
    assert_eq!(events["events"][0]["event"], "job.lifecycle.submitted");
    for (body, field) in [
        (json!({"max_runing": 1}), "max_runing"),
        (json!({"max_running": -1}), "max_running"),
        (json!({"rate": {"count": 0, "per": "1s"}}), "rate.count"),
        (json!({"rate": {"count": 1}}), "rate.per"),
        (json!({"rate": {"count": 1, "per": "0s"}}), "rate.per"),
        (json!({"fair_by": "luck"}), "fair_by"),
        (json!({"audit": "some"}), "audit"),
        (json!({"retry": "often"}), "retry.preset"),
        (json!({"retry": {"jitter": 2}}), "retry.jitter"),
        (json!({"timeouts": {"lease": "1ms"}}), "timeouts.lease"),
        (json!({"priority": 200}), "priority"),
        (json!({"aging": 0}), "aging"),
    ] {
        let refused = t.request("PUT", "/queues/q").json(&body).send().await;
        assert_refused(&refused, 422, "invalid_value", Some(field));
    }
}

/// Model: backpressure. Backpressure.
#[tokio::test]
async fn a_queue_that_is_full_answers_429_and_when_to_come_again() {
    let t = Fixture::new().await;
    put(&t, "/queues/q", json!({"max_depth": 1})).await;
    t.submit(json!({"type": "a", "queue": "q"})).await;
    let refused = t.post("/jobs", json!({"type": "a", "queue": "q"})).await;
    assert_refused(&refused, 429, "too_many_jobs", None);
    assert!(refused.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    assert_eq!(
        t.post("/jobs/batch", json!({"jobs": [{"type": "a"}, {"type": "a", "queue": "q"}]})).await.status,
        429
    );
    assert_eq!(t.get_ok("/jobs").await["jobs"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_tenant_with_too_many_names_or_keys_is_told_which() {
    let t = Fixture::new().await;
    let limits = json!({"max_concurrency_keys": 2, "max_queues": 2});
    assert_eq!(put(&t, "/tenants/default", limits).await["max_concurrency_keys"], 2);
    assert_eq!(t.get_ok("/tenants/default").await["max_concurrency_keys"], 2);
    let job = |key: &str| json!({"type": "a", "concurrency_key": key});
    t.post_ok(201, "/jobs/batch", json!({"jobs": [job("one"), job("two"), job("one")]})).await;
    let refused = t.post("/jobs", job("three")).await;
    assert_refused(&refused, 422, "invalid_value", Some("concurrency_key"));
    let details = &refused.json()["error"]["details"];
    let told = ["problem", "setting", "value", "limit", "tenant"].map(|name| details[name].clone());
    let expected =
        [json!("limit_reached"), json!("max_concurrency_keys"), json!("three"), json!(2), json!("default")];
    assert_eq!(told, expected);
    let refused = t.post("/jobs/batch", json!({"jobs": [job("two"), job("three")]})).await;
    assert_refused(&refused, 422, "invalid_value", Some("jobs.1.concurrency_key"));
    t.submit(job("two")).await;
    t.submit(json!({"type": "a", "queue": "second"})).await;
    let refused = t.post("/jobs", json!({"type": "a", "queue": "third"})).await;
    assert_refused(&refused, 422, "invalid_value", Some("queue"));
    let details = &refused.json()["error"]["details"];
    assert_eq!((&details["setting"], &details["value"]), (&json!("max_queues"), &json!("third")));
}

#[tokio::test]
async fn settings_of_types_and_tenants_are_merged() {
    let t = Fixture::new().await;
    let kind = put(
        &t,
        "/types/email.send",
        json!({"success_event": "EMAIL_SENT", "exhausted_event": "EMAIL_LOST", "retry": {"max_retries": 1}, "priority": 7}),
    )
    .await;
    assert_eq!(
        (&kind["type"], &kind["retry"]["max_attempts"], &kind["changed"]),
        (&json!("email.send"), &json!(2), &json!(true))
    );
    let kind = put(&t, "/types/email.send", json!({"priority": null, "max_running": 3})).await;
    assert_eq!(
        (&kind["priority"], &kind["success_event"], &kind["exhausted_event"], &kind["max_running"]),
        (&Value::Null, &json!("EMAIL_SENT"), &json!("EMAIL_LOST"), &json!(3))
    );
    let id = t.completed(json!({"type": "email.send"})).await;
    assert_eq!(t.get_ok(&format!("/jobs/{id}/events")).await["events"][0]["event"], "EMAIL_SENT");
    let tenant =
        put(&t, "/tenants/acme", json!({"max_running": 2, "max_depth": 9, "weight": 3, "budget_cents": 500}))
            .await;
    assert_eq!(
        (&tenant["tenant"], &tenant["weight"], &tenant["budget_cents"]),
        (&json!("acme"), &json!(3), &json!(500))
    );
    let tenant = put(&t, "/tenants/acme", json!({"weight": null})).await;
    assert_eq!((&tenant["weight"], &tenant["max_depth"]), (&Value::Null, &json!(9)));
    // What was set can be looked at, with what there is beside it.
    t.advance(Duration::from_secs(60)).await;
    let types = t.get_ok("/types").await;
    assert_eq!(types["types"], json!([t.get_ok("/types/email.send").await]));
    let kind = &types["types"][0];
    assert_eq!((&kind["max_running"], &kind["depth"]["completed"]), (&json!(3), &json!(1)), "{kind}");
    assert_eq!(kind["rates"]["last_hour"]["completed"], 1, "{kind}");
    assert_eq!(t.get_ok("/types/unheard.of").await["depth"]["completed"], 0);
    t.post_ok(200, "/gate/offline", json!({"tenant": "acme", "reason": "unpaid"})).await;
    let tenant = t.get_ok("/tenants/acme").await;
    assert_eq!(
        (&tenant["max_depth"], &tenant["paused"]["reason"]),
        (&json!(9), &json!("unpaid")),
        "{tenant}"
    );
    let tenants = t.get_ok("/tenants").await;
    let names: Vec<&str> =
        tenants["tenants"].as_array().unwrap().iter().filter_map(|look| look["tenant"].as_str()).collect();
    assert_eq!(names, ["acme", "default"]);
    for (path, body, field) in [
        ("/types/a", json!({"colour": 1}), "colour"),
        ("/types/%20", json!({}), "type"),
        ("/tenants/a", json!({"weight": 0}), "weight"),
        ("/tenants/a", json!({"budget_period": "year"}), "budget_period"),
        ("/tenants/1", json!({}), "tenant"),
    ] {
        assert_refused(&t.request("PUT", path).json(&body).send().await, 422, "invalid_value", Some(field));
    }
}

/// Model: processing-on-and-off. Offline and online, for all, a tenant or a type.
#[tokio::test]
async fn the_gate_closes_and_opens() {
    let t = Fixture::new().await;
    let open =
        json!({"online": true, "reason": null, "by": null, "since": null, "expires_at": null, "scopes": []});
    assert_eq!(t.get_ok("/gate").await, open);
    let closed = t.post_ok(200, "/gate/offline", json!({"reason": "upgrade"})).await;
    assert_eq!(
        (&closed["online"], &closed["reason"], &closed["changed"]),
        (&json!(false), &json!("upgrade"), &json!(true))
    );
    assert_eq!((&closed["by"], &closed["since"]), (&json!("local"), &json!("2030-01-01T00:00:00.000Z")));
    assert_eq!(t.post_ok(200, "/gate/offline", json!({"reason": "x"})).await["changed"], false);
    let (id, worker) = (t.submit(json!({"type": "a", "tenant": "acme"})).await, t.worker().await);
    assert_eq!(t.post_ok(200, "/claims", json!({"worker_id": worker})).await["jobs"], json!([]));
    assert_eq!(t.get_ok(&format!("/jobs/{id}")).await["why"]["code"], "gate_closed");
    assert_eq!(t.request("POST", "/gate/online").send().await.json()["online"], true);
    t.post_ok(200, "/gate/offline", json!({"tenant": "acme", "reason": "unpaid"})).await;
    t.post_ok(200, "/gate/offline", json!({"type": "a", "expires": "1h"})).await;
    let gate = t.get_ok("/gate").await;
    assert_eq!(gate["online"], true);
    assert_eq!(
        (&gate["scopes"][0]["tenant"], &gate["scopes"][0]["reason"]),
        (&json!("acme"), &json!("unpaid"))
    );
    assert_eq!(gate["scopes"][1]["type"], "a");
    assert_eq!(t.post_ok(200, "/claims", json!({"worker_id": worker})).await["jobs"], json!([]));
    t.post_ok(200, "/gate/online", json!({"tenant": "acme"})).await;
    assert_eq!(t.post_ok(200, "/gate/online", json!({"type": "a"})).await["scopes"], json!([]));
    t.claim(&worker).await;
    let both = t.post("/gate/offline", json!({"type": "a", "tenant": "acme"})).await;
    assert_refused(&both, 422, "invalid_value", Some("type"));
}

/// Model: worker-pause
#[tokio::test]
async fn workers_are_listed_paused_and_resumed() {
    let t = Fixture::new().await;
    let body = json!({"name": "one", "queues": ["q"], "types": ["a"], "concurrency": 3, "version": "v1", "heartbeats": false});
    let id = t.post_ok(201, "/workers", body).await["worker_id"].as_str().unwrap().to_owned();
    let worker = t.get_ok("/workers").await["workers"][0].clone();
    assert_eq!((&worker["id"], &worker["name"], &worker["alive"]), (&json!(id), &json!("one"), &json!(true)));
    assert_eq!(
        (&worker["queues"], &worker["types"], &worker["concurrency"]),
        (&json!(["q"]), &json!(["a"]), &json!(3))
    );
    let paused =
        t.post_ok(200, &format!("/workers/{id}/pause"), json!({"mode": "aggressive", "reason": "hot"})).await;
    assert_eq!((&paused["paused"]["mode"], &paused["changed"]), (&json!("aggressive"), &json!(true)));
    assert_eq!(
        t.post_ok(200, "/claims", json!({"worker_id": id})).await,
        json!({"jobs": [], "paused": true})
    );
    let pulse = t.post_ok(200, "/heartbeats", json!({"worker_id": id, "jobs": []})).await;
    assert_eq!(pulse["worker"], json!({"paused": true, "mode": "aggressive"}));
    assert_eq!(t.post_ok(200, &format!("/workers/{id}/pause"), json!({})).await["changed"], false);
    assert_eq!(t.post_ok(200, &format!("/workers/{id}/resume"), json!({})).await["paused"], Value::Null);
    let nobody = "/workers/00000000-0000-4000-8000-000000000000";
    assert_refused(&t.post(&format!("{nobody}/pause"), json!({})).await, 404, "not_found", None);
    assert_refused(&t.request("DELETE", nobody).send().await, 404, "not_found", None);
    assert_refused(&t.request("DELETE", "/workers/x").send().await, 404, "not_found", None);
}

/// Model: audit-trail
#[tokio::test]
async fn the_audit_trail_is_filtered_and_paged() {
    let t = Fixture::new().await;
    let id = t.submit(json!({"type": "a", "tenant": "acme"})).await;
    t.post_ok(200, &format!("/jobs/{id}/suspend"), json!({"reason": "why"})).await;
    t.advance(Duration::from_secs(10)).await;
    t.post_ok(200, &format!("/jobs/{id}/priority"), json!({"value": 90})).await;
    t.post_ok(200, "/queues/q/pause", json!({})).await;
    let all = t.get_ok("/audit").await;
    let names: Vec<&str> =
        all["records"].as_array().unwrap().iter().map(|record| record["event"].as_str().unwrap()).collect();
    assert_eq!(names, ["job.lifecycle.suspended", "job.ops.priority_updated", "queue.ops.paused"]);
    let first = &all["records"][0];
    assert_eq!(
        (&first["seq"], &first["severity"], &first["tenant"]),
        (&json!(1), &json!("info"), &json!("acme"))
    );
    assert_eq!((&first["actor"], &first["job"]), (&json!({"type": "user", "id": "local"}), &json!(id)));
    for (field, value) in
        [("job_id", id.as_str()), ("actor_id", "local"), ("reason", "why"), ("previous_state", "scheduled")]
    {
        assert_eq!(first["context"][field], value);
    }
    let context = json!({"job_id": id, "actor_id": "local", "previous_priority": 50, "new_priority": 90});
    assert_eq!(all["records"][1]["context"], context);
    let count =
        async |query: &str| t.get_ok(&format!("/audit?{query}")).await["records"].as_array().unwrap().len();
    assert_eq!(count(&format!("job={id}")).await, 2);
    assert_eq!(count("event=queue.ops.paused").await, 1);
    assert_eq!(count("actor=local").await, 3);
    assert_eq!(count("actor=nobody").await, 0);
    assert_eq!(count("tenant=acme").await, 2);
    assert_eq!(count("since=2030-01-01T00:00:10Z").await, 2);
    assert_eq!(count("until=2030-01-01T00:00:10Z").await, 1);
    let page = t.get_ok("/audit?limit=2").await;
    let rest = t.get_ok(&format!("/audit?limit=2&cursor={}", page["next_cursor"].as_str().unwrap())).await;
    assert_eq!((rest["records"].as_array().unwrap().len(), &rest["next_cursor"]), (1, &Value::Null));
    for (query, field) in [
        ("event=x", "event"),
        ("cursor=x", "cursor"),
        ("limit=1001", "limit"),
        ("since=x", "since"),
        ("job=x", "job"),
    ] {
        assert_refused(&t.get(&format!("/audit?{query}")).await, 422, "invalid_value", Some(field));
    }
}

#[tokio::test]
async fn numbers_over_time_have_steps_totals_and_the_time_before() {
    let t = Fixture::new().await;
    t.completed(json!({"type": "a", "queue": "q"})).await;
    t.advance(Duration::from_secs(60)).await;
    t.submit(json!({"type": "b", "queue": "other"})).await;
    let hour = t.get_ok("/stats/history").await;
    assert_eq!((&hour["step"], hour["points"].as_array().map(Vec::len)), (&json!("1m"), Some(60)));
    assert_eq!((&hour["points"][58]["completed"], &hour["total"]["completed"]), (&json!(1), &json!(1)));
    assert_eq!(
        (&hour["points"][58]["at"], &hour["previous"]),
        (&json!("2030-01-01T00:00:00.000Z"), &json!(null))
    );
    assert_eq!(t.get_ok("/stats/history?queue=other&range=1d").await["total"]["completed"], 0);
    let of_type = t.get_ok("/stats/history?type=a&range=30d").await;
    assert_eq!((&of_type["step"], &of_type["total"]["completed"]), (&json!("6h"), &json!(1)));
    let before = t.get_ok("/stats/history?range=15m&until=2030-01-01T00:00:00Z").await;
    assert_eq!(
        (&before["until"], &before["total"]["completed"]),
        (&json!("2030-01-01T00:00:00.000Z"), &json!(0))
    );
    for (query, field) in
        [("range=1s", "range"), ("range=31d", "range"), ("queue=q&type=a", "type"), ("until=x", "until")]
    {
        assert_refused(&t.get(&format!("/stats/history?{query}")).await, 422, "invalid_value", Some(field));
    }
}

#[tokio::test]
async fn numbers_are_shown_to_people_and_to_machines() {
    let t = Fixture::new().await;
    t.completed(json!({"type": "a", "queue": "q"})).await;
    t.submit(json!({"type": "b", "queue": "q", "tenant": "acme"})).await;
    t.advance(Duration::from_secs(60)).await;
    let stats = t.get_ok("/stats").await;
    assert_eq!((&stats["states"]["completed"], &stats["states"]["scheduled"]), (&json!(1), &json!(1)));
    assert_eq!(
        (&stats["queues"]["q"]["completed"], &stats["types"]["b"]["scheduled"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(stats["tenants"]["acme"]["scheduled"], 1);
    assert_eq!(stats["minutes"][0]["completed"], 1);
    assert_eq!(stats["minutes"][0]["at"], "2030-01-01T00:00:00.000Z");
    assert!(stats["minutes"][0]["ran"]["p99"].is_string());
    let metrics = Request::new(t.address, "GET", "/metrics").send().await;
    let text = String::from_utf8(metrics.body).unwrap();
    for line in [
        "windlass_jobs{queue=\"q\",state=\"scheduled\"} 1",
        "windlass_queue_oldest_seconds{queue=\"q\"} 60",
        "windlass_build_info{version=\"0.1.0\",engine=\"\"} 1",
        "windlass_worker_slots 0",
        "windlass_http_requests_total{method=\"POST\",route=\"/jobs\",status=\"201\"} 2",
        "windlass_gate_online 1",
        "windlass_clock_believed 1",
        "windlass_clock_skew_seconds 0",
        "windlass_workers 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is missing in {text}");
    }
    for (path, body) in [("/healthz", "ok\n"), ("/readyz", "ok\n")] {
        let answer = Request::new(t.address, "GET", path).send().await;
        assert_eq!((answer.status, answer.body.as_slice()), (200, body.as_bytes()));
    }
    t.store.close();
    assert_eq!(Request::new(t.address, "GET", "/healthz").send().await.status, 200);
    assert_refused(&Request::new(t.address, "GET", "/readyz").send().await, 503, "stopped", None);
    assert_refused(&t.get("/jobs").await, 503, "stopped", None);
}

/// An unused name is accepted, and the response says that it is unknown and lists similar names.
#[tokio::test]
async fn an_unknown_name_is_said_to_be_unknown() {
    let t = Fixture::new().await;
    t.submit(json!({"type": "email.send", "queue": "mail", "tenant": "acme"})).await;
    for (path, name, similar) in
        [("/queues", "mial", "mail"), ("/types", "email.sent", "email.send"), ("/tenants", "acm", "acme")]
    {
        assert_eq!(t.get_ok(&format!("{path}/{similar}")).await["known"], true);
        let look = t.get_ok(&format!("{path}/{name}")).await;
        assert_eq!((&look["known"], &look["similar"]), (&json!(false), &json!([similar])), "{path}");
        let set = put(&t, &format!("{path}/{name}"), json!({"max_running": 3})).await;
        assert_eq!((&set["known"], &set["similar"]), (&json!(false), &json!([similar])), "{path}");
        let set = put(&t, &format!("{path}/{name}"), json!({"max_running": 4})).await;
        assert_eq!((&set["known"], set.get("similar")), (&json!(true), None), "{path}");
        let listed = t.get_ok(path).await[&path[1..]].as_array().unwrap().clone();
        assert!(listed.len() >= 2 && listed.iter().all(|one| one["known"] == true), "{path}");
    }
    let paused = t.post_ok(200, "/queues/mali/pause", json!({})).await;
    assert_eq!((&paused["changed"], &paused["known"]), (&json!(true), &json!(false)));
    assert_eq!(t.get_ok("/queues/default").await["known"], true);
    let closed = t.post_ok(200, "/gate/offline", json!({"type": "emial.send"})).await;
    assert_eq!((&closed["known"], &closed["similar"][0]), (&json!(false), &json!("email.send")));
    assert_eq!(t.post_ok(200, "/gate/offline", json!({})).await.get("known"), None);
    // A worker that names it makes it known.
    t.post_ok(201, "/workers", json!({"queues": ["night"], "types": ["report"]})).await;
    assert_eq!(t.get_ok("/queues/night").await["known"], true);
    assert_eq!(t.get_ok("/types/report").await["known"], true);
}

/// Model: audit-chain. The head of the audit chain can be stored outside the store.
#[tokio::test]
async fn the_head_of_the_audit_trail_is_its_newest_seal() {
    let t = Fixture::new().await;
    let none = json!({"number": 0, "hash": null, "head": null, "signed_by": null});
    assert_eq!(t.get_ok("/audit/head").await, none);
    let id = t.submit(json!({"type": "a"})).await;
    t.post_ok(200, &format!("/jobs/{id}/cancel"), json!({})).await;
    let seal = t.store.seal().await.unwrap().seal;
    let head = t.get_ok("/audit/head").await;
    assert_eq!((&head["number"], &head["hash"]), (&json!(seal.through), &json!(seal.hash)));
    assert_eq!(head["head"], seal.to_string());
}

/// Model: retention
#[tokio::test]
async fn the_retention_of_the_store_is_shown_and_changed() {
    let t = Fixture::new().await;
    let before = t.get_ok("/retention").await;
    assert_eq!((&before["completed"], &before["dead_letter"]), (&json!("7d"), &json!("30d")));
    let put = async |body: Value| t.request("PUT", "/retention").json(&body).send().await;
    let answer = put(json!({"failed": "3d"})).await;
    assert_eq!(answer.status, 200);
    let changed = t.get_ok("/retention").await;
    assert_eq!((&changed["failed"], &changed["completed"]), (&json!("3d"), &json!("7d")));
    assert_refused(&put(json!({"failed": "soon"})).await, 422, "invalid_value", Some("failed"));
    assert_eq!(put(json!({"failed": null})).await.status, 200);
    assert_eq!(t.get_ok("/retention").await, before);
}

#[tokio::test]
async fn payloads_and_results_must_match_the_schemas_of_their_type() {
    let t = Fixture::new().await;
    let schema = json!({"type": "object", "required": ["to"], "properties": {"to": {"type": "string"}}});
    let put = async |body: Value| t.request("PUT", "/types/email").json(&body).send().await;
    assert_refused(
        &put(json!({"payload_schema": {"type": 7}})).await,
        422,
        "invalid_value",
        Some("payload_schema"),
    );
    let set = put(json!({"payload_schema": schema, "result_schema": {"type": "integer"}})).await;
    assert_eq!((set.status, &set.json()["payload_schema"]), (200, &schema));
    assert_eq!(t.get_ok("/types/email").await["payload_schema"], schema);
    let wrong = t.post("/jobs", json!({"type": "email", "payload": {"to": 7}})).await;
    assert_refused(&wrong, 422, "invalid_value", Some("payload.to"));
    let batch = json!({"jobs": [{"type": "other"}, {"type": "email"}]});
    assert_refused(&t.post("/jobs/batch", batch).await, 422, "invalid_value", Some("jobs.1.payload"));
    let id = t.submit(json!({"type": "email", "payload": {"to": "ada"}})).await;
    let worker = t.worker().await;
    let job = t.post_ok(200, "/claims", json!({"worker_id": worker})).await["jobs"][0].clone();
    let outcome =
        |result: Value| json!({"id": id, "fence": job["fence"], "outcome": "completed", "result": result});
    let rejected = t.report(worker.as_str(), outcome(json!("sent"))).await;
    assert_eq!(rejected["error"]["details"]["field"], "result");
    assert_eq!(t.report(worker.as_str(), outcome(json!(1))).await["status"], "applied");
    assert_eq!(put(json!({"payload_schema": null})).await.status, 200);
    t.submit(json!({"type": "email"})).await;
}
