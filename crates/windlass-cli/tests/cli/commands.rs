//! Every command: it works, prints JSON, and fails as documented.

use windlass::key::KeySecret;
use windlass_testkit::{Site, run, run_with, store_in, windlass};

/// Commands that only read, and need nothing but a server.
pub(crate) const LOOKS: [&[&str]; 28] = [
    &["list"],
    &["list", "--all", "--order", "claim"],
    &["queues"],
    &["queues", "list"],
    &["queues", "show", "default"],
    &["workers"],
    &["types"],
    &["types", "list"],
    &["types", "show", "a"],
    &["tenants"],
    &["tenants", "list"],
    &["tenants", "show", "default"],
    &["gate"],
    &["gate", "show"],
    &["retention"],
    &["retention", "show"],
    &["schedules"],
    &["schedules", "show", "hourly"],
    &["alerts"],
    &["alerts", "list"],
    &["alerts", "show", "dead"],
    &["stats"],
    &["stats", "--range", "1h"],
    &["stats", "--range", "6h", "--queue", "default"],
    &["events", "--since", "1h"],
    &["audit"],
    &["audit", "list", "--limit", "1"],
    &["keys", "list"],
];

/// Commands that change something; `ID` stands for a job's.
const CHANGES: [&[&str]; 29] = [
    &["queues", "set", "default", "--max-running", "5"],
    &["types", "set", "a", "--rate", "5/s"],
    &["tenants", "set", "default", "--weight", "2"],
    &["submit", "a"],
    &["batch", "-"],
    &["show", "ID"],
    &["explain", "ID"],
    &["logs", "ID"],
    &["token", "ID"],
    &["suspend", "ID"],
    &["resume", "ID"],
    &["cancel", "ID"],
    &["priority", "70", "ID"],
    &["redrive", "ID"],
    &["delete", "ID"],
    &["cancel", "--type", "a", "--yes"],
    &["pause", "queue", "default"],
    &["resume", "queue", "default"],
    &["gate", "close"],
    &["gate", "open"],
    &["retention", "set", "--failed", "3d"],
    &["schedules", "create", "daily", "--every", "1d", "--type", "a"],
    &["schedules", "trigger", "hourly"],
    &["schedules", "delete", "hourly", "--yes"],
    &["alerts", "set", "late", "--on", "oldest_ready", "--longer-than", "5m", "--to", "https://example.com/"],
    &["alerts", "test", "dead"],
    &["alerts", "pause", "dead"],
    &["alerts", "delete", "dead", "--yes"],
    &["keys", "revoke", "none", "--yes"],
];

const ID: &str = "01990000-0000-4000-8000-000000000000";

