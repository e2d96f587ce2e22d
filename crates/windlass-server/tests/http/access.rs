//! Keys, roles and tenants over HTTP (Model: tenant-isolation, roles).

use std::time::Duration;

use serde_json::{Value, json};
use windlass::clock::Stopwatch;
use windlass::job::Tenant;
use windlass::store::caller::{Caller, Permission, Role};
use windlass::store::{NewKey, StoreOptions};
use windlass_server::server::{Options, Server};
use windlass_testkit::client::{Request, TestResponse};

use crate::fixture::{Fixture, assert_refused};

/// Creates a key and returns its secret.
pub(crate) async fn key(t: &Fixture, name: &str, role: Role, tenant: Option<&str>) -> String {
    let tenant = tenant.map(|tenant| Tenant::new(tenant).unwrap());
    let new = NewKey { tenant, ..NewKey::new(name, role) };
    t.store.create_key(&Caller::local(), new).await.unwrap().secret.reveal().to_owned()
}

pub(crate) async fn ask(t: &Fixture, key: &str, method: &str, path: &str, body: Value) -> TestResponse {
    t.request(method, path).header("Authorization", &format!("Bearer {key}")).json(&body).send().await
}

#[tokio::test]
async fn the_first_key_binds_at_once_and_one_shape_refuses_every_other_caller() {
    let t = Fixture::new().await;
    let made = t.post_ok(201, "/keys", json!({"name": "boss", "role": "admin"})).await;
    let secret = made["secret"].as_str().unwrap();
    assert!(secret.starts_with("wl_"), "{secret}");
    assert_eq!(
        (&made["name"], &made["role"], &made["tenant"]),
        (&json!("boss"), &json!("admin"), &Value::Null)
    );
    let bare = t.get("/jobs").await;
    assert_refused(&bare, 401, "unauthorized", None);
    assert_eq!(bare.header("www-authenticate"), Some("Bearer"));
    let mut wrong = secret.to_owned();
    wrong.replace_range(30..31, if &secret[30..31] == "0" { "1" } else { "0" });
    for shown in [
        "Bearer x".to_owned(),
        format!("Bearer {wrong}"),
        format!("Basic {secret}"),
        secret.to_owned(),
        String::new(),
    ] {
        let refused = t.request("GET", "/jobs").header("Authorization", &shown).send().await;
        assert_eq!((refused.status, &refused.body), (401, &bare.body), "{shown}");
    }
    assert_eq!(ask(&t, secret, "GET", "/jobs", json!({})).await.status, 200);
    assert_eq!(
        t.request("GET", "/jobs").header("Authorization", &format!("bearer {secret}")).send().await.status,
        200
    );
    for path in ["/metrics", "/api/v1/events", "/api/v1/stats"] {
        assert_eq!(Request::new(t.address, "GET", path).send().await.status, 401, "{path}");
    }
    for path in ["/healthz", "/readyz", "/openapi.json", "/docs", "/docs/api"] {
        assert_eq!(Request::new(t.address, "GET", path).send().await.status, 200, "{path}");
    }
    // With keys, the host name of the request does not matter.
    let foreign = t
        .request("GET", "/jobs")
        .header("Host", "jobs.example")
        .header("Authorization", &format!("Bearer {secret}"));
    assert_eq!(foreign.send().await.status, 200);
}

