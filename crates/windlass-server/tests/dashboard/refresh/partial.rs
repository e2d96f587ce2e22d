//! Refreshes send what changed, and nothing if nothing did.

use windlass::job::JobId;
use windlass_testkit::browser::Browser;

use crate::fixture::{Page, Site};

const NAME: &str = "windlass-parts";

async fn refresh(site: &Site, path: &str, known: &str) -> Page {
    site.ask("GET", path, &[(NAME, known)], "").await
}

#[tokio::test]
async fn a_refresh_leaves_out_what_its_page_has() {
    let site = Site::start().await;
    let mut last: Option<JobId> = None;
    for number in 0..40 {
        last = Some(site.job(&format!("type.{number}")).await);
    }
    let whole = site.ask("GET", "/jobs", &[], "").await;
    assert_eq!(whole.header(NAME), None, "a page that is opened is sent as it is");
    let first = refresh(&site, "/jobs", "").await;
    let parts = first.header(NAME).unwrap().to_owned();
    assert!(first.status == 200 && first.body.contains("type.0") && !first.body.contains("class=\"menu\""));
    // Ages are written in words, so that a page may differ from one second to the next: rows that do not are left out.
    let again = refresh(&site, "/jobs", &parts).await;
    assert!(again.status == 304 && again.body.is_empty() || again.body.len() < first.body.len());
    site.job("the.newest").await;
    let changed = refresh(&site, "/jobs", &parts).await;
    assert!(changed.status == 200 && changed.body.contains("the.newest"));
    assert_ne!(changed.header(NAME), Some(parts.as_str()));
    let settings = refresh(&site, "/settings", "").await;
    let parts = settings.header(NAME).unwrap().to_owned();
    let error = refresh(&site, "/nowhere", &parts).await;
    assert!(error.status == 404 && error.header(NAME).is_none());
    assert!(last.is_some());
}

#[tokio::test]
async fn a_page_without_changes_is_not_sent_again() {
    let site = Site::start().await;
    let first = refresh(&site, "/schedules", "").await;
    let parts = first.header(NAME).unwrap().to_owned();
    let again = refresh(&site, "/schedules", &parts).await;
    assert_eq!((again.status, again.body.as_str()), (304, ""));
    assert_eq!(again.header(NAME), Some(parts.as_str()));
    let damaged = refresh(&site, "/schedules", &"x ".repeat(9_000)).await;
    assert!([200, 431].contains(&damaged.status));
}

#[tokio::test]
async fn an_open_page_of_an_idle_store_costs_less_than_five_kilobytes_per_second() {
    let site = Site::start().await;
    for number in 0..60 {
        site.job(&format!("type.{number}")).await;
    }
    let browser = Browser::start();
    let window = browser.open(&site.at("/jobs")).await;
    window.until("document.querySelector('.pulse.on')").await;
    // A refresh that nothing but the time causes is every 15 seconds.
    let asked =
        "performance.getEntriesByType('resource').filter((one) => one.initiatorType === 'xmlhttprequest')";
    window.until(&format!("{asked}.length >= 1 && performance.now() > 16000")).await;
    let rate =
        format!("{asked}.reduce((sum, one) => sum + one.transferSize, 0) / (performance.now() / 1000)");
    let rate = window.eval(&rate).await.as_f64().unwrap();
    assert!(rate < 5_000.0, "{rate} bytes per second");
    assert_eq!(window.errors().await, Vec::<String>::new());
}

#[tokio::test]
async fn parts_that_were_left_out_stay_and_changed_ones_are_replaced() {
    let site = Site::start().await;
    site.job("mail").await;
    let browser = Browser::start();
    let window = browser.open(&site.at("/queues/default")).await;
    window.until("document.querySelector('.pulse.on')").await;
    window.eval("document.querySelector('#settings').dataset.mark = 'kept'").await;
    for number in 2..6 {
        site.job("mail").await;
        window.until(&format!("document.querySelector('#depths').innerText.includes('{number}')")).await;
    }
    window.until("document.querySelector('#next tbody')?.children.length === 5").await;
    assert_eq!(window.eval("document.querySelectorAll('[data-same]').length").await, 0);
    assert_eq!(window.eval("document.querySelector('#q-max_running').value").await, "");
    assert!(window.eval("document.querySelector('#h-settings') !== null").await == true);
    assert_eq!(window.errors().await, Vec::<String>::new());
}
