//! Sign-in: sessions, form tokens, and headers against framing and foreign scripts.

use serde_json::json;
use windlass::store::caller::{Caller, Role};
use windlass_testkit::browser::{Browser, Window};

use crate::fixture::Site;

/// What a browser sends along with a form of our own.
pub(super) const OWN: (&str, &str) = ("sec-fetch-site", "same-origin");
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'";

#[tokio::test]
async fn a_key_opens_a_session_that_its_browser_keeps_from_other_sites() {
    let site = Site::start().await;
    let secret = site.key("ada", Role::Operator).await;
    let browser = Browser::start();
    let window = browser.open(&site.at("/jobs?state=failed")).await;
    window.until("location.pathname === '/sign-in'").await;
    window.fill("#key", "wl_wrong").await;
    window.click("button[type=submit]").await;
    window.until("document.querySelector('[role=alert]')").await;
    window.fill("#key", &secret).await;
    window.click("button[type=submit]").await;
    window.until("location.pathname === '/jobs' && location.search === '?state=failed'").await;
    assert_eq!(window.eval("document.cookie.includes('windlass-session')").await, json!(false), "HttpOnly");
    let cookies = window.send("Network.getCookies", json!({})).await["cookies"].clone();
    let cookie =
        cookies.as_array().unwrap().iter().find(|cookie| cookie["name"] == "windlass-session").unwrap();
    assert_eq!((&cookie["httpOnly"], &cookie["sameSite"]), (&json!(true), &json!("Strict")));
    window.click(".who form button").await;
    window.until("location.pathname === '/sign-in'").await;
    window.open(&site.at("/jobs")).await;
    window.until("location.pathname === '/sign-in'").await;
}

#[tokio::test]
async fn a_session_ends_with_its_key() {
    let site = Site::start().await;
    let admin = site.key("root", Role::Admin).await;
    let secret = site.key("ada", Role::Operator).await;
    let browser = Browser::start();
    let window = browser.window().await;
    sign_in(&site, &window, &secret).await;
    window.until("document.querySelector('.pulse.on')").await;
    site.revoke(&admin, "ada").await;
    window.reload().await;
    window.until("location.pathname === '/sign-in'").await;
}

/// A browser replaces its cookie, so the old session could not be signed out of.
#[tokio::test]
async fn signing_in_again_ends_the_browsers_old_session() {
    let site = Site::start().await;
    let secret = site.key("ada", Role::Operator).await;
    let (second_browser, old) = (cookie(&site, &secret).await, cookie(&site, &secret).await);
    let form = format!("key={secret}&next=/");
    let answer = site.ask("POST", "/sign-in", &[OWN, ("cookie", &old)], &form).await;
    let new = answer.header("set-cookie").unwrap().split(';').next().unwrap();
    for (session, status) in [(old.as_str(), 303), (new, 200), (&second_browser, 200)] {
        assert_eq!(site.ask("GET", "/jobs", &[OWN, ("cookie", session)], "").await.status, status);
    }
}

pub(super) async fn sign_in(site: &Site, window: &Window<'_>, secret: &str) {
    window.open(&site.at("/sign-in")).await;
    window.fill("#key", secret).await;
    window.click("button[type=submit]").await;
    window.until("location.pathname === '/'").await;
}

