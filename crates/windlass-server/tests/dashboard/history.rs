//! Statistics over time: the range that is shown, narrower parts of it, and charts that say in words what they draw.

use std::time::Duration;

use windlass::job::Failure;
use windlass::store::caller::Caller;
use windlass::store::{ClaimRequest, NewWorker, Outcome, Redrive, Report};
use windlass_testkit::browser::Browser;

use crate::auth::OWN;
use crate::fixture::{Site, new};

async fn page(site: &Site, path: &str) -> String {
    site.ask("GET", path, &[], "").await.body
}

/// The text between two others.
fn between<'t>(text: &'t str, before: &str, after: &str) -> &'t str {
    let (_, rest) = text.split_once(before).expect("it is there");
    rest.split_once(after).map_or(rest, |(found, _)| found)
}

/// What happened is written with a commit of the next second or so.
async fn counted(site: &Site) {
    let is_counted = async || {
        let types = site.store.job_types(&Caller::local()).await.unwrap();
        let mail = types.iter().find(|info| info.name.as_str() == "mail").expect("there are such jobs");
        mail.minutes.values().any(|minute| minute.failed == 1)
    };
    while !is_counted().await {
        let mut other = new("other");
        other.delay = Some(Duration::from_secs(3600));
        site.submit(other).await;
    }
}

