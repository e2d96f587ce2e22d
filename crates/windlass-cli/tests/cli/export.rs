//! Jobs that leave a server as lines and come back, numbers of any size, and parts of ids in every command.

use serde_json::json;
use windlass_testkit::{Site, run_with};

#[tokio::test]
async fn an_exported_job_comes_back_with_everything_that_was_submitted() {
    let (here, there) = (Site::start().await, Site::start().await);
    let first = here.submit(&["first", "--hold"]).await;
    let outside = here.submit(&["outside"]).await;
    let retry = r#"{"strategy": "linear", "initial_delay": "3s", "max_delay": "9s", "jitter": 0.25, "max_attempts": 7}"#;
    let whole = "whole {} --queue q --priority 71 --delay 1h --unique-key u --concurrency-key c --tag a:b \
                 --correlation-id e --timeout 11m --lease 3m --lifetime 2d --start-timeout 13m --callback https://example.com/x \
                 --traceparent 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 --tracestate v=1 --baggage u=1";
    let mut flags: Vec<&str> = whole.split_whitespace().collect();
    flags[1] = r#"{"b": 1.0, "a": 1e999}"#;
    here.submit(&[&flags[..], &["--retry", retry, "--after", &first, "--after-any", &first]].concat()).await;
    here.submit(&["bytes", "hello", "--content-type", "text/plain", "--after", &outside]).await;
    here.run(&["cancel", &outside]).await.well();
    here.run(&["delete", &outside, "--yes"]).await;
    let lines = here.run(&["export"]).await.well();
    let lines: Vec<&str> = lines.lines().filter(|line| !line.contains(&outside)).collect();
    let said = run_with(&there.url, &["import", "-"], &[], &lines.join("\n")).await.well();
    assert_eq!(said, "submitted 2 jobs\n");
    let fields = [
        "type",
        "queue",
        "priority",
        "state",
        "unique_key",
        "concurrency_key",
        "retry",
        "timeouts",
        "tags",
        "correlation_id",
        "callback_url",
        "tenant",
        "traceparent",
        "tracestate",
        "baggage",
        "run_at",
    ];
    for job_type in ["first", "whole"] {
        let raw = |site: &Site| {
            let url = site.url.clone();
            async move {
                run_with(&url, &["list", "--type", job_type, "--json", "--payload"], &[], "").await.well()
            }
        };
        let (before, after) = (raw(&here).await, raw(&there).await);
        let payload = |text: &str| {
            text.split_once("\"payload\":")
                .map(|(_, rest)| rest.split_once(",\"content_type").unwrap().0.to_owned())
        };
        assert_eq!(payload(&before), payload(&after));
        // The rest of it is read without the payload, which no double holds.
        let read = async |site: &Site| {
            site.run(&["list", "--type", job_type, "--json"]).await.documents()[0].clone()
        };
        let (before, after) = (read(&here).await, read(&there).await);
        for field in fields.into_iter().filter(|field| job_type == "whole" || *field != "run_at") {
            assert_eq!(before[field], after[field], "{field}");
        }
    }
    let read = async |job_type: &str| {
        there.run(&["list", "--type", job_type, "--json"]).await.documents()[0].clone()
    };
    let (first, whole) = (read("first").await, read("whole").await);
    assert_eq!(
        (&first["state"], &whole["after"], &whole["after_any"]),
        (&json!("created"), &json!([first["id"]]), &json!([first["id"]]))
    );
    for site in [here, there] {
        site.served.stop().await;
    }
}

