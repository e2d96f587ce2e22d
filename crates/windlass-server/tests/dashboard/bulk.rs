//! Lists of jobs, and actions on many of them: to those that were meant, and no others.

use serde_json::json;
use windlass::job::{Failure, JobId, JobState, NewJob, RetryPolicy};
use windlass::store::caller::{Caller, Role};
use windlass::store::{ActionRequest, BulkAction, Filter, Redrive, SubmitOptions};
use windlass_testkit::browser::Browser;

use crate::auth::cookie;
use crate::fixture::{Page, Site, new};

const OWN: (&str, &str) = ("sec-fetch-site", "same-origin");

async fn number(site: &Site, state: JobState) -> u64 {
    let states = site.store.stats(&Caller::local()).await.unwrap().states;
    states.get(&state).copied().unwrap_or(0)
}

/// Sends a form with the token of a page.
async fn post(site: &Site, path: &str, body: &str) -> Page {
    let token = site.ask("GET", "/jobs", &[], "").await.token();
    site.ask("POST", path, &[OWN], &format!("{body}&token={token}")).await
}

/// The fields of the first form of a page that goes to an address, as a browser would send them.
fn fields(page: &str, action: &str) -> String {
    let (_, form) = page.split_once(&format!("action=\"{action}\"")).expect("the page has the form");
    let form = form.split("</form>").next().unwrap_or_default();
    let mut query = form_urlencoded::Serializer::new(String::new());
    for input in form.split("<input ").skip(1) {
        let attribute = |name: &str| {
            let (_, rest) = input.split_once(&format!("{name}=\""))?;
            Some(rest.split('"').next().unwrap_or_default())
        };
        if let (Some("hidden"), Some(name), Some(value)) =
            (attribute("type"), attribute("name"), attribute("value"))
        {
            query.append_pair(name, value);
        }
    }
    query.finish()
}

fn title(page: &Page) -> String {
    let (_, rest) = page.body.split_once("<h1>").expect("a page has a title");
    rest.split("</h1>").next().unwrap_or_default().to_owned()
}

/// A job that has spent its retries.
async fn dead(site: &Site, job_type: &str, message: &str) -> JobId {
    let retry = Some(RetryPolicy { max_attempts: 1, ..RetryPolicy::standard() });
    let id = site.submit(NewJob { retry, ..new(job_type) }).await.id;
    site.claim().await.fail(Failure::temporary(message)).await;
    id
}

#[tokio::test]
async fn an_address_of_many_filters_does_not_make_a_huge_page() {
    let site = Site::start().await;
    let many: Vec<String> = (0..6_000).map(|number| format!("tag=a:{number}")).collect();
    let page = site.ask("GET", &format!("/jobs?{}", many.join("&")), &[], "").await;
    assert_eq!(page.status, 200);
    assert!(page.body.len() < 100_000, "{} bytes", page.body.len());
    let page = post(&site, "/jobs/act", &format!("action=cancel&all=1&{}", many.join("&"))).await;
    assert!(page.status == 200 && page.body.len() < 100_000, "{} bytes", page.body.len());
}

#[tokio::test]
async fn no_more_jobs_are_acted_on_than_were_confirmed() {
    let site = Site::start().await;
    for _ in 0..3 {
        site.job("mail").await;
    }
    let asked = post(&site, "/jobs/act", "action=cancel&all=1&type=mail&type=other").await;
    assert_eq!(title(&asked), "Cancel 3 jobs?");
    assert!(asked.body.contains("type mail") && !asked.body.contains("type other"));
    for _ in 0..20 {
        site.job("mail").await;
    }
    let done = site.ask("POST", "/jobs/act", &[OWN], &fields(&asked.body, "/jobs/act")).await;
    assert!(done.header("location").unwrap().contains("n=3"), "{:?}", done.headers());
    assert_eq!((number(&site, JobState::Cancelled).await, number(&site, JobState::Scheduled).await), (3, 20));
    let none = post(&site, "/jobs/act", "action=cancel&all=1&type=mail&most=0&confirmed=1").await;
    assert!(none.header("location").unwrap().contains("n=0&"), "{:?}", none.headers());
    // Those that fit since, because their state changed, are no more jobs either.
    let asked = post(&site, "/jobs/act", "action=delete&all=1&state=cancelled").await;
    assert_eq!(title(&asked), "Delete 3 jobs?");
    assert!(asked.body.contains("This cannot be undone."));
    let cancel = BulkAction::Act(ActionRequest::Cancel { reason: None });
    site.store.bulk(&Caller::local(), &Filter::default(), cancel).await.unwrap();
    site.ask("POST", "/jobs/act", &[OWN], &fields(&asked.body, "/jobs/act")).await;
    assert_eq!(number(&site, JobState::Cancelled).await, 20);
}