#[tokio::test]
async fn keys_are_listed_without_their_secrets_and_revoked() {
    let t = Fixture::new().await;
    let boss = key(&t, "boss", Role::Admin, None).await;
    t.advance(Duration::from_millis(1)).await;
    let made = ask(
        &t,
        &boss,
        "POST",
        "/keys",
        json!({"name": "ann", "role": "submitter", "tenant": "acme", "expires": "1h"}),
    )
    .await;
    assert_eq!(made.status, 201);
    let made = made.json();
    let listed = ask(&t, &boss, "GET", "/keys", json!({})).await;
    assert!(!String::from_utf8_lossy(&listed.body).contains(made["secret"].as_str().unwrap()));
    let listed = listed.json();
    assert_eq!((&listed["keys"][1]["name"], &listed["keys"][1]["tenant"]), (&json!("ann"), &json!("acme")));
    assert_eq!(listed["keys"][1]["expires_at"], "2030-01-01T01:00:00.001Z");
    let ann = made["secret"].as_str().unwrap();
    assert_eq!(ask(&t, ann, "GET", "/jobs", json!({})).await.status, 200);
    assert_refused(&ask(&t, ann, "GET", "/keys", json!({})).await, 403, "forbidden", None);
    assert_refused(
        &ask(&t, ann, "POST", "/keys", json!({"name": "x", "role": "admin"})).await,
        403,
        "forbidden",
        None,
    );
    let path = format!("/keys/{}", made["id"].as_str().unwrap());
    assert_eq!(ask(&t, &boss, "DELETE", &path, json!({})).await.status, 204);
    assert_refused(&ask(&t, &boss, "DELETE", &path, json!({})).await, 404, "not_found", None);
    assert_refused(&ask(&t, &boss, "DELETE", "/keys/x", json!({})).await, 404, "not_found", None);
    assert_eq!(ask(&t, ann, "GET", "/jobs", json!({})).await.status, 401);
    for (body, field) in [
        (json!({"role": "admin"}), "name"),
        (json!({"name": "", "role": "admin"}), "name"),
        (json!({"name": "x"}), "role"),
        (json!({"name": "x", "role": "king"}), "role"),
        (json!({"name": "x", "role": "viewer", "tenant": "1"}), "tenant"),
        (json!({"name": "x", "role": "viewer", "expires": "soon"}), "expires"),
        (json!({"name": "x", "role": "viewer", "secret": "mine"}), "secret"),
    ] {
        assert_refused(&ask(&t, &boss, "POST", "/keys", body).await, 422, "invalid_value", Some(field));
    }
}

#[tokio::test]
async fn an_expired_key_opens_nothing() {
    let t = Fixture::new().await;
    let boss = key(&t, "boss", Role::Admin, None).await;
    let made = ask(&t, &boss, "POST", "/keys", json!({"name": "ann", "role": "viewer", "expires": "1m"}))
        .await
        .json();
    let ann = made["secret"].as_str().unwrap();
    assert_eq!(ask(&t, ann, "GET", "/jobs", json!({})).await.status, 200);
    t.advance(Duration::from_secs(61)).await;
    assert_eq!(ask(&t, ann, "GET", "/jobs", json!({})).await.status, 401);
}