/// The cookie of a session begun without a browser.
pub(super) async fn cookie(site: &Site, secret: &str) -> String {
    let answer = site.ask("POST", "/sign-in", &[OWN], &format!("key={secret}&next=/")).await;
    assert_eq!(answer.status, 303, "{:?}", answer.headers());
    answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_form_is_believed_only_from_our_own_page_with_its_token() {
    let site = Site::start().await;
    let id = site.job("mail").await;
    let path = format!("/jobs/{id}/act");
    let token = site.ask("GET", &format!("/jobs/{id}"), &[], "").await.token();
    let good = format!("action=cancel&token={token}");
    let origin = format!("http://{}", site.host);
    let refused: [(&[(&str, &str)], &str); 7] = [
        (&[OWN], "action=cancel"),
        (&[OWN], "action=cancel&token=0000"),
        (&[("sec-fetch-site", "cross-site")], &good),
        (&[("sec-fetch-site", "same-site")], &good),
        (&[("sec-fetch-site", "none")], &good),
        (&[("origin", "https://evil.example")], &good),
        (&[], &good),
    ];
    for (headers, body) in refused {
        let answer = site.ask("POST", &path, headers, body).await;
        assert_eq!(answer.status, 403, "{headers:?} {body}");
    }
    let state = async || site.store.get(&Caller::local(), id).await.unwrap().unwrap().job.state;
    assert_eq!(state().await.as_str(), "scheduled", "nothing was done");
    let answer = site.ask("POST", &path, &[("origin", &origin)], &good).await;
    assert_eq!(answer.status, 303);
    assert_eq!(state().await.as_str(), "cancelled");
}

#[tokio::test]
async fn a_page_of_another_site_cannot_act_through_its_reader() {
    let (site, evil) = (Site::start().await, Site::start().await);
    let id = site.job("mail").await;
    let browser = Browser::start();
    let window = browser.window().await;
    // Another port is another origin; `localhost` is another site than the address. Its own policy would stop it too.
    window.open(&evil.at("/").replace("127.0.0.1", "localhost")).await;
    window.send("Page.setBypassCSP", json!({"enabled": true})).await;
    window.open(&evil.at("/jobs").replace("127.0.0.1", "localhost")).await;
    let target = site.at(&format!("/jobs/{id}/act"));
    let script = format!(
        "(() => {{ const form = document.createElement('form'); form.method = 'post'; form.action = {target:?}; \
         const field = document.createElement('input'); field.name = 'action'; field.value = 'cancel'; \
         form.append(field); document.body.append(form); form.submit(); }})()"
    );
    window.eval(&script).await;
    window
        .until(&format!(
            "location.host === {:?} && document.body.innerText.includes('another site')",
            site.host
        ))
        .await;
    let job = site.store.get(&Caller::local(), id).await.unwrap().unwrap().job;
    assert_eq!(job.state.as_str(), "scheduled");
}

#[tokio::test]
async fn every_answer_is_hardened() {
    let site = Site::start().await;
    let id = site.job("mail").await;
    let paths = [
        "/",
        "/jobs",
        "/queues",
        "/types",
        "/workers",
        "/schedules",
        "/alerts",
        "/dead",
        "/audit",
        "/tenants",
        "/settings",
    ];
    let odd =
        [format!("/jobs/{id}"), "/jobs/nonsense".into(), format!("/jobs/{id}/payload"), "/sign-in".into()];
    for path in paths.into_iter().map(str::to_owned).chain(odd) {
        let answer = site.ask("GET", &path, &[], "").await;
        assert_eq!(answer.header("content-security-policy"), Some(POLICY), "{path}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{path}");
        assert!(!answer.body.contains("<style") && !answer.body.contains(" style="), "{path}: inline style");
        assert!(
            !answer.body.contains("<script>") && !answer.body.contains(" onclick="),
            "{path}: inline script"
        );
    }
    let payload = site.ask("GET", &format!("/jobs/{id}/payload"), &[], "").await;
    assert!(payload.header("content-disposition").unwrap().starts_with("attachment"));
}

#[tokio::test]
async fn without_keys_only_this_machine_by_its_own_name_is_let_in() {
    let site = Site::start().await;
    assert_eq!(site.ask("GET", "/", &[("host", "localhost:1")], "").await.status, 200);
    let answer = site.ask("GET", "/", &[("host", "rebound.evil.example")], "").await;
    assert_eq!(answer.status, 403, "a name that resolves to this host proves nothing");
}

#[tokio::test]
async fn the_api_takes_no_cookie_and_the_dashboard_no_other_way_in() {
    let site = Site::start().await;
    let secret = site.key("ada", Role::Admin).await;
    let cookie = cookie(&site, &secret).await;
    assert_eq!(site.ask("GET", "/", &[("cookie", &cookie)], "").await.status, 200);
    assert_eq!(site.ask("GET", "/api/v1/jobs", &[("cookie", &cookie)], "").await.status, 401);
    let bearer = format!("Bearer {secret}");
    assert_eq!(site.ask("GET", "/", &[("authorization", &bearer)], "").await.status, 303);
    assert_eq!(site.ask("GET", "/live", &[], "").await.status, 401);
    assert_eq!(site.ask("POST", "/gate", &[OWN], "action=close").await.status, 401);
    // A form without a script leads to the sign-in page and back to the page it was on, and is not sent again.
    let from = format!("http://{}/settings", site.host);
    let form = [OWN, ("sec-fetch-mode", "navigate"), ("referer", &from)];
    let led = site.ask("POST", "/gate", &form, "action=close").await;
    assert_eq!((led.status, led.header("location")), (303, Some("/sign-in?next=%2Fsettings")));
}

#[tokio::test]
async fn a_page_of_another_site_cannot_make_the_server_work_but_lead_to_it() {
    let site = Site::start().await;
    let refused: [&[(&str, &str)]; 4] = [
        &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image")],
        &[("sec-fetch-site", "same-site"), ("sec-fetch-mode", "cors")],
        &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")],
        &[("origin", "https://evil.example")],
    ];
    for headers in refused {
        assert_eq!(site.ask("GET", "/jobs", headers, "").await.status, 403, "{headers:?}");
    }
    let visit =
        [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
    assert_eq!(site.ask("GET", "/jobs", &visit, "").await.status, 200);
    assert_eq!(site.ask("GET", "/jobs", &[("sec-fetch-site", "none")], "").await.status, 200);
}

#[tokio::test]
async fn a_link_from_another_site_finds_the_signed_in_visitor() {
    let (site, other) = (Site::start().await, Site::start().await);
    let secret = site.key("ada", Role::Operator).await;
    let browser = Browser::start();
    let window = browser.window().await;
    let follow = format!("location.href = {:?}", site.at("/jobs?state=failed"));
    // `localhost` is another site than the address.
    let foreign = other.at("/").replace("127.0.0.1", "localhost");
    window.open(&foreign).await;
    window.eval(&follow).await;
    window.until("location.pathname === '/sign-in' && document.querySelector('#key')").await;
    sign_in(&site, &window, &secret).await;
    window.open(&foreign).await;
    window.eval(&follow).await;
    window.until("location.pathname === '/jobs' && location.search === '?state=failed'").await;
}

#[tokio::test]
async fn what_was_done_is_said_once_and_only_by_what_did_it() {
    let site = Site::start().await;
    let id = site.job("mail").await;
    let page = site.ask("GET", "/jobs?done=deleted&n=300000", &[], "").await;
    assert!(!page.body.contains("300,000"), "an address alone says nothing");
    let body = format!("action=cancel&token={}", page.token());
    let answer = site.ask("POST", &format!("/jobs/{id}/act"), &[OWN], &body).await;
    let place = answer.header("location").unwrap().to_owned();
    assert!(site.ask("GET", &place, &[], "").await.body.contains("Job cancelled."));
    let forged = place.replace("done=cancelled", "done=deleted");
    assert!(!site.ask("GET", &forged, &[], "").await.body.contains("Job deleted."));
    let browser = Browser::start();
    let window = browser.open(&site.at(&place)).await;
    assert_eq!(window.text("document.querySelector('.banner.done').innerText").await, "Job cancelled.");
    assert_eq!(window.text("location.search").await, "", "what is kept or shared does not say it again");
}

#[tokio::test]
async fn odd_requests_are_answered_as_pages_too() {
    let site = Site::start().await;
    for (path, status) in [("/jobs/%ff", 400), ("/jobs/act", 405)] {
        let answer = site.ask("GET", path, &[], "").await;
        assert_eq!(answer.status, status, "{path}");
        assert!(answer.header("content-type").unwrap().starts_with("text/html"), "{path}");
        assert!(answer.body.contains("data-error"), "{path}");
    }
    let referer = format!("{}/jobs?type=a", site.url);
    let answer = site.ask("GET", "/jobs/nonsense", &[("referer", &referer)], "").await;
    assert!(answer.body.contains(r#"href="/jobs?type=a">Back"#), "{}", answer.body);
    let referer = format!("{}//evil.example", site.url);
    let answer = site.ask("GET", "/jobs/nonsense", &[("referer", &referer)], "").await;
    assert!(!answer.body.contains("evil.example"));
    let icon = site.ask("GET", "/assets/000000000000/icon.svg", &[], "").await;
    assert_eq!((icon.status, icon.header("cache-control")), (200, Some("no-store")), "of another version");
    site.key("ada", Role::Admin).await;
    assert_eq!(site.ask("HEAD", "/", &[], "").await.status, 303, "as for GET");
}