#[tokio::test]
async fn what_is_confirmed_counts_only_what_can_be_done() {
    let site = Site::start().await;
    let secret = site.key("shop", Role::Submitter).await;
    let key = windlass::key::KeySecret::parse(&secret).unwrap().id();
    let shop = Caller {
        key: Some(key),
        ..Caller::new("shop", Role::Submitter, Some(windlass::job::Tenant::default()))
    };
    let own = site.store.submit(&shop, vec![new("mail")], SubmitOptions::default()).await.unwrap()[0].job.id;
    let foreign = site.job("mail").await;
    let ended = site.job("mail").await;
    site.store.act(&Caller::local(), ended, ActionRequest::Cancel { reason: None }).await.unwrap();
    let cookie = cookie(&site, &secret).await;
    let headers = [("cookie", cookie.as_str()), OWN];
    let token = site.ask("GET", "/jobs", &headers, "").await.token();
    let ask =
        async |body: String| site.ask("POST", "/jobs/act", &headers, &format!("{body}&token={token}")).await;
    let two = ask(format!("action=cancel&id_selected={foreign}&id_selected={foreign}")).await;
    assert_eq!(title(&two), "No jobs for this action");
    let all = ask("action=cancel&all=1".into()).await;
    assert_eq!(title(&all), "Cancel 1 job?");
    let ended =
        ask(format!("action=cancel&id_selected={own}&id_selected={ended}&id_selected={foreign}")).await;
    assert_eq!(title(&ended), "Cancel 1 job?");
    assert!(ended.body.contains("2 of the selected jobs are skipped"));
    let none = ask("action=cancel&all=1&state=cancelled".into()).await;
    assert_eq!(title(&none), "No jobs for this action");
}

#[tokio::test]
async fn a_job_that_was_redriven_is_not_redriven_again_unawares() {
    let site = Site::start().await;
    let (first, second) = (dead(&site, "mail", "refused").await, dead(&site, "mail", "refused").await);
    site.store.redrive(&Caller::local(), first, Redrive::default()).await.unwrap();
    let page = site.ask("GET", &format!("/jobs/{first}"), &[], "").await;
    assert!(page.body.contains("Retried as") && page.body.contains("Retry again as new job"));
    let act = format!("/jobs/{first}/act");
    assert_eq!(post(&site, &act, "action=redrive").await.status, 409);
    assert_eq!(post(&site, &act, "action=redrive&again=1").await.status, 303);
    let asked = post(&site, "/jobs/act", "action=redrive&all=1&state=dead_letter").await;
    assert_eq!(title(&asked), "Retry 1 job as a new job?");
    assert!(asked.body.contains("1 was retried already"));
    let picked = format!("action=redrive&id_selected={first}&id_selected={second}");
    assert_eq!(title(&post(&site, "/jobs/act", &picked).await), "Retry 1 job as a new job?");
    let done = post(&site, "/jobs/act", &format!("{picked}&confirmed=1")).await;
    assert!(done.header("location").unwrap().contains("n=1"), "{:?}", done.headers());
}