/// Model: tenant-isolation. A job of another tenant does not exist, whatever the request is.
#[tokio::test]
async fn another_tenants_job_is_nowhere_to_be_found() {
    let t = Fixture::new().await;
    let mine = key(&t, "ann", Role::Operator, Some("acme")).await;
    let theirs = key(&t, "bob", Role::Operator, Some("other")).await;
    let job = ask(&t, &mine, "POST", "/jobs", json!({"type": "a", "unique_key": "u"})).await.json();
    assert_eq!((&job["tenant"], &job["owner"]), (&json!("acme"), &json!("ann")));
    let path = format!("/jobs/{}", job["id"].as_str().unwrap());
    let nowhere = ask(&t, &theirs, "GET", "/jobs/00000000-0000-4000-8000-000000000000", json!({})).await;
    for below in
        ["", "/attempts", "/checkpoints", "/events", "/children", "/logs", "/result", "/graph", "/explain"]
    {
        let refused = ask(&t, &theirs, "GET", &format!("{path}{below}"), json!({})).await;
        assert_eq!(
            (refused.status, refused.json()["error"]["code"].clone()),
            (404, nowhere.json()["error"]["code"].clone())
        );
    }
    for (below, body) in [
        ("submit", json!({})),
        ("suspend", json!({})),
        ("resume", json!({})),
        ("cancel", json!({})),
        ("priority", json!({"value": 1})),
        ("redrive", json!({})),
        ("signals/x", json!({})),
        ("children", json!({"fence": 1, "jobs": []})),
    ] {
        let refused = ask(&t, &theirs, "POST", &format!("{path}/{below}"), body).await;
        assert_refused(&refused, 404, "not_found", None);
    }
    assert_refused(&ask(&t, &theirs, "PATCH", &path, json!({})).await, 404, "not_found", None);
    assert_refused(&ask(&t, &theirs, "DELETE", &path, json!({})).await, 404, "not_found", None);
    let save =
        ask(&t, &theirs, "PUT", &format!("{path}/checkpoints/s"), json!({"fence": 1, "value": 1})).await;
    assert_refused(&save, 404, "not_found", None);
    assert_eq!(ask(&t, &theirs, "GET", "/jobs", json!({})).await.json()["jobs"], json!([]));
    assert_eq!(ask(&t, &theirs, "GET", "/jobs?tenant=acme", json!({})).await.json()["jobs"], json!([]));
    assert_eq!(ask(&t, &theirs, "GET", "/stats", json!({})).await.json()["tenants"], json!({}));
    assert_eq!(ask(&t, &theirs, "GET", "/queues", json!({})).await.json()["queues"], json!([]));
    let bulk = ask(&t, &theirs, "POST", "/jobs/bulk", json!({"action": "cancel", "filter": {}})).await.json();
    assert_eq!(bulk, json!({"matched": 0, "changed": 0}));
    let after = ask(&t, &theirs, "POST", "/jobs", json!({"type": "a", "after": [job["id"]]})).await;
    assert_refused(&after, 422, "invalid_value", Some("after.0"));
    // Nor is its key accepted there.
    assert_eq!(ask(&t, &theirs, "POST", "/jobs", json!({"type": "a", "unique_key": "u"})).await.status, 201);
    assert_refused(
        &ask(&t, &theirs, "POST", "/jobs", json!({"type": "a", "tenant": "acme"})).await,
        403,
        "forbidden",
        None,
    );
    // A pause by anyone but an admin applies to their own tenant only.
    assert_eq!(ask(&t, &theirs, "POST", "/queues/default/pause", json!({})).await.status, 200);
    assert_eq!(ask(&t, &mine, "GET", "/queues/default", json!({})).await.json()["paused"], Value::Null);
    let trail = ask(&t, &theirs, "GET", "/audit?tenant=acme", json!({})).await.json();
    assert_eq!(trail["records"], json!([]));
}

