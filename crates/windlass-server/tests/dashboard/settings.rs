//! Settings and pauses: a form changes only the touched fields, buttons appear where they work, and numbers say what they
//! count.

use std::time::Duration;

use windlass::job::{Failure, JobType, QueueName, RetryPolicy, Tenant};
use windlass::settings::patch::{Field, QueuePatch, SettingsPatch, TenantPatch};
use windlass::settings::{QueueSettings, Rate};
use windlass::store::caller::{Caller, Role};
use windlass::store::{NewKey, Pause, PauseScope, PauseTarget, Redrive};
use windlass_testkit::browser::Browser;

use crate::auth::cookie;
use crate::fixture::{Page, Site, new, queue};

fn tenant(name: &str) -> Tenant {
    Tenant::new(name).unwrap()
}

/// What a browser would send of the form on a page that goes to this address: every field as it stands there, but for
/// those that are filled in otherwise.
fn form(page: &str, action: &str, filled: &[(&str, &str)]) -> String {
    let (_, rest) = page.split_once(&format!("action=\"{action}\"")).expect("the page has the form");
    let (form, _) = rest.split_once("</form>").expect("a form ends");
    let attribute = |tag: &str, name: &str| {
        let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
        Some(rest.split('"').next().unwrap_or_default().replace("&#34;", "\""))
    };
    let mut body = form_urlencoded::Serializer::new(String::new());
    for tag in form.split('<').filter(|tag| tag.starts_with("input")) {
        let tag = tag.split('>').next().unwrap_or_default();
        let is_left_out = tag.contains("type=\"checkbox\"") && !tag.contains(" checked");
        let Some(name) = attribute(tag, "name").filter(|_| !is_left_out) else { continue };
        let typed = filled.iter().find(|(field, _)| *field == name).map(|(_, text)| (*text).to_owned());
        body.append_pair(&name, &typed.or_else(|| attribute(tag, "value")).unwrap_or_default());
    }
    body.finish()
}

/// A person at the site.
struct Person<'a> {
    site: &'a Site,
    cookie: String,
}

impl Person<'_> {
    /// A user with a key of this role; any user on this machine while there are no keys.
    async fn with_key<'a>(site: &'a Site, role: Role, of: Option<&str>) -> Person<'a> {
        let new = NewKey { tenant: of.map(tenant), ..NewKey::new(format!("{role:?} {of:?}"), role) };
        let secret = site.store.create_key(&Caller::local(), new).await.unwrap().secret;
        let cookie = cookie(site, secret.reveal()).await;
        Person { site, cookie }
    }

    async fn get_page(&self, path: &str) -> Page {
        self.site.ask("GET", path, &[("cookie", &self.cookie)], "").await
    }

    async fn send(&self, path: &str, body: &str) -> Page {
        let headers = [("cookie", self.cookie.as_str()), ("sec-fetch-site", "same-origin")];
        let answer = self.site.ask("POST", path, &headers, body).await;
        assert_eq!(answer.status, 303, "{path} {body}: {}", answer.body);
        self.get_page(answer.header("location").expect("where it leads")).await
    }

    /// Fills in and sends the form of a page as it was when it was looked at.
    async fn fill(&self, page: &str, action: &str, filled: &[(&str, &str)]) -> Page {
        self.send(action, &form(page, action, filled)).await
    }
}

async fn set(site: &Site, patch: QueuePatch) {
    site.store.configure(&Caller::local(), SettingsPatch::Queue(queue("mail"), patch)).await.unwrap();
}

async fn settings(site: &Site, of: Option<&str>) -> QueueSettings {
    let config = site.store.config(&Caller::local()).await.unwrap();
    config.queues.get(&(queue("mail"), of.map(tenant))).cloned().unwrap_or_default()
}