#[tokio::test]
async fn a_group_of_dead_letters_is_redriven_as_it_was_shown() {
    let site = Site::start().await;
    // What a form would change on its way: an end of line, a space at the end.
    for _ in 0..2 {
        dead(&site, "mail", "no route\rto host ").await;
    }
    let page = site.ask("GET", "/dead", &[], "").await;
    assert!(page.body.contains("2 open · <a"));
    let form = fields(&page.body, "/dead/redrive");
    dead(&site, "mail", "no route\rto host ").await;
    let done = site.ask("POST", "/dead/redrive", &[OWN], &form).await;
    assert!(done.header("location").unwrap().contains("n=2&"), "{:?}", done.headers());
    let page = site.ask("GET", "/dead", &[], "").await;
    assert!(page.body.contains("1 open · 3 stored"), "the one that died since is left");
    // A second click on the old page finds nothing of what it showed.
    let again = site.ask("POST", "/dead/redrive", &[OWN], &form).await;
    assert!(again.header("location").unwrap().contains("n=0&"), "{:?}", again.headers());
    let list = site.ask("GET", "/jobs?state=dead_letter&redriven=no", &[], "").await.body;
    assert_eq!(list.matches("data-job=").count(), 1);
}

#[tokio::test]
async fn open_dead_letters_show_however_many_newer_ones_were_redriven() {
    let site = Site::start().await;
    let local = Caller::local();
    dead(&site, "mail", "the oldest").await;
    let job =
        NewJob { retry: Some(RetryPolicy { max_attempts: 1, ..RetryPolicy::standard() }), ..new("mail") };
    site.store.submit(&local, vec![job; 300], SubmitOptions::default()).await.unwrap();
    for _ in 0..300 {
        let claimed = site.claim().await;
        claimed.fail(Failure::temporary("refused")).await;
        let redriven = site.store.redrive(&local, claimed.job.id, Redrive::default()).await.unwrap();
        site.store.act(&local, redriven.id, ActionRequest::Cancel { reason: None }).await.unwrap();
    }
    let page = site.ask("GET", "/dead", &[], "").await.body;
    assert!(page.contains("the oldest") && page.contains("1 open · 301 stored") && !page.contains("refused"));
    let overview = site.ask("GET", "/", &[], "").await.body;
    assert!(!overview.contains(">refused<"), "a redriven job is not a recent failure");
}

#[tokio::test]
async fn pages_of_a_list_go_forth_and_back() {
    let site = Site::start().await;
    let jobs = vec![new("mail"); 120];
    site.store.submit(&Caller::local(), jobs, SubmitOptions::default()).await.unwrap();
    let jobs_of = |page: &Page| -> Vec<String> {
        page.body.split("data-job=\"").skip(1).map(|rest| rest[..36].to_owned()).collect()
    };
    let link = |page: &Page, rel: &str| {
        let (_, rest) = page.body.split_once(&format!("rel=\"{rel}\" href=\""))?;
        Some(rest.split('"').next().unwrap_or_default().replace("&#38;", "&"))
    };
    for order in ["newest", "oldest"] {
        let mut seen = vec![site.ask("GET", &format!("/jobs?order={order}"), &[], "").await];
        while let Some(next) = link(seen.last().unwrap(), "next") {
            seen.push(site.ask("GET", &next, &[], "").await);
        }
        assert_eq!(seen.iter().map(|page| jobs_of(page).len()).collect::<Vec<_>>(), [50, 50, 20]);
        let back = site.ask("GET", &link(&seen[2], "prev").unwrap(), &[], "").await;
        assert_eq!(jobs_of(&back), jobs_of(&seen[1]));
        assert_eq!(
            jobs_of(&site.ask("GET", &link(&back, "next").unwrap(), &[], "").await),
            jobs_of(&seen[2])
        );
        let first = site.ask("GET", &link(&back, "prev").unwrap(), &[], "").await;
        assert_eq!(first.status, 303, "the first page is the first page");
        assert_eq!(link(&seen[0], "prev"), None);
    }
}

