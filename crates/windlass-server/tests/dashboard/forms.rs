//! Forms: a payload by its schema, the settings of a queue, and what a limit or a delay offers where it holds a job back.

use std::time::Duration;

use serde_json::json;
use windlass::audit::AuditLevel;
use windlass::job::{JobType, NewJob, Payload};
use windlass::settings::JobSchema;
use windlass::settings::patch::{Field, QueuePatch, SettingsPatch, TypePatch};
use windlass::store::caller::Caller;
use windlass_testkit::browser::Browser;

use crate::fixture::{Site, new, queue};

async fn set_schema(site: &Site, schema: serde_json::Value) {
    let schema: JobSchema = serde_json::from_value(schema).unwrap();
    let patch = TypePatch { payload_schema: Field::Set(schema), ..TypePatch::default() };
    let patch = SettingsPatch::Type(JobType::new("mail").unwrap(), patch);
    site.store.configure(&Caller::local(), patch).await.unwrap();
}

#[tokio::test]
async fn a_new_job_has_a_field_per_property_and_the_options_of_a_submission() {
    let site = Site::start().await;
    site.job("mail").await;
    set_schema(
        &site,
        json!({"type": "object", "required": ["to"], "additionalProperties": false, "properties": {
            "to": {"type": "string", "title": "Receiver", "description": "an address"},
            "cents": {"type": "integer"}, "kind": {"enum": ["bill", "note"]}, "is_test": {"type": "boolean"}}}),
    )
    .await;
    let browser = Browser::start();
    let window = browser.open(&site.at("/jobs/new?type=mail")).await;
    let fields = "document.querySelector('#payload-fields').innerText";
    assert!(window.text(fields).await.contains("Receiver"));
    let receiver = "[name='payload.to']";
    let latest = window.text(&format!("document.querySelector(\"{receiver}\").value")).await;
    assert_eq!(latest, "ada@example.com", "filled in with the latest job");
    window.fill(receiver, "bob@example.com").await;
    window.fill("[name='payload.cents']", "250").await;
    window.fill("[name='payload.kind']", "\"bill\"").await;
    window.fill("#n-tags", "team:blue, region:north").await;
    window.unfold("#more").await;
    window.fill("#n-attempts", "7").await;
    window.fill("#n-execution", "2m").await;
    window.fill("#n-concurrency", "customer-1").await;
    window.fill("#n-at", "2099-01-01T10:30").await;
    window.click("#new-job button.main").await;
    window.until("/^.jobs.[0-9a-f-]+$/.test(location.pathname)").await;
    let id = window.text("location.pathname.split('/')[2]").await.parse().unwrap();
    let job = site.store.get(&Caller::local(), id).await.unwrap().unwrap();
    let payload: serde_json::Value = serde_json::from_slice(&job.spec.payload.bytes).unwrap();
    assert_eq!(payload, json!({"to": "bob@example.com", "cents": 250, "kind": "bill"}));
    assert_eq!(job.spec.metadata.tags["region"], "north");
    assert_eq!(job.spec.concurrency_key.as_deref(), Some("customer-1"));
    assert_eq!(job.job.policy.retry.max_attempts, 7);
    assert_eq!(job.job.next_run_at().to_string(), "2099-01-01T10:30:00.000Z");
    // The same with JSON, which the link offers.
    window.open(&site.at("/jobs/new?type=mail")).await;
    window.click("a[href*='as=json']").await;
    window.until("document.querySelector('#n-payload')").await;
    assert_eq!(window.errors().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_form_is_refused_with_what_is_wrong_in_it() {
    let site = Site::start().await;
    set_schema(&site, json!({"type": "object", "properties": {"n": {"type": "integer"}}})).await;
    let own = [("sec-fetch-site", "same-origin")];
    let page = site.ask("GET", "/jobs/new?type=mail", &own, "").await;
    assert!(page.body.contains("payload.n"), "a schema is enough; no job is needed");
    let token = page.token();
    let post = async |fields: &str| {
        let body = format!("token={token}&type=mail&fields=1&{fields}");
        site.ask("POST", "/jobs/new", &own, &body).await
    };
    for (fields, said) in [
        ("payload.n=five", "n: `five` is not a number"),
        ("payload.n=1.5", "payload"),
        ("delay=1m&run_at=2099-01-01T10%3A00", "give one of them"),
        ("tags=blue", "must have the form name:value"),
    ] {
        let answer = post(fields).await;
        assert!(answer.status == 422 && answer.body.contains(said), "{fields}: {}", answer.body);
    }
    assert_eq!(post("payload.n=5").await.status, 303);
    set_schema(&site, json!({"type": "object", "properties": {"n": {"type": "object"}}})).await;
    assert_eq!(post("payload.n=5").await.status, 409, "the schema of the form is not the type's any more");
    let nested = site.ask("GET", "/jobs/new?type=mail", &own, "").await.body;
    assert!(nested.contains("n-payload") && !nested.contains("payload-fields"));
}

#[tokio::test]
async fn a_queue_has_all_its_settings_in_one_form_with_what_each_does() {
    let site = Site::start().await;
    site.job("mail").await;
    let browser = Browser::start();
    let window = browser.open(&site.at("/queues/default")).await;
    let values = [
        ("key_rate_count", "3"),
        ("key_rate_per", "1m"),
        ("attempts", "9"),
        ("lease", "90s"),
        ("lifetime", "3d"),
        ("priority", "high"),
        ("audit", "all"),
        ("aging", "5m"),
    ];
    for (name, value) in values {
        window.fill(&format!("#q-{name}"), value).await;
    }
    window.click("#settings button[type=submit]").await;
    window.until("document.querySelector('#said').innerText.includes('Saved')").await;
    let config = site.store.config(&Caller::local()).await.unwrap();
    let set = config.queues[&(queue("default"), None)].clone();
    assert_eq!(set.rate_per_key.map(|rate| (rate.count, rate.per)), Some((3, Duration::from_secs(60))));
    assert_eq!(set.retry.unwrap().max_attempts, 9);
    assert_eq!(set.timeouts.lease, Some(Duration::from_secs(90)));
    assert_eq!(set.audit, Some(AuditLevel::All));
    assert_eq!(set.priority.unwrap().value(), 80);
    let text = window.text("document.querySelector('#settings').textContent").await;
    for words in ["Fair between tenants", "Priority aging", "Push jobs to", "further submissions are refused"]
    {
        assert!(text.contains(words), "{words} in {text}");
    }
    window.open(&site.at("/types/mail")).await;
    let labels =
        "[...document.querySelectorAll('#settings label')].map((label) => label.textContent.trim()).join()";
    let of_type = window.text(labels).await;
    window.open(&site.at("/queues/default")).await;
    let of_queue = window.text(labels).await;
    for label in of_type.split(',') {
        assert!(of_queue.contains(label), "{label}: the same setting has the same name");
    }
}

#[tokio::test]
async fn a_limit_is_raised_where_it_is_met_within_three_clicks() {
    let site = Site::start().await;
    site.job("mail").await;
    site.claim().await;
    let patch = QueuePatch { max_running: Field::Set(1), ..QueuePatch::default() };
    site.store.configure(&Caller::local(), SettingsPatch::Queue(queue("default"), patch)).await.unwrap();
    let id = site.job("mail").await;
    let browser = Browser::start();
    let window = browser.open(&site.at("/")).await;
    // One, two, three.
    window.click("a.tile[href^='/jobs?state=scheduled']").await;
    window.click(&format!("a[href='/jobs/{id}']")).await;
    window.fill("#why .limit [name=max_running]", "5").await;
    window.click("#why .limit button").await;
    window.until("document.querySelector('#said').innerText.includes('Saved')").await;
    window.until("!document.querySelector('#why').innerText.includes('limit reached')").await;
    assert_eq!(window.text("location.pathname").await, format!("/jobs/{id}"));
    window.click("#said form button").await;
    window.until("document.querySelector('#why').innerText.includes('limit reached')").await;
    assert_eq!(window.errors().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_job_that_is_not_due_is_run_now_as_another_one() {
    let site = Site::start().await;
    let delay = Some(Duration::from_secs(3600));
    let job = NewJob { delay, payload: Payload::json(r#"{"n":1}"#), ..new("mail") };
    let id = site.submit(job).await.id;
    let browser = Browser::start();
    let window = browser.open(&site.at(&format!("/jobs/{id}"))).await;
    window.click("#why button[value=rerun]").await;
    window.until("document.querySelector('#confirm-text').innerText.startsWith('Cancel this job')").await;
    window.click("#confirm[open] #confirm-yes").await;
    window
        .until(&format!(
            "!location.pathname.endsWith('{id}') && document.querySelector('#head .st-scheduled')"
        ))
        .await;
    let old = site.store.job(&Caller::local(), id).await.unwrap().unwrap();
    assert!(old.state.is_final() && old.details.superseded_by.is_some());
    assert_eq!(site.claim().await.job.id, old.details.superseded_by.unwrap());
    // A job that others depend on is not cancelled for it.
    let job = NewJob { delay, ..new("mail") };
    let needed = site.submit(job).await.id;
    let mut dependent = new("mail");
    dependent.after = vec![windlass::job::Dependency::Job(needed)];
    site.submit(dependent).await;
    let own = [("sec-fetch-site", "same-origin")];
    let page = site.ask("GET", &format!("/jobs/{needed}"), &own, "").await;
    assert!(!page.body.contains("value=\"rerun\""));
    let body = format!("action=rerun&token={}", page.token());
    assert_eq!(site.ask("POST", &format!("/jobs/{needed}/act"), &own, &body).await.status, 409);
}

#[tokio::test]
async fn a_first_job_can_be_submitted_with_the_command_that_an_empty_page_shows() {
    let site = Site::start().await;
    for path in ["/", "/jobs", "/queues", "/types", "/tenants"] {
        let page = site.ask("GET", path, &[("host", &site.host)], "").await.body;
        assert!(page.contains(&format!("{}/api/v1/jobs</pre>", site.url)), "{path}: {page}");
        assert!(!page.contains("http://…"), "{path}");
    }
    let done = site.ask("POST", "/api/v1/jobs", &[], r#"{"type":"hello","payload":{}}"#).await;
    assert_eq!(done.status, 201, "{}", done.body);
}
