//! The whole matrix in a browser: every page and every action, as every role and as an operator of another tenant. Visible
//! elements are read from the page; actions are sent from within it, as with the browser's tools.

use std::fmt::Write as _;

use serde_json::json;
use windlass::alert::{AlertCondition, AlertRule};
use windlass::job::{AlertName, Failure, JobId, JobType, NewJob, Payload, RetryPolicy, ScheduleName, Tenant};
use windlass::schedule::ScheduleSpec;
use windlass::store::caller::{Caller, Role};
use windlass::store::{ActionRequest, NewKey, NewSchedule, SubmitOptions};
use windlass_testkit::browser::{Browser, Window};

use crate::auth::sign_in;
use crate::fixture::{Site, new};

/// Who looks: a letter for the tables, a role, and a tenant if it is not the one that everything belongs to.
const PEOPLE: [(char, Role, Option<&str>); 6] = [
    // An operator of another tenant, before something was set for all.
    ('X', Role::Operator, Some("acme")),
    ('A', Role::Admin, None),
    ('O', Role::Operator, None),
    ('S', Role::Submitter, None),
    ('W', Role::Worker, None),
    ('V', Role::Viewer, None),
];

/// What a page shows to whom: `{job}` is another user's job, `{own}` one that the submitter submitted, `{dead}` a dead
/// letter of another user's.
const SHOWN: &[(&str, &str, &str)] = &[
    ("/", "#queues a[href='/queues/default']", "AOSWV"),
    ("/jobs", "tr[data-job='{job}']", "AOSWV"),
    ("/jobs", ".bulk button[value=cancel]", "AOS"),
    ("/jobs/{job}", "#facts", "AOSWV"),
    ("/jobs/{job}", "#payload-text", "AO"),
    ("/jobs/{own}", "#payload-text", "AOS"),
    ("/jobs/{job}", "#do-suspend", "AO"),
    ("/jobs/{job}", "#do-priority", "AO"),
    ("/jobs/{job}", "#do-signal", "AO"),
    ("/jobs/{job}", "#do-cancel", "AO"),
    ("/jobs/{own}", "#do-cancel", "AOS"),
    ("/jobs/{dead}", "#actions button[value=redrive]", "AO"),
    ("/jobs/{dead}", "#do-delete", "AO"),
    ("/queues", "a[href='/queues/default']", "AOSWV"),
    ("/queues", "button[aria-label='Pause default']", "AO"),
    ("/queues/default", "#actions button", "AOX"),
    ("/queues/default", "#settings fieldset:not([disabled])", "AOX"),
    ("/types", "a[href='/types/mail']", "AOSWV"),
    ("/types/mail", "#actions button", "AO"),
    ("/types/mail", "#settings button", "A"),
    // It works for every tenant.
    ("/workers", ".person", "AOSWVX"),
    ("/workers", "button[aria-label='Pause bench']", "A"),
    ("/schedules", "#schedules tbody tr", "AOSWV"),
    ("/schedules", "button[aria-label='Run now: nightly']", "AO"),
    ("/alerts", "#alerts tbody tr", "AOSWV"),
    ("/alerts", "button[aria-label='Test dead']", "AO"),
    ("/dead", "#groups section.error", "AOSWV"),
    ("/dead", "#groups section button", "AOS"),
    ("/audit", "#records a[href^='/jobs/']", "AOSWV"),
    ("/tenants", "[aria-label='Tenant default']", "AOSWV"),
    ("/tenants", "#limits-default", "A"),
    ("/settings", "#close-gate", "A"),
    ("/settings", "#new-key", "A"),
    ("/settings", "button[aria-label='Revoke V']", "A"),
];

