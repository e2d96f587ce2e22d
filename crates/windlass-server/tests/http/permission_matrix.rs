//! Every route × every role × both sides of a tenant's border, taken from the published description (Model: tenant-isolation, roles). What a route
//! takes is what the description says; who has it is the table below, written down once more on purpose.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use windlass::store::caller::Role;
use windlass_testkit::client::{Request, TestResponse, parse};

use crate::access::{ask, key};
use crate::description::{description, operations};
use crate::fixture::{Fixture, assert_refused};

/// Who has which permission; a word that is not here belongs to no role, and fails the test.
const HOLDERS: [(&str, &[Role]); 9] = [
    ("view", &Role::ALL),
    // Of a job that no worker of this key runs.
    ("payload:read", &[Role::Admin, Role::Operator, Role::Submitter, Role::App]),
    ("submit", &[Role::Admin, Role::Operator, Role::Submitter, Role::App]),
    ("manage_job", &[Role::Admin, Role::Operator, Role::Submitter, Role::App]),
    ("work", &[Role::Admin, Role::Operator, Role::Worker, Role::App]),
    ("pause", &[Role::Admin, Role::Operator]),
    ("configure", &[Role::Admin, Role::Operator]),
    ("schedule", &[Role::Admin, Role::Operator]),
    ("administer", &[Role::Admin]),
];

/// An id that nothing has.
const UNKNOWN: &str = "00000000-0000-4000-8000-000000000000";

/// A store with two tenants, and a key for every role in each. Admins belong to none.
struct Tenants {
    t: Fixture,
    keys: BTreeMap<(&'static str, &'static str), String>,
}

/// What a request is about: ids that are there, or unknown ones.
struct Subject {
    job: String,
    worker: String,
    key: String,
    schedule: &'static str,
    alert: &'static str,
}

impl Tenants {
    async fn new() -> Tenants {
        let t = Fixture::new().await;
        let mut keys = BTreeMap::new();
        for role in Role::ALL {
            for tenant in ["acme", "other"] {
                let within = (role != Role::Admin).then_some(tenant);
                let name = format!("{tenant}-{}", role.as_str());
                keys.insert((tenant, role.as_str()), key(&t, &name, role, within).await);
            }
        }
        Tenants { t, keys }
    }

    fn key(&self, tenant: &'static str, role: Role) -> &str {
        &self.keys[&(tenant, role.as_str())]
    }

    /// New things in the tenant `acme`; its job is of this role, if that role submits, else of the submitter; its worker is
    /// registered with this role's key, if that role works, else with the worker's.
    async fn subject(&self, owner: Role) -> Subject {
        let t = &self.t;
        let works = [Role::Admin, Role::Operator, Role::App].contains(&owner);
        let registrar = self.key("acme", if works { owner } else { Role::Worker });
        let owner = if [Role::Operator, Role::App].contains(&owner) { owner } else { Role::Submitter };
        let job = ask(t, self.key("acme", owner), "POST", "/jobs", json!({"type": "a"})).await.json();
        let worker = ask(t, registrar, "POST", "/workers", json!({})).await.json();
        let body = json!({"name": "temporary", "role": "viewer"});
        let key = ask(t, self.key("acme", Role::Admin), "POST", "/keys", body).await.json();
        // An admin who names no tenant means the default one.
        for role in [Role::Operator, Role::Admin] {
            let schedule = json!({"cron": "0 0 * * *", "job": {"type": "a"}});
            let put = ask(t, self.key("acme", role), "PUT", "/schedules/nightly", schedule).await;
            assert!(put.status < 300, "{}", String::from_utf8_lossy(&put.body));
        }
        // An admin who names no tenant means all of them.
        for role in [Role::Operator, Role::Admin] {
            let alert = json!({"condition": "dead_letters", "url": "https://example.com/"});
            let put = ask(t, self.key("acme", role), "PUT", "/alerts/dead", alert).await;
            assert!(put.status < 300, "{}", String::from_utf8_lossy(&put.body));
        }
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        Subject {
            job: text(&job["id"]),
            worker: text(&worker["worker_id"]),
            key: text(&key["id"]),
            schedule: "nightly",
            alert: "dead",
        }
    }