#[tokio::test]
async fn a_search_finds_what_was_meant_or_says_what_was_looked_for() {
    let site = Site::start().await;
    let theirs = "0d5b9e1c-7c9b-4b1e-9d6e-1f2a3b4c5d6e";
    let mut job = new("invoice.charge");
    job.metadata.correlation_id = Some(theirs.to_owned());
    site.submit(job).await;
    let print = site.job("invoice.print").await;
    // As `windlass top` prints it.
    let tail = print.to_string()[28..].to_owned();
    let worker = site.claim().await.worker;
    for (text, place) in [
        (theirs, format!("/jobs?correlation_id={theirs}")),
        ("charge", "/jobs?type=invoice.charge".to_owned()),
        ("bench", format!("/workers/{worker}")),
        ("dead_letter", "/jobs?state=dead_letter".to_owned()),
        ("dead+letter", "/jobs?state=dead_letter".to_owned()),
        ("Dead+letters", "/jobs?state=dead_letter".to_owned()),
        ("state:failed", "/jobs?state=failed".to_owned()),
        ("queue:mail", "/jobs?queue=mail".to_owned()),
        (&tail, format!("/jobs/{print}")),
    ] {
        let answer = site.ask("GET", &format!("/jobs?q={text}"), &[], "").await;
        assert_eq!(answer.header("location"), Some(place.as_str()), "{text}");
    }
    let alike = site.ask("GET", "/jobs?q=invoice", &[], "").await;
    assert!(alike.body.contains("invoice.charge") && alike.body.contains("invoice.print"));
    let nothing = site.ask("GET", "/jobs?q=502+Bad+Gateway", &[], "").await;
    assert!(nothing.status == 200 && nothing.body.contains("Searched"));
    let failing = site.claim().await;
    failing.fail(Failure::permanent("bad_gateway", "502 Bad Gateway from hooks.example.com")).await;
    for text in ["502+Bad+Gateway", "bad_gateway", "hooks.example"] {
        let found = site.ask("GET", &format!("/jobs?q={text}"), &[], "").await;
        assert!(found.body.contains(&failing.job.id.to_string()), "{text}: {}", found.body);
    }
}

#[tokio::test]
async fn an_empty_list_gets_its_buttons_with_its_first_jobs() {
    let site = Site::start().await;
    let browser = Browser::start();
    let window = browser.open(&site.at("/jobs")).await;
    window.until("document.querySelector('.pulse.on')").await;
    window.until("document.querySelector('#list').innerText.includes('No job has been submitted yet')").await;
    let jobs = vec![new("mail"); 60];
    site.store.submit(&Caller::local(), jobs, SubmitOptions::default()).await.unwrap();
    window.until("document.querySelectorAll('tbody tr').length === 50").await;
    window.until("document.querySelector('.pager [rel=next]')").await;
    window.until("document.querySelector('.bulk').innerText.includes('all 60 matching')").await;
    let shown = "getComputedStyle(document.querySelector('.bulk button')).display !== 'none'";
    assert_eq!(window.eval(shown).await, json!(false), "nothing is selected yet");
    window.click("tbody tr input[name=id_selected]").await;
    assert_eq!(window.eval(shown).await, json!(true));
    // The bar is on the screen, however long the list and narrow the window.
    for width in [1440, 800, 390] {
        let metrics = json!({"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": false});
        window.send("Emulation.setDeviceMetricsOverride", metrics).await;
        window.eval("scrollTo(0, 0)").await;
        let bar = "document.querySelector('.bulk').getBoundingClientRect()";
        window
            .until(&format!("document.body.scrollHeight > 2 * innerHeight && {bar}.bottom <= innerHeight"))
            .await;
    }
    window.send("Emulation.clearDeviceMetricsOverride", json!({})).await;
    window.unfold("#filters").await;
    window.click("#filters input[value=failed]").await;
    window.click("#filters input[value=cancelled]").await;
    window.click("#filters button[type=submit]").await;
    window.until("document.querySelectorAll('.chip').length === 2").await;
    window.open(&site.at("/jobs")).await;
    window.click("tbody td.what a.add").await;
    window.until("location.search === '?type=mail'").await;
}