/// Model: roles. A worker's key cannot affect a job of another key's worker, though it can read the worker's id and knows the fence.
#[tokio::test]
async fn a_worker_key_does_nothing_to_the_jobs_of_another_worker() {
    let t = Fixture::new().await;
    let admin = key(&t, "root", Role::Admin, None).await;
    let honest = key(&t, "honest", Role::Worker, Some("acme")).await;
    let rogue = key(&t, "rogue", Role::Worker, Some("acme")).await;
    let job = ask(&t, &admin, "POST", "/jobs", json!({"type": "a", "tenant": "acme"})).await.json();
    let id = job["id"].as_str().unwrap();
    let worker = ask(&t, &honest, "POST", "/workers", json!({})).await.json()["worker_id"].clone();
    let claimed = ask(&t, &honest, "POST", "/claims", json!({"worker_id": worker})).await.json();
    let fence = claimed["jobs"][0]["fence"].clone();
    assert!(fence.as_u64().is_some_and(|fence| fence > 1 << 41 && fence < 1 << 53), "{fence}");
    let (checkpoint, children) = (format!("/jobs/{id}/checkpoints/evil"), format!("/jobs/{id}/children"));
    let outcome = json!({"id": id, "fence": fence, "outcome": "completed", "result": "evil"});
    let beat = json!({"id": id, "fence": fence, "logs": ["evil"]});
    let jobs = json!([{"type": "c"}]);
    for (method, path, body, status, said) in [
        ("PUT", checkpoint.as_str(), json!({"fence": 1, "value": "forged"}), 409, "stale_fence"),
        ("PUT", &checkpoint, json!({"fence": fence, "value": "forged"}), 409, "stale_fence"),
        ("PUT", &checkpoint, json!({"fence": fence, "worker_id": worker, "value": 1}), 404, "not_found"),
        ("POST", &children, json!({"fence": fence, "jobs": jobs}), 409, "stale_fence"),
        ("POST", &children, json!({"fence": fence, "worker_id": worker, "jobs": jobs}), 404, "not_found"),
        ("POST", "/outcomes", json!({"worker_id": worker, "outcomes": [outcome]}), 404, "not_found"),
        ("POST", "/heartbeats", json!({"worker_id": worker, "jobs": [beat]}), 404, "not_found"),
        ("POST", "/claims", json!({"worker_id": worker}), 404, "not_found"),
    ] {
        assert_refused(&ask(&t, &rogue, method, path, body).await, status, said, None);
    }
    let leave = format!("/workers/{}", worker.as_str().unwrap());
    assert_refused(&ask(&t, &rogue, "DELETE", &leave, json!({})).await, 404, "not_found", None);
    let shown = ask(&t, &admin, "GET", &format!("/jobs/{id}"), json!({})).await.json();
    assert_eq!((&shown["state"], &shown["lease"]["worker"]), (&json!("running"), &worker));
    let kept = ask(&t, &honest, "PUT", &checkpoint, json!({"fence": fence, "value": 1})).await;
    assert_eq!(kept.status, 204, "without naming the worker, as the contract has it");
    let done = json!({"id": id, "fence": fence, "outcome": "completed"});
    let body = json!({"worker_id": worker, "outcomes": [done]});
    let applied = ask(&t, &honest, "POST", "/outcomes", body).await.json();
    assert_eq!(applied["outcomes"][0]["status"], "applied");
    let events = ask(&t, &admin, "GET", &format!("/jobs/{id}/events"), json!({})).await.json();
    let completed = events["events"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(completed["actor"], json!({"type": "worker", "id": worker}));
    let keys = ask(&t, &admin, "GET", "/keys", json!({})).await.json();
    let honest_key = keys["keys"].as_array().unwrap().iter().find(|key| key["name"] == "honest").unwrap();
    assert_eq!(completed["context"]["key"], honest_key["id"]);
}

/// Model: roles. Names of keys need not be unique, so they decide nothing.
#[tokio::test]
async fn a_key_with_the_name_of_another_does_not_own_its_jobs() {
    let t = Fixture::new().await;
    let admin = key(&t, "root", Role::Admin, None).await;
    for role in [Role::Submitter, Role::App] {
        let first = key(&t, "shop", role, Some("acme")).await;
        let second = key(&t, "shop", role, Some("acme")).await;
        let body = json!({"type": "a", "payload": {"card": 4711}});
        let job = ask(&t, &first, "POST", "/jobs", body).await.json();
        assert_eq!(job["owner"], "shop");
        let path = format!("/jobs/{}", job["id"].as_str().unwrap());
        let refused = ask(&t, &second, "POST", &format!("{path}/cancel"), json!({})).await;
        assert_refused(&refused, 403, "forbidden", None);
        let bulk = json!({"action": "cancel", "filter": {"type": "a"}});
        let many = ask(&t, &second, "POST", "/jobs/bulk", bulk).await.json();
        assert_eq!(many["changed"], 0, "{many}");
        let whole = format!("{path}?payload=true");
        assert_eq!(ask(&t, &second, "GET", &whole, json!({})).await.json()["payload"], Value::Null);
        assert_eq!(ask(&t, &first, "GET", &whole, json!({})).await.json()["payload"], json!({"card": 4711}));
        assert_eq!(ask(&t, &first, "POST", &format!("{path}/cancel"), json!({})).await.status, 200);
        let again = ask(&t, &admin, "POST", &format!("{path}/redrive"), json!({})).await.json();
        let again = format!("/jobs/{}/cancel", again["id"].as_str().unwrap());
        assert_eq!(ask(&t, &second, "POST", &again, json!({})).await.status, 403);
        assert_eq!(ask(&t, &first, "POST", &again, json!({})).await.status, 200, "its successor is its own");
    }
}

/// Model: roles. An application submits, signals, works and reads with one key, and runs jobs of others without owning them.
#[tokio::test]
async fn an_app_submits_and_works_with_one_key() {
    let t = Fixture::new().await;
    let admin = key(&t, "root", Role::Admin, None).await;
    let app = key(&t, "shop", Role::App, Some("acme")).await;
    let own = ask(&t, &app, "POST", "/jobs", json!({"type": "a", "payload": 1})).await.json();
    let own = format!("/jobs/{}", own["id"].as_str().unwrap());
    assert_eq!(ask(&t, &app, "POST", &format!("{own}/signals/go"), json!({})).await.status, 202);
    let other =
        ask(&t, &admin, "POST", "/jobs", json!({"type": "a", "tenant": "acme", "payload": 2})).await.json();
    let other = format!("/jobs/{}", other["id"].as_str().unwrap());
    let payload = format!("{other}?payload=true");
    assert_eq!(ask(&t, &app, "GET", &payload, json!({})).await.json()["payload"], Value::Null);
    let worker = ask(&t, &app, "POST", "/workers", json!({})).await.json()["worker_id"].clone();
    let claimed = ask(&t, &app, "POST", "/claims", json!({"worker_id": worker, "limit": 2})).await.json();
    assert_eq!(claimed["jobs"].as_array().unwrap().len(), 2);
    assert_eq!(ask(&t, &app, "GET", &payload, json!({})).await.json()["payload"], 2, "while it runs it");
    assert_eq!(ask(&t, &app, "POST", &format!("{other}/cancel"), json!({})).await.status, 403);
    assert_eq!(ask(&t, &app, "POST", &format!("{own}/cancel"), json!({})).await.status, 200);
}

/// Model: roles. The published table of permissions is the one that decides.
#[test]
fn the_documented_permissions_are_those_of_the_roles() {
    let document = include_str!("../../../../docs/http-api.md");
    let documented: Vec<(&str, Vec<&str>)> = document
        .lines()
        .skip_while(|line| !line.starts_with("| permission |"))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let mut cells = line.split('|').map(str::trim).skip(1);
            let permission = cells.next().unwrap().trim_matches('`');
            (permission, cells.nth(1).unwrap().split(", ").map(|role| role.trim_matches('`')).collect())
        })
        .collect();
    let decided: Vec<(&str, Vec<&str>)> = Permission::ALL
        .into_iter()
        .map(|permission| {
            let roles = Role::ALL.into_iter().filter(|role| role.includes(permission));
            (permission.name(), roles.map(Role::as_str).collect())
        })
        .collect();
    assert_eq!(documented, decided);
}