#[tokio::test]
async fn saving_a_queue_s_settings_changes_what_was_touched_and_nothing_else() {
    let site = Site::start().await;
    let ada = Person::with_key(&site, Role::Admin, None).await;
    let rate = Rate::new(10, Duration::from_millis(250));
    set(
        &site,
        QueuePatch {
            max_running: Field::Set(50),
            rate: Field::Set(rate),
            aging: Field::Set(Duration::from_millis(500)),
            ..QueuePatch::default()
        },
    )
    .await;
    let before = settings(&site, None).await;
    let page = ada.get_page("/queues/mail").await;
    assert!(page.body.contains("value=\"250ms\"") && page.body.contains("value=\"500ms\""));
    let action = "/queues/mail/settings";
    let saved = ada.fill(&page.body, action, &[]).await;
    assert!(saved.body.contains("Nothing changed"), "nothing was touched");
    assert_eq!(settings(&site, None).await, before);
    // Meanwhile another person sets two limits; the page opened before changes a third.
    let limits =
        QueuePatch { max_running: Field::Set(2), max_depth: Field::Set(900), ..QueuePatch::default() };
    set(&site, limits).await;
    ada.fill(&page.body, action, &[("max_running_per_key", "3")]).await;
    let after = settings(&site, None).await;
    assert_eq!((after.max_running, after.max_depth), (Some(2), Some(900)), "the others' limits stay");
    assert_eq!((after.max_running_per_key, after.rate, after.aging), (Some(3), before.rate, before.aging));
    let page = ada.get_page("/queues/mail").await.body;
    ada.fill(&page, action, &[("rate_count", ""), ("max_depth", ""), ("aging", "2m")]).await;
    let cleared = settings(&site, None).await;
    assert_eq!((cleared.rate, cleared.max_depth), (None, None));
    assert_eq!(cleared.aging, Some(Duration::from_secs(120)));
    let kept = [("retention_completed", "1h"), ("retention_dead_letter", "90d"), ("max_execution", "10m")];
    ada.fill(&page, action, &kept).await;
    let set = settings(&site, None).await;
    let (hour, days) = (Duration::from_secs(3_600), Duration::from_secs(90 * 86_400));
    assert_eq!((set.retention.completed, set.retention.dead_letter), (Some(hour), Some(days)));
    assert_eq!((set.retention.failed, set.timeouts.max_execution), (None, Some(Duration::from_secs(600))));
    assert!(ada.get_page("/queues/mail").await.body.contains("value=\"90d\""));
}

#[tokio::test]
async fn a_tenant_s_settings_are_its_own_and_do_not_copy_those_of_all_tenants() {
    let site = Site::start().await;
    set(&site, QueuePatch { max_running: Field::Set(50), ..QueuePatch::default() }).await;
    let operator = Person::with_key(&site, Role::Operator, Some("acme")).await;
    let page = operator.get_page("/queues/mail").await.body;
    assert!(page.contains("50 for all tenants"), "what counts anyway is shown");
    operator.fill(&page, "/queues/mail/settings", &[("max_depth", "30")]).await;
    let own = settings(&site, Some("acme")).await;
    assert_eq!((own.max_running, own.max_depth), (None, Some(30)));
}

#[tokio::test]
async fn saving_a_tenant_s_limits_changes_what_was_touched_and_nothing_else() {
    let site = Site::start().await;
    let ada = Person::with_key(&site, Role::Admin, None).await;
    let set = async |patch: TenantPatch| {
        let patch = SettingsPatch::Tenant(tenant("acme"), patch);
        site.store.configure(&Caller::local(), patch).await.unwrap();
    };
    set(TenantPatch { max_running: Field::Set(50), ..TenantPatch::default() }).await;
    let page = ada.get_page("/tenants").await.body;
    set(TenantPatch { max_running: Field::Set(2), weight: Field::Set(4), ..TenantPatch::default() }).await;
    let page = ada.fill(&page, "/tenants/acme/settings", &[("budget", "1250.5")]).await.body;
    let config = site.store.config(&Caller::local()).await.unwrap();
    let after = &config.tenants[&tenant("acme")];
    assert_eq!((after.max_running, after.weight, after.budget_cents), (Some(2), Some(4), Some(125_050)));
    assert!(page.contains("1,250.50 a month") && page.contains("value=\"1250.50\""));
    let page = ada.get_page("/tenants").await.body;
    ada.fill(&page, "/tenants/acme/settings", &[("max_concurrency_keys", "500")]).await;
    let config = site.store.config(&Caller::local()).await.unwrap();
    let after = &config.tenants[&tenant("acme")];
    assert_eq!((after.max_concurrency_keys, after.budget_cents), (Some(500), Some(125_050)));
}

