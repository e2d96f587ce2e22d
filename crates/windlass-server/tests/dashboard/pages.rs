//! Looking: every page opens in light and dark, narrow and wide, without script and by keyboard.

mod fitness;

use serde_json::json;
use windlass::job::{
    Dependency, Failure, GroupStrategy, JobType, NewJob, Payload, RetryPolicy, ScheduleName,
};
use windlass::schedule::ScheduleSpec;
use windlass::store::caller::Caller;
use windlass::store::{LeaseRef, NewGroup, NewSchedule, Pause, PauseTarget};
use windlass_testkit::browser::Browser;

use crate::fixture::{Site, new, queue};

/// A store with something of everything; the ids of a parent, a dependent and a dead letter.
pub(super) async fn furnish(site: &Site) -> [String; 3] {
    let mut parent = new("album.publish");
    parent.priority = Some(windlass::job::Priority::HIGH);
    let parent = site.submit(parent).await.id;
    let claimed = site.claim().await;
    claimed.log("spawning").await;
    let hand = LeaseRef { job: parent, fence: claimed.job.fence, worker: None };
    let jobs = (0..3).map(|_| new("image.resize")).collect();
    let group = NewGroup { name: "photos".into(), strategy: GroupStrategy::CollectAll, jobs };
    site.store.spawn(&Caller::local(), hand, group).await.unwrap();
    let mut dead = new("mail");
    dead.priority = Some(windlass::job::Priority::CRITICAL);
    dead.retry = Some(RetryPolicy { max_attempts: 1, ..RetryPolicy::standard() });
    dead.metadata.tags.insert("team".into(), "blue".into());
    let dead = site.submit(dead).await.id;
    site.claim().await.fail(Failure::temporary("no route to host").with_code("no_route")).await;
    let mut dependent = new("etl.load");
    dependent.after = vec![Dependency::Job(parent)];
    let dependent = site.submit(dependent).await.id;
    let pause = Pause { reason: Some("until the disk is replaced".into()), ..Pause::default() };
    site.store.pause(&Caller::local(), PauseTarget::Queue(queue("exports")), pause).await.unwrap();
    let job = NewJob::new(JobType::new("report").unwrap(), Payload::json("{}"));
    let timing =
        ScheduleSpec::Cron { cron: "0 2 * * *".parse().unwrap(), timezone: "Europe/Berlin".parse().unwrap() };
    let name = ScheduleName::new("nightly").unwrap();
    site.store.put_schedule(&Caller::local(), name, NewSchedule::new(timing, job)).await.unwrap();
    crate::alerts::put(site, "dead").await;
    [parent, dependent, dead].map(|id| id.to_string())
}

pub(super) const PAGES: [&str; 15] = [
    "/errors",
    "/types/mail?range=7d",
    "/",
    "/jobs",
    "/queues",
    "/queues/default",
    "/types",
    "/types/mail",
    "/workers",
    "/schedules",
    "/alerts",
    "/dead",
    "/audit",
    "/tenants",
    "/settings",
];

#[tokio::test]
async fn what_is_typed_is_not_lost_when_the_page_refreshes() {
    let site = Site::start().await;
    site.job("mail").await;
    let browser = Browser::start();
    let window = browser.open(&site.at("/queues/default")).await;
    window.until("document.querySelector('.pulse.on')").await;
    window.fill("#q-reason", "half a sentence").await;
    site.job("mail").await;
    window.until("document.querySelector('#depths').innerText.includes('2')").await;
    assert_eq!(window.text("document.querySelector('#q-reason').value").await, "half a sentence");
}

#[tokio::test]
async fn jobs_are_found_by_chips_search_and_shared_addresses() {
    let site = Site::start().await;
    let [parent, _, dead] = furnish(&site).await;
    let browser = Browser::start();
    let window = browser.open(&site.at("/jobs")).await;
    window.click("a[data-state=dead_letter]").await;
    window.until("location.search === '?state=dead_letter'").await;
    window.until("document.querySelectorAll('tbody tr').length === 1").await;
    assert_eq!(window.text("document.querySelector('.chip b').innerText").await, "dead_letter");
    window.click(".chip a").await;
    window.until("location.search === ''").await;
    window.unfold("#filters").await;
    window.fill("#f-tag", "team:blue").await;
    window.click("#filters button[type=submit]").await;
    window.until("location.search.includes('tag=team%3Ablue')").await;
    window.until(&format!("document.querySelector('tbody tr').dataset.job === '{dead}'")).await;
    for (text, place) in [
        (parent.as_str(), format!("/jobs/{parent}")),
        ("image.resize", "/jobs?type=image.resize".into()),
        ("resi", "/jobs?type=image.resize".into()),
        ("exports", "/queues/exports".into()),
        ("not.known", "/jobs?q=not.known".into()),
        ("team:blue", "/jobs?tag=team%3Ablue".into()),
    ] {
        window.fill("#search", text).await;
        window.eval("document.querySelector('.search').submit()").await;
        window.until(&format!("location.pathname + location.search === {place:?}")).await;
    }
    let part: String = parent.chars().take(12).collect();
    window.open(&site.at(&format!("/jobs?id={part}"))).await;
    window.until(&format!("document.querySelector('[data-job=\"{parent}\"]')")).await;
}