/// Model: roles. What each role may do.
#[tokio::test]
async fn every_role_does_its_own_and_no_more() {
    let t = Fixture::new().await;
    let mut keys = Vec::new();
    for role in Role::ALL {
        keys.push((role, key(&t, role.as_str(), role, None).await));
    }
    let (_, admin) = keys[0].clone();
    let worker = ask(&t, &admin, "POST", "/workers", json!({})).await.json()["worker_id"].clone();
    for (role, secret) in &keys {
        // A job of another owner, and one of the role's own tenant.
        let job = ask(&t, &admin, "POST", "/jobs", json!({"type": "a"})).await.json();
        let path = format!("/jobs/{}", job["id"].as_str().unwrap());
        let status =
            async |method: &str, path: &str, body: Value| ask(&t, secret, method, path, body).await.status;
        let allowed = |roles: &[Role]| if roles.contains(role) { 200 } else { 403 };
        let (admins, operators) = (&[Role::Admin][..], &[Role::Admin, Role::Operator][..]);
        assert_eq!(status("GET", &path, json!({})).await, 200, "{role:?}");
        assert_eq!(status("GET", "/audit", json!({})).await, 200, "{role:?}");
        let submitted = status("POST", "/jobs", json!({"type": "a"})).await;
        assert_eq!(
            submitted == 201,
            [Role::Admin, Role::Operator, Role::Submitter, Role::App].contains(role),
            "{role:?}"
        );
        for (below, body) in [
            ("suspend", json!({})),
            ("resume", json!({})),
            ("priority", json!({"value": 1})),
            ("cancel", json!({})),
        ] {
            assert_eq!(
                status("POST", &format!("{path}/{below}"), body).await,
                allowed(operators),
                "{role:?} {below}"
            );
        }
        assert_eq!(status("PATCH", &path, json!({})).await == 403, !operators.contains(role), "{role:?}");
        assert_eq!(status("DELETE", &path, json!({})).await == 403, !operators.contains(role), "{role:?}");
        assert_eq!(status("POST", "/queues/q/pause", json!({})).await, allowed(operators), "{role:?}");
        assert_eq!(
            status("PUT", "/queues/q", json!({"max_depth": 1000})).await,
            allowed(operators),
            "{role:?}"
        );
        assert_eq!(status("POST", "/gate/offline", json!({})).await, allowed(admins), "{role:?}");
        assert_eq!(status("POST", "/gate/online", json!({})).await, allowed(admins), "{role:?}");
        assert_eq!(status("PUT", "/types/a", json!({})).await, allowed(admins), "{role:?}");
        assert_eq!(status("PUT", "/tenants/a", json!({})).await, allowed(admins), "{role:?}");
        assert_eq!(status("GET", "/keys", json!({})).await, allowed(admins), "{role:?}");
        let works = [Role::Admin, Role::Operator, Role::Worker, Role::App].contains(role);
        assert_eq!(status("POST", "/workers", json!({})).await == 201, works, "{role:?}");
        let claimed = status("POST", "/claims", json!({"worker_id": worker})).await;
        assert_eq!(claimed == 403, !works, "{role:?}");
    }
    // A submitter manages what it submitted.
    let (_, submitter) = &keys[2];
    let own = ask(&t, submitter, "POST", "/jobs", json!({"type": "a"})).await.json();
    let path = format!("/jobs/{}/suspend", own["id"].as_str().unwrap());
    assert_eq!(ask(&t, submitter, "POST", &path, json!({})).await.status, 200);
}