/// What can be done by whom, tried in this order on a job of its own for each person.
const POSSIBLE: &[(&str, &str, &str)] = &[
    ("/jobs/{fresh}/act", "action=suspend", "AO"),
    ("/jobs/{fresh}/act", "action=resume", "AO"),
    ("/jobs/{fresh}/act", "action=priority&value=60", "AO"),
    ("/jobs/{fresh}/act", "action=signal&name=go&value=1", "AO"),
    ("/jobs/{held}/act", "action=submit", "AO"),
    ("/jobs/{fresh}/act", "action=cancel", "AO"),
    ("/jobs/{ended}/act", "action=redrive", "AO"),
    ("/jobs/{ended}/act", "action=delete", "AO"),
    ("/jobs/{own}/act", "action=priority&value=70", "AOS"),
    ("/jobs/act", "action=suspend&all=1&type=nothing", "AOSX"),
    ("/jobs/act", "action=cancel&all=1&type=nothing&confirmed=1", "AOSX"),
    ("/queues/default/act", "action=pause", "AOX"),
    ("/queues/default/act", "action=resume", "AOX"),
    ("/queues/default/settings", "max_running=9", "AOX"),
    ("/types/mail/act", "action=pause", "AOX"),
    // For the other tenant there is no such type once it is not paused any more.
    ("/types/mail/act", "action=resume", "AO"),
    ("/workers/{worker}/act", "action=pause", "A"),
    ("/workers/{worker}/act", "action=resume", "A"),
    ("/schedules/default/nightly/act", "action=pause", "AO"),
    ("/schedules/default/nightly/act", "action=resume", "AO"),
    ("/schedules/default/nightly/act", "action=trigger", "AO"),
    ("/schedules/default/nightly/act", "action=delete", "AO"),
    ("/schedules/default/nightly/act", "action=restore", "AO"),
    ("/alerts/default/dead/act", "action=pause", "AO"),
    ("/alerts/default/dead/act", "action=resume", "AO"),
    ("/alerts/default/dead/act", "action=test", "AO"),
    ("/alerts/-/all/act", "action=test", "A"),
    ("/types/mail/settings", "max_running=9", "A"),
    ("/dead/redrive", "type=nothing&error=x&most=1&until=2026-01-01T00:00:00Z", "AOSX"),
    ("/tenants/default/act", "action=pause", "A"),
    ("/tenants/default/act", "action=resume", "A"),
    ("/tenants/default/settings", "max_running=9", "A"),
    ("/gate", "action=close", "A"),
    ("/gate", "action=open", "A"),
    ("/keys", "name=another&role=viewer", "A"),
    ("/keys/00000000-0000-0000-0000-000000000000/revoke", "", ""),
];

/// What the tables name.
struct Named {
    job: JobId,
    own: JobId,
    dead: JobId,
    fresh: JobId,
    held: JobId,
    ended: JobId,
    worker: String,
}

impl Named {
    fn fill(&self, text: &str) -> String {
        let ids = [
            ("{job}", self.job),
            ("{own}", self.own),
            ("{dead}", self.dead),
            ("{fresh}", self.fresh),
            ("{held}", self.held),
            ("{ended}", self.ended),
        ];
        let filled = ids.iter().fold(text.to_owned(), |text, (name, id)| text.replace(name, &id.to_string()));
        filled.replace("{worker}", &self.worker)
    }
}