#[tokio::test]
async fn a_button_that_resumes_is_there_where_it_works() {
    let site = Site::start().await;
    let mut job = new("mail");
    (job.tenant, job.queue) = (Some(tenant("acme")), queue("mail"));
    site.submit(job).await;
    let ada = Person::with_key(&site, Role::Admin, None).await;
    let operator = Person::with_key(&site, Role::Operator, Some("acme")).await;
    // A tenant cannot resume a pause for all tenants.
    let all = Caller::local();
    site.store.pause(&all, PauseTarget::Queue(queue("mail")), Pause::graceful()).await.unwrap();
    let kind = JobType::new("mail").unwrap();
    site.store.pause(&all, PauseTarget::Type(kind.clone()), Pause::graceful()).await.unwrap();
    for path in ["/queues", "/queues/mail", "/types/mail"] {
        let (theirs, ours) = (operator.get_page(path).await.body, ada.get_page(path).await.body);
        assert!(theirs.contains("admin") && !theirs.contains("value=\"resume\""), "{path}");
        assert!(ours.contains("value=\"resume\""), "{path}");
    }
    site.store.resume(&all, PauseTarget::Queue(queue("mail")), None).await.unwrap();
    site.store.resume(&all, PauseTarget::Type(kind.clone()), None).await.unwrap();
    // It can resume its own, and so can an admin.
    let acme = Caller::new("grace", Role::Operator, Some(tenant("acme")));
    for target in [PauseTarget::Queue(queue("mail")), PauseTarget::Type(kind.clone())] {
        site.store.pause(&acme, target, Pause::graceful()).await.unwrap();
    }
    let page = operator.get_page("/queues/mail").await.body;
    assert!(page.contains("value=\"resume\""));
    for (path, what) in
        [("/queues/mail", "queue mail of tenant acme"), ("/settings", "type mail of tenant acme")]
    {
        let page = ada.get_page(path).await.body;
        assert!(page.contains(what), "{path}");
        let page = ada.fill(&page, "/resume", &[]).await.body;
        assert!(page.contains("Resumed.") && !page.contains(what), "{path}");
    }
    assert!(site.store.config(&all).await.unwrap().pauses.is_empty());
}

#[tokio::test]
async fn a_pause_of_another_tenant_cannot_be_resumed() {
    let site = Site::start().await;
    let operator = Person::with_key(&site, Role::Operator, Some("acme")).await;
    let local = Caller::local();
    site.store.pause(&local, PauseTarget::Gate, Pause::graceful()).await.unwrap();
    site.store.pause(&local, PauseTarget::Tenant(tenant("globex")), Pause::graceful()).await.unwrap();
    let globex = Caller::new("hank", Role::Operator, Some(tenant("globex")));
    site.store.pause(&globex, PauseTarget::Queue(queue("mail")), Pause::graceful()).await.unwrap();
    let token = operator.get_page("/queues/mail").await.token();
    let holds = site.store.config(&local).await.unwrap().pauses;
    for scope in holds.keys() {
        let scope = serde_json::to_string(scope).unwrap();
        let body = form_urlencoded::Serializer::new(String::new())
            .append_pair("scope", &scope)
            .append_pair("token", &token)
            .finish();
        let headers = [("cookie", operator.cookie.as_str()), ("sec-fetch-site", "same-origin")];
        assert_eq!(site.ask("POST", "/resume", &headers, &body).await.status, 403, "{scope}");
    }
    let body = format!("action=close&type=mail&tenant=globex&token={token}");
    let headers = [("cookie", operator.cookie.as_str()), ("sec-fetch-site", "same-origin")];
    assert_eq!(site.ask("POST", "/gate", &headers, &body).await.status, 403);
    assert_eq!(site.store.config(&local).await.unwrap().pauses, holds);
}

