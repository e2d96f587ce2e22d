//! Every page is accessible: names, labels, landmarks, contrast and width, at three widths in light and dark.

use std::sync::LazyLock;

use serde_json::json;
use windlass::store::NewWorker;
use windlass::store::caller::{Caller, Role};
use windlass_testkit::browser::{Browser, Window};

use crate::auth::sign_in;
use crate::fixture::Site;
use crate::pages::{PAGES, furnish};

/// Pages with a form alone, which do not refresh; a search without a match, and a wrong address.
const FORMS: [&str; 13] = [
    "/docs",
    "/docs/api",
    "/docs/guides",
    "/docs/guides/limits",
    "/docs/guides?q=cron",
    "/jobs/new",
    "/jobs/new?type=mail",
    "/schedules/new",
    "/schedules/default/nightly",
    "/alerts/new",
    "/alerts/default/dead",
    "/jobs?q=nothing.is.called.so",
    "/nope",
];

/// axe-core, if `WINDLASS_AXE` names its file: `./check` takes it from the npm registry.
static AXE: LazyLock<Option<String>> = LazyLock::new(|| {
    let file = std::env::var("WINDLASS_AXE").ok()?;
    Some(std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("WINDLASS_AXE={file}: {error}")))
});

/// What is wrong with pages, to be reported together.
#[derive(Default)]
struct Problems(Vec<String>);

impl Problems {
    /// Asks the check of this test, axe-core, and the browser about a page of this width, in light and dark. Names, labels and
    /// structure are the same in both: in dark axe-core applies its rules about colours alone.
    async fn check_page(&mut self, window: &Window<'_>, width: u32, what: &str) {
        let has_axe = AXE.is_some() && window.eval("typeof axe === 'object'").await == json!(true);
        if let Some(axe) = AXE.as_ref().filter(|_| !has_axe) {
            window.eval(&format!("{axe}; 0")).await;
        }
        for theme in THEMES {
            put_on(window, theme, width).await;
            let mut found = vec![window.eval(include_str!("access_check.js")).await];
            if AXE.is_some() {
                let rules = if theme == THEMES[0] { "" } else { COLOUR_RULES };
                let ask = format!(
                    "axe.run(document, {{resultTypes: ['violations'], {rules}}}).then((found) => \
                     found.violations.map((one) => `${{one.id}}: ${{one.help}}: ${{one.nodes[0].html}}`))"
                );
                found.push(window.eval(&ask).await);
            }
            let what = format!("{what}, {width} wide in {theme}");
            for problem in found.iter().flat_map(|found| found.as_array().expect("a list of problems")) {
                self.0.push(format!("{what}: {}", problem.as_str().unwrap_or_default()));
            }
            self.0.extend(window.errors().await.into_iter().map(|error| format!("{what}: {error}")));
        }
    }

    fn are_none(self) {
        assert!(self.0.is_empty(), "{}", self.0.join("\n"));
    }
}

const WIDTHS: [u32; 3] = [1440, 800, 390];
const THEMES: [&str; 2] = ["light", "dark"];
/// The rules of axe-core whose result depends on colours.
const COLOUR_RULES: &str = "runOnly: ['color-contrast', 'link-in-text-block']";

async fn put_on(window: &Window<'_>, theme: &str, width: u32) {
    let media = json!({"features": [{"name": "prefers-color-scheme", "value": theme}]});
    window.send("Emulation.setEmulatedMedia", media).await;
    let screen = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600});
    window.send("Emulation.setDeviceMetricsOverride", screen).await;
}