fn filled(command: &[&'static str]) -> Vec<&'static str> {
    command.iter().map(|word| if *word == "ID" { ID } else { *word }).collect()
}

pub(crate) async fn furnished() -> Site {
    let site = Site::start().await;
    site.submit(&["a", r#"{"x": 1}"#]).await;
    let made = ["schedules", "create", "hourly", "--every", "1h", "--type", "a", "--payload", "[1]"];
    site.run(&made).await.well();
    let made = ["alerts", "set", "dead", "--on", "dead_letters", "--to", "https://hooks.example.com/SECRET"];
    site.run(&made).await.well();
    site.claim("a").await;
    site
}

#[tokio::test]
async fn every_look_prints_a_table_or_json() {
    let site = furnished().await;
    for look in LOOKS {
        let said = site.run(look).await;
        assert_eq!((said.code, said.out.contains('\x1b')), (0, false), "{look:?}: {said:?}");
        let documents = site.run(&[look, &["--json"]].concat()).await.documents();
        assert!(!documents.is_empty(), "{look:?}");
        assert!(documents.iter().all(serde_json::Value::is_object), "{look:?}: {documents:?}");
    }
    site.served.stop().await;
}

#[tokio::test]
async fn without_a_server_every_command_says_so() {
    for command in LOOKS.iter().chain(&CHANGES) {
        let said = run_with("http://127.0.0.1:1", &filled(command), &[], "{\"type\":\"a\"}\n").await;
        assert_eq!((said.code, said.out.as_str()), (6, ""), "{command:?}: {said:?}");
        assert!(said.err.contains("no server at 127.0.0.1:1"), "{command:?}: {said:?}");
        assert!(said.err.contains("`windlass serve`") && said.err.contains("WINDLASS_URL"), "{said:?}");
    }
}

#[tokio::test]
async fn with_a_wrong_key_every_command_says_so() {
    let site = Site::start().await;
    let store = store_in(site.folder.path());
    let make = ["keys", "create", "--store", &store, "--name", "boss", "--role", "admin"];
    let secret = run(&site.url, &make).await.well();
    // Another process created it: the server notices within a second.
    let is_asked_for = async { while site.run(&["list"]).await.code != 5 {} };
    tokio::time::timeout(windlass_testkit::PATIENCE, is_asked_for).await.expect("the server requires keys");
    let wrong = KeySecret::new(7, [1, 2]);
    for command in LOOKS.iter().chain(&CHANGES) {
        let key = [("WINDLASS_KEY", wrong.reveal())];
        let said = run_with(&site.url, &filled(command), &key, "{\"type\":\"a\"}\n").await;
        assert_eq!((said.code, said.out.as_str()), (5, ""), "{command:?}: {said:?}");
        assert!(
            said.err.contains("wrong, revoked or expired") && !said.err.contains(wrong.reveal()),
            "{said:?}"
        );
    }
    let said = site.run(&["list"]).await;
    assert!(said.code == 5 && said.err.contains("WINDLASS_KEY"), "{said:?}");
    let said = run_with(&site.url, &["keys", "list"], &[("WINDLASS_KEY", &secret)], "").await;
    assert!(said.well().contains("boss"));
    site.served.stop().await;
}

#[tokio::test]
async fn a_token_reads_its_job_and_nothing_else() {
    let site = Site::start().await;
    let store = store_in(site.folder.path());
    let job = site.submit(&["a"]).await;
    let other = site.submit(&["a"]).await;
    let said = site.run(&["token", &job]).await;
    assert!(said.code == 4 && said.err.contains("API key"), "a token needs a key that signs it: {said:?}");
    let make = ["keys", "create", "--store", &store, "--name", "boss", "--role", "admin"];
    let secret = run(&site.url, &make).await.well();
    let is_asked_for = async { while site.run(&["list"]).await.code != 5 {} };
    tokio::time::timeout(windlass_testkit::PATIENCE, is_asked_for).await.expect("the server requires keys");
    let said =
        run_with(&site.url, &["token", &job, "--expires", "1h"], &[("WINDLASS_KEY", &secret)], "").await;
    assert!(said.err.contains("in 1h") || said.err.contains("in 59m"), "{said:?}");
    let token = said.well().trim().to_owned();
    let read = async |id: &str| {
        let request = site.served.request("GET", &format!("/jobs/{id}"));
        request.header("authorization", &format!("Bearer {token}")).send().await.status
    };
    assert_eq!((read(&job).await, read(&other).await), (200, 401));
    site.served.stop().await;
}

#[tokio::test]
async fn a_wrong_command_line_is_distinguished_from_everything_else() {
    for command in LOOKS.iter().chain(&CHANGES) {
        let said = run("http://127.0.0.1:1", &[&filled(command)[..], &["--no-such-flag"]].concat()).await;
        assert_eq!(said.code, 2, "{command:?}: {said:?}");
    }
    for wrong in [
        &["submit", "a", "not json"][..],
        &["submit", "a", "@/nowhere"],
        &["submit", "a", "--tag", "nothing"],
        &["submit", "a", "--delay", "soon"],
        &["batch", "/nowhere"],
        &["cancel"],
        &["cancel", ID, "--all"],
        &["cancel", "--type", "a", "--url", "ftp://x"],
        &["pause", "weather", "rain"],
        &["queues", "set", "default"],
        &["queues", "set", "default", "--rate", "often"],
        &["queues", "set", "default", "--aging", "slowly"],
        &["types", "set", "a", "--max-running", "many"],
        &["tenants", "set", "a", "--budget", "1.5"],
        &["bench", "--server", "ftp://x"],
        &["list", "--key", "secret"],
        &["list", "--profile", "none"],
    ] {
        let said = run("http://127.0.0.1:1", wrong).await;
        assert_eq!(said.code, 2, "{wrong:?}: {said:?}");
        assert!(!said.err.is_empty() && !said.err.contains("panicked"), "{said:?}");
    }
}

#[tokio::test]
async fn operators_pause_and_resume_what_they_name() {
    let site = furnished().await;
    for (kind, name) in [("queue", "default"), ("type", "a"), ("tenant", "default"), ("worker", "hand")] {
        let said = site.run(&["pause", kind, name, "--reason", "a look"]).await;
        assert!(said.err.contains(&format!("windlass resume {kind} {name}")), "{said:?}");
        assert!(said.well().contains("paused"));
        assert!(site.run(&["pause", kind, name]).await.well().contains("as before"));
        assert!(site.run(&["resume", kind, name]).await.well().contains("not paused"));
    }
    assert_eq!(site.run(&["pause", "worker", "unknown"]).await.code, 3);
    assert!(site.run(&["gate", "close", "--reason", "stop"]).await.well().contains("paused"));
    let shown = site.run(&["gate", "--json"]).await.documents();
    assert_eq!((&shown[0]["online"], &shown[0]["reason"]), (&false.into(), &"stop".into()));
    assert!(site.run(&["gate", "open"]).await.well().contains("on"));
    site.served.stop().await;
}

#[tokio::test]
async fn schedules_are_made_changed_and_removed() {
    let site = furnished().await;
    let again = site.run(&["schedules", "create", "hourly", "--every", "2h", "--type", "b"]).await;
    assert!(again.code == 2 && again.err.contains("edit"), "{again:?}");
    let edit =
        ["schedules", "edit", "hourly", "--cron", "0 2 * * *", "--timezone", "Europe/Berlin", "--json"];
    let edited = site.run(&edit).await.documents();
    assert_eq!((&edited[0]["cron"], &edited[0]["every"]), (&"0 2 * * *".into(), &serde_json::Value::Null));
    assert_eq!(edited[0]["job"]["payload"], serde_json::json!([1]), "what was not given stays");
    let bad = site.run(&["schedules", "edit", "hourly", "--cron", "nonsense"]).await;
    assert!(bad.code == 4 && bad.err.contains("cron"), "{bad:?}");
    assert_eq!(site.run(&["schedules", "edit", "none", "--every", "1h"]).await.code, 3);
    let job = site.run(&["schedules", "trigger", "hourly"]).await.well();
    assert!(site.run(&["show", job.trim()]).await.well().contains("scheduled"));
    assert!(site.run(&["schedules", "pause", "hourly", "--reason", "why"]).await.well().contains("why"));
    site.run(&["schedules", "resume", "hourly"]).await.well();
    let asked = site.run(&["schedules", "delete", "hourly"]).await;
    assert!(asked.code == 2 && asked.err.contains("--yes"), "{asked:?}");
    site.run(&["schedules", "delete", "hourly", "--yes"]).await.well();
    assert_eq!(site.run(&["schedules", "show", "hourly"]).await.code, 3);
    assert!(site.run(&["schedules", "list", "--deleted"]).await.well().contains("hourly"));
    assert!(site.run(&["schedules", "restore", "hourly"]).await.well().contains("0 2 * * *"));
    assert_eq!(site.run(&["schedules", "restore", "hourly"]).await.code, 3);
    assert!(site.run(&["schedules"]).await.well().contains("hourly"));
    site.served.stop().await;
}

#[tokio::test]
async fn alerts_are_made_changed_tested_and_removed() {
    let site = furnished().await;
    let set =
        ["alerts", "set", "dead", "--more-than", "5", "--queue", "mail", "--repeat-interval", "4h", "--json"];
    let changed = site.run(&set).await.documents();
    assert_eq!((&changed[0]["more_than"], &changed[0]["queue"]), (&5.into(), &"mail".into()));
    assert_eq!(changed[0]["url"], "https://hooks.example.com/SECRET", "what was not given stays");
    let other = ["alerts", "set", "dead", "--on", "oldest_ready", "--longer-than", "5m"];
    let other = site.run(&other).await.well();
    assert!(other.contains("a job that is ready for more than 5m in queue mail"), "{other}");
    assert!(other.contains("hooks.example.com") && !other.contains("SECRET"), "{other}");
    let bad = site.run(&["alerts", "set", "dead", "--within", "5m"]).await;
    assert!(bad.code == 4 && bad.err.contains("within"), "{bad:?}");
    let bare = site.run(&["alerts", "set", "new", "--on", "dead_letters"]).await;
    assert!(bare.code == 2 && bare.err.contains("--to"), "{bare:?}");
    let private = ["alerts", "set", "new", "--on", "dead_letters", "--to", "https://10.0.0.1/"];
    assert_eq!(site.run(&private).await.code, 4);
    let job = site.run(&["alerts", "test", "dead"]).await.well();
    assert!(site.run(&["show", job.trim()]).await.well().contains("windlass.alert"));
    assert!(site.run(&["alerts", "pause", "dead", "--reason", "why"]).await.well().contains("why"));
    assert!(site.run(&["alerts"]).await.well().contains("paused"));
    site.run(&["alerts", "resume", "dead"]).await.well();
    let asked = site.run(&["alerts", "delete", "dead"]).await;
    assert!(asked.code == 2 && asked.err.contains("--yes"), "{asked:?}");
    site.run(&["alerts", "delete", "dead", "--yes"]).await.well();
    assert_eq!(site.run(&["alerts", "show", "dead"]).await.code, 3);
    // A change goes to the alert that was found, also of another tenant.
    let flags = ["--on", "dead_letters", "--to", "https://example.com/", "--tenant", "acme"];
    site.run(&[&["alerts", "set", "far"], &flags[..]].concat()).await.well();
    let changed = site.run(&["alerts", "set", "far", "--more-than", "1", "--json"]).await.documents();
    assert_eq!((&changed[0]["tenant"], &changed[0]["more_than"]), (&"acme".into(), &1.into()));
    site.served.stop().await;
}

/// An edit changes the schedule that was found, also of another tenant, and nothing that it does not name.
#[tokio::test]
async fn an_edited_schedule_keeps_its_tenant_and_its_payload() {
    let site = Site::start().await;
    let payload = r#"{"z":12345678901234567890123,"a":1.00,"e":1E5}"#;
    let flags = ["--type", "a.b", "--every", "1h", "--tenant", "acme", "--payload", payload];
    site.run(&[&["schedules", "create", "far"], &flags[..]].concat()).await.well();
    site.run(&["schedules", "edit", "far", "--every", "8h"]).await.well();
    let shown = site.served.request("GET", "/schedules").send().await.body;
    let shown = String::from_utf8_lossy(&shown);
    assert_eq!(shown.matches(r#""name":"far""#).count(), 1, "{shown}");
    assert!(shown.contains(r#""tenant":"acme""#) && shown.contains(r#""every":"8h""#), "{shown}");
    assert!(shown.contains(payload), "{shown}");
    site.served.stop().await;
}

#[tokio::test]
async fn the_program_describes_itself() {
    let help = run("", &["--help"]).await.well();
    for word in ["Jobs:", "Operations:", "submit", "Exit codes:", "WINDLASS_KEY"] {
        assert!(help.contains(word), "{word}: {help}");
    }
    for shell in ["bash", "zsh", "fish"] {
        assert!(run("", &["completions", shell]).await.well().contains("windlass"), "{shell}");
    }
    assert!(run("", &["man"]).await.well().contains(".TH windlass"));
    let folder = tempfile::tempdir().unwrap();
    run("", &["man", "--into", folder.path().to_str().unwrap()]).await.well();
    assert!(folder.path().join("windlass-submit.1").exists());
}

/// The manual has every command and every exit code.
#[tokio::test]
async fn the_manual_has_every_command_and_exit_code() {
    let manual = std::fs::read_to_string(windlass_testkit::repository().join("docs/cli.md")).unwrap();
    let help = run("", &["--help"]).await.well();
    let (commands, exits) = help.split_once("Exit codes:").unwrap();
    let names = commands.lines().filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next());
    for name in names.filter(|name| !name.starts_with('-') && *name != "help") {
        assert!(manual.contains(&format!("`{name}")), "docs/cli.md does not mention `{name}`");
    }
    for line in exits.lines().filter(|line| line.starts_with("  ")) {
        let code = line.split_whitespace().next().unwrap();
        assert!(manual.contains(&format!("| {code} |")), "docs/cli.md does not mention exit code {code}");
    }
}

#[tokio::test]
async fn a_quiet_server_still_says_where_it_listens() {
    let folder = tempfile::tempdir().unwrap();
    let store = store_in(folder.path());
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--store", &store, "--log-level", "warn"];
    let served = windlass_testkit::ServerProcess::start(windlass(&arguments)).await;
    let url = format!("http://{}", served.address);
    let said = served.stop().await;
    assert!(said.contains(&format!("dashboard: {url}")), "{said}");
    assert!(said.contains("try: windlass submit") && said.contains(&url), "{said}");
}
