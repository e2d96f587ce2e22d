//! Pages refresh by themselves and do not change what a visitor is using.

mod partial;

use serde_json::json;
use windlass::store::caller::{Caller, Role};
use windlass::store::{ActionRequest, Pause, PauseTarget};
use windlass_testkit::browser::{Browser, Window};

use crate::actions::{assert_not_reloaded, mark};
use crate::auth::sign_in;
use crate::fixture::{Site, queue};
use crate::pages::{PAGES, furnish};

async fn pause(site: &Site, name: &str) {
    site.store.pause(&Caller::local(), PauseTarget::Queue(queue(name)), Pause::default()).await.unwrap();
}

/// Points at the middle of what a selector finds first.
async fn point(window: &Window<'_>, selector: &str) {
    let place = format!(
        "(() => {{ const found = document.querySelector({selector:?}); found.scrollIntoView({{block: 'center'}}); \
         const box = found.getBoundingClientRect(); \
         return [box.x + box.width / 2, box.y + box.height / 2]; }})()"
    );
    let place = window.eval(&place).await;
    let movement = json!({"type": "mouseMoved", "x": place[0], "y": place[1]});
    window.send("Input.dispatchMouseEvent", movement).await;
}

#[tokio::test]
async fn a_page_outlives_a_restart_of_its_server_and_says_that_it_is_away() {
    let mut site = Site::start().await;
    site.job("mail").await;
    let browser = Browser::start();
    let window = browser.open(&site.at("/queues/default")).await;
    mark(&window).await;
    window.fill("#q-reason", "night shift").await;
    site.stop().await;
    window.until("document.querySelector('.pulse.off')").await;
    window.click("#actions button").await;
    window
        .until("document.querySelector('#actions .complaint')?.innerText.includes('did not respond')")
        .await;
    window.until("document.body.matches('.old') && document.querySelector('#away').innerText.includes('No connection')").await;
    assert_eq!(window.text("document.querySelector('#q-reason').value").await, "night shift");
    site.job("mail").await;
    site.serve();
    window.until("document.querySelector('.pulse.on') && !document.body.matches('.old')").await;
    window.until("document.querySelector('#depths').innerText.includes('2')").await;
    // The restarted server accepts the form nevertheless.
    window.click("#actions button").await;
    window.until("document.querySelector('#head').innerText.includes('night shift')").await;
    assert_not_reloaded(&window).await;
}

#[tokio::test]
async fn a_page_whose_session_is_over_leads_to_sign_in() {
    let site = Site::start().await;
    let admin = site.key("root", Role::Admin).await;
    let secret = site.key("ada", Role::Operator).await;
    let browser = Browser::start();
    let window = browser.window().await;
    sign_in(&site, &window, &secret).await;
    window.until("document.querySelector('.pulse.on')").await;
    site.revoke(&admin, "ada").await;
    window.until("location.pathname === '/sign-in'").await;
}

#[tokio::test]
async fn an_action_after_the_session_is_over_leads_to_sign_in() {
    let site = Site::start().await;
    site.job("mail").await;
    let secret = site.key("ada", Role::Admin).await;
    let browser = Browser::start();
    let window = browser.window().await;
    sign_in(&site, &window, &secret).await;
    window.open(&site.at("/types/mail")).await;
    window.until("document.querySelector('.pulse.on') && document.querySelector('#actions button')").await;
    let cookies = window.send("Network.getCookies", json!({})).await["cookies"].clone();
    let mut pairs = cookies.as_array().unwrap().iter();
    let cookie = pairs.find(|cookie| cookie["name"] == "windlass-session").unwrap()["value"].clone();
    let cookie = format!("windlass-session={}", cookie.as_str().unwrap());
    let token = window.text("document.querySelector('input[name=token]').value").await;
    let headers = [("sec-fetch-site", "same-origin"), ("cookie", cookie.as_str())];
    let ended = site.ask("POST", "/sign-out", &headers, &format!("token={token}")).await;
    assert_eq!(ended.status, 303);
    // Not `click`: the page may be on its way out already.
    window.eval("document.querySelector('#actions button')?.click()").await;
    window.until("location.pathname === '/sign-in'").await;
}

#[tokio::test]
async fn a_page_of_what_is_gone_says_so() {
    let site = Site::start().await;
    let id = site.job("mail").await;
    site.claim().await.complete("{}").await;
    let browser = Browser::start();
    let window = browser.open(&site.at(&format!("/jobs/{id}"))).await;
    mark(&window).await;
    site.store.delete(&Caller::local(), id).await.unwrap();
    window.until("document.querySelector('#away').innerText.includes('does not exist')").await;
    assert_eq!(window.eval("document.body.matches('.old')").await, true);
    assert_not_reloaded(&window).await;
}