#[tokio::test]
async fn a_key_that_is_revoked_while_it_waits_gets_nothing() {
    let t = Fixture::new().await;
    let boss = key(&t, "boss", Role::Admin, None).await;
    let made = ask(&t, &boss, "POST", "/keys", json!({"name": "w", "role": "worker"})).await.json();
    let secret = made["secret"].as_str().unwrap();
    let worker = ask(&t, secret, "POST", "/workers", json!({})).await.json()["worker_id"].clone();
    let body = json!({"worker_id": worker, "wait": "60s"});
    let request =
        t.request("POST", "/claims").header("Authorization", &format!("Bearer {secret}")).json(&body);
    let waiting = tokio::spawn(async move { request.send().await });
    while !t.store.environment().wakeups.has_waiters() {
        tokio::task::yield_now().await;
    }
    ask(&t, &boss, "DELETE", &format!("/keys/{}", made["id"].as_str().unwrap()), json!({})).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(2)).await;
    tokio::time::resume();
    let job = ask(&t, &boss, "POST", "/jobs", json!({"type": "a"})).await.json();
    assert_eq!(waiting.await.unwrap().status, 401);
    let other = ask(&t, &boss, "POST", "/workers", json!({})).await.json()["worker_id"].clone();
    let claimed = ask(&t, &boss, "POST", "/claims", json!({"worker_id": other, "wait": "30s"})).await.json();
    assert_eq!(claimed["jobs"][0]["id"], job["id"], "it went back at once");
}

#[tokio::test]
async fn a_key_that_is_revoked_while_it_waits_for_a_job_is_refused_at_once() {
    let t = Fixture::new().await;
    let boss = key(&t, "boss", Role::Admin, None).await;
    let job = ask(&t, &boss, "POST", "/jobs", json!({"type": "a", "hold": true})).await.json();
    let made = ask(&t, &boss, "POST", "/keys", json!({"name": "v", "role": "viewer"})).await.json();
    let secret = made["secret"].as_str().unwrap();
    let path = format!("/jobs/{}?wait=60s", job["id"].as_str().unwrap());
    let request = t.request("GET", &path).header("Authorization", &format!("Bearer {secret}"));
    let watch = Stopwatch::start();
    let waiting = tokio::spawn(async move { request.send().await });
    while !t.store.environment().wakeups.has_waiters() {
        tokio::task::yield_now().await;
    }
    ask(&t, &boss, "DELETE", &format!("/keys/{}", made["id"].as_str().unwrap()), json!({})).await;
    assert_refused(&waiting.await.unwrap(), 401, "unauthorized", None);
    assert!(watch.elapsed() < Duration::from_secs(30), "{:?}", watch.elapsed());
}