    async fn answer(&self, secret: Option<&str>, route: &Route, subject: &Subject) -> TestResponse {
        let (path, body) = route.about(subject);
        let mut request = Request::new(self.t.address, &route.method, &path).json(&body);
        if let Some(secret) = secret {
            request = request.header("Authorization", &format!("Bearer {secret}"));
        }
        if path != "/api/v1/events" {
            return request.send().await;
        }
        // It never ends; its head is enough.
        let (mut stream, mut bytes) = (request.start().await, Vec::new());
        while !bytes.windows(4).any(|window| window == b"\r\n\r\n") {
            assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0, "no answer");
        }
        parse(&bytes)
    }
}

impl Subject {
    fn unknown() -> Subject {
        Subject {
            job: UNKNOWN.into(),
            worker: UNKNOWN.into(),
            key: "00000000".into(),
            schedule: "nowhere",
            alert: "nowhere",
        }
    }
}

/// One operation of the description.
struct Route {
    method: String,
    path: String,
    permission: String,
}

impl Route {
    async fn all(t: &Fixture) -> Vec<Route> {
        let all = operations(&description(t).await).into_iter().map(|(path, method, operation)| {
            let permission = operation["x-permission"].as_str();
            let permission = permission.unwrap_or_else(|| panic!("{method} {path} says nothing")).to_owned();
            assert_eq!(operation.get("security").is_none(), permission == "open", "{method} {path}");
            Route { method, path, permission }
        });
        all.collect()
    }

    fn below(&self) -> &str {
        self.path.strip_prefix("/api/v1").unwrap_or(&self.path)
    }

    fn names_job(&self) -> bool {
        self.below().starts_with("/jobs/{id}")
    }

    /// Whether a path or a body names what belongs to one tenant.
    fn names_something(&self) -> bool {
        let named = [
            "/jobs/{id}",
            "/workers/{id}",
            "/schedules/{schedule}",
            "/alerts/{alert}",
            "/claims",
            "/heartbeats",
            "/outcomes",
            "/checkpoints",
        ];
        // Putting a schedule or an alert in place makes one of the caller's own.
        named.iter().any(|start| self.below().starts_with(start)) && self.method != "PUT"
            || self.below().contains("/checkpoints/")
    }

    /// Whether a path or a body names a registered worker.
    fn names_worker(&self, subject: &Subject) -> bool {
        let (path, body) = self.about(subject);
        path.contains(&subject.worker) || body.to_string().contains(&subject.worker)
    }

    fn is_for(&self, role: Role) -> bool {
        let holders = HOLDERS.iter().find(|(word, _)| *word == self.permission);
        let (_, roles) = holders.unwrap_or_else(|| panic!("no role is known to have {:?}", self.permission));
        roles.contains(&role)
    }

    /// The path and a body that is taken, so that only the caller decides.
    fn about(&self, subject: &Subject) -> (String, Value) {
        let id = match self.below().split('/').nth(1) {
            Some("workers") => &subject.worker,
            Some("keys") => &subject.key,
            _ => &subject.job,
        };
        let path = self
            .path
            .replace("{id}", id)
            .replace("{schedule}", subject.schedule)
            .replace("{alert}", subject.alert);
        let path = path.replace("{tenant}", "acme").replace("{type}", "a");
        let path = path.replace("{queue}", "default").replace("{name}", "some");
        let worker = &subject.worker;
        let body = match (self.method.as_str(), self.below()) {
            // An operator may pause processing of a type only; an admin may pause all of it.
            ("POST", "/jobs" | "/gate/offline" | "/gate/online") => json!({"type": "a"}),
            ("POST", "/jobs/batch") => json!({"jobs": [{"type": "a"}]}),
            ("POST", "/jobs/bulk") => json!({"action": "cancel", "filter": {"type": "none"}}),
            ("POST", "/jobs/{id}/priority") => json!({"value": 1}),
            ("POST", "/jobs/{id}/children") => {
                json!({"fence": 1, "worker_id": worker, "jobs": [{"type": "a"}]})
            }
            ("POST", "/jobs/{id}/checkpoints") => {
                json!({"fence": 1, "worker_id": worker, "checkpoints": [{"step": "a", "value": 1}]})
            }
            ("POST", "/jobs/{id}/stream") => json!({"fence": 1, "worker_id": worker, "chunks": ["a"]}),
            ("PUT", "/jobs/{id}/checkpoints/{name}") => json!({"fence": 1, "worker_id": worker, "value": 1}),
            ("POST", "/claims") => json!({"worker_id": worker, "types": ["none"]}),
            ("POST", "/heartbeats" | "/checkpoints") => json!({"worker_id": worker, "jobs": []}),
            ("POST", "/outcomes") => json!({"worker_id": worker, "outcomes": []}),
            ("PUT", "/schedules/{schedule}") => json!({"cron": "0 0 * * *", "job": {"type": "a"}}),
            ("PUT", "/alerts/{alert}") => json!({"condition": "dead_letters", "url": "https://example.com/"}),
            ("POST", "/keys") => json!({"name": "x", "role": "viewer"}),
            _ => json!({}),
        };
        (path, body)
    }

