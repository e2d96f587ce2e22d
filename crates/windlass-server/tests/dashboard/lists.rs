//! Lists as a visitor wants them: columns, saved views, sorting and the time zone, with scripts and without.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde_json::json;
use windlass::job::{NewJob, Payload, Priority};
use windlass::store::NewWorker;
use windlass::store::caller::{Caller, Role};
use windlass_testkit::browser::Browser;

use crate::auth::cookie;
use crate::fixture::{Page, Site, new};

/// A visitor without scripts, who keeps the cookies that it is given.
struct Visitor<'a> {
    site: &'a Site,
    cookies: Vec<String>,
}

impl Visitor<'_> {
    async fn get_page(&self, path: &str) -> Page {
        self.site.ask("GET", path, &[("cookie", &self.cookies.join("; "))], "").await
    }

    fn keep(&mut self, answer: &Page) {
        for (_, set) in answer.headers().iter().filter(|(name, _)| name == "set-cookie") {
            let pair = set.split(';').next().unwrap().to_owned();
            let name = pair.split('=').next().unwrap().to_owned();
            self.cookies.retain(|known| !known.starts_with(&format!("{name}=")));
            if !set.contains("Max-Age=0") {
                self.cookies.push(pair);
            }
        }
    }

    /// Sends a form; what it leads to.
    async fn send(&mut self, path: &str, fields: &str) -> Page {
        let token = self.get_page("/jobs").await.token();
        let headers = [("cookie", &*self.cookies.join("; ")), ("sec-fetch-site", "same-origin")];
        let answer = self.site.ask("POST", path, &headers, &format!("token={token}&{fields}")).await;
        assert_eq!(answer.status, 303, "{}", answer.body);
        self.keep(&answer);
        self.get_page(answer.header("location").unwrap()).await
    }
}