#[tokio::test]
async fn a_graph_and_children_are_drawn_and_can_be_clicked_through() {
    let site = Site::start().await;
    let [parent, dependent, _] = furnish(&site).await;
    let browser = Browser::start();
    let window = browser.open(&site.at(&format!("/jobs/{parent}"))).await;
    window.until("document.querySelectorAll('.graph .node').length === 5").await;
    assert!(window.text("document.querySelector('#children').innerText").await.contains("0 of 3 completed"));
    let link = format!(".graph a[href='/jobs/{dependent}']");
    window
        .eval(&format!(
            "document.querySelector({link:?}).dispatchEvent(new MouseEvent('click', {{bubbles: true}}))"
        ))
        .await;
    window.until(&format!("location.pathname === '/jobs/{dependent}'")).await;
    window.until("document.querySelector('#why').innerText.includes('waits for other jobs')").await;
}

#[tokio::test]
async fn everything_can_be_reached_by_keyboard() {
    let site = Site::start().await;
    furnish(&site).await;
    let browser = Browser::start();
    let window = browser.open(&site.at("/")).await;
    window.press(&["/"]).await;
    window.until("document.activeElement.id === 'search'").await;
    window.press(&["Escape"]).await;
    window.until("document.activeElement.id !== 'search'").await;
    window.press(&["?"]).await;
    window.until("document.querySelector('#help').open").await;
    window.eval("document.querySelector('#help').close()").await;
    for (key, path) in [("j", "/jobs"), ("q", "/queues"), ("d", "/dead"), ("o", "/")] {
        window.press(&["g", key]).await;
        window.until(&format!("location.pathname === {path:?} && document.readyState === 'complete'")).await;
    }
    window.press(&["g", "j"]).await;
    window.until("location.pathname === '/jobs' && document.querySelector('.pulse.on')").await;
    window.press(&["j", "j", "x"]).await;
    window.until("document.querySelector('tbody tr:nth-child(2) input').checked").await;
    window.click("#theme").await;
    window.until("document.documentElement.dataset.theme").await;
    let theme = window.text("document.documentElement.dataset.theme").await;
    window.reload().await;
    window.until(&format!("document.documentElement.dataset.theme === '{theme}'")).await;
}

#[tokio::test]
async fn schedules_are_triggered_paused_and_removed() {
    let site = Site::start().await;
    furnish(&site).await;
    let browser = Browser::start();
    let window = browser.open(&site.at("/schedules")).await;
    window.until("document.querySelectorAll('.day').length === 7").await;
    assert!(window.text("document.querySelector('.calendar').innerText").await.contains("nightly"));
    window.click("button[aria-label='Run now: nightly']").await;
    window
        .until("document.querySelector('.banner.done')?.innerText.startsWith('nightly was triggered.')")
        .await;
    window.click("button[aria-label='Pause nightly']").await;
    window.fill(".pop:popover-open [name=reason]", "month end").await;
    window.click(".pop:popover-open [name=action]").await;
    window.until("document.querySelector('#schedules .badge.warn')").await;
    assert!(window.text("document.querySelector('#schedules').innerText").await.contains("month end"));
    window.click("button[aria-label='Delete nightly']").await;
    window.until("document.querySelector('#confirm-text').innerText === 'Delete schedule nightly?'").await;
    window.click("#confirm[open] #confirm-yes").await;
    window.until("document.querySelector('main').innerText.includes('No schedules yet')").await;
    // The message offers to undo it; the list of deleted ones does as well.
    window.click("#said button[value=restore]").await;
    window.until("document.querySelector('#said').innerText.includes('nightly is restored')").await;
    window.until("document.querySelector('#schedules').innerText.includes('nightly')").await;
    window.click("#said button[value=delete]").await;
    window.until("document.querySelector('main').innerText.includes('No schedules yet')").await;
    window.click("button[aria-label='Restore nightly']").await;
    window.until("document.querySelector('#schedules').innerText.includes('nightly')").await;
    window.until("!document.querySelector('#deleted')").await;
}