    fn with(&self, role: Role) -> String {
        format!("{} {} ({}) as {}", self.method, self.path, self.permission, role.as_str())
    }
}

fn code(answer: &TestResponse) -> (u16, Value) {
    (answer.status, if answer.status < 400 { Value::Null } else { answer.json()["error"]["code"].clone() })
}

#[tokio::test]
async fn every_route_lets_in_exactly_the_roles_that_have_its_permission() {
    let tenants = Tenants::new().await;
    for route in Route::all(&tenants.t).await {
        if route.permission == "open" {
            assert_eq!(tenants.answer(None, &route, &Subject::unknown()).await.status, 200, "{}", route.path);
            continue;
        }
        let refused = tenants.answer(None, &route, &Subject::unknown()).await;
        assert_eq!(refused.status, 401, "{} {}", route.method, route.path);
        for role in Role::ALL {
            let subject = tenants.subject(role).await;
            let answer = tenants.answer(Some(tenants.key("acme", role)), &route, &subject).await;
            let (who, said) = (route.with(role), String::from_utf8_lossy(&answer.body));
            if route.is_for(role) {
                assert!(answer.status < 300 || answer.status == 409, "{who}: {} {said}", answer.status);
            } else {
                assert_eq!(answer.status, 403, "{who}: {said}");
                assert_refused(&answer, 403, "forbidden", None);
            }
        }
    }
}

/// Model: roles. A submitter cannot manage another submitter's jobs.
#[tokio::test]
async fn no_route_lets_a_submitter_manage_the_job_of_another_one() {
    let tenants = Tenants::new().await;
    let mut count = 0;
    for route in Route::all(&tenants.t).await.iter().filter(|route| route.permission == "manage_job") {
        if route.names_job() {
            let subject = tenants.subject(Role::Operator).await;
            let answer = tenants.answer(Some(tenants.key("acme", Role::Submitter)), route, &subject).await;
            assert_eq!(code(&answer), (403, json!("forbidden")), "{} {}", route.method, route.path);
            count += 1;
        }
    }
    assert!(count >= 9, "{count}");
}

/// Model: tenant-isolation. A request that names a job, a worker or a schedule of another tenant gets the same response as if it did not exist.
#[tokio::test]
async fn across_tenants_every_route_answers_as_if_there_were_nothing() {
    let tenants = Tenants::new().await;
    let within = [Role::Operator, Role::Submitter, Role::Worker, Role::App, Role::Viewer];
    for route in Route::all(&tenants.t).await.iter().filter(|route| route.permission != "open") {
        for role in within {
            let (mut subject, secret) = (tenants.subject(role).await, tenants.key("other", role));
            if route.method == "PUT" {
                // It would create one of the same name in the other tenant, which is not a secret.
                (subject.schedule, subject.alert) = ("weekly", "late");
            }
            let answer = tenants.answer(Some(secret), route, &subject).await;
            let who = route.with(role);
            if !route.is_for(role) {
                // A job of another tenant may be unknown before the role is checked; both responses are the same.
                assert!(answer.status == 403 || route.names_job() && answer.status == 404, "{who}");
            } else if route.names_job() {
                assert_eq!(code(&answer), (404, json!("not_found")), "{who}");
            }
            if route.names_something() {
                let nothing = tenants.answer(Some(secret), route, &Subject::unknown()).await;
                assert_eq!(code(&answer), code(&nothing), "{who}");
                assert!(matches!(answer.status, 403 | 404), "{who}: {}", answer.status);
            }
        }
    }
}

