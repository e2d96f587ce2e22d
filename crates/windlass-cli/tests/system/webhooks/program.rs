//! The program itself: what its flags allow is called, and nothing else.

use serde_json::{Value, json};
use windlass_testkit::receiver::{Receiver, answer};
use windlass_testkit::{Site, windlass};

use super::push::verify;

async fn ask(site: &Site, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let answer =
        site.served.request(method, path).header("Content-Type", "application/json").json(body).send().await;
    (answer.status, serde_json::from_slice(&answer.body).unwrap_or(Value::Null))
}

async fn secret(store: &str, receiver: &[&str]) -> String {
    let arguments = [&["webhooks", "secret", "--store", store], receiver].concat();
    let made = windlass(&arguments).output().await.unwrap();
    assert!(made.status.success(), "{made:?}");
    String::from_utf8(made.stdout).unwrap().trim().to_owned()
}

/// Model: callbacks. From the API to the receiver, on this machine, because the flags allow it.
#[tokio::test]
async fn jobs_and_reports_are_sent_where_the_flags_allow() {
    let allow =
        ["--allow-private-callbacks", "127.0.0.0/8", "--allow-http-callbacks", "--callback-ports", "any"];
    let site = Site::with(&allow).await;
    let mut worker = Receiver::answering(answer("200 OK", r#"{"sent":1}"#)).await;
    let mut reports = Receiver::answering(answer("200 OK", "")).await;
    let push = json!({"push": {"url": worker.url(), "concurrency": 3, "timeout": "5s"}});
    let (status, queue) = ask(&site, "PUT", "/queues/mail", &push).await;
    assert_eq!((status, &queue["push"]), (200, &push["push"]));
    let job = json!({"type": "email.send", "queue": "mail", "payload": {"to": "a@b.c"}, "callback_url": reports.url()});
    let (status, made) = ask(&site, "POST", "/jobs", &job).await;
    assert_eq!(status, 201, "{made}");
    let (pushed, report) = (worker.request().await, reports.request().await);
    let id = made["id"].as_str().unwrap();
    assert_eq!(pushed.header("windlass-job-id"), id);
    let body: Value = serde_json::from_slice(&report.body).unwrap();
    assert_eq!((&body["type"], &body["data"]["id"]), (&json!("job.completed"), &json!(id)));
    verify(&pushed, &secret(&site.store, &["--push", &worker.url()]).await);
    verify(&report, &secret(&site.store, &[&reports.url()]).await);
    let (_, ended) = ask(&site, "GET", &format!("/jobs/{id}"), &json!({})).await;
    assert_eq!((&ended["state"], &ended["result"]), (&json!("completed"), &json!({"sent": 1})));
    let cleared = ask(&site, "PUT", "/queues/mail", &json!({"push": null})).await;
    assert_eq!((cleared.0, &cleared.1["push"]), (200, &Value::Null));
    site.served.kill().await;
}

/// Model: callbacks. Without flags, nothing on this machine is called.
#[tokio::test]
async fn nothing_private_is_called_without_flags() {
    let site = Site::start().await;
    let canary = Receiver::answering(answer("200 OK", "")).await;
    let job = |url: &str| json!({"type": "email.send", "payload": {}, "callback_url": url});
    let (status, refused) = ask(&site, "POST", "/jobs", &job(&canary.url())).await;
    assert_eq!((status, &refused["error"]["details"]["field"]), (422, &json!("callback_url")), "{refused}");
    let (status, refused) = ask(&site, "PUT", "/queues/mail", &json!({"push": {"url": canary.url()}})).await;
    assert_eq!((status, &refused["error"]["details"]["field"]), (422, &json!("push.url")), "{refused}");
    let (status, made) = ask(&site, "POST", "/jobs", &job("https://localhost/")).await;
    assert_eq!(status, 201, "where a name leads is seen at delivery: {made}");
    let id = made["id"].as_str().unwrap();
    ask(&site, "POST", &format!("/jobs/{id}/cancel"), &json!({})).await;
    let (_, found) = ask(&site, "GET", &format!("/jobs?tag=callback_of:{id}"), &json!({})).await;
    let report = found["jobs"][0]["id"].as_str().unwrap().to_owned();
    let (_, ended) = ask(&site, "GET", &format!("/jobs/{report}?wait=30s"), &json!({})).await;
    assert_eq!(
        (&ended["state"], &ended["error"]["code"]),
        (&json!("failed"), &json!("target_refused")),
        "{ended}"
    );
    assert!(canary.is_quiet());
    site.served.kill().await;
}