#[tokio::test]
async fn pausing_an_unknown_name_says_so() {
    let site = Site::start().await;
    site.job("mail").await;
    let ada = Person::with_key(&site, Role::Admin, None).await;
    let page = ada.get_page("/settings").await.body;
    let page = ada.fill(&page, "/gate", &[("tenant", "amce")]).await.body;
    assert!(
        page.contains("Processing is paused for tenant amce. There is no tenant amce yet.")
            && !page.contains("Processing is paused.")
    );
    assert!(
        page.contains("there is no tenant amce yet")
            && page.contains("except for the tenants and types below")
    );
    assert!(page.contains("aria-label=\"Resume tenant amce\""));
    // A pause of a type of one tenant applies to nothing else.
    let page = ada.fill(&page, "/gate", &[("tenant", "default"), ("type", "mail")]).await.body;
    assert!(
        page.contains("Processing is paused for type mail of tenant default.")
            && !page.contains("no type mail yet")
    );
    let scope = PauseScope::Type { job_type: JobType::new("mail").unwrap(), tenant: Some(Tenant::default()) };
    let holds = site.store.config(&Caller::local()).await.unwrap().pauses;
    assert!(holds.contains_key(&scope) && !holds.contains_key(&PauseScope::Tenant(Tenant::default())));
    // A URL cannot make a page show a false message.
    let page = ada.get_page("/settings?done=closed&tenant=unknown").await.body;
    assert!(!page.contains("Processing is paused for tenant unknown"));
}

#[tokio::test]
async fn a_queue_s_backlog_is_what_could_run_now() {
    let site = Site::start().await;
    for number in 0..15 {
        let mut job = new("mail");
        job.delay = (number > 1).then_some(Duration::from_secs(3600));
        site.submit(job).await;
    }
    let mut dying = new("mail");
    dying.retry = Some(RetryPolicy { max_attempts: 1, ..RetryPolicy::standard() });
    dying.priority = Some(windlass::job::Priority::CRITICAL);
    site.submit(dying).await;
    site.claim().await.fail(Failure::permanent("no_address", "no such address")).await;
    // What happened in a minute is written with a commit of the next second or so.
    let is_counted = async || {
        let look = site.store.queue(&Caller::local(), QueueName::default()).await.unwrap();
        look.minutes.values().any(|minute| minute.failed == 1)
    };
    while !is_counted().await {
        let mut other = new("other");
        (other.queue, other.delay) = (queue("other"), Some(Duration::from_secs(3600)));
        site.submit(other).await;
    }
    let page = site.ask("GET", "/queues", &[], "").await.body;
    let (_, row) =
        page.split_once("<a class=\"name\" href=\"/queues/default\"").expect("the queue has a line");
    let (row, _) = row.split_once("</tr>").expect("a line ends");
    let text: String =
        row.split('<').filter_map(|part| Some(part.split_once('>')?.1.trim().to_owned() + " ")).collect();
    let words: Vec<&str> = text.split_whitespace().collect();
    assert_eq!(words[..2], ["default", "2"], "two are ready: {text}");
    assert!(row.contains("width=\"2.0\""), "two jobs are no full bar: {row}");
    assert!(words.contains(&"13"), "the others come later: {text}");
    assert!(
        row.contains("<td class=\"n bad\" data-label=\"Failed, 1 h\">1</td>"),
        "one failed in the last hour: {row}"
    );
    for path in ["/types", "/types/mail", "/queues/default"] {
        assert!(
            site.ask("GET", path, &[], "").await.body.contains("≤ "),
            "{path} says that a percentile is a bound"
        );
    }
    let page = site.ask("GET", "/tenants", &[], "").await.body;
    assert!(page.contains("<dt>failed, stored</dt><dd>1</dd>"));
}

#[tokio::test]
async fn a_queue_and_a_type_distinguish_dead_letters_that_were_redriven_from_those_that_were_not() {
    let site = Site::start().await;
    let mut dead = Vec::new();
    for _ in 0..3 {
        let mut dying = new("mail");
        dying.retry = Some(RetryPolicy { max_attempts: 1, ..RetryPolicy::standard() });
        dead.push(site.submit(dying).await.id);
        site.claim().await.fail(Failure::temporary("no route to host")).await;
    }
    site.store.redrive(&Caller::local(), dead[0], Redrive::default()).await.unwrap();
    for path in ["/queues/default", "/types/mail"] {
        let page = site.ask("GET", path, &[], "").await.body;
        assert!(page.contains("2 open") && page.contains(">3</a>"), "{path}");
    }
    let page = site.ask("GET", "/types/mail", &[], "").await.body;
    assert!(page.contains("<td class=\"n\"><b>2</b></td>"), "a redriven job does not count any more");
}

