//! Undoing what was just done, from the message that says so; and one way to ask before what cannot be undone.

use windlass::job::{Priority, Tenant};
use windlass::settings::patch::{Field, SettingsPatch, TenantPatch};
use windlass::store::caller::Caller;
use windlass::store::{NewWorker, Pause, PauseScope, PauseTarget};
use windlass_testkit::browser::{Browser, Window};

use crate::fixture::{Site, new, queue};

async fn assert_shows(window: &Window<'_>, text: &str) {
    window.until(&format!("document.querySelector('#said .banner')?.innerText.includes({text:?})")).await;
}

/// Whether a scope is paused.
async fn is_paused(site: &Site, scope: &PauseScope) -> bool {
    let config = site.store.config(&Caller::local()).await.unwrap();
    config.pauses.get(scope).is_some_and(|pause| pause.is_active(site.store.clock().now))
}

#[tokio::test]
async fn settings_of_queues_types_and_tenants_are_undone_to_what_they_were() {
    let site = Site::start().await;
    site.job("mail").await;
    let browser = Browser::start();
    let window = browser.window().await;
    let limit = async || {
        let config = site.store.config(&Caller::local()).await.unwrap();
        let queue = config.queues.get(&(queue("default"), None)).cloned().unwrap_or_default();
        (queue.max_running, queue.rate.map(|rate| rate.count), queue.fair_by.is_some())
    };
    window.open(&site.at("/queues/default")).await;
    window.fill("#q-max_running", "7").await;
    window.fill("#q-rate_count", "5").await;
    window.fill("#q-rate_per", "1s").await;
    window.eval("document.querySelector('#q-fair').checked = true").await;
    window.click("#settings button[type=submit]").await;
    assert_shows(&window, "Saved.").await;
    assert_eq!(limit().await, (Some(7), Some(5), true));
    window.fill("#q-rate_count", "6").await;
    window.click("#settings button[type=submit]").await;
    window.until("document.querySelector('#q-rate_count').defaultValue === '6'").await;
    window.click("#said form button").await;
    window.until("document.querySelector('#q-rate_count').defaultValue === '5'").await;
    assert_eq!(limit().await, (Some(7), Some(5), true), "only the last change is undone");
    window.open(&site.at("/tenants")).await;
    window.unfold("details[id^=limits]").await;
    window.fill("#default-run", "3").await;
    window.click("details[id^=limits] button").await;
    assert_shows(&window, "Saved.").await;
    window.click("#said form button").await;
    window.until("document.querySelector('#default-run').defaultValue === ''").await;
    let config = site.store.config(&Caller::local()).await.unwrap();
    let set = config.tenants.get(&Tenant::default()).cloned().unwrap_or_default();
    assert_eq!(set.max_running, None);
    assert_eq!(window.errors().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_tenant_s_pause_asks_like_any_other_and_can_be_undone() {
    let site = Site::start().await;
    site.job("mail").await;
    let browser = Browser::start();
    let window = browser.open(&site.at("/tenants")).await;
    window.click("button[aria-label='Pause default']").await;
    window.until("document.querySelector('.pop:popover-open')").await;
    let scope = PauseScope::Tenant(Tenant::default());
    assert!(!is_paused(&site, &scope).await, "the dialog asks first");
    window.fill(".pop:popover-open [name=reason]", "unpaid").await;
    window.click(".pop:popover-open [name=action]").await;
    assert_shows(&window, "Tenant default is paused.").await;
    assert!(is_paused(&site, &scope).await);
    window.click("#said form button").await;
    assert_shows(&window, "Tenant default is resumed.").await;
    assert!(!is_paused(&site, &scope).await);
    // The end of a pause is undone as well, with the reason that it had.
    window.click("#said form button").await;
    window.until("document.querySelector('#tenants').innerText.includes('Paused by')").await;
    assert!(is_paused(&site, &scope).await);
}

#[tokio::test]
async fn the_end_of_a_pause_is_undone_with_its_reason() {
    let site = Site::start().await;
    let pause = Pause { reason: Some("disk full".into()), ..Pause::default() };
    site.job("mail").await;
    site.store.pause(&Caller::local(), PauseTarget::Queue(queue("default")), pause).await.unwrap();
    let browser = Browser::start();
    let window = browser.open(&site.at("/")).await;
    window.click("button[aria-label='Resume queue default']").await;
    window.until("!document.querySelector('#pauses')").await;
    window.click("#said form button").await;
    window.until("document.querySelector('#pauses')?.innerText.includes('disk full')").await;
    for (path, target) in [("/workers", true), ("/settings", false)] {
        window.open(&site.at(path)).await;
        let worker = NewWorker { name: "w1".into(), concurrency: 1, ..NewWorker::default() };
        if target {
            site.store.register(&Caller::local(), worker).await.unwrap();
            window.click("button[aria-label='Pause w1']").await;
            window.click(".pop:popover-open [name=action]").await;
            assert_shows(&window, "Worker w1 is paused.").await;
        } else {
            window.unfold("#close-gate").await;
            window.click("#close-gate button").await;
            assert_shows(&window, "Processing is paused").await;
        }
        window.click("#said form button").await;
        assert_shows(&window, "resumed").await;
    }
    assert!(!is_paused(&site, &PauseScope::Gate).await);
}

#[tokio::test]
async fn a_priority_and_the_deletion_of_an_alert_are_undone() {
    let site = Site::start().await;
    let id = site.job("mail").await;
    crate::alerts::put(&site, "dead").await;
    let browser = Browser::start();
    let window = browser.open(&site.at(&format!("/jobs/{id}"))).await;
    window.unfold("#do-priority").await;
    window.fill("#p-value", "90").await;
    window.click("#do-priority button").await;
    assert_shows(&window, "Job given a new priority.").await;
    assert_eq!(site.store.job(&Caller::local(), id).await.unwrap().unwrap().priority.value(), 90);
    window.click("#said form button").await;
    window.until("document.querySelector('#do-priority summary').innerText.includes('normal')").await;
    let job = site.store.job(&Caller::local(), id).await.unwrap().unwrap();
    assert_eq!(job.priority, Priority::default());
    window.open(&site.at("/alerts")).await;
    window.click("button[aria-label='Delete dead']").await;
    window.click("#confirm[open] #confirm-yes").await;
    window.until("document.querySelector('main').innerText.includes('No alerts yet')").await;
    window.click("#said form button[value=restore]").await;
    assert_shows(&window, "Restored.").await;
    window.until("document.querySelector(\"button[aria-label='Delete dead']\")").await;
    assert_eq!(site.store.alerts(&Caller::local()).await.unwrap().len(), 1);
    assert_eq!(window.errors().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_message_is_seen_wherever_the_page_was_scrolled_to_and_can_be_dismissed() {
    let site = Site::start().await;
    for number in 0..60 {
        site.job(&format!("type.{number}")).await;
    }
    let browser = Browser::start();
    let window = browser.open(&site.at("/queues/default")).await;
    window.until("document.querySelector('.pulse.on')").await;
    window.fill("#q-max_running", "7").await;
    window
        .eval("document.querySelector('#settings button[type=submit]').scrollIntoView({block: 'end'})")
        .await;
    window.click("#settings button[type=submit]").await;
    assert_shows(&window, "Saved.").await;
    let place = "(() => { const box = document.querySelector('#said .banner').getBoundingClientRect(); \
                 return scrollY > 100 && box.top >= 40 && box.bottom <= innerHeight; })()";
    assert_eq!(window.eval(place).await, true, "the message is on the screen");
    window.click("#said [data-dismiss]").await;
    window.until("document.querySelector('#said').children.length === 0").await;
}

#[tokio::test]
async fn an_undo_is_signed_and_asks_for_the_same_permission() {
    let site = Site::start().await;
    site.job("mail").await;
    let own = [("sec-fetch-site", "same-origin")];
    let token = site.ask("GET", "/tenants", &own, "").await.token();
    let patch = TenantPatch { max_running: Field::Set(1), ..TenantPatch::default() };
    site.store.configure(&Caller::local(), SettingsPatch::Tenant(Tenant::default(), patch)).await.unwrap();
    let body = format!("token={token}&max_running=9&was_max_running=1");
    let done = site.ask("POST", "/tenants/default/settings", &own, &body).await;
    let location = done.header("location").unwrap().to_owned();
    assert!(location.contains("undo=%2Ftenants%2Fdefault%2Fsettings"), "{location}");
    let page = site.ask("GET", &location, &own, "").await.body;
    assert!(page.contains(r#"action="/tenants/default/settings""#) && page.contains(">Undo</button>"));
    let forged = location.replace("max_running%3D1", "max_running%3D2");
    assert_ne!(forged, location);
    assert!(!site.ask("GET", &forged, &own, "").await.body.contains(">Undo</button>"));
    let foreign = site.ask("GET", "/?done=saved&undo=%2Fgate%3Faction%3Dclose", &own, "").await.body;
    assert!(!foreign.contains(">Undo</button>"), "a link from another site offers nothing");
    // A push target's URL may contain a secret: it does not get into an address.
    let body = format!("token={token}&push_url=https%3A%2F%2Fa.example%2FSECRET&was_push_url=");
    let done = site.ask("POST", "/queues/default/settings", &own, &body).await;
    assert!(done.status == 303 && !done.header("location").unwrap().contains("SECRET"));
    let mut delayed = new("later");
    delayed.delay = Some(std::time::Duration::from_secs(60));
    site.submit(delayed).await;
}
