//! Errands in a browser: retrying an error's jobs, saving a list as a file, a worker's page, keys.

use windlass::job::{Failure, RetryPolicy};
use windlass::store::caller::{Caller, Role};
use windlass_testkit::browser::Browser;

use crate::auth::sign_in;
use crate::fixture::{Site, new};

#[tokio::test]
async fn the_jobs_of_one_error_are_retried_from_the_page_of_errors() {
    let site = Site::start().await;
    for number in 0..3 {
        let mut job = new("mail");
        job.retry = Some(RetryPolicy { max_attempts: 1, ..RetryPolicy::standard() });
        site.submit(job).await;
        site.claim().await.fail(Failure::temporary(format!("no answer after {number} ms"))).await;
    }
    let browser = Browser::start();
    let window = browser.open(&site.at("/")).await;
    window.click(".menu a[href='/errors']").await;
    window.until("document.querySelector('#errors')?.innerText.includes('no answer after # ms')").await;
    window.click("#errors tr[id^=e-] button").await;
    window.until("document.querySelector('#confirm-text').innerText === 'Retry 3 jobs as new jobs?'").await;
    window.click("#confirm[open] #confirm-yes").await;
    window
        .until("document.querySelector('.banner.done')?.innerText.includes('3 jobs retried as new jobs.')")
        .await;
    // Its statistics stay; none of its jobs is open.
    window.until("document.querySelector('#errors td[data-label=Open]').innerText === '0'").await;
    assert_eq!(window.eval("document.querySelector('#errors tr[id^=e-] button') === null").await, true);
    assert_eq!(window.errors().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_list_is_saved_as_a_file_and_a_row_leads_to_its_job() {
    let site = Site::start().await;
    let id = site.job("mail").await;
    site.job("other").await;
    let browser = Browser::start();
    let window = browser.open(&site.at("/jobs?type=mail")).await;
    let file = "fetch(document.querySelector('a[download]').href).then((answer) => answer.text())";
    let csv = window.text(file).await;
    assert!(csv.contains(&id.to_string()) && !csv.contains("other"), "{csv}");
    let saved = "document.querySelector('a[download]').hasAttribute('download')";
    assert_eq!(window.eval(saved).await, true);
    // A click beside the links of a row.
    let cell = "document.querySelector('tbody tr td.nowrap, tbody tr td:last-child')\
                .dispatchEvent(new MouseEvent('click', {bubbles: true}))";
    window.eval(cell).await;
    window.until(&format!("location.pathname === '/jobs/{id}'")).await;
}

#[tokio::test]
async fn a_worker_s_page_shows_what_it_runs_and_pauses_it() {
    let site = Site::start().await;
    site.job("mail").await;
    let claimed = site.claim().await;
    let browser = Browser::start();
    let window = browser.open(&site.at("/workers")).await;
    window.click(&format!("a[href='/workers/{}']", claimed.worker)).await;
    window.until("document.querySelector('#running')?.innerText.includes('mail')").await;
    claimed.complete("1").await;
    window.until("document.querySelector('#recent').innerText.includes('mail')").await;
    window.click(".title button[popovertarget]").await;
    window.click(".pop:popover-open [name=action]").await;
    window.until("document.querySelector('#head .badge.warn')").await;
    window.click("#said form button").await;
    window.until("!document.querySelector('#head .badge.warn')").await;
    assert_eq!(window.errors().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_key_is_made_used_and_revoked() {
    let site = Site::start().await;
    let secret = site.key("root", Role::Admin).await;
    let browser = Browser::start();
    let window = browser.window().await;
    sign_in(&site, &window, &secret).await;
    window.open(&site.at("/settings")).await;
    window.unfold("#new-key").await;
    window.fill("#k-name", "shop").await;
    window.fill("#k-role", "submitter").await;
    window.click("#new-key button").await;
    window.until("document.querySelector('#secret')").await;
    let secret = window.text("document.querySelector('#secret').textContent").await;
    assert_eq!(site.store.authenticate(&secret).await.unwrap().unwrap().role, Role::Submitter);
    window.click("main a[href='/settings']").await;
    window.until("location.pathname === '/settings' && document.querySelector('.pulse.on')").await;
    window.click("button[aria-label='Revoke shop']").await;
    window.click("#confirm[open] #confirm-yes").await;
    window.until("document.querySelector('#said').innerText.includes('revoked')").await;
    assert!(site.store.authenticate(&secret).await.unwrap().is_none());
    assert!(site.store.keys(&Caller::new("root", Role::Admin, None)).await.unwrap().len() == 1);
}