#[tokio::test]
async fn an_address_that_others_can_reach_needs_keys_and_encryption() {
    let t = Fixture::new().await;
    let listen = "0.0.0.0:0".parse().unwrap();
    let bind = async |behind_proxy| {
        let options = Options { listen, behind_proxy, ..Options::default() };
        Server::bind(t.store.clone(), options).await.map(|_| ()).map_err(|error| error.to_string())
    };
    assert!(bind(true).await.unwrap_err().contains("without API keys"));
    key(&t, "boss", Role::Admin, None).await;
    assert!(bind(false).await.unwrap_err().contains("without encryption"));
    bind(true).await.unwrap();
}

/// Model: roles. An admin's key is for all tenants, so one that names a tenant is refused; the last one cannot be revoked.
#[tokio::test]
async fn an_admins_key_names_no_tenant_and_the_last_one_stays() {
    let t = Fixture::new().await;
    let within = json!({"name": "root", "role": "admin", "tenant": "acme"});
    assert_refused(&t.post("/keys", within).await, 422, "invalid_value", Some("tenant"));
    let made = t.post_ok(201, "/keys", json!({"name": "root", "role": "admin"})).await;
    let (id, secret) = (made["id"].as_str().unwrap(), made["secret"].as_str().unwrap());
    let refused = ask(&t, secret, "DELETE", &format!("/keys/{id}"), json!({})).await;
    assert_refused(&refused, 409, "last_admin_key", None);
    let other = ask(&t, secret, "POST", "/keys", json!({"name": "root", "role": "admin"})).await.json();
    let revoked = ask(&t, secret, "DELETE", &format!("/keys/{id}"), json!({})).await;
    assert_eq!(revoked.status, 204);
    assert_eq!(ask(&t, secret, "GET", "/jobs", json!({})).await.status, 401);
    assert_eq!(t.get("/jobs").await.status, 401);
    assert_eq!(ask(&t, other["secret"].as_str().unwrap(), "GET", "/keys", json!({})).await.status, 200);
}

/// Model: callbacks. A worker's key cannot claim callbacks.
#[tokio::test]
async fn a_workers_key_does_not_get_the_systems_own_jobs() {
    let t = Fixture::new().await;
    let secret = key(&t, "w", Role::Worker, Some("acme")).await;
    for (body, field) in [
        (json!({"queues": ["windlass.callbacks"], "types": []}), "queues"),
        (json!({"queues": [], "types": ["windlass.callback"]}), "types"),
    ] {
        let refused = ask(&t, &secret, "POST", "/workers", body).await;
        assert_refused(&refused, 422, "invalid_value", Some(field));
    }
}

