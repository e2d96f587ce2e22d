//! Alerts: made with a form, seen when they fire, and acted on.

use windlass::alert::{AlertCondition, AlertRule, AlertStatus};
use windlass::job::{AlertName, Failure, NewJob, RetryPolicy, Tenant};
use windlass::store::AlertRef;
use windlass::store::caller::{Caller, Role};
use windlass_testkit::browser::Browser;

use crate::auth::cookie;
use crate::fixture::{Site, new};

/// An alert on any dead letter, of the default tenant.
pub(super) async fn put(site: &Site, name: &str) {
    let condition = AlertCondition::DeadLetters { more_than: 0, within: std::time::Duration::from_secs(600) };
    let rule = AlertRule::new(condition, "https://hooks.example.com/services/SECRET");
    let which = AlertRef { tenant: Some(Tenant::default()), name: AlertName::new(name).unwrap() };
    site.store.put_alert(&Caller::local(), which, rule).await.unwrap();
}

async fn is_firing(site: &Site, name: &str) -> bool {
    let found = site.store.alert(&Caller::local(), AlertName::new(name).unwrap()).await.unwrap();
    found.is_some_and(|alert| alert.state.status == AlertStatus::Firing)
}

/// Makes a dead letter, and lets alerts see it.
async fn die(site: &Site, alert: &str) {
    let retry = Some(RetryPolicy { max_attempts: 1, ..RetryPolicy::standard() });
    site.submit(NewJob { retry, ..new("mail") }).await;
    site.claim().await.fail(Failure::temporary("no route to host")).await;
    // Statistics are written by the first commit after a second.
    while !is_firing(site, alert).await {
        site.job("other").await;
        site.store.check_alerts().await.unwrap();
    }
}

#[tokio::test]
async fn an_alert_is_made_within_three_clicks_tested_and_seen_when_it_fires() {
    let site = Site::start().await;
    let browser = Browser::start();
    let window = browser.open(&site.at("/")).await;
    window.click(".menu a[href='/alerts']").await;
    window.click("a.button[href='/alerts/new']").await;
    let is_shown = |id: &str| format!("document.querySelector('#{id}').offsetParent !== null");
    window.until(&is_shown("a-within")).await;
    assert_eq!(window.eval(&is_shown("a-longer")).await, false, "dead letters have no age");
    window.fill("#a-name", "mail-dead").await;
    window.fill("#a-more", "0").await;
    window.fill("#a-type", "mail").await;
    // A private address is refused beside the form, and what was typed stays.
    window.fill("#a-url", "https://127.0.0.1/hook").await;
    window.click("#alert-form button.main").await;
    window.until("document.querySelector('#alert-form .complaint')?.innerText.includes('url')").await;
    window.fill("#a-url", "https://hooks.example.com/services/SECRET").await;
    window.click("#alert-form button.main").await;
    window
        .until("location.pathname === '/alerts' && document.querySelector('#alerts').innerText.includes('any dead letter within 10m of type mail')")
        .await;
    let list = window.text("document.querySelector('#alerts').innerText").await;
    assert!(list.contains("https://hooks.example.com") && !list.contains("SECRET"), "{list}");
    window.click("button[aria-label='Test mail-dead']").await;
    window.until("document.querySelector('.banner.done')?.innerText.includes('sample message')").await;
    window.until("document.querySelector('.banner.done a[href^=\"/jobs/\"]')").await;
    die(&site, "mail-dead").await;
    window.open(&site.at("/")).await;
    window
        .until("document.querySelector('#health').innerText.includes('alert mail-dead has been firing')")
        .await;
    window.click("#health a[href='/alerts']").await;
    window.until("document.querySelector('#alerts .badge.bad')?.innerText === 'firing'").await;
    // A paused alert needs no attention.
    window.click("button[aria-label='Pause mail-dead']").await;
    window.click("form.pop button[value=pause]").await;
    window.until("document.querySelector('#alerts .badge.warn')").await;
    let overview = site.ask("GET", "/", &[], "").await.body;
    assert!(!overview.contains("alert mail-dead"), "{overview}");
    window.click(".banner.done button").await;
    window.until("document.querySelector('#alerts .badge.bad')").await;
    assert_eq!(window.errors().await, Vec::<String>::new());
}

#[tokio::test]
async fn an_alert_is_changed_with_the_fields_of_its_condition() {
    let site = Site::start().await;
    put(&site, "dead").await;
    let browser = Browser::start();
    let window = browser.open(&site.at("/alerts")).await;
    window.click("a[aria-label='Edit dead']").await;
    window.until("document.querySelector('#a-url')?.value.endsWith('SECRET')").await;
    let choose = "const select = document.querySelector('#a-condition'); select.value = 'oldest_ready'; \
        select.dispatchEvent(new Event('change', {bubbles: true}))";
    window.eval(&format!("(() => {{ {choose} }})()")).await;
    window.until("document.querySelector('#a-longer').offsetParent !== null").await;
    assert_eq!(window.eval("document.querySelector('#a-within').offsetParent === null").await, true);
    window.fill("#a-longer", "15m").await;
    window.fill("#a-repeat", "4h").await;
    window.click("#alert-form button.main").await;
    window
        .until(
            "document.querySelector('#alerts')?.innerText.includes('a job that is ready for more than 15m')",
        )
        .await;
    assert!(window.text("document.querySelector('#alerts').innerText").await.contains("repeats every 4h"));
    window.click("button[aria-label='Delete dead']").await;
    window.click("#confirm-yes").await;
    window.until("document.querySelector('main').innerText.includes('No alerts yet')").await;
    assert_eq!(window.errors().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_form_that_is_too_late_changes_nothing_and_viewers_have_none() {
    let site = Site::start().await;
    put(&site, "dead").await;
    let secret = site.key("ada", Role::Admin).await;
    let own = cookie(&site, &secret).await;
    let own = [("cookie", own.as_str()), ("sec-fetch-site", "same-origin")];
    let token = site.ask("GET", "/alerts/new", &own, "").await.token();
    let save = async |fields: &str| {
        let url = "url=https%3A%2F%2Fexample.com%2F&condition=dead_letters";
        site.ask("POST", "/alerts/save", &own, &format!("token={token}&{url}&{fields}")).await
    };
    assert_eq!(save("name=dead&tenant=default").await.status, 409, "there is one");
    assert_eq!(save("name=dead&tenant=default&was=2026-01-01T00:00:00.000Z").await.status, 409);
    assert_eq!(save("name=gone&was=2026-01-01T00:00:00.000Z").await.status, 409);
    assert_eq!(save("name=1").await.status, 422);
    assert_eq!(save("name=all").await.status, 303);
    assert_eq!(site.ask("GET", "/alerts/-/all", &own, "").await.status, 200);
    assert_eq!(site.ask("GET", "/alerts/default/all", &own, "").await.status, 404);
    let viewer = site.key("vi", Role::Viewer).await;
    let viewer = cookie(&site, &viewer).await;
    let viewer = [("cookie", viewer.as_str()), ("sec-fetch-site", "same-origin")];
    let seen = site.ask("GET", "/alerts", &viewer, "").await.body;
    assert!(seen.contains("any dead letter") && !seen.contains("/alerts/new"), "{seen}");
    assert!(!seen.contains("SECRET") && !seen.contains("value=\"test\""));
    for path in ["/alerts/new", "/alerts/default/dead"] {
        let refused = site.ask("GET", path, &viewer, "").await;
        assert!(refused.status == 403 && !refused.body.contains("SECRET"), "{path}");
    }
}