#[tokio::test]
async fn numbers_are_printed_as_they_were_stored() {
    let site = Site::start().await;
    let payload = r#"{"huge":1e999,"long":12345678901234567890.123456789,"text":"1e999"}"#;
    let id = site.submit(&["odd"]).await;
    let (worker, claimed) = site.claim("odd").await;
    let body = format!(
        r#"{{"worker_id": {worker}, "outcomes": [{{"id": "{id}", "fence": {}, "outcome": "completed", "result": [ -1e999 ]}}]}}"#,
        claimed["fence"]
    );
    let said = site.served.request("POST", "/outcomes").body(body).send().await;
    assert_eq!(said.status, 200, "{}", String::from_utf8_lossy(&said.body));
    let other = site.submit(&["other", &payload.replace(':', " :\n")]).await;
    let result = r#""result":[-1e999]"#.to_owned();
    for (id, name, part) in [(&id, "odd", result), (&other, "other", format!(r#""payload":{payload}"#))] {
        for command in [&["show", id, "--json"][..], &["list", "--type", name, "--json", "--payload"]] {
            let said = site.run(command).await.well();
            assert!(said.lines().count() == 1 && said.contains(&part), "{said}");
        }
    }
    assert!(site.run(&["list"]).await.well().contains("odd"));
    let text = site.run(&["show", &other]).await.well();
    assert!(text.contains("\"huge\": 1e999,\n") && text.contains("12345678901234567890.123456789"), "{text}");
    let yaml = async |id: &str| site.run(&["show", id, "-o", "yaml"]).await.well();
    let yaml = [yaml(&other).await, yaml(&id).await].concat();
    assert!(yaml.contains("\n  huge: 1e999\n") && yaml.contains("\nresult:\n  - -1e999\n"), "{yaml}");
    site.served.stop().await;
}

/// `windlass top` prints the last eight characters of an id, tables its beginning and end.
#[tokio::test]
async fn a_part_of_an_id_is_enough_for_every_command() {
    let site = Site::start().await;
    let id = site.submit(&["a"]).await;
    let parts = [id[28..].to_owned(), format!("{}…{}", &id[..13], &id[32..])];
    for part in &parts {
        for command in [
            &["show", part][..],
            &["explain", part],
            &["logs", part],
            &["stream", part],
            &["signal", part, "go"],
            &["priority", "70", part],
            &["suspend", part],
            &["resume", part],
            &["submit", "b", "--after", part, "--after-any", part],
            &["list", "--parent", part],
            &["events", "--job", part],
            &["audit", "list", "--job", part],
            &["cancel", part, "--dry-run"],
            &["open", part, "--json"],
        ] {
            let said = site.run(command).await;
            assert_eq!(said.code, 0, "{command:?}: {said:?}");
        }
    }
    site.run(&["cancel", &parts[0]]).await.well();
    assert!(site.run(&["redrive", &parts[0]]).await.well().contains(&id));
    site.run(&["cancel", "--type", "b", "--yes"]).await.well();
    assert!(site.run(&["delete", &parts[0]]).await.well().contains(&id));
    // A parent that does not exist is not a filter that matches everything.
    let said = site.run(&["cancel", "--parent", "ffffffff", "--yes"]).await;
    assert_eq!(said.code, 3, "{said:?}");
    site.served.stop().await;
}

#[tokio::test]
async fn a_debounced_submission_says_what_it_changed_and_quiet_says_nothing() {
    let site = Site::start().await;
    let again = ["submit", "a", "--debounce-key", "k", "--debounce-delay", "1h"];
    let id = site.submit(&again[1..]).await;
    let said = site.run(&[&again[..], &["--hold", "--unique-key", "u"]].concat()).await;
    assert_eq!(said.out.trim(), id);
    assert!(
        said.err.contains("has this payload and delay now")
            && said.err.contains("hold, unique_key had no effect"),
        "{said:?}"
    );
    let said = site.run(&[&["--quiet"], &again[..]].concat()).await;
    assert_eq!((said.out.trim(), said.err.as_str()), (id.as_str(), ""));
    let said = site.run(&["--quiet", "show", "ffffffff"]).await;
    assert!(said.code == 3 && said.err.contains("no job"), "errors are printed: {said:?}");
    site.served.stop().await;
}

#[tokio::test]
async fn logs_of_several_jobs_are_printed_in_the_order_of_time_and_followed() {
    let site = Site::start().await;
    for job_type in ["a", "b"] {
        site.submit(&[job_type, "--queue", "q"]).await;
        let (worker, claimed) = site.claim(job_type).await;
        let beat = json!({"worker_id": worker, "jobs": [{"id": claimed["id"], "fence": claimed["fence"], "logs": [format!("from {job_type}")]}]});
        site.served.post("/heartbeats", &beat).await;
        if job_type == "a" {
            site.end(&worker, &claimed, json!({"outcome": "completed"})).await;
        }
    }
    let said = site.run(&["logs", "--queue", "q"]).await.well();
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines.len() == 2 && lines[0].ends_with("a  from a") && lines[1].ends_with("b  from b"), "{said}");
    let one = site.run(&["logs", "--type", "a", "--json"]).await.documents();
    assert_eq!((one.len(), &one[0]["text"], &one[0]["type"]), (1, &json!("from a"), &json!("a")));
    assert!(site.run(&["logs", "--type", "none"]).await.err.contains("written nothing"));
    for wrong in [&["logs"][..], &["logs", "ffff", "--type", "a"]] {
        assert_eq!(site.run(wrong).await.code, 2, "{wrong:?}");
    }
    site.served.stop().await;
}