#[tokio::test]
async fn focus_and_selected_text_stay_where_they_are() {
    let site = Site::start().await;
    site.job("mail").await;
    pause(&site, "exports").await;
    let browser = Browser::start();
    let window = browser.open(&site.at("/")).await;
    mark(&window).await;
    window.eval("window.link = document.querySelector('#queues tbody a'); window.link.focus()").await;
    window.eval("getSelection().selectAllChildren(document.querySelector('#pauses h2'))").await;
    let ready = "document.querySelector('#queues tbody').innerText.includes('2')";
    site.job("mail").await;
    window.until(ready).await;
    assert_eq!(window.eval("document.activeElement === window.link").await, true);
    assert_eq!(window.text("getSelection().toString()").await, "Active pauses");
    // What is gone goes, once it is not selected; what is new comes.
    window.eval("getSelection().removeAllRanges()").await;
    let resumed = site.store.resume(&Caller::local(), PauseTarget::Queue(queue("exports")), None).await;
    assert!(resumed.unwrap());
    window.until("!document.querySelector('#pauses')").await;
    pause(&site, "exports").await;
    window.until("document.querySelector('#pauses')").await;
    assert_not_reloaded(&window).await;
}

#[tokio::test]
async fn keyboard_focus_stays_where_the_button_was() {
    let site = Site::start().await;
    site.job("mail").await;
    let browser = Browser::start();
    let window = browser.open(&site.at("/queues")).await;
    mark(&window).await;
    window.eval("document.querySelector(\"button[aria-label='Pause default']\").focus()").await;
    window.click("button[aria-label='Pause default']").await;
    window.click(".pop:popover-open [name=action]").await;
    window.until("document.activeElement.matches('tbody tr button[value=resume]')").await;
    assert_not_reloaded(&window).await;
}

/// Whether every page can be made into every other one; answers with the pairs that could not.
const PATCH_ALL: &str = "(async () => { \
    const load = (path) => new Promise((done) => { const request = new XMLHttpRequest(); request.open('GET', path); \
        request.responseType = 'document'; request.onload = () => done(request.response); request.send(); }); \
    const pages = await Promise.all(PATHS.map(load)); const wrong = []; \
    const main = (page) => { const copy = document.importNode(page.getElementById('main'), true); \
        copy.querySelectorAll('details').forEach((part) => part.removeAttribute('open')); return copy; }; \
    for (const [from, first] of pages.entries()) for (const [to, second] of pages.entries()) { \
        const [old, fresh] = [main(first), main(second)]; document.body.append(old); patch(old, fresh, () => false); \
        if (!old.isEqualNode(fresh)) wrong.push(PATHS[from] + ' to ' + PATHS[to]); old.remove(); } \
    return wrong; })()";

#[tokio::test]
async fn every_page_can_be_made_into_every_other() {
    let site = Site::start().await;
    let [parent, dependent, dead] = furnish(&site).await;
    let jobs = [parent, dependent, dead].map(|id| format!("/jobs/{id}"));
    let paths: Vec<&str> = PAGES.into_iter().chain(jobs.iter().map(String::as_str)).collect();
    let browser = Browser::start();
    let window = browser.open(&site.at("/")).await;
    let wrong = window.eval(&PATCH_ALL.replace("PATHS", &json!(paths).to_string())).await;
    assert_eq!(wrong, json!([]));
}

#[tokio::test]
async fn a_list_in_hand_stands_still_and_says_what_it_holds_back() {
    let site = Site::start().await;
    for _ in 0..50 {
        site.job("mail").await;
    }
    let browser = Browser::start();
    let window = browser.open(&site.at("/jobs")).await;
    mark(&window).await;
    let last = "document.querySelector('tbody tr:last-child input')";
    window.eval(&format!("window.box = {last}; window.box.focus(); window.box.click()")).await;
    for _ in 0..3 {
        site.job("mail").await;
    }
    window.until("document.querySelector('#held-back')?.innerText === '3 updates paused: clear the selection and show'").await;
    assert_eq!(window.eval(&format!("window.box === {last} && window.box.checked")).await, true);
    assert_eq!(window.eval("document.activeElement === window.box").await, true);
    assert_eq!(window.text("document.querySelector('#picked').innerText").await, "1 selected");
    // What stands still is kept up to date as far as it is on this page: the fourth of the oldest.
    for _ in 0..4 {
        site.claim().await;
    }
    window.until("document.querySelector('tbody tr:nth-last-child(4) .st-running')").await;
    window.click("#held-back").await;
    window.until("!document.querySelector('#held-back') && !window.box.isConnected").await;
    window.eval("document.activeElement.blur()").await;
    point(&window, "tbody tr:nth-child(3)").await;
    window.eval("window.row = document.querySelector('tbody tr')").await;
    site.job("mail").await;
    window.until("document.querySelector('#held-back')?.innerText === '1 update paused: show'").await;
    assert_eq!(window.eval("document.querySelector('tbody tr') === window.row").await, true);
    point(&window, "h1").await;
    window
        .until("!document.querySelector('#held-back') && document.querySelector('tbody tr') !== window.row")
        .await;
    assert_not_reloaded(&window).await;
}

