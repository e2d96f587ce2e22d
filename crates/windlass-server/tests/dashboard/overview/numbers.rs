//! Numbers mean the same on every page, and times are in the visitor's zone.

use windlass::clock::Timestamp;
use windlass::job::{Failure, RetryPolicy};
use windlass::store::Redrive;
use windlass::store::caller::Caller;
use windlass_testkit::browser::Browser;

use crate::fixture::{Site, new};

/// A job that failed permanently.
async fn failed(site: &Site, text: &str) -> windlass::job::JobId {
    let mut job = new("mail");
    job.retry = Some(RetryPolicy { max_attempts: 1, ..RetryPolicy::standard() });
    let id = site.submit(job).await.id;
    site.claim().await.fail(Failure::permanent("refused", text)).await;
    id
}

/// Waits until what happened is in the statistics, which are written with a later commit.
async fn counted(site: &Site) {
    loop {
        let infos = site.store.queues(&Caller::local()).await.unwrap();
        let mail = infos.iter().find(|info| info.name.as_str() == "default").unwrap();
        if mail.minutes.values().any(|minute| minute.failed > 0) {
            return;
        }
        let mut other = new("other");
        other.delay = Some(std::time::Duration::from_secs(3600));
        site.submit(other).await;
    }
}

#[tokio::test]
async fn what_failed_lately_is_red_until_it_is_retried() {
    let site = Site::start().await;
    let id = failed(&site, "no such user").await;
    counted(&site).await;
    let red = async |path: &str| {
        let page = site.ask("GET", path, &[], "").await.body;
        page.contains(r#"class="n bad" data-label="Failed, 1 h""#)
    };
    for path in ["/", "/queues", "/types"] {
        assert!(red(path).await, "{path}");
    }
    assert!(site.ask("GET", "/", &[], "").await.body.contains("<title>(1) Overview"));
    site.store.redrive(&Caller::local(), id, Redrive::default()).await.unwrap();
    for path in ["/", "/queues", "/types"] {
        assert!(!red(path).await, "{path}: it was retried");
        assert!(
            site.ask("GET", path, &[], "").await.body.contains(r#"data-label="Failed, 1 h">1<"#),
            "{path}"
        );
    }
    assert!(site.ask("GET", "/", &[], "").await.body.contains("<title>Overview"));
    // What is stored has another name than what is open.
    let jobs = site.ask("GET", "/jobs", &[], "").await.body;
    assert!(jobs.contains("failed, stored <b>1</b>") && jobs.contains(">dead letter, stored"), "{jobs}");
    let tenants = site.ask("GET", "/tenants", &[], "").await.body;
    assert!(tenants.contains("<dt>failed, stored</dt><dd>1</dd>"));
    let types = site.ask("GET", "/types", &[], "").await.body;
    assert!(types.contains("Dead letters, stored"));
}

#[tokio::test]
async fn dead_letters_show_what_their_errors_have_in_common() {
    let site = Site::start().await;
    for number in 7..10 {
        let mut job = new("mail");
        job.retry = Some(RetryPolicy { max_attempts: 1, ..RetryPolicy::standard() });
        site.submit(job).await;
        site.claim().await.fail(Failure::temporary(format!("no answer after {number} ms"))).await;
    }
    let page = site.ask("GET", "/dead", &[], "").await.body;
    assert!(page.contains("<pre>no answer after # ms</pre>"), "{page}");
    assert!(page.contains("the latest: no answer after 9 ms"));
}

#[tokio::test]
async fn charts_filters_and_logs_are_in_the_chosen_zone() {
    let site = Site::start().await;
    let id = site.job("mail").await;
    let claimed = site.claim().await;
    claimed.log("hello").await;
    let zone = [("cookie", "windlass-zone=Asia%2FTokyo")];
    let now = site.store.clock().now;
    let hours_ago = |hours: i64| (now.as_millis() / 3_600_000 - hours) * 3_600_000;
    let until = Timestamp::from_millis(hours_ago(5)).to_string();
    let page = site.ask("GET", &format!("/?range=1h&until={until}"), &zone, "").await.body;
    let hour = |ago: i64| (hours_ago(ago) / 3_600_000 + 9).rem_euclid(24);
    assert!(page.contains(&format!("{:02}:00 to {:02}:00 JST</span>", hour(6), hour(5))), "{page}");
    let list = site.ask("GET", "/jobs?created_after=2026-01-01T09:00", &zone, "").await.body;
    assert!(list.contains(r#"name="created_after" value="2026-01-01T09:00""#), "{list}");
    assert!(list.contains("2026-01-01T00:00:00.000Z"), "links have the time in UTC");
    assert!(list.contains("Submitted after (Asia/Tokyo)"));
    let job = site.ask("GET", &format!("/jobs/{id}"), &zone, "").await.body;
    assert!(job.contains("times in Asia/Tokyo"));
    let at = site.store.job(&Caller::local(), id).await.unwrap().unwrap().created_at;
    let hour = (at.as_millis() / 3_600_000 + 9).rem_euclid(24);
    assert!(
        job.contains(&format!("<time>{hour:02}:")) || job.contains(&format!("<time>{:02}:", (hour + 1) % 24))
    );
    let audit = site.ask("GET", "/audit?since=2026-01-01T09:00", &zone, "").await.body;
    assert!(audit.contains("From (Asia/Tokyo)"));
    let browser = Browser::start();
    let window = browser.window().await;
    let screen = serde_json::json!({"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": true});
    window.send("Emulation.setDeviceMetricsOverride", screen).await;
    window.send("Emulation.setTimezoneOverride", serde_json::json!({"timezoneId": "Asia/Tokyo"})).await;
    window.open(&site.at("/")).await;
    window.until("document.querySelector('#zone').getBoundingClientRect().width > 10").await;
    window.click("#zone").await;
    window.until("document.querySelector('#zone')?.textContent === 'Asia/Tokyo'").await;
}

#[tokio::test]
async fn a_time_is_compared_with_another_day_and_lines_say_their_values() {
    let site = Site::start().await;
    failed(&site, "x").await;
    counted(&site).await;
    for path in ["/", "/queues/default", "/types/mail"] {
        let page = site.ask("GET", &format!("{path}?compare=week&range=6h"), &[], "").await.body;
        assert!(page.contains(r#"aria-current="true">a week before"#), "{path}");
        assert!(
            page.contains("range=1d&#38;compare=week") || page.contains("range=1d&amp;compare=week"),
            "{path}"
        );
    }
    assert_eq!(site.ask("GET", "/?compare=year", &[], "").await.status, 422);
    let browser = Browser::start();
    let window = browser.open(&site.at("/?range=1h")).await;
    window.until("document.querySelector('#failures .chart[data-values]')?.tabIndex === 0").await;
    window.eval("document.querySelector('#failures .chart').focus()").await;
    window.until("!document.querySelector('#readout').hidden").await;
    window.press(&["ArrowLeft"]).await;
    window.until("/^..:.. |no value/.test(document.querySelector('#readout').textContent)").await;
    // A bar of the last hour leads to the minutes around it.
    let click = "document.querySelector('#throughput [data-zoom] .hit')\
                 .dispatchEvent(new MouseEvent('click', {bubbles: true}))";
    window.eval(click).await;
    window.until("location.search.includes('range=15m')").await;
    assert_eq!(window.errors().await, Vec::<String>::new());
}
