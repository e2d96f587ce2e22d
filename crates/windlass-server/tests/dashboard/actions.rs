//! Acting, and seeing what others do, without the page being loaded again.

mod errands;
mod undo;

use windlass::job::{Failure, RetryPolicy};
use windlass::store::caller::Caller;
use windlass::store::engine::RecordQuery;
use windlass_testkit::browser::{Browser, Window};

use crate::fixture::{Site, new, queue};

/// Marks a page; the mark goes when the page is loaded again.
pub(super) async fn mark(window: &Window<'_>) {
    window.until("document.querySelector('.pulse.on')").await;
    window.eval("window.isStillHere = true").await;
}

pub(super) async fn assert_not_reloaded(window: &Window<'_>) {
    assert_eq!(window.eval("window.isStillHere === true").await, true, "the page was loaded again");
    assert_eq!(window.errors().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_job_s_life_is_seen_as_it_happens() {
    let site = Site::start().await;
    let id = site.job("report.build").await;
    let browser = Browser::start();
    let window = browser.open(&site.at(&format!("/jobs/{id}"))).await;
    mark(&window).await;
    window.until("document.querySelector('#head .st-scheduled')").await;
    window.until("document.querySelector('#why')?.innerText.includes('no worker')").await;
    let claimed = site.claim().await;
    window.until("document.querySelector('#head .st-running')").await;
    claimed.progress(42.0, "rows 1 to 7").await;
    window.until("document.querySelector('#progress')?.innerText.includes('42%')").await;
    claimed.log("wrote <b>section</b> 1").await;
    window.until("document.querySelector('.log')?.innerText.includes('wrote <b>section</b> 1')").await;
    claimed.complete(r#"{"pages":84}"#).await;
    window.until("document.querySelector('#head .st-completed')").await;
    window.until("document.querySelector('#result-text')?.innerText.includes('84')").await;
    window.until("document.querySelector('#trail')?.innerText.includes('job.lifecycle.completed')").await;
    assert_not_reloaded(&window).await;
}

#[tokio::test]
async fn a_person_suspends_resumes_prioritises_signals_and_cancels_a_job() {
    let site = Site::start().await;
    let id = site.job("mail").await;
    let browser = Browser::start();
    let window = browser.open(&site.at(&format!("/jobs/{id}"))).await;
    mark(&window).await;
    window.fill("#s-reason", "let me look first").await;
    window.click("#do-suspend button").await;
    window.until("document.querySelector('#head .st-suspended')").await;
    window.until("document.querySelector('#why').innerText.includes('let me look first')").await;
    window.click("button[value=resume]").await;
    window.until("document.querySelector('#head .st-scheduled')").await;
    window.fill("#p-value", "80").await;
    window.click("#do-priority button").await;
    window.until("document.querySelector('#do-priority').innerText.includes('80, high')").await;
    window.fill("#g-name", "approval").await;
    window.fill("#g-value", r#"{"ok":true}"#).await;
    window.click("#do-signal button").await;
    window.until("document.querySelector('.banner.done')?.innerText.includes('Signal sent')").await;
    window.fill("#c-reason", "no longer needed").await;
    window.click("#do-cancel button").await;
    window.click("#confirm[open] #confirm-yes").await;
    window.until("document.querySelector('#head .st-cancelled')").await;
    window
        .until("!document.querySelector('#do-suspend') && document.querySelector('button[value=redrive]')")
        .await;
    assert_not_reloaded(&window).await;
    let records = site
        .store
        .audit(&Caller::local(), RecordQuery { job: Some(id), limit: 100, ..RecordQuery::default() })
        .await;
    let names: Vec<&str> = records.unwrap().iter().map(|record| record.event.as_str()).collect();
    let wanted = [
        "job.lifecycle.suspended",
        "job.lifecycle.resumed",
        "job.ops.priority_updated",
        "job.ops.signalled",
        "job.lifecycle.cancelled",
    ];
    assert_eq!(names, wanted);
    window.click("button[value=redrive]").await;
    window
        .until(&format!("location.pathname.startsWith('/jobs/') && !location.pathname.includes('{id}')"))
        .await;
    window.until("document.querySelector('#facts').innerText.includes('Redrive of')").await;
}

#[tokio::test]
async fn two_browsers_see_each_other_s_actions() {
    let site = Site::start().await;
    let mut job = new("mail");
    job.queue = queue("post");
    site.submit(job).await;
    let (first, second) = (Browser::start(), Browser::start());
    let (ada, grace) = (first.window().await, second.window().await);
    ada.open(&site.at("/queues")).await;
    grace.open(&site.at("/")).await;
    mark(&ada).await;
    mark(&grace).await;
    ada.click("button[aria-label='Pause post']").await;
    ada.click(".pop:popover-open [name=action]").await;
    grace.until("document.querySelector('#queues .badge.warn')?.innerText === 'paused'").await;
    assert_not_reloaded(&grace).await;
    grace.open(&site.at("/settings")).await;
    mark(&grace).await;
    grace.unfold("#close-gate").await;
    grace.fill("#gate-reason", "moving house").await;
    grace.click("#close-gate button").await;
    ada.until("document.querySelector('#notices').innerText.includes('moving house')").await;
    grace.click("#gate button[value=open]").await;
    ada.until("!document.querySelector('#notices').innerText.includes('moving house')").await;
    assert_not_reloaded(&ada).await;
}

#[tokio::test]
async fn many_jobs_are_acted_on_after_their_number_was_shown() {
    let site = Site::start().await;
    for _ in 0..3 {
        site.job("mail").await;
    }
    site.job("other").await;
    let browser = Browser::start();
    let window = browser.open(&site.at("/jobs?type=mail")).await;
    window.until("document.querySelectorAll('input[name=id_selected]').length === 3").await;
    window.click("tbody tr:nth-child(1) input[name=id_selected]").await;
    window.click("tbody tr:nth-child(2) input[name=id_selected]").await;
    window.until("document.querySelector('#picked').innerText === '2 selected'").await;
    window.click(".bulk button[value=suspend]").await;
    window.until("document.querySelector('h1').innerText === 'Suspend 2 jobs?'").await;
    window.click("form button.main").await;
    window.until("document.querySelectorAll('.st-suspended').length === 2").await;
    window.click("input[name=all]").await;
    window.click(".bulk button[value=cancel]").await;
    window.until("document.querySelector('h1').innerText === 'Cancel 3 jobs?'").await;
    assert!(window.text("document.querySelector('main').innerText").await.contains("type mail"));
    window.click("form button.grave").await;
    window.until("document.querySelectorAll('.st-cancelled').length === 3").await;
    window.until("document.querySelector('.banner.done').innerText === '3 jobs cancelled.'").await;
    let open = site.store.stats(&Caller::local()).await.unwrap().states;
    assert_eq!(open[&windlass::job::JobState::Scheduled], 1, "the other type was left alone");
}

#[tokio::test]
async fn dead_letters_are_redriven_group_by_group() {
    let site = Site::start().await;
    for (job_type, message) in
        [("mail", "no route to host 7"), ("mail", "no route to host 8"), ("mail", "refused")]
    {
        let mut job = new(job_type);
        job.retry = Some(RetryPolicy { max_attempts: 1, ..RetryPolicy::standard() });
        site.submit(job).await;
        site.claim().await.fail(Failure::temporary(message)).await;
    }
    let browser = Browser::start();
    let window = browser.open(&site.at("/dead")).await;
    mark(&window).await;
    window.until("document.querySelectorAll('#groups section').length === 2").await;
    assert!(window.text("document.querySelector('#groups section').innerText").await.contains("2 × mail"));
    window.click("#groups section button").await;
    window.click("#confirm[open] #confirm-yes").await;
    window.until("document.querySelectorAll('#groups section').length === 1").await;
    window.until("document.querySelector('.banner.done').innerText === '2 jobs retried as new jobs.'").await;
    assert_not_reloaded(&window).await;
}

#[tokio::test]
async fn queues_types_workers_and_tenants_are_paused_and_set() {
    let site = Site::start().await;
    site.job("mail").await;
    site.claim().await;
    let browser = Browser::start();
    let window = browser.open(&site.at("/queues/default")).await;
    window.fill("#q-max_running", "7").await;
    window.fill("#q-rate_count", "5").await;
    window.fill("#q-rate_per", "1s").await;
    window.click("#settings button").await;
    window.until("document.querySelector('.banner.done')?.innerText.startsWith('Saved.')").await;
    window.fill("#q-reason", "night").await;
    window.click("#actions button").await;
    window.until("document.querySelector('#head').innerText.includes('night')").await;
    let look = site.store.queue(&Caller::local(), queue("default")).await.unwrap();
    assert_eq!((look.settings.max_running, look.settings.rate.map(|rate| rate.count)), (Some(7), Some(5)));
    assert_eq!(look.paused.unwrap().reason.as_deref(), Some("night"));
    window.open(&site.at("/types/mail")).await;
    window.click("#actions button").await;
    window.until("document.querySelector('#head .badge.warn')").await;
    window.open(&site.at("/workers")).await;
    window.click("button[aria-label='Pause bench']").await;
    window.until("document.activeElement.name === 'reason'").await;
    window.fill(".pop:popover-open [name=reason]", "new disk").await;
    window.click(".pop:popover-open [name=action]").await;
    window.until("document.querySelector('.person .badge.warn')?.innerText === 'paused'").await;
    window.open(&site.at("/tenants")).await;
    window.unfold("#limits-default").await;
    window.fill("#default-budget", "50").await;
    window.click("#limits-default button[type=submit]").await;
    window.until("document.querySelector('main').innerText.includes('50.00 a month')").await;
}
