//! Settings and limits over HTTP.

use std::time::Duration;

use serde_json::{Value, json};

use crate::fixture::{Fixture, assert_refused};

async fn put(t: &Fixture, path: &str, body: Value) -> Value {
    let answer = t.request("PUT", path).json(&body).send().await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.json());
    answer.json()
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
        (json!({"retry": "often"}), "retry"),
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
async fn a_tenant_with_too_many_names_or_keys_learns_which() {
    let t = Fixture::new().await;
    let limits = json!({"max_concurrency_keys": 2, "max_queues": 2});
    assert_eq!(put(&t, "/tenants/default", limits).await["max_concurrency_keys"], 2);
    assert_eq!(t.get_ok("/tenants/default").await["max_concurrency_keys"], 2);
    let job = |key: &str| json!({"type": "a", "concurrency_key": key});
    t.post_ok(201, "/jobs/batch", json!({"jobs": [job("one"), job("two"), job("one")]})).await;
    let refused = t.post("/jobs", job("three")).await;
    assert_refused(&refused, 422, "invalid_value", Some("concurrency_key"));
    let details = &refused.json()["error"]["details"];
    let reported = ["problem", "setting", "value", "limit", "tenant"].map(|name| details[name].clone());
    let expected =
        [json!("limit_reached"), json!("max_concurrency_keys"), json!("three"), json!(2), json!("default")];
    assert_eq!(reported, expected);
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
    assert_eq!(t.get_ok("/types/un.known").await["depth"]["completed"], 0);
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

/// A value without an object of seconds and nanoseconds, at any depth.
fn has_only_texts_as_durations(value: &Value) -> bool {
    match value {
        Value::Object(fields) => {
            !fields.contains_key("nanos") && fields.values().all(has_only_texts_as_durations)
        }
        Value::Array(items) => items.iter().all(has_only_texts_as_durations),
        _ => true,
    }
}

/// Model: audit-trail. Records show durations and times as every other answer does.
#[tokio::test]
async fn records_show_durations_and_times_as_text() {
    let t = Fixture::new().await;
    let of_both = json!({"rate": {"count": 5, "per": "1m"}, "retry": {"initial_delay": "1500ms"}, "timeouts": {"lease": "90s"},
        "retention": {"completed": "3d"}});
    put(&t, "/types/t", of_both.clone()).await;
    put(&t, "/queues/q", of_both).await;
    put(&t, "/queues/q", json!({"aging": "1m30s"})).await;
    put(&t, "/retention", json!({"completed": "36h"})).await;
    put(&t, "/schedules/often", json!({"every": "90m", "job": {"type": "t"}})).await;
    put(&t, "/schedules/nightly", json!({"cron": "0 2 * * *", "job": {"type": "t"}})).await;
    put(&t, "/schedules/once", json!({"at": "2031-02-03T04:05:06Z", "job": {"type": "t"}})).await;
    let trail = t.get_ok("/audit").await;
    let contexts: Vec<&Value> =
        trail["records"].as_array().unwrap().iter().map(|record| &record["context"]).collect();
    let [of_type, _, queue, retention, often, nightly, once] = contexts[..] else {
        panic!("{trail}");
    };
    assert!(has_only_texts_as_durations(&trail), "{trail}");
    for settings in [&of_type["settings"], &queue["settings"]] {
        assert_eq!(settings["rate"], json!({"count": 5, "per": "1m"}));
        assert_eq!(settings["retry"]["initial_delay"], "1s500ms");
        assert_eq!(settings["timeouts"]["lease"], "1m30s");
        assert_eq!(settings["retention"]["completed"], "3d");
    }
    assert_eq!(queue["settings"]["aging"], "1m30s");
    assert_eq!(
        (&retention["before"]["completed"], &retention["retention"]["completed"]),
        (&json!("7d"), &json!("1d12h"))
    );
    assert_eq!(often["timing"], json!({"every": "1h30m"}));
    assert_eq!(nightly["timing"], json!({"cron": {"cron": "0 2 * * *", "timezone": "UTC"}}));
    assert_eq!(once["timing"], json!({"at": "2031-02-03T04:05:06.000Z"}));
}

/// Model: explained-waiting, rate-limits. The reason names the limit in the form in which it is set.
#[tokio::test]
async fn a_rate_is_explained_in_the_form_in_which_it_is_set() {
    let t = Fixture::new().await;
    put(&t, "/queues/default", json!({"rate": {"count": 1, "per": "90s"}})).await;
    let worker = t.worker().await;
    t.submit(json!({"type": "a"})).await;
    let held = t.submit(json!({"type": "a"})).await;
    t.claim(&worker).await;
    let reasons = t.get_ok(&format!("/jobs/{held}/explain")).await;
    let reason = &reasons["reasons"][0];
    assert_eq!(
        (&reason["code"], &reason["count"], &reason["per"]),
        (&json!("rate_limited"), &json!(1), &json!("1m30s"))
    );
    assert!(reason["message"].as_str().unwrap().contains("no more than 1 jobs in 1m30s"), "{reason}");
}