#[tokio::test]
async fn every_page_and_action_is_for_those_it_is_meant_for() {
    let site = Site::start().await;
    let keys = keys(&site).await;
    let mut named = furnish(&site, &keys).await;
    let mut wrong = String::new();
    for (letter, secret) in keys {
        named.fresh = site.job("mail").await;
        named.held = site.submit(NewJob { hold: true, ..new("mail") }).await.id;
        named.ended = site.job("mail").await;
        site.store.act(&Caller::local(), named.ended, ActionRequest::Cancel { reason: None }).await.unwrap();
        let browser = Browser::start();
        let window = browser.window().await;
        sign_in(&site, &window, &secret).await;
        let mut place = String::new();
        for (path, selector, who) in SHOWN {
            let (path, selector) = (named.fill(path), named.fill(selector));
            if place != path {
                window.open(&site.at(&path)).await;
                place.clone_from(&path);
            }
            let is_shown =
                window.eval(&format!("!!document.querySelector({selector:?})")).await == json!(true);
            if is_shown != who.contains(letter) {
                writeln!(wrong, "{letter} sees on {path} {selector}: {is_shown}").unwrap();
            }
        }
        for (path, body, who) in POSSIBLE {
            let path = named.fill(path);
            let status = act(&window, &path, body).await;
            let is_right = if who.contains(letter) { status == 200 } else { matches!(status, 403 | 404) };
            if !is_right {
                writeln!(wrong, "{letter} does {path} {body}: {status}").unwrap();
            }
        }
        assert_eq!(window.errors().await, Vec::<String>::new(), "{letter}");
        if !"AO".contains(letter) {
            left_alone(&site, &named).await;
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Sends a form from within the page, as its own forms are sent; the status where that leads to.
async fn act(window: &Window<'_>, path: &str, body: &str) -> u64 {
    let script = format!(
        "(async () => {{ const token = document.querySelector('input[name=token]').value; \
         const body = new URLSearchParams({body:?}); body.set('token', token); \
         return (await fetch({path:?}, {{ method: 'POST', body }})).status; }})()"
    );
    window.eval(&script).await.as_u64().unwrap()
}

/// A key for each, named by its letter.
async fn keys(site: &Site) -> Vec<(char, String)> {
    let mut keys = Vec::new();
    for (letter, role, tenant) in PEOPLE {
        let tenant = tenant.map(|name| Tenant::new(name).unwrap());
        let new = NewKey::new(letter.to_string(), role);
        let new = if tenant.is_some() { NewKey { tenant, ..new } } else { new };
        let created = site.store.create_key(&Caller::local(), new).await.unwrap();
        keys.push((letter, created.secret.reveal().to_owned()));
    }
    keys
}

/// Something of everything, all of it in one tenant.
async fn furnish(site: &Site, keys: &[(char, String)]) -> Named {
    let mut dying = new("mail");
    dying.retry = Some(RetryPolicy { max_attempts: 1, ..RetryPolicy::standard() });
    let dead = site.submit(dying).await.id;
    site.claim().await.fail(Failure::temporary("no route to host")).await;
    site.job("mail").await;
    let worker = site.claim().await.worker.to_string();
    let own = keys.iter().find(|(letter, _)| *letter == 'S').map(|(_, secret)| secret.as_str());
    let key = own.and_then(|secret| Some(windlass::key::KeySecret::parse(secret)?.id()));
    let submitter = Caller { key, ..Caller::new("S", Role::Submitter, Some(Tenant::default())) };
    let receipts = site.store.submit(&submitter, vec![new("mail")], SubmitOptions::default()).await.unwrap();
    let job = NewJob::new(JobType::new("report").unwrap(), Payload::json("{}"));
    let timing = ScheduleSpec::Cron { cron: "0 2 * * *".parse().unwrap(), timezone: "UTC".parse().unwrap() };
    let name = ScheduleName::new("nightly").unwrap();
    site.store.put_schedule(&Caller::local(), name, NewSchedule::new(timing, job)).await.unwrap();
    crate::alerts::put(site, "dead").await;
    let condition = AlertCondition::ClockOffset { longer_than: std::time::Duration::from_secs(60) };
    let rule = AlertRule::new(condition, "https://example.com/");
    site.store.put_alert(&Caller::local(), AlertName::new("all").unwrap(), rule).await.unwrap();
    let job = site.job("mail").await;
    Named { job, own: receipts[0].job.id, dead, fresh: job, held: job, ended: job, worker }
}

/// Those who may not act on others' jobs have left everything as it was.
async fn left_alone(site: &Site, named: &Named) {
    let local = Caller::local();
    let state = async |id| site.store.get(&local, id).await.unwrap().unwrap().job.state.as_str().to_owned();
    assert_eq!(state(named.fresh).await, "scheduled");
    assert_eq!(state(named.held).await, "created");
    assert_eq!(state(named.ended).await, "cancelled");
    assert_eq!(state(named.job).await, "scheduled");
    let look = site.store.queue(&local, windlass::job::QueueName::default()).await.unwrap();
    assert!(look.paused.is_none());
}