#[tokio::test]
async fn the_overview_a_queue_and_a_type_show_any_time_without_scripts() {
    let site = Site::start().await;
    site.job("mail").await;
    site.claim().await.complete("{}").await;
    site.job("mail").await;
    site.claim().await.fail(Failure::permanent("unknown", "no such user")).await;
    counted(&site).await;
    for path in ["/", "/queues/default", "/types/mail"] {
        let hour = page(&site, path).await;
        assert!(hour.contains(r#"aria-current="true">1 h</a>"#), "{path}: the last hour is shown");
        assert!(hour.contains("last 1h: 1 jobs completed"), "{path}");
        for range in ["15m", "6h", "1d", "2d", "7d", "30d"] {
            let link = format!("{path}?range={range}");
            assert!(hour.contains(&format!(r#"href="{link}""#)), "{path} offers {range}");
            let wide = page(&site, &link).await;
            assert!(
                wide.contains("1 jobs completed") && wide.contains("50.0 percent of attempts failed"),
                "{link}"
            );
            assert!(wide.contains("Ready jobs") && wide.contains("Half of the jobs ran"), "{link}");
        }
        let refused = site.ask("GET", &format!("{path}?range=40d"), &[], "").await;
        assert!(refused.status == 422 && refused.body.contains("between 5m and 30d"));
        let refused = site.ask("GET", &format!("{path}?until=yesterday"), &[], "").await;
        assert_eq!(refused.status, 422);
    }
    assert!(page(&site, "/types/mail").await.contains("How long jobs ran over time"));
    assert!(!page(&site, "/").await.contains("Compared"), "nothing is known about the time before");
}

#[tokio::test]
async fn a_range_leads_to_its_parts_to_earlier_times_and_back_to_the_present() {
    let site = Site::start().await;
    let day = page(&site, "/?range=1d").await;
    let zoom = between(&day, r#"aria-label="Zoom">"#, "</nav>");
    assert!((6..=7).contains(&zoom.matches("range=4h").count()), "parts of four hours: {zoom}");
    let part = between(zoom, r#"href=""#, r#"""#).replace("&#38;", "&").replace("&amp;", "&");
    let part = page(&site, &part).await;
    let ranges = between(&part, r#"id="ranges""#, "</nav>");
    assert!(ranges.contains(" UTC</span>") && ranges.contains(">Now</a>") && ranges.contains("Later"));
    assert!(!ranges.contains("aria-current"), "none of the presets is shown");
    assert!(!between(&day, r#"id="ranges""#, "</nav>").contains(">Now</a>"));
}

#[tokio::test]
async fn a_click_on_a_bar_shows_that_time_alone() {
    let site = Site::start().await;
    let browser = Browser::start();
    let window = browser.open(&site.at("/?range=1d")).await;
    let click = "document.querySelector('#throughput [data-zoom] .hit')\
                 .dispatchEvent(new MouseEvent('click', {bubbles: true}))";
    window.eval(click).await;
    window.until("location.search.includes('range=15m') && location.search.includes('until=')").await;
}

#[tokio::test]
async fn types_and_queues_are_sorted_by_any_number() {
    let site = Site::start().await;
    for (job_type, jobs) in [("few", 1), ("many", 3), ("some", 2)] {
        for _ in 0..jobs {
            let mut job = new(job_type);
            job.queue = crate::fixture::queue(job_type);
            site.submit(job).await;
        }
    }
    for (path, by) in [("/types", "open"), ("/queues", "ready")] {
        let places = async |query: &str| {
            let page = page(&site, &format!("{path}{query}")).await;
            let place = |name: &str| page.find(&format!(r#"href="{path}/{name}""#)).expect("it is listed");
            let mut names = ["few", "many", "some"];
            names.sort_by_key(|name| place(name));
            (names.join(" "), page)
        };
        assert_eq!(places("").await.0, "few many some", "by name");
        let (names, sorted) = places(&format!("?sort={by}")).await;
        assert_eq!(names, "many some few");
        assert!(sorted.contains(r#"aria-sort="descending""#));
        assert!(sorted.contains(&format!("{path}?sort={by}.up")), "a second click turns it round");
        assert_eq!(places(&format!("?sort={by}.up")).await.0, "few some many");
    }
}

#[tokio::test]
async fn errors_that_differ_in_numbers_and_paths_are_one_and_are_retried_together() {
    let site = Site::start().await;
    for (job_type, message) in [
        ("mail", "cannot read album/7.jpg after 12 ms"),
        ("image", "cannot read album-48053/4.jpg after 900 ms"),
        ("mail", "no such user"),
    ] {
        site.job(job_type).await;
        site.claim().await.fail(Failure::permanent("io", message)).await;
    }
    let errors = page(&site, "/errors").await;
    assert_eq!(errors.matches("<tr id=\"e-").count(), 2, "{errors}");
    assert!(
        errors.contains("cannot read &#60;path&#62; after # ms")
            || errors.contains("cannot read &lt;path&gt; after # ms")
    );
    let row = between(&errors, "<tr id=\"e-", "</tr>");
    assert!(row.contains("<b>2</b>") && row.contains(">image</a>") && row.contains(">mail</a>"), "{row}");
    let shown = site.ask("GET", "/errors", &[], "").await;
    let field = |name: &str| between(row, &format!(r#"name="{name}" value=""#), r#"""#).to_owned();
    let form = format!(
        "token={}&error={}&most={}&until={}",
        shown.token(),
        field("error"),
        field("most"),
        field("until").replace(':', "%3A")
    );
    let done = site.ask("POST", "/errors/retry", &[OWN], &form).await;
    assert!(done.header("location").is_some_and(|to| to.starts_with("/errors?done=redriven&n=2")));
    let after = page(&site, "/errors").await;
    assert!(!after.contains("Retry 2") && after.contains("Retry 1"), "{after}");
}

/// Its statistics are stored; the jobs they come from may be retried or deleted.
#[tokio::test]
async fn an_error_stays_known_after_its_jobs_are_gone() {
    let site = Site::start().await;
    let me = Caller::local();
    let worker = NewWorker {
        name: "w".into(),
        concurrency: 4,
        heartbeats: false,
        version: Some("v17".into()),
        ..NewWorker::default()
    };
    let worker = site.store.register(&me, worker).await.unwrap().id;
    let mut jobs = Vec::new();
    for number in 0..2 {
        jobs.push(site.job("mail").await);
        let request = ClaimRequest::new(worker, 1);
        let claimed =
            site.store.claim(&me, &request, Duration::from_secs(10)).await.unwrap().jobs.remove(0).job;
        let outcome = Outcome::Failed(Failure::permanent("io", format!("order {number} not found")));
        let report = Report::new(claimed.id, claimed.fence, outcome);
        site.store.finish(&me, worker, vec![report]).await.unwrap();
    }
    site.store.redrive(&me, jobs[0], Redrive::default()).await.unwrap();
    site.store.delete(&me, jobs[1]).await.unwrap();
    // What happened is written with a commit of the next second or so.
    let seen =
        async || site.store.errors(&me).await.unwrap().values().map(|error| error.seen.count).sum::<u64>();
    while seen().await < 2 {
        site.submit(windlass::job::NewJob { delay: Some(Duration::from_secs(9_999)), ..new("other") }).await;
    }
    let errors = page(&site, "/errors").await;
    let row = between(&errors, "<tr id=\"e-", "</tr>");
    assert!(row.contains("order # not found") && row.contains("v17"), "{row}");
    assert!(row.contains("<b>0</b>") && row.contains("data-label=\"Failures\">2</td>"), "{row}");
    assert!(row.contains("2 in the last 48 hours") && !row.contains("/errors/retry"), "{row}");
}

#[tokio::test]
async fn a_worker_has_a_page_with_its_slots_and_jobs() {
    let site = Site::start().await;
    let done = site.job("mail").await;
    let claimed = site.claim().await;
    claimed.complete("{}").await;
    let path = format!("/workers/{}", claimed.worker);
    let worker = page(&site, &path).await;
    assert!(page(&site, "/workers").await.contains(&format!(r#"href="{path}""#)), "the list leads to it");
    assert!(worker.contains("Slots") && worker.contains("No running jobs"));
    let recent = between(&worker, r#"id="recent""#, "</section>");
    assert!(recent.contains(&done.to_string()), "it completed that job: {recent}");
    let token = site.ask("GET", &path, &[], "").await.token();
    let form = format!("token={token}&action=pause&from=own");
    let paused = site.ask("POST", &format!("{path}/act"), &[OWN], &form).await;
    assert!(paused.header("location").is_some_and(|to| to.starts_with(&path)));
    assert!(page(&site, &path).await.contains(">Resume</button>"));
    assert_eq!(site.ask("GET", "/workers/unknown", &[], "").await.status, 404);
}

#[tokio::test]
async fn ctrl_k_goes_to_any_page_or_searches() {
    let site = Site::start().await;
    let browser = Browser::start();
    let window = browser.open(&site.at("/")).await;
    let keys =
        "document.dispatchEvent(new KeyboardEvent('keydown', {key: 'k', ctrlKey: true, bubbles: true}))";
    let keys = &keys.replace("document.dispatchEvent", "document.body.dispatchEvent");
    window.eval(keys).await;
    window.until("document.getElementById('palette').open").await;
    let typed = "(() => { const text = document.getElementById('palette-text'); text.value = 'sched';\
                 text.dispatchEvent(new Event('input', {bubbles: true})); })()";
    window.eval(typed).await;
    assert_eq!(window.text("document.querySelector('#palette ul').innerText").await.trim(), "Schedules");
    window.eval("document.querySelector('#palette form').requestSubmit()").await;
    window.until("location.pathname === '/schedules'").await;
    window.eval(keys).await;
    window.eval(&typed.replace("sched", "no such thing")).await;
    window.eval("document.querySelector('#palette form').requestSubmit()").await;
    window.until("location.pathname === '/jobs' && location.search.includes('such')").await;
    assert_eq!(window.errors().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_list_of_jobs_is_exported_as_csv_and_json_with_its_filter() {
    let site = Site::start().await;
    let mut job = new("mail");
    job.metadata.tags.insert("team".into(), "blue".into());
    let mail = site.submit(job).await.id.to_string();
    site.job("report").await;
    let list = page(&site, "/jobs?type=mail").await;
    assert!(list.contains("/jobs/export?type=mail") && list.contains("format=csv"));
    let csv = site.ask("GET", "/jobs/export?type=mail&format=csv", &[], "").await;
    assert_eq!(csv.header("content-type"), Some("text/csv; charset=utf-8"));
    assert!(csv.header("content-disposition").is_some_and(|how| how.starts_with("attachment")));
    let lines: Vec<&str> = csv.body.lines().collect();
    assert!(lines.len() == 2 && lines[0].starts_with("id,state,type,queue,tenant"), "{}", csv.body);
    assert!(lines[1].contains(&mail) && lines[1].contains("\"team:blue\""));
    let json = site.ask("GET", "/jobs/export?format=json", &[], "").await.body;
    let jobs: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(jobs.as_array().map(Vec::len), Some(2));
}
