//! Journeys: from seeing something to having done something about it, with every click counted.

use std::cell::Cell;
use std::io::Read;

use windlass::job::{Failure, JobType, NewJob, Payload};
use windlass::store::caller::{Caller, Role};
use windlass::store::{AttemptWrite, Pause, PauseTarget};
use windlass_testkit::browser::{Browser, Window};

use crate::auth::cookie;
use crate::fixture::{Site, new, queue};

/// A person whose clicks are counted; typing is not.
struct Person<'a> {
    window: Window<'a>,
    clicks: Cell<u32>,
}

impl<'a> Person<'a> {
    async fn at(browser: &'a Browser, address: &str) -> Person<'a> {
        let window = browser.window().await;
        window.open(address).await;
        Person { window, clicks: Cell::new(0) }
    }

    async fn click(&self, selector: &str) {
        self.clicks.set(self.clicks.get() + 1);
        self.window.click(selector).await;
    }

    /// Types into a field, so that the page notices.
    async fn type_into(&self, selector: &str, text: &str) {
        self.window.fill(selector, text).await;
        let typed = format!(
            "document.querySelector({selector:?}).dispatchEvent(new Event('input', {{bubbles: true}}))"
        );
        self.window.eval(&typed).await;
    }
}

#[tokio::test]
async fn a_failed_job_is_repaired_and_succeeds_within_four_clicks() {
    let site = Site::start().await;
    let job = NewJob { payload: Payload::json(r#"{"to":"","cents":1.0}"#), ..new("email.send") };
    let old = site.submit(job).await.id;
    site.claim().await.fail(Failure::permanent("no_address", "to is empty")).await;
    let browser = Browser::start();
    let person = Person::at(&browser, &site.at("/")).await;
    person.click(&format!("a[href='/jobs/{old}']")).await;
    person.window.until("document.querySelector('#e-payload')").await;
    person.click("#do-edit summary").await;
    let draft = person.window.text("document.querySelector('#e-payload').value").await;
    assert_eq!(draft, "{\n  \"to\": \"\",\n  \"cents\": 1.0\n}", "numbers stay as they were written");
    // A slip is refused beside the field, and what was typed stays.
    person.window.fill("#e-payload", r#"{"to": "ada@example.com""#).await;
    person.window.click("#do-edit button").await;
    person
        .window
        .until("document.querySelector('#do-edit .complaint')?.innerText.includes('is not JSON')")
        .await;
    person.type_into("#e-payload", r#"{"to": "ada@example.com"}"#).await;
    person.click("#do-edit button").await;
    person
        .window
        .until(&format!("location.pathname.startsWith('/jobs/') && !location.pathname.endsWith('{old}')"))
        .await;
    let claimed = site.claim().await;
    let payload = site.store.get(&Caller::local(), claimed.job.id).await.unwrap().unwrap().spec.payload;
    assert_eq!(&*payload.bytes, br#"{"to": "ada@example.com"}"#);
    claimed.complete("1").await;
    person.window.until("document.querySelector('#head .st-completed')").await;
    assert!(person.clicks.get() <= 4, "{} clicks", person.clicks.get());
    assert_eq!(person.window.errors().await, Vec::<String>::new());
    // The red number is gone: the job was retried.
    let overview = site.ask("GET", "/", &[], "").await.body;
    assert!(!overview.contains("to is empty"), "{overview}");
}

#[tokio::test]
async fn a_schedule_is_added_within_four_clicks_and_its_runs_are_seen_while_it_is_typed() {
    let site = Site::start().await;
    let browser = Browser::start();
    let person = Person::at(&browser, &site.at("/")).await;
    person.click(".menu a[href='/schedules']").await;
    person.click("a.button[href='/schedules/new']").await;
    person.type_into("#s-name", "workdays").await;
    person.type_into("#s-cron", "not a cron").await;
    person.window.until("document.querySelector('#preview .bad-text')?.innerText.startsWith('cron')").await;
    person.type_into("#s-cron", "30 9 * * 1-5").await;
    person.type_into("#s-zone", "Europe/Berlin").await;
    person.window.until("document.querySelectorAll('#preview li').length === 5").await;
    person.window.until("document.querySelector('#preview li').innerText.includes('09:30 Europe/Berlin') || document.querySelector('#preview li').innerText.includes('09:30')").await;
    person.type_into("#s-type", "report.build").await;
    person.click("#schedule-form button.main").await;
    person.window.until("location.pathname === '/schedules' && document.querySelector('#schedules').innerText.includes('workdays')").await;
    assert!(person.clicks.get() <= 4, "{} clicks", person.clicks.get());
    // Editing keeps the name and changes the rest.
    person.click("a[aria-label='Edit workdays']").await;
    person.type_into("#s-every", "15m").await;
    assert_eq!(person.window.text("document.querySelector('#s-cron').value").await, "", "one kind of timing");
    person.window.until("document.querySelectorAll('#preview li').length === 5").await;
    person.click("#schedule-form button.main").await;
    person.window.until("document.querySelector('#schedules')?.innerText.includes('every 15m')").await;
    assert_eq!(person.window.errors().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_waiting_job_says_why_and_is_freed_within_three_clicks() {
    let site = Site::start().await;
    let id = site.job("mail").await;
    let me = Caller::local();
    site.store.pause(&me, PauseTarget::Queue(queue("default")), Pause::default()).await.unwrap();
    let browser = Browser::start();
    let person = Person::at(&browser, &site.at("/")).await;
    person.click("a.tile[href^='/jobs?state=scheduled']").await;
    person.click(&format!("a[href='/jobs/{id}']")).await;
    person.click("#why .fix button").await;
    person.window.until("document.querySelector('.banner.done')?.innerText.includes('Resumed')").await;
    person.window.until("!document.querySelector('#why').innerText.includes('queue paused')").await;
    assert!(person.clicks.get() <= 3, "{} clicks", person.clicks.get());
    let command = person.window.text("document.querySelector('#why .command').innerText").await;
    assert_eq!(command, "windlass work mail --queue default -- PROGRAM", "the last reason names its remedy");
    assert_eq!(person.window.errors().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_job_is_submitted_from_the_latest_one_of_its_type_and_only_once() {
    let site = Site::start().await;
    let first = site.job("email.send").await;
    let browser = Browser::start();
    let person = Person::at(&browser, &site.at("/types/email.send")).await;
    person.click("a.button[href^='/jobs/new']").await;
    person.window.until("document.querySelector('#n-payload')?.value.includes('ada@example.com')").await;
    person.type_into("#n-payload", r#"{"to":"bob@example.com"}"#).await;
    person.type_into("#n-priority", "80").await;
    person.click("#new-job button.main").await;
    person
        .window
        .until(&format!(
            "/^.jobs.[0-9a-f-]+$/.test(location.pathname) && !location.pathname.endsWith('{first}')"
        ))
        .await;
    person
        .window
        .until(
            "document.querySelector('#h-payload')?.closest('section').innerText.includes('bob@example.com')",
        )
        .await;
    assert_eq!(person.window.errors().await, Vec::<String>::new());
    let form = site.ask("GET", "/jobs/new?type=email.send", &[], "").await;
    let own = [("sec-fetch-site", "same-origin"), ("content-type", "application/x-www-form-urlencoded")];
    let body = format!("token={}&once=abc&type=email.send&payload=%7B%7D", form.token());
    let places: Vec<String> =
        [site.ask("POST", "/jobs/new", &own, &body).await, site.ask("POST", "/jobs/new", &own, &body).await]
            .iter()
            .map(|answer| answer.header("location").unwrap().split('?').next().unwrap().to_owned())
            .collect();
    assert_eq!(places[0], places[1], "a form that is sent twice submits one job");
}

#[tokio::test]
async fn forms_are_for_those_who_may_send_them() {
    let site = Site::start().await;
    let id = site.job("mail").await;
    site.claim().await.fail(Failure::permanent("x", "y")).await;
    let viewer = cookie(&site, &site.key("viewer", Role::Viewer).await).await;
    let operator = cookie(&site, &site.key("operator", Role::Operator).await).await;
    let pages = ["/jobs/new", "/schedules/new", "/schedules/preview?cron=0+0+*+*+*"];
    for (cookie, is_allowed) in [(&viewer, false), (&operator, true)] {
        let headers = [("cookie", cookie.as_str()), ("sec-fetch-site", "same-origin")];
        for path in pages {
            let answer = site.ask("GET", path, &headers, "").await;
            assert_eq!(answer.status, if is_allowed { 200 } else { 403 }, "{path}");
        }
        let job = site.ask("GET", &format!("/jobs/{id}"), &headers, "").await.body;
        assert_eq!(job.contains("do-edit"), is_allowed);
        assert_eq!(site.ask("GET", "/jobs", &headers, "").await.body.contains("/jobs/new"), is_allowed);
        assert_eq!(
            site.ask("GET", "/schedules", &headers, "").await.body.contains("/schedules/new"),
            is_allowed
        );
        let token =
            job.split_once(r#"name="token" value=""#).map(|(_, rest)| rest.split('"').next().unwrap());
        let token = token.unwrap_or("none").to_owned();
        let forms = [
            ("/jobs/new", "type=mail&payload=1"),
            ("/schedules/save", "name=n&cron=0+0+*+*+*&type=mail&payload=1"),
        ];
        for (path, body) in forms {
            let answer = site.ask("POST", path, &headers, &format!("{body}&token={token}")).await;
            assert_eq!(answer.status, if is_allowed { 303 } else { 403 }, "{path}");
        }
    }
}

#[tokio::test]
async fn two_people_do_not_overwrite_each_other_s_schedule() {
    let site = Site::start().await;
    let own = [("sec-fetch-site", "same-origin")];
    let token = site.ask("GET", "/schedules/new", &own, "").await.token();
    let save = async |fields: &str| {
        site.ask("POST", "/schedules/save", &own, &format!("token={token}&type=a&payload=1&name=n&{fields}"))
            .await
    };
    assert_eq!(save("every=1h").await.status, 303);
    let second = save("every=2h").await;
    assert!(second.status == 409 && second.body.contains("there is a schedule n already"), "{}", second.body);
    let page = site.ask("GET", "/schedules/default/n", &own, "").await.body;
    let (_, rest) = page.split_once(r#"name="was" value=""#).unwrap();
    let was = rest.split('"').next().unwrap().replace(':', "%3A");
    assert_eq!(save(&format!("every=3h&was={was}")).await.status, 303);
    let late = save(&format!("every=4h&was={was}")).await;
    assert!(late.status == 409 && late.body.contains("meanwhile"), "{}", late.body);
    let both = save(&format!("every=4h&cron=0+0+*+*+*&was={was}")).await;
    assert!([409, 422].contains(&both.status));
}

/// The bytes of a body that came in chunks.
fn joined(mut rest: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") {
        let size = std::str::from_utf8(&rest[..end]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            break;
        }
        whole.extend_from_slice(&rest[end + 2..end + 2 + size]);
        rest = &rest[end + 2 + size + 2..];
    }
    whole
}

#[tokio::test]
async fn pages_are_compressed_for_browsers_and_streams_are_not() {
    let site = Site::start().await;
    for number in 0..30 {
        site.job(&format!("type.{number}")).await;
    }
    let gzip = [("accept-encoding", "gzip, deflate, br")];
    let plain = site.ask("GET", "/jobs", &[], "").await;
    assert_eq!((plain.header("content-encoding"), plain.header("vary")), (None, Some("accept-encoding")));
    let packed = site.ask_bytes("/jobs", &gzip).await;
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    let mut text = String::new();
    flate2::read::GzDecoder::new(&*joined(&packed.body)).read_to_string(&mut text).unwrap();
    assert!(text.contains("type.29") && packed.body.len() * 4 < text.len(), "{}", packed.body.len());
    let listed = site.ask_bytes("/api/v1/jobs", &gzip).await;
    assert_eq!(listed.header("content-encoding"), Some("gzip"));
    // Answers to forms may show a secret once.
    let token = plain.token();
    let own = [gzip[0], ("sec-fetch-site", "same-origin")];
    let made = site.ask("POST", "/keys", &own, &format!("token={token}&name=x&role=admin")).await;
    assert_eq!((made.status, made.header("content-encoding")), (200, None));
}

#[tokio::test]
async fn a_job_is_retried_from_a_step_and_the_steps_before_it_are_kept() {
    let site = Site::start().await;
    let id = site.job("order").await;
    let claimed = site.claim().await;
    for (step, record) in [("reserve", r#"{"at":0,"value":7}"#), ("charge", r#"{"at":1,"value":1}"#)] {
        claimed.note(AttemptWrite::Checkpoint { step: step.into(), value: record.into() }).await;
    }
    claimed.fail(Failure::permanent("declined", "card declined")).await;
    let browser = Browser::start();
    let person = Person::at(&browser, &site.at(&format!("/jobs/{id}"))).await;
    person.click("#do-from-step summary").await;
    let steps = "[...document.querySelectorAll('#r-step option')].map((step) => step.text).join()";
    assert_eq!(person.window.text(steps).await, "reserve,charge");
    person.click("#do-from-step button[value=redrive]").await;
    person.window.until(&format!("!location.pathname.endsWith('{id}')")).await;
    person.window.until("document.querySelector('#steps')?.innerText.includes('reserve')").await;
    assert!(!person.window.text("document.querySelector('#steps').innerText").await.contains("charge"));
}

#[tokio::test]
async fn limits_show_what_they_would_have_held_back_while_they_are_typed() {
    let site = Site::start().await;
    for _ in 0..5 {
        site.job("mail").await;
        site.claim().await.complete("1").await;
    }
    let browser = Browser::start();
    for (page, field) in [("/queues/default", "#q-rate_count"), ("/types/mail", "#t-rate_count")] {
        let person = Person::at(&browser, &site.at(page)).await;
        let said = "document.querySelector('#preview')?.innerText";
        person.window.until(&format!("{said}.includes('No limit on starts')")).await;
        person.type_into(field, "1").await;
        person.window.until(&format!("{said}.includes('the period is missing')")).await;
        person.type_into(if field == "#q-rate_count" { "#q-rate_per" } else { "#t-rate_per" }, "1h").await;
        person.window.until(&format!("{said}.includes('of 5 starts would have been held back')")).await;
        assert!(person.window.text(said).await.contains("An estimate from 5 starts"));
    }
    let person = Person::at(&browser, &site.at("/tenants")).await;
    person.click("section[aria-label='Tenant default'] details summary").await;
    person.type_into("#default-run", "0").await;
    let said = "document.querySelector('#tenants form .preview')?.innerText";
    person
        .window
        .until(&format!("{said}.includes('About 5 of 5 starts would have been held back permanently')"))
        .await;
    // Limits per key are tried on the runs of each key.
    for key in ["a", "b", "b"] {
        site.submit(NewJob { concurrency_key: Some(key.into()), ..new("mail") }).await;
        site.claim().await.complete("1").await;
    }
    let preview =
        site.ask("GET", "/queues/default/preview?key_rate_count=1&key_rate_per=1h", &[], "").await.body;
    assert!(preview.contains("Per key: About 1 of 3 starts would have been held back"), "{preview}");
    assert!(preview.contains("(3 with 2 keys.)"), "{preview}");
    let person = Person::at(&browser, &site.at("/types/mail")).await;
    person.window.fill("#t-attempts", "7").await;
    person.window.fill("#t-execution", "2m").await;
    person.click("#settings button").await;
    person.window.until("document.querySelector('#said').innerText.includes('Saved')").await;
    let config = site.store.config(&Caller::local()).await.unwrap();
    let set = &config.types[&JobType::new("mail").unwrap()];
    assert_eq!(set.retry.as_ref().unwrap().max_attempts, 7);
    assert_eq!(set.timeouts.execution, Some(std::time::Duration::from_secs(120)));
}
