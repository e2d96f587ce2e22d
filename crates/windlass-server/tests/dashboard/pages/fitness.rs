//! Every page is fit for everybody: names, labels, landmarks, contrast and width, at three widths in light and dark.

use serde_json::json;
use windlass::store::caller::{Caller, Role};
use windlass::store::command::worker::NewWorker;
use windlass_testkit::browser::{Browser, Window};

use crate::auth::sign_in;
use crate::fixture::Site;
use crate::pages::{PAGES, furnish};

/// Pages with a form alone, which do not refresh; a search without a match, and a wrong address.
const FORMS: [&str; 8] = [
    "/jobs/new",
    "/jobs/new?type=mail",
    "/schedules/new",
    "/schedules/default/nightly",
    "/alerts/new",
    "/alerts/default/dead",
    "/jobs?q=nothing.is.called.so",
    "/nope",
];

async fn look(window: &Window<'_>, what: &str) {
    let missing = window.eval(include_str!("access_check.js")).await;
    assert_eq!(missing, json!([]), "{what}: {missing:#}");
    assert_eq!(window.errors().await, Vec::<String>::new(), "{what}");
}

/// Each width in light and in dark.
const SCREENS: [(&str, u32); 6] =
    [("light", 1440), ("dark", 1440), ("light", 800), ("dark", 800), ("light", 390), ("dark", 390)];

async fn put_on(window: &Window<'_>, (theme, width): (&str, u32)) {
    let media = json!({"features": [{"name": "prefers-color-scheme", "value": theme}]});
    window.send("Emulation.setEmulatedMedia", media).await;
    let screen = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600});
    window.send("Emulation.setDeviceMetricsOverride", screen).await;
}

#[tokio::test]
async fn every_page_is_fit_for_everybody_in_light_and_dark_on_a_phone_and_a_desk() {
    let site = Site::start().await;
    let ids = furnish(&site).await;
    let worker = NewWorker { name: "w1".into(), concurrency: 2, ..NewWorker::default() };
    let worker = site.store.register(&Caller::local(), worker).await.unwrap().id;
    let secret = site.key("ada", Role::Admin).await;
    let browser = Browser::start();
    let window = browser.window().await;
    window.open(&site.at("/sign-in")).await;
    // It has no menu.
    let missing = window.eval(include_str!("access_check.js")).await;
    assert_eq!(missing, json!(["there is no header", "there is no nav[aria-label]"]));
    assert_eq!(window.errors().await, Vec::<String>::new());
    sign_in(&site, &window, &secret).await;
    let others = ids.iter().map(|id| format!("/jobs/{id}")).chain([format!("/workers/{worker}")]);
    let pages: Vec<String> =
        PAGES.iter().chain(&FORMS).map(|path| (*path).to_owned()).chain(others).collect();
    for screen in SCREENS {
        put_on(&window, screen).await;
        for path in &pages {
            window.open(&site.at(path)).await;
            window.until("!document.body.dataset.live || document.querySelector('.pulse.on')").await;
            look(&window, &format!("{path} in {screen:?}")).await;
        }
        // Pages that only forms lead to.
        window.open(&site.at("/jobs")).await;
        window.click("input[name=id_selected]").await;
        window.click("#bulk button[value=cancel]").await;
        window.until("document.querySelector('h1').innerText.startsWith('Cancel 1 job')").await;
        look(&window, &format!("confirming in {screen:?}")).await;
        window.open(&site.at("/settings")).await;
        window.unfold("#new-key").await;
        window.fill("#k-name", &format!("{} {}", screen.0, screen.1)).await;
        window.click("#new-key button").await;
        window.until("document.querySelector('#secret')").await;
        look(&window, &format!("a new key in {screen:?}")).await;
    }
}

#[tokio::test]
async fn empty_pages_dialogs_and_messages_are_fit_for_everybody() {
    let site = Site::start().await;
    let browser = Browser::start();
    let window = browser.window().await;
    for screen in SCREENS {
        put_on(&window, screen).await;
        for path in PAGES.iter().filter(|path| !path.starts_with("/types/")) {
            window.open(&site.at(path)).await;
            window.until("!document.body.dataset.live || document.querySelector('.pulse.on')").await;
            look(&window, &format!("empty {path} in {screen:?}")).await;
        }
        window.open(&site.at("/queues/default")).await;
        window.fill("#q-max_running", &screen.1.to_string()).await;
        window.click("#settings button[type=submit]").await;
        window.until("document.querySelector('#said [data-dismiss]')").await;
        look(&window, &format!("a message in {screen:?}")).await;
        window.open(&site.at("/")).await;
        window.press(&["?"]).await;
        window.until("document.querySelector('#help').open").await;
        look(&window, &format!("the help in {screen:?}")).await;
    }
}

#[tokio::test]
async fn the_check_of_fitness_finds_what_is_planted() {
    let site = Site::start().await;
    let browser = Browser::start();
    let window = browser.window().await;
    window.open(&site.at("/")).await;
    let plant = "(() => { const field = document.createElement('input'); const button = document.createElement('button'); \
                 const text = document.createElement('p'); text.textContent = 'pale'; text.className = 'pale'; \
                 const sheet = new CSSStyleSheet(); sheet.replaceSync('.pale { color: #ccc; background: #fff }'); \
                 document.adoptedStyleSheets = [sheet]; document.querySelector('main').append(field, button, text); })()";
    window.eval(plant).await;
    let found = window.eval(include_str!("access_check.js")).await.to_string();
    for problem in ["no label", "no name", "contrast"] {
        assert!(found.contains(problem), "{problem} in {found}");
    }
}
