//! Markup, scripts and styles in every field that a user can fill are shown as the text they are.

use windlass::job::{Failure, JobMetadata, Payload, RetryPolicy};
use windlass::store::caller::{Caller, Role};
use windlass::store::{AttemptWrite, NewKey, NewWorker, Pause, PauseTarget, SubmitOptions};
use windlass_testkit::browser::Browser;

use crate::fixture::{Site, new, queue};

const CORPUS: [&str; 8] = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(2)>",
    "'><svg onload=alert(3)>",
    "</pre></td><iframe srcdoc='<script>alert(4)</script>'>",
    "javascript:alert(5)",
    "{{7*7}}{% raw %}<!--",
    "<style>*{display:none}</style><base href=//evil>",
    "\u{202e}<a href=javascript:alert(6)>x</a>&lt;script&gt;",
];

/// Pages that show texts of several objects.
const FIXED: [&str; 18] = [
    "/",
    "/jobs",
    "/queues",
    "/queues/q1",
    "/types",
    "/types/mail",
    "/workers",
    "/dead",
    "/audit",
    "/tenants",
    "/settings",
    "/schedules",
    "/alerts",
    "/errors",
    "/jobs/new?type=mail",
    "/schedules/new?type=mail",
    "/alerts/new",
    "/?range=30d&compare=day",
];

/// A job with hostile text wherever text is allowed.
async fn hostile_job(site: &Site, text: &str) -> String {
    let mut job = new("mail");
    let mallory = Caller::new(text, Role::Admin, None);
    job.payload = Payload::json(serde_json::json!({ text: text, "list": [text] }).to_string());
    job.metadata = JobMetadata {
        tags: [(text.chars().take(64).collect(), text.to_owned())].into(),
        correlation_id: Some(text.to_owned()),
        callback_url: None,
    };
    job.idempotency_key = Some(text.to_owned());
    job.unique_key = Some(text.to_owned());
    job.concurrency_key = Some(text.to_owned());
    job.retry = Some(RetryPolicy { max_attempts: 1, ..RetryPolicy::standard() });
    let id = site.store.submit(&mallory, vec![job], SubmitOptions::default()).await.unwrap()[0].job.id;
    let claimed = site.claim().await;
    claimed.progress(50.0, text).await;
    claimed.log(text).await;
    claimed
        .note(AttemptWrite::Checkpoint {
            step: text.to_owned(),
            value: serde_json::json!(text).to_string().into_bytes(),
        })
        .await;
    claimed.fail(Failure::temporary(text).with_code(text)).await;
    id.to_string()
}

#[tokio::test]
async fn hostile_text_is_shown_as_text_on_every_page() {
    let site = Site::start().await;
    let mut ids = Vec::new();
    for text in CORPUS {
        ids.push(hostile_job(&site, text).await);
        let mallory = Caller::new(text, Role::Admin, None);
        let pause = Pause { reason: Some(text.to_owned()), ..Pause::default() };
        let name = format!("q{}", ids.len());
        site.store.pause(&mallory, PauseTarget::Queue(queue(&name)), pause).await.unwrap();
    }
    let gate = Pause { reason: Some(CORPUS.concat().chars().take(400).collect()), ..Pause::default() };
    site.store.pause(&Caller::local(), PauseTarget::Gate, gate).await.unwrap();
    let browser = Browser::start();
    let window = browser.window().await;
    let mut pages: Vec<String> = ids.iter().map(|id| format!("/jobs/{id}")).collect();
    pages.extend(ids.iter().map(|id| format!("/jobs/new?like={id}")));
    for text in CORPUS {
        let worker = NewWorker { name: text.into(), version: Some(text.into()), ..NewWorker::default() };
        let worker =
            site.store.register(&Caller::local(), NewWorker { concurrency: 1, ..worker }).await.unwrap().id;
        pages.push(format!("/workers/{worker}"));
    }
    pages.extend(FIXED.map(str::to_owned));
    for text in CORPUS {
        let asked: String = form(text);
        pages.push(format!("/jobs?correlation_id={asked}"));
        pages.push(format!("/jobs?owner={asked}&done={asked}"));
        pages.push(format!("/jobs?state={asked}"));
        pages.push(format!("/audit?actor={asked}"));
        pages.push(format!("/jobs?q={asked}"));
        pages.push(format!("/jobs/new?type={asked}"));
        pages.push(format!("/?done=saved&undo={asked}"));
    }
    for path in &pages {
        window.open(&site.at(path)).await;
        let foreign = window.eval("document.querySelectorAll('script:not([src]), iframe, style, base, img[onerror], svg[onload], a[href^=\"javascript:\"]').length").await;
        assert_eq!(foreign, 0, "{path}");
        assert_eq!(window.errors().await, Vec::<String>::new(), "{path}");
    }
    for (text, id) in CORPUS.iter().zip(&ids) {
        window.open(&site.at(&format!("/jobs/{id}"))).await;
        for part in ["#error-text", ".log", "#steps", ".tags", "#timeline"] {
            let seen = window.text(&format!("document.querySelector({part:?}).textContent")).await;
            let wanted: String = text.chars().take(60).collect();
            assert!(seen.contains(&wanted), "{part} of {text}: {seen}");
        }
        let payload: serde_json::Value =
            serde_json::from_str(&window.text("document.querySelector('#payload-text').textContent").await)
                .unwrap();
        assert_eq!(payload[*text], *text, "the payload reads back as it was written");
    }
    window.click(".log").await;
    site.store.create_key(&Caller::local(), NewKey::new(CORPUS[1], Role::Admin)).await.unwrap();
    assert_eq!(window.errors().await, Vec::<String>::new());
}

fn form(text: &str) -> String {
    let escaped: Vec<String> = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
    escaped.concat()
}
