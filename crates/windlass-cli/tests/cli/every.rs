//! Every command that prints data: as JSON, and with a closed output.

use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};

use windlass_testkit::{PATIENCE, Site, run_with, store_in, windlass};

use crate::commands::{LOOKS, furnished};

/// Commands that do something and print JSON. A word in capitals stands for a new object each time: `ID` a waiting job,
/// `FINAL` a final one, `LINES` a file of jobs, `STORE` the served store, `COPY` a store that is not served, `BACKUP` its
/// file, `NEW` a file that does not exist, `NAME` a schedule.
const ACTIONS: [&[&str]; 45] = [
    &["submit", "a"],
    &["batch", "LINES"],
    &["show", "ID"],
    &["explain", "ID"],
    &["suspend", "ID"],
    &["suspend", "--type", "nothing", "--yes"],
    &["resume", "ID"],
    &["cancel", "ID"],
    &["cancel", "ID", "--dry-run"],
    &["cancel", "--type", "nothing", "--yes"],
    &["cancel", "--type", "nothing", "--dry-run"],
    &["priority", "70", "ID"],
    &["redrive", "FINAL"],
    &["delete", "FINAL"],
    &["queues", "set", "default", "--max-running", "5"],
    &["types", "set", "a", "--rate", "5/s"],
    &["tenants", "set", "default", "--weight", "2"],
    &["pause", "queue", "other", "--create"],
    &["resume", "queue", "other"],
    &["gate", "close"],
    &["gate", "open"],
    &["retention", "set", "--failed", "3d"],
    &["schedules", "create", "NEW_NAME", "--every", "1d", "--type", "a"],
    &["schedules", "edit", "NAME", "--every", "2d"],
    &["schedules", "trigger", "NAME"],
    &["schedules", "pause", "NAME"],
    &["schedules", "resume", "NAME"],
    &["schedules", "delete", "NAME", "--yes"],
    &["alerts", "set", "dead", "--more-than", "3"],
    &["alerts", "test", "dead"],
    &["alerts", "pause", "dead"],
    &["alerts", "resume", "dead"],
    &["alerts", "delete", "dead", "--yes"],
    &["stats", "--store", "STORE"],
    &["stats", "--range", "1h", "--type", "a", "--store", "STORE"],
    &["verify", "--store", "STORE"],
    &["verify", "--repair", "--store", "STORE"],
    &["audit", "verify", "--store", "STORE"],
    &["backup", "--store", "STORE", "NEW"],
    &["restore", "BACKUP", "--store", "sqlite:NEW"],
    &["migrate", "--store", "COPY"],
    &["move", "--from", "COPY", "--to", "sqlite:NEW"],
    &["keys", "create", "--store", "COPY", "--name", "boss", "--role", "admin"],
    &["webhooks", "secret", "https://shop.example/hook", "--store", "COPY"],
    &["tickets", "key"],
];

/// Commands that print the same to every caller.
const TEXTS: [&[&str]; 3] = [&["man"], &["completions", "bash"], &["--help"]];

/// The arguments of a command with the words in capitals replaced.
async fn filled(site: &Site, words: &[&str]) -> Vec<String> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let file = |name: &str| site.folder.path().join(format!("{name}-{number}")).display().to_string();
    let mut filled = Vec::new();
    for word in words {
        filled.push(match *word {
            "ID" => site.submit(&["waiting"]).await,
            "FINAL" => {
                let id = site.submit(&["over"]).await;
                site.run(&["cancel", &id]).await.well();
                id
            }
            "LINES" => {
                let lines = file("lines");
                std::fs::write(&lines, "{\"type\":\"line\"}\n").unwrap();
                lines
            }
            "STORE" => store_in(site.folder.path()),
            "NEW" => file("new"),
            "sqlite:NEW" => format!("sqlite:{}", file("new")),
            "COPY" | "BACKUP" => {
                let copy = file("copy");
                let store = store_in(site.folder.path());
                site.run(&["backup", "--store", &store, &copy]).await.well();
                if *word == "COPY" { format!("sqlite:{copy}") } else { copy }
            }
            "NEW_NAME" => format!("schedule-{number}"),
            "NAME" => {
                let name = format!("schedule-{number}");
                let made = ["schedules", "create", &name, "--every", "1h", "--type", "a"];
                site.run(&made).await.well();
                name
            }
            word => word.to_owned(),
        });
    }
    filled
}

