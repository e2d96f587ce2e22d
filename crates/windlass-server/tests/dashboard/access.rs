//! Who sees and may do what: every role at every action, and tenants that do not exist for each other.

use windlass::job::Tenant;
use windlass::store::caller::{Caller, Role};
use windlass::store::{NewKey, SubmitOptions};

use crate::auth::cookie;
use crate::fixture::{Site, new, queue};

#[tokio::test]
async fn roles_decide_what_is_shown_and_what_is_possible() {
    let site = Site::start().await;
    let mut keys = Vec::new();
    for role in Role::ALL {
        keys.push((role, site.key(role.as_str(), role).await));
    }
    let id = site.job("mail").await;
    for (role, secret) in keys {
        let cookie = cookie(&site, &secret).await;
        let headers = [("cookie", cookie.as_str()), ("sec-fetch-site", "same-origin")];
        let page = site.ask("GET", &format!("/jobs/{id}"), &headers, "").await;
        let (is_operator, is_admin) = (matches!(role, Role::Admin | Role::Operator), role == Role::Admin);
        assert_eq!(page.status, 200, "{role:?}");
        assert_eq!(page.body.contains("do-suspend"), is_operator, "{role:?}: buttons");
        assert_eq!(page.body.contains("ada@example.com"), is_operator, "{role:?}: the payload");
        let download = site.ask("GET", &format!("/jobs/{id}/payload"), &headers, "").await;
        assert_eq!(download.status, if is_operator { 200 } else { 403 }, "{role:?}");
        let settings = site.ask("GET", "/settings", &headers, "").await;
        assert_eq!(settings.body.contains("new-key"), is_admin, "{role:?}: keys");
        let token = page.token();
        let matrix = [
            (format!("/jobs/{id}/act"), "action=priority&value=60", is_operator),
            ("/jobs/act".into(), "action=suspend&all=1", is_operator || role.manages_own_jobs_only()),
            ("/queues/default/act".into(), "action=pause", is_operator),
            ("/queues/default/act".into(), "action=resume", is_operator),
            ("/queues/default/settings".into(), "max_running=9", is_operator),
            ("/types/mail/act".into(), "action=pause", is_operator),
            ("/types/mail/act".into(), "action=resume", is_operator),
            ("/tenants/default/settings".into(), "max_running=9", is_admin),
            ("/tenants/default/act".into(), "action=pause", is_admin),
            ("/tenants/default/act".into(), "action=resume", is_admin),
            ("/gate".into(), "action=close", is_admin),
            ("/gate".into(), "action=open", is_admin),
            ("/keys".into(), "name=x&role=viewer", is_admin),
            (
                "/errors/retry".into(),
                "error=x&most=1&until=2026-01-01T00:00:00Z",
                is_operator || role.manages_own_jobs_only(),
            ),
            (
                "/dead/redrive".into(),
                "type=mail&error=x&most=1&until=2026-01-01T00:00:00Z",
                is_operator || role.manages_own_jobs_only(),
            ),
        ];
        for (path, body, is_allowed) in matrix {
            let answer = site.ask("POST", &path, &headers, &format!("{body}&token={token}")).await;
            let was_allowed = matches!(answer.status, 200 | 303);
            assert_eq!(was_allowed, is_allowed, "{role:?} {path} {body}: {}", answer.status);
            assert!(was_allowed || answer.status == 403, "{role:?} {path}: {}", answer.status);
        }
    }
}

#[tokio::test]
async fn a_submitter_manages_what_it_submitted_and_nothing_else() {
    let site = Site::start().await;
    let secret = site.key("shop", Role::Submitter).await;
    let foreign = site.job("mail").await;
    let key = windlass::key::KeySecret::parse(&secret).unwrap().id();
    let shop = Caller { key: Some(key), ..Caller::new("shop", Role::Submitter, Some(Tenant::default())) };
    let receipts = site.store.submit(&shop, vec![new("mail")], SubmitOptions::default()).await.unwrap();
    let own = receipts[0].job.id;
    let cookie = cookie(&site, &secret).await;
    let headers = [("cookie", cookie.as_str()), ("sec-fetch-site", "same-origin")];
    let page = site.ask("GET", &format!("/jobs/{own}"), &headers, "").await;
    assert!(page.body.contains("do-cancel") && page.body.contains("ada@example.com"));
    let body = format!("action=cancel&token={}", page.token());
    assert_eq!(site.ask("POST", &format!("/jobs/{own}/act"), &headers, &body).await.status, 303);
    assert_eq!(site.ask("POST", &format!("/jobs/{foreign}/act"), &headers, &body).await.status, 403);
}

#[tokio::test]
async fn another_tenant_s_jobs_do_not_exist() {
    let site = Site::start().await;
    site.key("root", Role::Admin).await;
    let tenant = |name: &str| Tenant::new(name).unwrap();
    let mut job = new("secret.work");
    job.tenant = Some(tenant("globex"));
    job.queue = queue("globex-queue");
    let id = site.submit(job).await.id;
    let new_key = NewKey { tenant: Some(tenant("acme")), ..NewKey::new("acme", Role::Operator) };
    let secret = site.store.create_key(&Caller::local(), new_key).await.unwrap().secret.reveal().to_owned();
    let cookie = cookie(&site, &secret).await;
    let headers = [("cookie", cookie.as_str()), ("sec-fetch-site", "same-origin")];
    for path in [format!("/jobs/{id}"), format!("/jobs/{id}/payload"), "/types/secret.work".into()] {
        assert_eq!(site.ask("GET", &path, &headers, "").await.status, 404, "{path}");
    }
    let paths = [
        "/",
        "/jobs",
        "/queues",
        "/types",
        "/dead",
        "/audit",
        "/tenants",
        "/jobs?tenant=globex",
        "/settings",
    ];
    for path in paths {
        let page = site.ask("GET", path, &headers, "").await;
        assert_eq!(page.status, 200, "{path}");
        for trace in ["secret.work", "globex-queue", &id.to_string()] {
            assert!(!page.body.contains(trace), "{path} shows {trace}");
        }
    }
    let token = site.ask("GET", "/jobs", &headers, "").await.token();
    let answer =
        site.ask("POST", &format!("/jobs/{id}/act"), &headers, &format!("action=cancel&token={token}")).await;
    assert_eq!(answer.status, 404);
}
