//! Lists and bulk actions over HTTP.

use serde_json::{Value, json};

use crate::fixture::{Fixture, assert_refused};

fn ids(page: &Value) -> Vec<String> {
    page["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_list_is_filtered_ordered_and_paged() {
    let t = Fixture::new().await;
    let mut all = Vec::new();
    for n in 0..7 {
        let job = json!({"type": if n % 2 == 0 { "even" } else { "odd" }, "queue": "q", "priority": n, "tags": {"n": n.to_string()},
            "correlation_id": format!("c{n}"), "hold": n == 6});
        all.push(t.submit(job).await);
    }
    let newest: Vec<String> = all.iter().rev().cloned().collect();
    assert_eq!(ids(&t.get_ok("/jobs").await), newest);
    assert_eq!(ids(&t.get_ok("/jobs?order=oldest").await), all);
    assert_eq!(ids(&t.get_ok("/jobs?order=claim&state=scheduled&limit=1").await), [all[5].clone()]);
    assert_eq!(ids(&t.get_ok("/jobs?order=claim").await), newest);
    assert_eq!(ids(&t.get_ok("/jobs?redriven=false").await).len(), 7);
    assert_eq!(ids(&t.get_ok("/jobs?redriven=true").await).len(), 0);
    assert_eq!(
        ids(&t.get_ok("/jobs?type=odd&order=oldest").await),
        [&all[1], &all[3], &all[5]].map(Clone::clone)
    );
    assert_eq!(ids(&t.get_ok("/jobs?tag=n:3").await), [all[3].clone()]);
    assert_eq!(ids(&t.get_ok("/jobs?correlation_id=c4").await), [all[4].clone()]);
    assert_eq!(ids(&t.get_ok("/jobs?state=created,running").await), [all[6].clone()]);
    assert_eq!(ids(&t.get_ok("/jobs?queue=q&owner=local").await).len(), 7);
    assert_eq!(ids(&t.get_ok("/jobs?owner=unknown").await).len(), 0);
    assert_eq!(ids(&t.get_ok("/jobs?created_after=2030-01-01T00:00:00Z").await).len(), 7);
    assert_eq!(ids(&t.get_ok("/jobs?created_before=2030-01-01T00:00:00Z").await).len(), 0);
    let known = ids(&t.get_ok("/jobs?limit=1").await)[0].clone();
    for length in [1, 8, 14, 23, 36] {
        let found = ids(&t.get_ok(&format!("/jobs?id_prefix={}", &known[..length])).await);
        assert!(found.contains(&known) && (length < 23 || found.len() == 1), "{length}: {found:?}");
    }
    assert_eq!(ids(&t.get_ok("/jobs?id_prefix=fff").await).len(), 0);
    let refused = t.request("GET", "/jobs?id_prefix=xyz").send().await;
    assert_refused(&refused, 422, "invalid_value", Some("id_prefix"));
    let mut seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = t.get_ok(&format!("/jobs?limit=3&cursor={cursor}")).await;
        seen.extend(ids(&page));
        // New jobs do not disturb the pages of those that were there.
        t.submit(json!({"type": "new"})).await;
        match page["next_cursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(seen, newest);
}

#[tokio::test]
async fn a_query_that_does_not_fit_is_refused() {
    let t = Fixture::new().await;
    for (query, field) in [
        ("state=lost", "state"),
        ("limit=0", "limit"),
        ("limit=501", "limit"),
        ("limit=x", "limit"),
        ("order=random", "order"),
        ("cursor=zz", "cursor"),
        ("tag=k", "tag"),
        ("parent=x", "parent"),
        ("created_after=yesterday", "created_after"),
        ("type=%20", "type"),
    ] {
        assert_refused(&t.get(&format!("/jobs?{query}")).await, 422, "invalid_value", Some(field));
    }
}

#[tokio::test]
async fn a_bulk_action_touches_what_fits() {
    let t = Fixture::new().await;
    for n in 0..5 {
        t.submit(json!({"type": if n < 3 { "a" } else { "b" }})).await;
    }
    let bulk = async |body: Value| t.post_ok(200, "/jobs/bulk", body).await;
    let dry = bulk(json!({"action": "suspend", "filter": {"type": "a"}, "dry_run": true})).await;
    assert_eq!(dry, json!({"matched": 3, "changed": 0}));
    let done =
        bulk(json!({"action": "suspend", "filter": {"type": "a"}, "reason": "x", "mode": "graceful"})).await;
    assert_eq!(done, json!({"matched": 3, "changed": 3}));
    assert_eq!(bulk(json!({"action": "suspend", "filter": {}})).await, json!({"matched": 5, "changed": 2}));
    assert_eq!(bulk(json!({"action": "resume", "filter": {"state": "suspended"}})).await["changed"], 5);
    assert_eq!(bulk(json!({"action": "priority", "filter": {}, "value": "high"})).await["changed"], 5);
    assert_eq!(
        bulk(json!({"action": "cancel", "filter": {"state": ["scheduled", "pending"]}})).await["changed"],
        5
    );
    assert_eq!(bulk(json!({"action": "redrive", "filter": {"type": "b"}})).await["changed"], 2);
    assert_eq!(bulk(json!({"action": "delete", "filter": {"state": "cancelled"}})).await["changed"], 5);
    assert_eq!(t.get_ok("/jobs").await["jobs"].as_array().unwrap().len(), 2);
    // In parts, if that is asked for.
    let part = bulk(json!({"action": "cancel", "filter": {}, "limit": 1})).await;
    assert_eq!((&part["matched"], &part["changed"]), (&json!(1), &json!(1)));
    let next = &part["next_cursor"];
    let rest = bulk(json!({"action": "cancel", "filter": {}, "limit": 5, "cursor": next})).await;
    assert_eq!(rest, json!({"matched": 1, "changed": 1}), "the last part says nothing of continuing");
    for (body, field) in [
        (json!({"action": "cancel", "filter": {}, "limit": 0}), "limit"),
        (json!({"action": "cancel", "filter": {}, "cursor": "x"}), "cursor"),
        (json!({"action": "cancel"}), "filter"),
        (json!({"filter": {}}), "action"),
        (json!({"action": "explode", "filter": {}}), "action"),
        (json!({"action": "cancel", "filter": {"colour": 1}}), "filter.colour"),
        (json!({"action": "cancel", "filter": {"state": ["lost"]}}), "filter.state.0"),
        (json!({"action": "cancel", "filter": {"tag": "x"}}), "filter.tag"),
        (json!({"action": "priority", "filter": {}}), "value"),
        (json!({"action": "cancel", "filter": {}, "value": 1}), "value"),
        (json!({"action": "resume", "filter": {}, "mode": "graceful"}), "mode"),
        (json!({"action": "cancel", "filter": {}, "reason": "x".repeat(2000)}), "reason"),
    ] {
        assert_refused(&t.post("/jobs/bulk", body).await, 422, "invalid_value", Some(field));
    }
}

/// A page is no more than can be held for many readers at once; it continues where it ended.
#[tokio::test]
async fn a_page_with_payloads_ends_before_it_is_too_large() {
    let t = Fixture::new().await;
    let payload = "x".repeat((1 << 20) - 2);
    let mut submitted = Vec::new();
    for _ in 0..20 {
        submitted.push(t.submit(json!({"type": "a", "hold": true, "payload": payload})).await);
    }
    let page = t.get_ok("/jobs?payload=true&order=oldest&limit=500").await;
    assert_eq!(ids(&page), submitted[..16]);
    let cursor = page["next_cursor"].as_str().unwrap();
    let rest = t.get_ok(&format!("/jobs?payload=true&order=oldest&limit=500&cursor={cursor}")).await;
    assert_eq!((ids(&rest), &rest["next_cursor"]), (submitted[16..].to_vec(), &Value::Null));
    assert_eq!(ids(&t.get_ok("/jobs?order=oldest&limit=500").await), submitted);
}

/// Model: read-only-fields. What a list shows of a job is what the job itself shows.
#[tokio::test]
async fn a_list_shows_jobs_as_they_show_themselves() {
    let t = Fixture::new().await;
    let completed = t.completed(json!({"type": "a", "tags": {"k": "v"}})).await;
    let held = t.submit(json!({"type": "a", "hold": true})).await;
    let page = t.get_ok("/jobs").await;
    for (place, id) in [held, completed].into_iter().enumerate() {
        assert_eq!(page["jobs"][place], t.get_ok(&format!("/jobs/{id}")).await);
    }
    assert_eq!(page["jobs"][1]["result"], json!({"ok": true}));
}

#[tokio::test]
async fn a_list_in_the_order_of_claims_does_not_sort_too_many() {
    let t = Fixture::new().await;
    for _ in 0..2 {
        let jobs: Vec<Value> = vec![json!({"type": "many", "queue": "q"}); 6_000];
        t.post_ok(201, "/jobs/batch", json!({"jobs": jobs})).await;
    }
    t.submit(json!({"type": "few", "queue": "q"})).await;
    for refused in ["/jobs?order=claim", "/jobs?order=claim&state=scheduled,created&owner=local"] {
        let refused = t.request("GET", refused).send().await;
        assert_refused(&refused, 422, "invalid_value", Some("order"));
    }
    assert_eq!(ids(&t.get_ok("/jobs?order=claim&state=scheduled").await).len(), 50);
    assert_eq!(ids(&t.get_ok("/jobs?order=claim&type=few").await).len(), 1);
}