#[tokio::test]
async fn every_page_is_accessible_in_light_and_dark_on_a_phone_and_a_desk() {
    let site = Site::start().await;
    let ids = furnish(&site).await;
    let worker = NewWorker { name: "w1".into(), concurrency: 2, ..NewWorker::default() };
    let worker = site.store.register(&Caller::local(), worker).await.unwrap().id;
    let secret = site.key("ada", Role::Admin).await;
    let browser = Browser::start();
    let window = browser.open(&site.at("/sign-in")).await;
    // It has no menu.
    let missing = window.eval(include_str!("access_check.js")).await;
    assert_eq!(missing, json!(["there is no header", "there is no nav[aria-label]"]));
    assert_eq!(window.errors().await, Vec::<String>::new());
    sign_in(&site, &window, &secret).await;
    let others = ids.iter().map(|id| format!("/jobs/{id}")).chain([format!("/workers/{worker}")]);
    let pages: Vec<String> =
        PAGES.iter().chain(&FORMS).map(|path| (*path).to_owned()).chain(others).collect();
    let mut problems = Problems::default();
    for width in WIDTHS {
        put_on(&window, THEMES[0], width).await;
        for path in &pages {
            window.open(&site.at(path)).await;
            window.until("!document.body.dataset.live || document.querySelector('.pulse.on')").await;
            problems.check_page(&window, width, path).await;
        }
        // Pages that only forms lead to.
        window.open(&site.at("/jobs")).await;
        window.click("input[name=id_selected]").await;
        window.click("#bulk button[value=cancel]").await;
        window.until("document.querySelector('h1').innerText.startsWith('Cancel 1 job')").await;
        problems.check_page(&window, width, "confirming").await;
        window.open(&site.at("/settings")).await;
        window.unfold("#new-key").await;
        window.fill("#k-name", &width.to_string()).await;
        window.click("#new-key button").await;
        window.until("document.querySelector('#secret')").await;
        problems.check_page(&window, width, "a new key").await;
    }
    problems.are_none();
}

#[tokio::test]
async fn empty_pages_dialogs_and_messages_are_accessible() {
    let site = Site::start().await;
    let browser = Browser::start();
    let window = browser.window().await;
    let mut problems = Problems::default();
    for width in WIDTHS {
        put_on(&window, THEMES[0], width).await;
        for path in PAGES.iter().filter(|path| !path.starts_with("/types/")) {
            window.open(&site.at(path)).await;
            window.until("!document.body.dataset.live || document.querySelector('.pulse.on')").await;
            problems.check_page(&window, width, &format!("empty {path}")).await;
        }
        window.open(&site.at("/queues/default")).await;
        window.fill("#q-max_running", &width.to_string()).await;
        window.click("#settings button[type=submit]").await;
        window.until("document.querySelector('#said [data-dismiss]')").await;
        problems.check_page(&window, width, "a message").await;
        window.open(&site.at("/")).await;
        window.press(&["?"]).await;
        window.until("document.querySelector('#help').open").await;
        problems.check_page(&window, width, "the help").await;
    }
    problems.are_none();
}

#[tokio::test]
async fn the_check_of_fitness_finds_what_is_planted() {
    let site = Site::start().await;
    let browser = Browser::start();
    let window = browser.open(&site.at("/")).await;
    let plant = "(() => { const field = document.createElement('input'); const button = document.createElement('button'); \
                 const text = document.createElement('p'); text.textContent = 'pale'; text.className = 'pale'; \
                 const sheet = new CSSStyleSheet(); sheet.replaceSync('.pale { color: #ccc; background: #fff }'); \
                 document.adoptedStyleSheets = [sheet]; document.querySelector('main').append(field, button, text); \
                 const name = document.createElement('span'); name.className = 'tile-name'; name.textContent = 'long'.repeat(99); \
                 const place = document.createElement('label'); place.className = 'field'; const wide = document.createElement('input'); \
                 wide.type = 'color'; wide.size = 400; place.append('f', wide); document.querySelector('main').append(name, place); })()";
    window.eval(plant).await;
    let found = window.eval(include_str!("access_check.js")).await.to_string();
    for problem in ["no label", "no name", "contrast", "without style", "too long for its tile"] {
        assert!(found.contains(problem), "{problem} in {found}");
    }
    if let Some(axe) = AXE.as_ref() {
        window.eval(&format!("{axe}; 0")).await;
        let found = window.eval("axe.run().then((found) => found.violations.map((one) => one.id))").await;
        for rule in ["button-name", "label", "color-contrast"] {
            assert!(found.to_string().contains(rule), "{rule} in {found}");
        }
    }
}