#[tokio::test]
async fn a_token_reads_one_job_until_it_expires_or_its_key_is_revoked() {
    let t = Fixture::new().await;
    let boss = key(&t, "boss", Role::Admin, None).await;
    let ann = key(&t, "ann", Role::Submitter, Some("acme")).await;
    let submit = async || ask(&t, &ann, "POST", "/jobs", json!({"type": "a"})).await.json()["id"].clone();
    let (id, other) = (submit().await, submit().await);
    let (id, other) = (id.as_str().unwrap(), other.as_str().unwrap());
    let path = format!("/jobs/{id}/tokens");
    for wrong in ["0s", "25h"] {
        let refused = ask(&t, &ann, "POST", &path, json!({"expires": wrong})).await;
        assert_refused(&refused, 422, "invalid_value", Some("expires"));
    }
    let bob = key(&t, "bob", Role::Submitter, Some("other")).await;
    assert_eq!(ask(&t, &bob, "POST", &path, json!({})).await.status, 404);
    let made = ask(&t, &ann, "POST", &path, json!({"expires": "10m"})).await;
    assert_eq!((made.status, &made.json()["expires_at"]), (201, &json!("2030-01-01T00:10:00.000Z")));
    let token = made.json()["token"].as_str().unwrap().to_owned();

    let read = async |path: &str| ask(&t, &token, "GET", path, json!({})).await.status;
    assert_eq!((read(&format!("/jobs/{id}")).await, read(&format!("/jobs/{id}/result")).await), (200, 200));
    for closed in [format!("/jobs/{other}"), format!("/jobs/{id}/logs"), "/jobs".into(), "/stats".into()] {
        assert_eq!(read(&closed).await, 401, "{closed}");
    }
    for (method, path) in
        [("DELETE", format!("/jobs/{id}")), ("POST", format!("/jobs/{id}/cancel")), ("POST", path.clone())]
    {
        assert_eq!(ask(&t, &token, method, &path, json!({})).await.status, 401, "{method} {path}");
    }
    let forged = token.replace(id, other);
    assert_eq!(ask(&t, &forged, "GET", &format!("/jobs/{other}"), json!({})).await.status, 401);
    t.advance(Duration::from_secs(10 * 60)).await;
    assert_eq!(read(&format!("/jobs/{id}")).await, 401);

    let again = ask(&t, &ann, "POST", &path, json!({})).await.json()["token"].as_str().unwrap().to_owned();
    let read = async || ask(&t, &again, "GET", &format!("/jobs/{id}"), json!({})).await.status;
    assert_eq!(read().await, 200);
    let keys = ask(&t, &boss, "GET", "/keys", json!({})).await.json();
    let listed = keys["keys"].as_array().unwrap().iter().find(|key| key["name"] == "ann").unwrap();
    let revoked = format!("/keys/{}", listed["id"].as_str().unwrap());
    assert_eq!(ask(&t, &boss, "DELETE", &revoked, json!({})).await.status, 204);
    assert_eq!(read().await, 401);
}

#[tokio::test]
async fn pages_of_configured_sites_read_jobs_with_tokens_only() {
    let serving = Options { browser_origins: vec!["https://shop.example".into()], ..Options::default() };
    let t = Fixture::served_with(StoreOptions::default(), serving).await;
    let boss = key(&t, "boss", Role::Admin, None).await;
    let id =
        ask(&t, &boss, "POST", "/jobs", json!({"type": "a"})).await.json()["id"].as_str().unwrap().to_owned();
    let path = format!("/jobs/{id}");
    let made = ask(&t, &boss, "POST", &format!("{path}/tokens"), json!({})).await.json();
    let token = made["token"].as_str().unwrap();
    let from = async |origin: &str, method: &str, path: &str, secret: &str| {
        let request = t.request(method, path).header("Authorization", &format!("Bearer {secret}"));
        let request = request.header("Origin", origin).header("Sec-Fetch-Site", "cross-site");
        request.header("Access-Control-Request-Method", "GET").send().await
    };
    let (shop, foreign) = ("https://shop.example", "https://evil.example");
    let read = from(shop, "GET", &path, token).await;
    assert_eq!((read.status, read.header("access-control-allow-origin")), (200, Some(shop)));
    let output = from(shop, "GET", &format!("{path}/stream"), token).await;
    assert_eq!((output.status, output.header("access-control-allow-origin")), (200, Some(shop)));
    let asked = from(shop, "OPTIONS", &path, "none").await;
    assert_eq!((asked.status, asked.header("access-control-allow-methods")), (204, Some("GET")));
    for (origin, method, path, secret) in [
        (foreign, "GET", path.as_str(), token),
        (shop, "GET", path.as_str(), boss.as_str()),
        (shop, "GET", "/jobs", boss.as_str()),
        (shop, "DELETE", path.as_str(), token),
    ] {
        let refused = from(origin, method, path, secret).await;
        assert_refused(&refused, 403, "cross_site", None);
        assert_eq!(refused.header("access-control-allow-origin"), None);
    }
    assert_eq!(from(foreign, "OPTIONS", &path, "none").await.header("access-control-allow-origin"), None);
    assert_eq!(from(shop, "OPTIONS", "/jobs", "none").await.header("access-control-allow-origin"), None);
    // An expired one can be distinguished from a network error.
    let wrong = from(shop, "GET", &path, &token.replace(&id, "00000000-0000-4000-8000-000000000000")).await;
    assert_eq!((wrong.status, wrong.header("access-control-allow-origin")), (401, Some(shop)));
}