/// A parameter that a route does not know is refused and named, whatever else the request says; a route that is added later
/// is covered by being in the description.
#[tokio::test]
async fn every_route_refuses_parameters_that_it_does_not_know() {
    let tenants = Tenants::new().await;
    let described = description(&tenants.t).await;
    let mut hints = 0;
    for (path, method, operation) in operations(&described) {
        let subject = tenants.subject(Role::Admin).await;
        let route =
            Route { method, path, permission: operation["x-permission"].as_str().unwrap().to_owned() };
        let known = operation["parameters"].as_array().unwrap().iter();
        let known: Vec<&str> =
            known.filter(|one| one["in"] == "query").map(|one| one["name"].as_str().unwrap()).collect();
        let (path, body) = route.about(&subject);
        let ask = async |query: &str| {
            let request =
                Request::new(tenants.t.address, &route.method, &format!("{path}?{query}")).json(&body);
            let secret = tenants.key("acme", Role::Admin);
            request.header("Authorization", &format!("Bearer {secret}")).send().await
        };
        for name in ["nonsense", "statex", "Limit", "a%20b", "x.y"] {
            let shown = name.replace("%20", " ");
            if !known.contains(&shown.as_str()) {
                assert_refused(&ask(&format!("{name}=1")).await, 422, "invalid_value", Some(&shown));
                assert_refused(&ask(name).await, 422, "invalid_value", Some(&shown));
            }
        }
        // A misspelled one is answered with the one that was meant.
        for name in known.iter().filter(|name| name.len() > 3) {
            let misspelled = format!("{name}q");
            let refused = ask(&format!("{misspelled}=1")).await;
            assert_refused(&refused, 422, "invalid_value", Some(&misspelled));
            assert_eq!(refused.json()["error"]["details"]["closest"], json!(name), "{path}");
            hints += 1;
        }
    }
    assert!(hints > 20, "{hints}");
}

/// Lists that are bounded by what they are of, and have no pages: of one job, of the gate, of a stretch of time.
const WHOLE: [&str; 10] = [
    "/jobs/{id}/attempts",
    "/jobs/{id}/checkpoints",
    "/jobs/{id}/children",
    "/jobs/{id}/explain",
    "/jobs/{id}/graph",
    "/jobs/{id}/logs",
    "/jobs/{id}/stream",
    "/gate",
    "/stats",
    "/stats/history",
];

/// Whatever there can be any number of is listed page by page.
#[tokio::test]
async fn every_list_has_pages() {
    let tenants = Tenants::new().await;
    tenants.subject(Role::Admin).await;
    let described = description(&tenants.t).await;
    let mut count = 0;
    for (path, method, operation) in operations(&described) {
        let below = path.strip_prefix("/api/v1").unwrap_or(&path).to_owned();
        let schema = &operation["responses"]["200"]["content"]["application/json"]["schema"];
        let answer = resolved(&described, schema);
        let is_list = answer["properties"]
            .as_object()
            .is_some_and(|fields| fields.values().any(|field| field["type"] == "array"));
        // Of one thing, fields may be short lists; only what ends without a parameter is a list itself.
        let is_one = below.ends_with('}') || WHOLE.contains(&below.as_str());
        if method != "GET" || !is_list || is_one {
            continue;
        }
        let named: Vec<&str> = operation["parameters"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|one| one["name"].as_str())
            .collect();
        assert!(named.contains(&"limit") && named.contains(&"cursor"), "{path}: {named:?}");
        assert!(answer["properties"].get("next_cursor").is_some(), "{path}");
        let secret = tenants.key("acme", Role::Admin);
        let path = path.replace("{id}", &tenants.subject(Role::Admin).await.job);
        let first = Request::new(tenants.t.address, "GET", &format!("{path}?limit=1"));
        let first = first.header("Authorization", &format!("Bearer {secret}")).send().await;
        assert_eq!(first.status, 200, "{path}");
        let none = Request::new(tenants.t.address, "GET", &format!("{path}?limit=0"));
        let none = none.header("Authorization", &format!("Bearer {secret}")).send().await;
        assert_refused(&none, 422, "invalid_value", Some("limit"));
        count += 1;
    }
    assert!(
        count >= 9,
        "jobs, events of a job, queues, workers, tenants, types, schedules, keys, audit: {count}"
    );
}