#[tokio::test]
async fn pages_can_be_read_without_a_script() {
    let site = Site::start().await;
    let [parent, ..] = furnish(&site).await;
    let job = format!("/jobs/{parent}");
    let wanted = [
        ("/", "Throughput"),
        ("/jobs", "album.publish"),
        ("/dead", "no route to host"),
        ("/schedules", "nightly"),
        (job.as_str(), "waits for its children"),
        (job.as_str(), "image.resize"),
    ];
    for (path, text) in wanted {
        let page = site.ask("GET", path, &[], "").await.body;
        assert!(page.contains(text), "{path} lacks {text}");
    }
}

/// A browser gets a page for a wrong address, a program an error of the API.
#[tokio::test]
async fn a_wrong_address_is_a_page_in_a_browser_only() {
    let site = Site::start().await;
    let html = [("accept", "text/html,application/xhtml+xml,*/*;q=0.8")];
    for path in ["/nope", "/queue/mail", "/jobs/1/2/3"] {
        let page = site.ask("GET", path, &html, "").await;
        assert_eq!(page.status, 404, "{path}");
        assert!(
            page.body.contains("There is no page at this address.") && page.body.contains("href=\"/jobs\"")
        );
        assert!(page.header("content-security-policy").is_some());
        let answer = site.ask("GET", path, &[("accept", "*/*")], "").await;
        assert!(answer.status == 404 && answer.body.contains("\"not_found\""), "{}", answer.body);
    }
    for accept in ["application/json, text/html;q=0.1", "text/htmlx", "text/html, application/json"] {
        let answer = site.ask("GET", "/nope", &[("accept", accept)], "").await;
        assert!(answer.body.contains("\"not_found\""), "{accept}: {}", answer.body);
    }
    for (method, path) in [
        ("GET", "/api/v1/nope"),
        ("GET", "/api"),
        ("GET", "/assets/x.css"),
        ("POST", "/nope"),
        ("OPTIONS", "/nope"),
    ] {
        let answer = site.ask(method, path, &html, "").await;
        assert!(answer.body.contains("\"not_found\""), "{method} {path}: {}", answer.body);
    }
}

#[tokio::test]
async fn the_guides_are_served_and_searched_without_a_key_and_a_script() {
    let site = Site::start().await;
    site.key("ann", windlass::store::caller::Role::Admin).await;
    let entry = site.ask("GET", "/docs", &[], "").await;
    assert_eq!((entry.status, entry.header("content-type")), (200, Some("text/html; charset=utf-8")));
    for link in ["/docs/guides", "/docs/api", "/openapi.json", "/", "/docs/guides/tutorials/served"] {
        assert!(entry.body.contains(&format!("href=\"{link}\"")), "{link}");
        assert!(site.ask("GET", link, &[], "").await.status < 400, "{link}");
    }
    // Searches of the reference had this address before.
    let before = site.ask("GET", "/docs?q=cancel+job", &[], "").await;
    assert_eq!((before.status, before.header("location")), (303, Some("/docs/api?q=cancel+job")));
    let index = site.ask("GET", "/docs/guides", &[], "").await;
    assert_eq!(index.status, 200);
    assert!(index.body.contains("href=\"/docs/guides/schedules\"") && !index.body.contains("<script"));
    let policy = index.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    let found = site.ask("GET", "/docs/guides?q=cron+%3Cb%3Etime", &[], "").await;
    assert!(found.body.contains("&#60;b&#62;") || found.body.contains("&lt;b&gt;"), "what was typed is text");
    assert!(
        site.ask("GET", "/docs/guides?q=time+zone", &[], "").await.body.contains("/docs/guides/schedules#")
    );
    assert_eq!(site.ask("GET", "/docs/guides/none", &[], "").await.status, 404);
    for name in ["limits.html", "limits.md"] {
        let other = site.ask("GET", &format!("/docs/guides/{name}"), &[], "").await;
        assert_eq!((other.status, other.header("location")), (303, Some("/docs/guides/limits")));
    }
    assert_eq!(site.ask("GET", "/docs/guides/guide.css", &[], "").await.status, 200);
    let browser = Browser::start();
    for (width, address) in
        [(1440, "/docs/guides"), (800, "/docs/guides/limits"), (390, "/docs/guides/http-api")]
    {
        let window = browser.window().await;
        let screen = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600});
        window.send("Emulation.setDeviceMetricsOverride", screen).await;
        window.open(&site.at(address)).await;
        window.until("document.readyState === 'complete'").await;
        let overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
        assert_eq!(window.eval(overflow).await.as_i64(), Some(0), "{address} at {width}");
        for theme in ["light", "dark"] {
            let media = json!({"features": [{"name": "prefers-color-scheme", "value": theme}]});
            window.send("Emulation.setEmulatedMedia", media).await;
            let missing = window.eval(include_str!("pages/access_check.js")).await;
            assert_eq!(missing, json!([]), "{address} in {theme} at {width}: {missing:#}");
        }
    }
}
