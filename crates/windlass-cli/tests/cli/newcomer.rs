//! First steps, a look at the whole, and output for other programs.

use serde_json::{Value, json};
use windlass_testkit::{Site, run_with};

#[tokio::test]
async fn without_arguments_five_lines_say_how_to_begin() {
    let said = run_with("", &[], &[], "").await;
    assert_eq!((said.code, said.out.lines().count()), (2, 5), "{said:?}");
    for command in ["demo", "serve", "submit", "work", "--help"] {
        assert!(said.out.contains(&format!("windlass {command}")), "{said:?}");
    }
}

#[tokio::test]
async fn a_job_is_retried_with_another_payload() {
    let site = Site::start().await;
    let id = site.submit(&["mail", r#"{"to": ""}"#]).await;
    site.run(&["cancel", &id]).await.well();
    let said = site.run(&["retry", &id, "--payload", r#"{"to": "ada"}"#, "--json"]).await.documents();
    let new = said[0]["id"].as_str().unwrap().to_owned();
    let payload = async |id: &str| site.run(&["show", id, "--json"]).await.documents()[0]["payload"].clone();
    assert_eq!((payload(&new).await, payload(&id).await), (json!({"to": "ada"}), json!({"to": ""})));
    // An editor that replaces the text, and one that leaves it.
    let edit = |editor: &'static str| {
        let id = id.clone();
        let url = site.url.clone();
        async move { run_with(&url, &["retry", &id, "--edit"], &[("VISUAL", editor)], "").await }
    };
    let said = edit(r#"sh -c 'printf "[7]" > "$1"' sh"#).await.well();
    let new = said.split_whitespace().next().unwrap().to_owned();
    assert_eq!(payload(&new).await, json!([7]));
    let left = edit("true").await;
    assert!(left.code == 1 && left.err.contains("was not changed"), "{left:?}");
    let failed = edit("false").await;
    assert!(failed.code == 2 && failed.err.contains("nothing was retried"), "{failed:?}");
    for wrong in [&["retry", &id, "--payload", "{"][..], &["retry", "--all", "--payload", "1"]] {
        assert_eq!(site.run(wrong).await.code, 2, "{wrong:?}");
    }
    site.served.stop().await;
}

#[tokio::test]
async fn the_status_names_what_needs_attention_and_what_helps() {
    let site = Site::start().await;
    let calm = site.run(&["status"]).await;
    assert!(calm.code == 0 && calm.out.contains("nothing needs attention"), "{calm:?}");
    let alert = ["alerts", "set", "late", "--on", "dead_letters", "--more-than", "0", "--within", "1h"];
    site.run(&[&alert[..], &["--to", "https://example.com/"]].concat()).await.well();
    assert_eq!(site.run(&["status"]).await.code, 0, "an alert that does not fire needs no attention");
    site.submit(&["mail"]).await;
    let said = site.run(&["doctor"]).await;
    assert!(said.code == 1 && said.out.contains("windlass work TYPE --queue default -- PROGRAM"), "{said:?}");
    site.run(&["pause", "queue", "default"]).await.well();
    let said = site.run(&["status"]).await;
    assert!(said.out.contains("windlass resume queue default"), "{said:?}");
    let said = site.run(&["status", "--json"]).await;
    assert_eq!(said.code, 1);
    let document: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((&document["healthy"], &document["states"]["scheduled"]), (&json!(false), &json!(1)));
    assert_eq!(document["concerns"][0]["try"], "windlass resume queue default");
    site.served.stop().await;
}

#[tokio::test]
async fn lists_are_printed_in_the_format_and_with_the_columns_that_were_asked_for() {
    let site = Site::start().await;
    let id = site.submit(&["mail", "--tag", "a:b"]).await;
    let csv = site.run(&["list", "-o", "csv", "--columns", "state,id,type"]).await.well();
    assert_eq!(csv, format!("state,id,type\nscheduled,{id},mail\n"));
    let table = site.run(&["list", "--columns", "type,state"]).await.well();
    assert_eq!(table.split_whitespace().collect::<Vec<_>>(), ["TYPE", "STATE", "mail", "scheduled"]);
    let yaml = site.run(&["show", &id, "-o", "yaml"]).await.well();
    assert!(
        yaml.starts_with("---\n") && yaml.contains("\ntype: mail\n") && yaml.contains("\ntags:\n  a: b\n"),
        "{yaml}"
    );
    assert_eq!(
        site.run(&["list", "-o", "json"]).await.documents(),
        site.run(&["list", "--json"]).await.documents()
    );
    let wrong = site.run(&["list", "--columns", "age"]).await;
    assert!(wrong.code == 2 && wrong.err.contains("there are id, state, type"), "{wrong:?}");
    let soon = site.run(&["list", "--watch=1ms"]).await;
    assert!(soon.code == 2 && soon.err.contains("at least"), "{soon:?}");
    site.served.stop().await;
}

#[tokio::test]
async fn a_watched_command_is_repeated_until_it_cannot_succeed() {
    let site = Site::start().await;
    let id = site.submit(&["mail"]).await;
    let url = site.url.clone();
    let (shown, wanted) = (id.clone(), id.clone());
    let watching =
        tokio::spawn(async move { run_with(&url, &["show", &shown, "--watch=200ms"], &[], "").await });
    // It is there to be shown at first, and then it is not.
    site.run(&["cancel", &id]).await.well();
    site.run(&["delete", &id]).await.well();
    let said = watching.await.unwrap();
    assert!(said.code == 3 && (said.out.contains(&wanted) || said.out.is_empty()), "{said:?}");
    site.served.stop().await;
}

#[tokio::test]
async fn what_is_exported_can_be_imported() {
    let site = Site::start().await;
    let flags = ["--queue", "q", "--priority", "80", "--tag", "a:b", "--unique-key", "u"];
    let first = site.submit(&[&["mail", r#"{"to": "ada", "cents": 1.0}"#][..], &flags].concat()).await;
    site.submit(&["file", "hello", "--content-type", "text/plain"]).await;
    let exported = site.run(&["export"]).await;
    assert!(exported.code == 0 && exported.err.contains("2 jobs exported"), "{exported:?}");
    site.run(&["cancel", &first]).await.well();
    let lines = site.folder.path().join("jobs.jsonl");
    std::fs::write(&lines, &exported.out).unwrap();
    site.run(&["import", &lines.display().to_string()]).await.well();
    let again = site.run(&["export", "--type", "mail", "--state", "scheduled"]).await.well();
    assert_eq!(again.lines().next(), exported.out.lines().next());
    site.served.stop().await;
}

#[tokio::test]
async fn profiles_are_set_listed_and_chosen() {
    let site = Site::start().await;
    let folder = site.folder.path().join("config").display().to_string();
    let with = async |words: &[&str]| run_with("", words, &[("XDG_CONFIG_HOME", folder.as_str())], "").await;
    assert!(with(&["context"]).await.err.contains("no profiles"));
    with(&["context", "set", "here", "--url", &site.url]).await.well();
    with(&["context", "set", "far", "--url", "https://far.example"]).await.well();
    let listed = with(&["context", "--columns", "profile,address", "-o", "csv"]).await.well();
    assert!(
        listed.contains("far,https://far.example") && listed.contains(&format!("here,{}", site.url)),
        "{listed}"
    );
    with(&["context", "set", "default", "--url", "https://usual.example"]).await.well();
    let marked = with(&["context", "use", "here", "-o", "csv"]).await.well();
    assert!(marked.contains("*,here,") && marked.contains("\n,default,https://usual.example"), "{marked}");
    assert_eq!(with(&["list"]).await.code, 0, "the server of the profile is used");
    let kept = with(&["context", "list", "--profile", "default", "-o", "csv"]).await.well();
    assert!(kept.contains("https://usual.example"), "the profile `default` is as it was: {kept}");
    assert_eq!(with(&["context", "set", "use", "--url", &site.url]).await.code, 2);
    assert_eq!(with(&["context", "use", "nowhere"]).await.code, 2);
    site.served.stop().await;
}

#[tokio::test]
async fn the_dashboard_is_opened_where_the_server_is() {
    let site = Site::start().await;
    let id = site.submit(&["mail"]).await;
    let seen = site.folder.path().join("seen");
    let browser = site.folder.path().join("browser");
    std::fs::write(&browser, format!("#!/bin/sh\necho \"$1\" > {}\n", seen.display())).unwrap();
    std::fs::set_permissions(&browser, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let browser = browser.display().to_string();
    let open =
        async |words: &[&str]| run_with(&site.url, words, &[("BROWSER", browser.as_str())], "").await.well();
    open(&["open", &id[..18]]).await;
    assert_eq!(std::fs::read_to_string(&seen).unwrap().trim(), format!("{}/jobs/{id}", site.url));
    assert_eq!(open(&["open", "schedules"]).await.trim(), format!("{}/schedules", site.url));
    let version = run_with("", &["version"], &[], "").await.well();
    assert!(version.starts_with(&format!("windlass {} (", env!("CARGO_PKG_VERSION"))), "{version}");
    site.served.stop().await;
}

#[tokio::test]
async fn reasons_name_the_command_that_ends_them() {
    let site = Site::start().await;
    let id = site.submit(&["mail", "--hold"]).await;
    let said = site.run(&["resume", &id]).await;
    assert!(said.code == 0 && said.err.contains(&format!("`windlass release {id}`")), "{said:?}");
    for words in [&["queue", "default"][..], &["type", "mail"], &["tenant", "default"]] {
        site.run(&[&["pause"][..], words].concat()).await.well();
    }
    site.run(&["gate", "close"]).await.well();
    let said = site.run(&["explain", &id]).await.well();
    let commands = [
        format!("windlass release {id}"),
        "windlass resume queue default".to_owned(),
        "windlass resume type mail".to_owned(),
        "windlass resume tenant default".to_owned(),
        "windlass gate open".to_owned(),
        "windlass work mail --queue default -- PROGRAM".to_owned(),
    ];
    for command in commands {
        assert!(said.contains(&command), "{command}: {said}");
    }
    let none = site.run(&["retry"]).await;
    assert!(none.code == 2 && none.err.contains("which jobs?"), "{none:?}");
    site.served.stop().await;
}

#[tokio::test]
async fn workers_have_names_and_times_for_programs_are_in_full() {
    let site = Site::start().await;
    let status = site.run(&["status"]).await.well();
    assert!(status.contains("0 workers alive"), "the server's own worker is not counted: {status}");
    let id = site.submit(&["mail"]).await;
    let (worker, claimed) = site.claim("mail").await;
    site.end(&worker, &claimed, json!({"outcome": "completed"})).await;
    assert!(site.run(&["status"]).await.out.contains("1 worker alive"));
    for words in [&["show", &id][..], &["audit", "--job", &id]] {
        let said = site.run(words).await.well();
        assert!(said.contains("hand") && !said.contains(worker.as_str().unwrap()), "{said}");
    }
    let listed = site.run(&["list", "-o", "csv", "--columns", "created"]).await.well();
    let job = &site.run(&["show", &id, "--json"]).await.documents()[0];
    assert_eq!(listed, format!("created\n{}\n", job["created_at"].as_str().unwrap()));
    site.served.stop().await;
}