#[tokio::test]
async fn every_action_prints_json() {
    let site = furnished().await;
    for choice in ACTIONS {
        let mut words = filled(&site, choice).await;
        words.push("--json".to_owned());
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let documents = site.run(&words).await.documents();
        let is_reported = documents.len() == 1 && documents[0].is_object();
        assert!(is_reported, "{choice:?}: {documents:?}");
    }
    let settings = run_with("", &["config", "check", "--json"], &[], "").await.documents();
    assert!(settings[0]["settings"].as_array().unwrap().iter().any(|setting| setting["name"] == "listen"));
    site.served.stop().await;
}

/// Runs a command with a closed output. The pipe is closed before the command starts: a fast command would otherwise write
/// to it and succeed.
async fn unread(site: &Site, words: &[String]) -> (Option<i32>, String) {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut command = windlass(&words);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let child = command.env("WINDLASS_URL", &site.url).stdin(Stdio::null()).stdout(writer).spawn().unwrap();
    let ended = tokio::time::timeout(PATIENCE, child.wait_with_output()).await.unwrap().unwrap();
    (ended.status.code(), String::from_utf8(ended.stderr).unwrap())
}

#[tokio::test]
async fn a_closed_output_ends_a_command_quietly() {
    let site = furnished().await;
    for look in LOOKS.iter().filter(|look| **look != ["keys", "list"]) {
        for extra in [&[][..], &["--json"]] {
            let words: Vec<String> = look.iter().chain(extra).map(|word| (*word).to_owned()).collect();
            assert_eq!(unread(&site, &words).await, (Some(141), String::new()), "{words:?}");
        }
    }
    for choice in ACTIONS {
        let mut words = filled(&site, choice).await;
        words.push("--json".to_owned());
        let (code, said) = unread(&site, &words).await;
        assert!(code == Some(141) && !said.contains("panicked"), "{choice:?}: {code:?} {said}");
    }
    site.served.stop().await;
}

/// A completed change stays, and an output that cannot be written does not panic.
#[tokio::test]
async fn an_action_with_a_closed_output_is_done_all_the_same() {
    let site = furnished().await;
    for choice in ACTIONS {
        let words = filled(&site, choice).await;
        let (code, said) = unread(&site, &words).await;
        assert!(
            [Some(0), Some(141)].contains(&code) && !said.contains("panicked"),
            "{choice:?}: {code:?} {said}"
        );
    }
    for text in TEXTS {
        let words: Vec<String> = text.iter().map(|word| (*word).to_owned()).collect();
        let (code, said) = unread(&site, &words).await;
        assert!(!said.contains("panicked"), "{text:?}: {code:?} {said}");
    }
    site.served.stop().await;
}

/// Only `serve` and the commands before it create a store; others report that it does not exist.
#[tokio::test]
async fn a_store_that_is_not_there_is_named_and_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let missing = format!("sqlite:{}/missing.db", folder.path().display());
    let backup = format!("{}/missing.backup", folder.path().display());
    let target = format!("sqlite:{}/target.db", folder.path().display());
    for words in [
        &["verify", "--store", &missing][..],
        &["audit", "verify", "--store", &missing],
        &["stats", "--store", &missing],
        &["backup", "--store", &missing, &backup],
        &["restore", &backup, "--store", &target],
        &["move", "--from", &missing, "--to", &target],
        &["work", "t", "--store", &missing, "--", "/bin/true"],
    ] {
        let said = run_with("", words, &[], "").await;
        assert_eq!((said.code, said.out.as_str()), (1, ""), "{words:?}: {said:?}");
        assert!(said.err.contains("missing"), "{words:?}: {said:?}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{words:?} left something");
    }
    for words in [
        &["verify", "--store", "nonsense"][..],
        &["keys", "create", "--store", "nonsense", "--name", "a", "--role", "admin"],
    ] {
        let said = run_with("", words, &[], "").await;
        assert!(said.code != 0 && said.err.contains("nonsense"), "{words:?}: {said:?}");
    }
}