/// An array is not an object, at any depth.
#[tokio::test]
async fn no_route_takes_an_array_for_an_object() {
    let tenants = Tenants::new().await;
    let described = description(&tenants.t).await;
    let mut count = 0;
    for (path, method, operation) in operations(&described) {
        let Some(schema) = operation["requestBody"]["content"]["application/json"].get("schema") else {
            continue;
        };
        let subject = tenants.subject(Role::Admin).await;
        let route =
            Route { method, path, permission: operation["x-permission"].as_str().unwrap().to_owned() };
        let (path, good) = route.about(&subject);
        let ask = async |body: &Value| {
            let request = Request::new(tenants.t.address, &route.method, &path).json(body);
            let secret = tenants.key("acme", Role::Admin);
            request.header("Authorization", &format!("Bearer {secret}")).send().await
        };
        for body in [json!([]), json!([null]), json!(["x"]), json!([{}])] {
            let refused = ask(&body).await;
            assert_refused(&refused, 422, "invalid_value", Some("body"));
            count += 1;
        }
        // Every field that may be an object, given as an array.
        for name in object_fields(&described, schema) {
            let mut body = good.clone();
            body[&name] = json!([]);
            let refused = ask(&body).await;
            let said = String::from_utf8_lossy(&refused.body);
            assert_eq!(refused.status, 422, "{} {path} with {name}: {said}", route.method);
            assert!(
                refused.json()["error"]["details"]["field"].as_str().unwrap().starts_with(&name),
                "{said}"
            );
            count += 1;
        }
    }
    assert!(count > 100, "{count}");
}

/// The fields of a body that may be an object, by the description.
fn object_fields(described: &Value, schema: &Value) -> Vec<String> {
    let schema = resolved(described, schema);
    let Some(properties) = schema["properties"].as_object() else { return Vec::new() };
    let is_object = |field: &Value| {
        let whole = resolved(described, field);
        let choices = whole["anyOf"].as_array().cloned().unwrap_or_default();
        let mut all = vec![whole.clone()];
        all.extend(choices.iter().map(|choice| resolved(described, choice).clone()));
        let all: Vec<Value> = all.into_iter().filter(|one| !one.is_null()).collect();
        all.iter().any(|one| one["type"] == "object" || one["properties"].is_object())
    };
    properties.iter().filter(|(_, field)| is_object(field)).map(|(name, _)| name.clone()).collect()
}

fn resolved<'a>(described: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(reference) => described.pointer(reference.trim_start_matches('#')).unwrap_or(&Value::Null),
        None => schema,
    }
}

/// What is answered cannot be put into a frame or read by embedding it, whatever it is.
#[tokio::test]
async fn every_answer_forbids_frames_and_embedding() {
    let tenants = Tenants::new().await;
    for route in Route::all(&tenants.t).await {
        let subject = tenants.subject(Role::Admin).await;
        for secret in [None, Some(tenants.key("acme", Role::Admin))] {
            let answer = tenants.answer(secret, &route, &subject).await;
            let policy = answer.header("content-security-policy").unwrap_or_default();
            assert!(policy.contains("frame-ancestors 'none'"), "{} {}: {policy}", route.method, route.path);
            assert_eq!(answer.header("cross-origin-resource-policy"), Some("same-origin"), "{}", route.path);
        }
    }
    let strange = Request::new(tenants.t.address, "GET", "/no/such/path").send().await;
    assert_eq!(strange.header("cross-origin-resource-policy"), Some("same-origin"));
}

/// Model: roles. A worker belongs to the key that registered it. Requests in its name with another key of the tenant get the same
/// response as if it did not exist; only a key that may pause workers may remove one.
#[tokio::test]
async fn no_route_lets_a_key_work_as_the_worker_of_another_key() {
    let tenants = Tenants::new().await;
    let second = key(&tenants.t, "acme-second-worker", Role::Worker, Some("acme")).await;
    let mut count = 0;
    for route in Route::all(&tenants.t).await.iter().filter(|route| route.permission == "work") {
        for (role, secret) in [
            (Role::Worker, second.as_str()),
            (Role::Operator, tenants.key("acme", Role::Operator)),
            (Role::Admin, tenants.key("acme", Role::Admin)),
        ] {
            let subject = tenants.subject(Role::Worker).await;
            if !route.names_worker(&subject) {
                continue;
            }
            count += 1;
            let answer = tenants.answer(Some(secret), route, &subject).await;
            let is_removal = (route.method.as_str(), route.below()) == ("DELETE", "/workers/{id}");
            if is_removal && role != Role::Worker {
                assert_eq!(answer.status, 204, "{}", route.with(role));
            } else {
                assert_eq!(code(&answer), (404, json!("not_found")), "{}", route.with(role));
            }
        }
    }
    assert!(count >= 18, "claims, heartbeats, outcomes, checkpoints, children and leaving: {count}");
}