#[tokio::test]
async fn a_row_in_use_that_no_longer_matches_is_marked() {
    let site = Site::start().await;
    let id = site.job("mail").await;
    let browser = Browser::start();
    let window = browser.open(&site.at("/jobs?state=scheduled")).await;
    mark(&window).await;
    window.click("tbody tr input").await;
    site.store.act(&Caller::local(), id, ActionRequest::Cancel { reason: None }).await.unwrap();
    window.until("document.querySelector('#held-back')?.innerText === '1 update paused: clear the selection and show'").await;
    assert_eq!(window.eval("document.querySelector('tbody tr.old input').checked").await, true);
    window.click("#held-back").await;
    window.until("!document.querySelector('#held-back') && !document.querySelector('tbody tr')").await;
    assert_not_reloaded(&window).await;
}

#[tokio::test]
async fn a_form_sent_by_enter_shows_what_came_of_it() {
    let site = Site::start().await;
    site.job("mail").await;
    let browser = Browser::start();
    let window = browser.open(&site.at("/queues/default")).await;
    mark(&window).await;
    window.eval("document.querySelector('#q-max_running').focus()").await;
    window.fill("#q-max_running", "7").await;
    window.eval("document.querySelector('#q-max_running').form.requestSubmit()").await;
    window.until("document.querySelector('#q-max_running').defaultValue === '7'").await;
    assert_eq!(window.text("document.querySelector('#q-max_running').value").await, "7");
    assert_eq!(
        window.eval("document.activeElement.form === document.querySelector('#q-max_running').form").await,
        true
    );
    assert_not_reloaded(&window).await;
}

#[tokio::test]
async fn a_refused_form_says_why_and_keeps_what_was_typed() {
    let site = Site::start().await;
    let id = site.job("mail").await;
    let browser = Browser::start();
    let window = browser.open(&site.at(&format!("/jobs/{id}"))).await;
    mark(&window).await;
    window.unfold("#do-signal").await;
    window.fill("#g-name", "approval").await;
    window.fill("#g-value", "{oops").await;
    window.click("#do-signal button").await;
    let complaint = "document.querySelector('#do-signal .complaint')?.innerText.includes('is not JSON')";
    window.until(complaint).await;
    site.claim().await;
    window.until("document.querySelector('#head .st-running')").await;
    window.until(complaint).await;
    assert_eq!(window.text("document.querySelector('#g-value').value").await, "{oops");
    window.fill("#g-value", "{}").await;
    window.click("#do-signal button").await;
    window.until("document.querySelector('.banner.done')?.innerText.includes('Signal sent')").await;
    window.until("!document.querySelector('.complaint')").await;
    assert_eq!(window.text("document.querySelector('#g-value').value").await, "null");
    assert_not_reloaded(&window).await;
}

#[tokio::test]
async fn a_job_s_page_shows_what_happens_around_the_job() {
    let site = Site::start().await;
    let id = site.job("mail").await;
    let browser = Browser::start();
    let window = browser.open(&site.at(&format!("/jobs/{id}"))).await;
    mark(&window).await;
    pause(&site, "default").await;
    window.until("document.querySelector('#why').innerText.includes('queue paused')").await;
    assert_not_reloaded(&window).await;
}

#[tokio::test]
async fn the_menu_shows_where_one_is_on_a_phone() {
    let site = Site::start().await;
    let browser = Browser::start();
    let window = browser.window().await;
    let screen = json!({"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": true});
    window.send("Emulation.setDeviceMetricsOverride", screen).await;
    for path in ["/schedules", "/settings", "/"] {
        window.open(&site.at(path)).await;
        let place = "(() => { const box = document.querySelector('.menu [aria-current]').getBoundingClientRect(); \
                     return box.left >= 0 && box.right <= innerWidth; })()";
        window.until(place).await;
    }
}