async fn submit(site: &Site, customer: &str, priority: Priority) {
    let mut job = NewJob { priority: Some(priority), ..new("mail") };
    job.payload = Payload::json(format!(r#"{{"customer":"{customer}","note":"<b>&amp;"}}"#));
    job.metadata.tags.insert("customer".into(), customer.into());
    site.submit(job).await;
}

/// The texts of a column, from top to bottom.
fn order(page: &str, names: &[&str]) -> Vec<String> {
    let mut found: Vec<(usize, &str)> = names
        .iter()
        .filter_map(|name| Some((page.find(&format!("<td data-label=\"customer\">{name}</td>"))?, *name)))
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(_, name)| name.to_owned()).collect()
}

#[tokio::test]
async fn columns_and_views_are_chosen_without_scripts() {
    let site = Site::start().await;
    for (customer, priority) in [("ada", Priority::LOW), ("bob", Priority::HIGH), ("cyd", Priority::NORMAL)] {
        submit(&site, customer, priority).await;
    }
    let mut ada = Visitor { site: &site, cookies: Vec::new() };
    let plain = ada.get_page("/jobs").await.body;
    assert!(plain.contains(">Priority</a>") && !plain.contains("data-label=\"Payload\""), "{plain}");
    let chosen = "column=priority&column=payload&column=nonsense&tags=customer,+&query=type%3Dmail";
    let page = ada.send("/jobs/columns", chosen).await.body;
    assert!(page.contains("data-label=\"Payload\">{&#34;customer&#34;:&#34;ada&#34;"), "{page}");
    assert!(page.contains("<td data-label=\"customer\">ada</td>") && !page.contains(">Queue</th>"));
    assert!(page.contains("Active filters"), "the list is the one that it was");
    // Sorted within the page, both ways round.
    let down = ada.get_page("/jobs?sort=priority").await.body;
    assert_eq!(order(&down, &["ada", "bob", "cyd"]), ["bob", "cyd", "ada"]);
    assert!(down.contains("aria-sort=\"descending\" title=\"sorts the jobs of this page\""));
    assert!(down.contains("The jobs of this page are sorted by priority."));
    let up = ada.get_page("/jobs?sort=priority.up").await.body;
    assert_eq!(order(&up, &["ada", "bob", "cyd"]), ["ada", "cyd", "bob"]);
    // A view keeps filter, order and columns.
    let saved =
        ada.send("/jobs/views", "action=save&name=mail+first&query=type%3Dmail%26order%3Doldest").await.body;
    assert!(saved.contains("href=\"/jobs?view=mail+first\" aria-current=\"true\""), "{saved}");
    ada.send("/jobs/columns", "action=reset").await;
    assert!(!ada.get_page("/jobs").await.body.contains("data-label=\"Payload\""));
    let opened = ada.get_page("/jobs?view=mail+first").await;
    ada.keep(&opened);
    let to = opened.header("location").unwrap().to_owned();
    assert_eq!(to, "/jobs?type=mail&order=oldest");
    let page = ada.get_page(&to).await.body;
    assert_eq!(order(&page, &["ada", "bob", "cyd"]), ["ada", "bob", "cyd"]);
    ada.send("/jobs/views", "action=remove&name=mail+first").await;
    assert_eq!(ada.get_page("/jobs?view=mail+first").await.status, 404);
    // A view does not lead to another site.
    let headers = [("cookie", "windlass-views=x=queue+%2F%2Fevil.example"), ("sec-fetch-site", "none")];
    let opened = site.ask("GET", "/jobs?view=x", &headers, "").await;
    assert!(opened.header("location").unwrap().starts_with("/jobs"), "{:?}", opened.header("location"));
}

#[tokio::test]
async fn a_payload_column_shows_nothing_to_those_who_may_not_read_it() {
    let site = Site::start().await;
    submit(&site, "SECRET", Priority::LOW).await;
    let viewer = site.key("vi", Role::Viewer).await;
    let session = cookie(&site, &viewer).await;
    let viewer = Visitor { site: &site, cookies: vec![session, "windlass-columns=c=payload".into()] };
    let page = viewer.get_page("/jobs").await.body;
    assert!(page.contains("data-label=\"Payload\">hidden</td>") && !page.contains("SECRET"), "{page}");
}

#[tokio::test]
async fn times_are_shown_in_the_chosen_zone() {
    let site = Site::start().await;
    let id = site.job("mail").await;
    let mut ada = Visitor { site: &site, cookies: Vec::new() };
    let utc = ada.get_page(&format!("/jobs/{id}")).await.body;
    assert!(utc.contains(" UTC"), "{utc}");
    let settings = ada.send("/time-zone", "zone=Asia%2FTokyo").await.body;
    assert!(settings.contains("value=\"Asia/Tokyo\""));
    let page = ada.get_page(&format!("/jobs/{id}")).await.body;
    assert!(page.contains(" JST") && !page.contains(" UTC<"), "{page}");
    ada.send("/time-zone", "zone=UTC").await;
    assert_eq!(ada.cookies, Vec::<String>::new());
    let headers = [("cookie", "windlass-zone=%22%3E%3Cscript%3E")];
    assert!(!site.ask("GET", "/", &headers, "").await.body.contains("<script>"));
}

#[tokio::test]
async fn schedules_are_made_and_shown_in_the_chosen_zone() {
    let site = Site::start().await;
    let mut ada = Visitor { site: &site, cookies: Vec::new() };
    ada.send("/time-zone", "zone=Asia%2FTokyo").await;
    let form = ada.get_page("/schedules/new").await.body;
    assert!(
        form.contains("or once at (Asia/Tokyo)") && form.contains(r#"name="timezone" value="Asia/Tokyo""#)
    );
    assert!(!form.contains("Not live"), "a form does not refresh and is not out of date");
    let fields = "name=launch&at=2099-01-01T09:00&type=mail&payload=%7B%7D";
    ada.send("/schedules/save", fields).await;
    let stored = site.store.schedules(&Caller::local()).await.unwrap();
    assert_eq!(stored[0].next_at.unwrap().to_string(), "2099-01-01T00:00:00.000Z");
    let edit = ada.get_page("/schedules/default/launch").await.body;
    assert!(
        edit.contains(r#"name="at" value="2099-01-01T09:00""#) && edit.contains("2099-01-01 09:00 JST"),
        "{edit}"
    );
    let list = ada.get_page("/schedules").await.body;
    assert!(list.contains("once, 2099-01-01 09:00:00 JST") && list.contains("times in Asia/Tokyo"), "{list}");
}

#[tokio::test]
async fn workers_are_sorted_by_their_numbers() {
    let site = Site::start().await;
    let mut registered = BTreeMap::new();
    for (name, concurrency) in [("small", 1), ("large", 50), ("middle", 7)] {
        let worker = NewWorker { name: name.into(), concurrency, heartbeats: false, ..NewWorker::default() };
        let worker = site.store.register(&Caller::local(), worker).await.unwrap();
        registered.insert(name, (worker.id, worker.registered_at));
    }
    let names = async |path: &str| {
        let page = site.ask("GET", path, &[], "").await.body;
        let mut places: Vec<(usize, &str)> = ["small", "large", "middle"]
            .into_iter()
            .map(|name| (page.find(&format!("id=\"w-{}\"", registered[name].0)).unwrap(), name))
            .collect();
        places.sort_unstable();
        places.into_iter().map(|(_, name)| name).collect::<Vec<_>>()
    };
    assert_eq!(names("/workers").await, ["large", "middle", "small"]);
    assert_eq!(names("/workers?sort=slots").await, ["large", "middle", "small"]);
    assert_eq!(names("/workers?sort=slots.up").await, ["small", "middle", "large"]);
    // The order by name decides between two that were registered in the same millisecond.
    let mut newest_first = ["large", "middle", "small"];
    newest_first.sort_by_key(|name| Reverse(registered[name].1.as_millis()));
    assert_eq!(names("/workers?sort=since").await, newest_first);
}

#[tokio::test]
async fn a_view_is_made_and_the_zone_switched_in_a_browser() {
    let site = Site::start().await;
    submit(&site, "ada", Priority::LOW).await;
    let browser = Browser::start();
    let window = browser.window().await;
    window.send("Emulation.setTimezoneOverride", json!({"timezoneId": "Asia/Tokyo"})).await;
    window.open(&site.at("/jobs?type=mail")).await;
    window.click("#columns summary").await;
    window.click("#columns input[value=payload]").await;
    window.fill("#c-tags", "customer").await;
    window.click("#columns button.main").await;
    window.until("document.querySelector('td.data')?.innerText.includes('customer')").await;
    assert_eq!(window.text("location.search").await, "?type=mail");
    window.click("#views summary").await;
    window.fill("#v-name", "mail").await;
    window.click("#views button[value=save]").await;
    window.until("document.querySelector('#views a[aria-current]')?.textContent === 'mail'").await;
    window.click("th a.sort[href*='sort=priority']").await;
    window
        .until("document.querySelector('th[aria-sort=descending]')?.innerText.startsWith('Priority')")
        .await;
    // The script of the page shows the button.
    window.until("document.querySelector('#zone')?.hidden === false").await;
    window.click("#zone").await;
    let is_switched = |name: &str| {
        format!(
            "document.querySelector('#zone')?.textContent === '{name}' && !document.querySelector('#zone').hidden"
        )
    };
    window.until(&is_switched("Asia/Tokyo")).await;
    window.until("document.querySelector('tbody time')?.title.endsWith('JST')").await;
    window.click("#zone").await;
    window.until(&is_switched("UTC")).await;
    assert_eq!(window.errors().await, Vec::<String>::new());
}
