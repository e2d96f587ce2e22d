//! What is read in one glance must be true: numbers that say what they count, and everything in sight at any width.

mod numbers;

use std::time::Duration;

use serde_json::json;
use windlass::job::{Failure, JobType, NewJob, Payload, RetryPolicy, ScheduleName};
use windlass::schedule::ScheduleSpec;
use windlass::store::caller::Caller;
use windlass::store::{ClaimRequest, NewSchedule, NewWorker, Pause, PauseTarget, Redrive, SubmitOptions};
use windlass_testkit::browser::Browser;

use crate::fixture::{Site, new, queue};

/// The tile of a name: its number and its note.
async fn tile(site: &Site, path: &str, name: &str) -> String {
    let page = site.ask("GET", path, &[], "").await.body;
    let (_, rest) = page.split_once(&format!(r#"tile-name">{name}</span>"#)).expect("there is such a tile");
    let (tile, _) = rest.split_once("</small>").expect("a tile has a note");
    let mut words = Vec::new();
    for piece in tile.split('>') {
        words.push(piece.split('<').next().unwrap_or_default().trim());
    }
    words.retain(|word| !word.is_empty());
    words.join(" | ")
}

async fn health(site: &Site) -> String {
    let page = site.ask("GET", "/", &[], "").await.body;
    let (_, rest) = page.split_once(r#"id="health""#).expect("the page says how it is");
    rest.split("</section>").next().unwrap_or_default().to_owned()
}

async fn schedule(site: &Site, name: &str, timing: ScheduleSpec) {
    let job = NewJob::new(JobType::new("report").unwrap(), Payload::json("{}"));
    let name = ScheduleName::new(name).unwrap();
    site.store.put_schedule(&Caller::local(), name, NewSchedule::new(timing, job)).await.unwrap();
}

#[tokio::test]
async fn dead_letters_count_until_they_are_redriven_and_failures_have_their_own_number() {
    let site = Site::start().await;
    assert!(health(&site).await.contains("Healthy"));
    let mut job = new("mail");
    job.retry = Some(RetryPolicy { max_attempts: 1, ..RetryPolicy::standard() });
    let dead = site.submit(job).await.id;
    site.claim().await.fail(Failure::temporary("no route to host")).await;
    let failed = site.job("mail").await;
    site.claim().await.fail(Failure::permanent("unknown", "no such user")).await;
    let said = health(&site).await;
    assert!(said.contains("1 dead letter") && said.contains("1 failed job"), "{said}");
    assert_eq!(tile(&site, "/", "Dead letters").await, "1 | need attention");
    assert_eq!(tile(&site, "/", "Failed").await, "1 | need attention");
    let stats = site.ask("GET", "/api/v1/stats", &[], "").await.body;
    assert!(stats.contains(r#""unresolved":{"failed":1,"dead_letter":1,"complete":true}"#), "{stats}");
    assert!(site.ask("GET", "/", &[], "").await.body.contains("no route to host"));
    site.store.redrive(&Caller::local(), dead, Redrive::default()).await.unwrap();
    assert_eq!(tile(&site, "/", "Dead letters").await, "0 | none, or all retried");
    site.store.redrive(&Caller::local(), failed, Redrive::default()).await.unwrap();
    assert_eq!(tile(&site, "/", "Failed").await, "0 | none, or all retried");
    let stats = site.ask("GET", "/api/v1/stats", &[], "").await.body;
    assert!(stats.contains(r#""unresolved":{"failed":0,"dead_letter":0,"complete":true}"#), "{stats}");
    let said = health(&site).await;
    assert!(!said.contains("dead letter") && !said.contains("failed job"), "{said}");
    assert!(!site.ask("GET", "/", &[], "").await.body.contains("no route to host"), "it is looked after");
}

#[tokio::test]
async fn ready_counts_what_pauses_hold_and_says_how_many() {
    let site = Site::start().await;
    site.job("mail").await;
    let mut job = new("export");
    job.queue = queue("exports");
    site.submit(job).await;
    let me = Caller::local();
    site.store.pause(&me, PauseTarget::Queue(queue("exports")), Pause::default()).await.unwrap();
    // The same job held twice is held once.
    let kind = JobType::new("export").unwrap();
    site.store.pause(&me, PauseTarget::Type(kind), Pause::default()).await.unwrap();
    assert_eq!(tile(&site, "/", "Ready").await, "2 | 1 of them paused");
    site.store.pause(&me, PauseTarget::Gate, Pause::default()).await.unwrap();
    assert_eq!(tile(&site, "/", "Ready").await, "2 | 2 on hold: processing is paused");
    assert!(health(&site).await.contains("Stopped: processing is paused"));
}

#[tokio::test]
async fn the_server_s_own_worker_is_no_worker() {
    let site = Site::start().await;
    let own = NewWorker {
        name: "callbacks".into(),
        queues: vec![queue(windlass::callback::QUEUE)],
        concurrency: 256,
        ..NewWorker::default()
    };
    site.store.register(&Caller::system(), own).await.unwrap();
    assert_eq!(tile(&site, "/", "Workers").await, "0 | none registered");
    assert_eq!(tile(&site, "/", "Running").await, "0 | of 0 slots");
    assert_eq!(tile(&site, "/workers", "Live").await, "0 | responding workers");
    assert!(site.ask("GET", "/workers", &[], "").await.body.contains("No workers yet"));
}

#[tokio::test]
async fn workers_are_as_busy_as_their_leases_say() {
    let site = Site::start().await;
    let me = Caller::local();
    let jobs: Vec<NewJob> = (0..1_100).map(|_| new("mail")).collect();
    site.store.submit(&me, jobs, SubmitOptions::default()).await.unwrap();
    for (name, slots) in [("first", 600), ("second", 500)] {
        let worker =
            NewWorker { name: name.into(), concurrency: slots, heartbeats: false, ..NewWorker::default() };
        let worker = site.store.register(&me, worker).await.unwrap().id;
        let request = ClaimRequest::new(worker, slots as usize);
        let claimed = site.store.claim(&me, &request, Duration::from_secs(10)).await.unwrap().jobs;
        assert_eq!(claimed.len(), slots as usize);
    }
    assert_eq!(tile(&site, "/workers", "Running").await, "1,100 | jobs, of 1,100 slots");
    let page = site.ask("GET", "/workers", &[], "").await.body;
    assert!(page.contains("600 of 600 busy") && page.contains("500 of 500 busy"));
}

#[tokio::test]
async fn many_schedules_come_page_by_page() {
    let site = Site::start().await;
    for number in 0..120 {
        schedule(&site, &format!("often-{number:03}"), ScheduleSpec::Every(Duration::from_secs(600))).await;
    }
    let first = site.ask("GET", "/schedules", &[], "").await.body;
    assert!(first.contains("1–50 of 120") && first.contains("often-049") && !first.contains("often-050"));
    assert!(first.contains("and 112 more"), "a day names a few and counts the rest");
    assert!(first.contains("every 10m, 144"), "and says how often each runs");
    assert!(first.len() < 150_000, "{} bytes", first.len());
    let last = site.ask("GET", "/schedules?page=3", &[], "").await.body;
    assert!(last.contains("101–120 of 120") && last.contains("often-119"));
    let headers = [("sec-fetch-site", "same-origin")];
    let page = site.ask("GET", "/schedules?page=3", &headers, "").await;
    let body = format!("action=trigger&token={}", page.token());
    let answer = site.ask("POST", "/schedules/default/often-119/act?page=3", &headers, &body).await;
    let back = answer.header("location").unwrap_or_default();
    assert!(back.contains("page=3"), "who acts on a page comes back to it: {back}");
}

#[tokio::test]
async fn the_trail_is_shown_by_people_and_by_time() {
    let site = Site::start().await;
    site.job("mail").await;
    site.claim().await.complete("1").await;
    let pause = Pause { reason: Some("new disk".into()), ..Pause::default() };
    site.store.pause(&Caller::local(), PauseTarget::Queue(queue("default")), pause).await.unwrap();
    let page = async |path: &str| {
        let body = site.ask("GET", path, &[], "").await.body;
        let (_, rest) = body.split_once(r#"id="records""#).unwrap();
        rest.split("</section>").next().unwrap_or_default().to_owned()
    };
    let everything = page("/audit").await;
    assert!(everything.contains("job.lifecycle.completed") && everything.contains("queue.ops.paused"));
    assert!(everything.contains(">bench <span"), "workers have names");
    let people = page("/audit?by=people").await;
    assert!(!people.contains("job.lifecycle.completed") && people.contains("reason new disk"));
    assert!(page("/audit?until=2020-01-01").await.contains("No matching records"));
    assert!(page("/audit?since=2020-01-01").await.contains("queue.ops.paused"));
    assert_eq!(site.ask("GET", "/audit?since=soon", &[], "").await.status, 422);
}

#[tokio::test]
async fn the_first_job_takes_the_place_of_the_advice_how_to_submit_one() {
    let site = Site::start().await;
    let browser = Browser::start();
    let window = browser.open(&site.at("/")).await;
    window.until("document.querySelector('.pulse.on')").await;
    window.until("document.querySelector('main').innerText.includes('No job has been submitted yet')").await;
    site.job("mail").await;
    window.until("!document.querySelector('main').innerText.includes('No job has been submitted yet')").await;
}

#[tokio::test]
async fn pauses_are_resumed_where_they_are_seen_and_a_run_by_hand_is_named() {
    let site = Site::start().await;
    schedule(&site, "nightly", ScheduleSpec::Every(Duration::from_secs(3600))).await;
    let browser = Browser::start();
    let window = browser.open(&site.at("/schedules")).await;
    window.click("button[aria-label='Run now: nightly']").await;
    window
        .until("document.querySelector('.banner.done')?.innerText.startsWith('nightly was triggered.')")
        .await;
    window.until("document.querySelector('.banner.done a[href^=\"/jobs/\"]')").await;
    window.until("document.querySelector('#schedules').innerText.includes('by hand')").await;
    window.click("button[aria-label='Pause nightly']").await;
    window.fill(".pop:popover-open [name=reason]", "month end").await;
    window.click(".pop:popover-open [name=action]").await;
    window.until("document.querySelector('.banner.done')?.innerText.startsWith('nightly is paused.')").await;
    window.open(&site.at("/")).await;
    window.until("document.querySelector('#pauses')?.innerText.includes('month end')").await;
    window.click("#pauses button[aria-label='Resume schedule nightly']").await;
    window.until("!document.querySelector('#pauses')?.innerText.includes('month end')").await;
    assert_eq!(window.text("location.pathname").await, "/");
}

#[tokio::test]
async fn what_can_be_done_to_a_row_is_in_sight_at_any_width() {
    let site = Site::start().await;
    schedule(&site, "a-rather-long-name-of-a-schedule", ScheduleSpec::Every(Duration::from_secs(3600))).await;
    site.job("mail").await;
    site.claim().await.fail(Failure::temporary("no route to a host with a rather long name")).await;
    let pause = Pause { reason: Some("until the disk is replaced".into()), ..Pause::default() };
    site.store.pause(&Caller::local(), PauseTarget::Queue(queue("exports")), pause).await.unwrap();
    let browser = Browser::start();
    let window = browser.window().await;
    for width in [1440, 1024, 390] {
        let screen = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600});
        window.send("Emulation.setDeviceMetricsOverride", screen).await;
        for path in ["/", "/queues", "/types", "/workers", "/schedules", "/audit", "/tenants", "/settings"] {
            window.open(&site.at(path)).await;
            let hidden = "[...document.querySelectorAll('main button')].filter((button) => button.checkVisibility() && \
                 (button.getBoundingClientRect().right > innerWidth || button.getBoundingClientRect().left < 0)) \
                 .map((button) => button.innerText)";
            assert_eq!(window.eval(hidden).await, json!([]), "{path} at {width}");
            if width == 390 {
                let cut = "[...document.querySelectorAll('.scroll')].filter((box) => box.scrollWidth > box.clientWidth + 1) \
                     .map((box) => box.innerText.slice(0, 80))";
                assert_eq!(window.eval(cut).await, json!([]), "{path} on a phone");
            }
        }
    }
}