#[tokio::test]
async fn lists_of_many_names_come_page_by_page_and_stay_small() {
    let site = Site::start().await;
    let mut batch = Vec::new();
    for number in 0..2_000_u32 {
        let mut job = new(&format!("kind-{number:04}"));
        job.tenant = Some(tenant(&format!("tenant-{number:04}")));
        job.queue = QueueName::new(&format!("queue-{number:04}")).unwrap();
        batch.push(job);
    }
    site.store.submit(&Caller::local(), batch, windlass::store::SubmitOptions::default()).await.unwrap();
    for path in ["/jobs", "/settings", "/tenants", "/queues", "/types"] {
        let page = site.ask("GET", path, &[], "").await.body;
        assert!(page.len() < 100_000, "{path} is {} bytes", page.len());
    }
    for (path, what) in [("/tenants", "tenant"), ("/queues", "queue"), ("/types", "kind")] {
        let mut seen = 0;
        let mut address = path.to_owned();
        loop {
            let page = site.ask("GET", &address, &[], "").await.body;
            seen += page.matches(&format!("{what}-")).count();
            let Some((_, rest)) = page.split_once("rel=\"next\" href=\"") else { break };
            address = rest.split('"').next().unwrap_or_default().replace("&#38;", "&").replace("&amp;", "&");
            if address.contains("-0239") || address.contains("-0149") {
                break;
            }
        }
        assert!(seen > 0 && address.contains("after="), "{path}: {address}");
        let found = site.ask("GET", &format!("{path}?find=-1999"), &[], "").await.body;
        assert!(found.contains(&format!("{what}-1999")) && found.contains("1 of 1"), "{path}");
        let none = site.ask("GET", &format!("{path}?find=nothing"), &[], "").await.body;
        assert!(none.contains("name matches"), "{path}");
    }
}

#[tokio::test]
async fn keys_come_page_by_page_and_are_found_by_name() {
    let site = Site::start().await;
    for number in 0..120 {
        let new = NewKey::new(format!("robot {}", number / 2), Role::Viewer);
        site.store.create_key(&Caller::local(), new).await.unwrap();
    }
    let ada = Person::with_key(&site, Role::Admin, None).await;
    let (mut address, mut seen) = ("/settings".to_owned(), 0);
    loop {
        let page = ada.get_page(&address).await.body;
        assert!(page.len() < 100_000, "{address} is {} bytes", page.len());
        seen += page.matches("aria-label=\"Revoke ").count();
        let Some((_, rest)) = page.split_once("rel=\"next\" href=\"") else { break };
        rest.split('"').next().unwrap_or_default().clone_into(&mut address);
    }
    assert_eq!(seen, 121, "every key once");
    let found = ada.get_page("/settings?find=robot+59").await.body;
    assert_eq!(found.matches("aria-label=\"Revoke robot 59\"").count(), 2);
}

#[tokio::test]
async fn pages_with_nothing_to_show_say_how_to_begin() {
    let site = Site::start().await;
    for path in ["/queues", "/types", "/tenants"] {
        let page = site.ask("GET", path, &[], "").await.body;
        assert!(page.contains("curl -d"), "{path}");
    }
}

#[tokio::test]
async fn a_queue_is_paused_from_the_list_with_a_reason_and_its_settings_follow_others() {
    let site = Site::start().await;
    site.job("mail").await;
    let browser = Browser::start();
    let window = browser.open(&site.at("/queues")).await;
    window.until("document.querySelector('.pulse.on')").await;
    window.click("button[aria-label='Pause default']").await;
    window.fill(".pop:popover-open [name=reason]", "new disk").await;
    window.click(".pop:popover-open [name=action]").await;
    window
        .until("document.querySelector('.banner.done')?.innerText.startsWith('Queue default is paused.')")
        .await;
    window.until("document.querySelector('#queues').innerText.includes('new disk')").await;
    window.click("button[aria-label='Resume default']").await;
    window
        .until("document.querySelector('.banner.done')?.innerText.startsWith('Queue default is resumed.')")
        .await;
    window.open(&site.at("/queues/default")).await;
    window.until("document.querySelector('.pulse.on')").await;
    let limits = QueuePatch { max_running: Field::Set(7), ..QueuePatch::default() };
    let patch = SettingsPatch::Queue(QueueName::default(), limits);
    site.store.configure(&Caller::local(), patch).await.unwrap();
    window.until("document.querySelector('#q-max_running').value === '7'").await;
    assert_eq!(window.errors().await, Vec::<String>::new());
}
