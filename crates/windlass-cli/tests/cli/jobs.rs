//! Jobs from the command line: their whole life, alone and by the thousand.

use serde_json::{Value, json};
use windlass_testkit::{Site, run_with};

#[tokio::test]
async fn a_job_is_submitted_with_everything_that_can_be_said_of_it() {
    let site = Site::start().await;
    let id = site
        .submit(&[
            "email.send",
            r#"{"b": 1.0, "a": 2}"#,
            "--queue",
            "mail",
            "--priority",
            "high",
            "--delay",
            "1h",
            "--tag",
            "k:v",
            "--idempotency-key",
            "once",
            "--unique-key",
            "u",
            "--concurrency-key",
            "c",
            "--timeout",
            "10m",
            "--lease",
            "1m",
            "--lifetime",
            "2d",
            "--attempts",
            "7",
            "--retry",
            "backoff",
            "--correlation-id",
            "order-1",
        ])
        .await;
    let job = &site.run(&["show", &id, "--json"]).await.documents()[0];
    assert_eq!((&job["queue"], &job["state"]), (&json!("mail"), &json!("delayed")));
    assert_eq!((&job["tags"], &job["max_attempts"]), (&json!({"k": "v"}), &json!(7)));
    assert_eq!(job["timeouts"], json!({"execution": "10m", "lease": "1m", "lifetime": "2d"}));
    assert_eq!((&job["unique_key"], &job["correlation_id"]), (&json!("u"), &json!("order-1")));
    // The payload is what was given, byte for byte.
    let path = format!("/jobs/{id}?payload=true");
    let raw = site.served.request("GET", &path).send().await.body;
    assert!(String::from_utf8_lossy(&raw).contains(r#"{"b": 1.0, "a": 2}"#));
    let again = ["submit", "email.send", "{}", "--queue", "mail", "--idempotency-key", "once"];
    let said = site.run(&again).await;
    assert!(said.err.contains("before with another payload"), "{said:?}");
    assert_eq!(said.well().trim(), id);
    let taken = site.run(&["submit", "email.send", "--unique-key", "u"]).await;
    assert!(taken.code == 4 && taken.err.contains(&id), "{taken:?}");
    let after = site.submit(&["later", "--after", &id]).await;
    let shown = site.run(&["show", &id]).await.well();
    assert!(shown.contains("not_due") && shown.contains(&format!("└─ {after}")), "{shown}");
    assert!(site.run(&["explain", &after]).await.well().contains("dependencies_unmet"));
    site.served.stop().await;
}

#[tokio::test]
async fn a_payload_comes_from_an_argument_a_file_or_standard_input() {
    let site = Site::start().await;
    let file = site.folder.path().join("payload.json");
    std::fs::write(&file, "[1, 2]").unwrap();
    let from_file = site.submit(&["a", &format!("@{}", file.display())]).await;
    let from_input = run_with(&site.url, &["submit", "a", "-"], &[], "[1, 2]").await.well();
    for id in [from_file.as_str(), from_input.trim()] {
        assert_eq!(site.run(&["show", id, "--json"]).await.documents()[0]["payload"], json!([1, 2]));
    }
    let binary = site.submit(&["a", "hello", "--content-type", "text/plain"]).await;
    let shown = &site.run(&["show", &binary, "--json"]).await.documents()[0];
    assert_eq!(shown["payload_base64"], "aGVsbG8=", "{shown}");
    site.served.stop().await;
}

#[tokio::test]
async fn waiting_gives_the_result_and_its_exit_code_the_outcome() {
    let site = Site::start().await;
    let good = ["submit", "good", "--wait"];
    let ((worker, claimed), said) = tokio::join!(
        async {
            let (worker, claimed) = site.claim("good").await;
            site.end(&worker, &claimed, json!({"outcome": "completed", "result": {"sum": 3}})).await;
            (worker, claimed)
        },
        site.run(&good)
    );
    assert!(worker.is_string() && said.err.contains(claimed["id"].as_str().unwrap()), "{said:?}");
    assert_eq!(said.well().trim(), r#"{"sum":3}"#);
    let bad = ["submit", "bad", "--wait"];
    let ((), said) = tokio::join!(
        async {
            let (worker, claimed) = site.claim("bad").await;
            let error = json!({"category": "permanent", "message": "no \u{1b}[31mgood"});
            site.end(&worker, &claimed, json!({"outcome": "failed", "error": error})).await;
        },
        site.run(&bad)
    );
    assert_eq!((said.code, said.out.as_str()), (1, ""), "{said:?}");
    assert!(said.err.contains("no \\u{1b}[31mgood") && !said.err.contains('\x1b'), "{said:?}");
    let failed = site.run(&["list", "--state", "failed,dead_letter"]).await.well();
    assert!(failed.contains("no \\u{1b}[31mgood") && !failed.contains('\x1b'), "{failed}");
    site.served.stop().await;
}

#[tokio::test]
async fn the_log_of_a_running_job_is_followed_to_its_end() {
    let site = Site::start().await;
    let id = site.submit(&["chatty"]).await;
    let (worker, claimed) = site.claim("chatty").await;
    let beat = |line: &str| json!({"worker_id": worker, "jobs": [{"id": id, "fence": claimed["fence"], "logs": [line]}]});
    site.served.post("/heartbeats", &beat("one")).await;
    assert!(site.run(&["logs", &id]).await.well().contains("one"));
    let follow = ["logs", "-f", &id];
    let (said, ()) = tokio::join!(site.run(&follow), async {
        site.served.post("/heartbeats", &beat("two")).await;
        site.end(&worker, &claimed, json!({"outcome": "completed"})).await;
    });
    let text = said.well();
    assert!(text.contains("one") && text.contains("two"), "{text}");
    site.served.stop().await;
}

#[tokio::test]
async fn the_output_of_a_running_job_is_followed_to_its_end() {
    let site = Site::start().await;
    let id = site.submit(&["story"]).await;
    let (worker, claimed) = site.claim("story").await;
    let none = site.run(&["stream", &id]).await;
    assert!(none.code == 0 && none.out.is_empty() && none.err.contains("there is no output"), "{none:?}");
    let path = format!("/jobs/{id}/stream");
    let chunks = |chunks: Value| json!({"worker_id": worker, "fence": claimed["fence"], "chunks": chunks});
    let add = async |added: Value| {
        let answer = site.served.request("POST", &path).json(&chunks(added)).send().await;
        assert_eq!(answer.status, 204);
    };
    add(json!(["Once\tupon", " a \u{1b}[31mtime\n", "the"])).await;
    let said = site.run(&["stream", &id]).await.well();
    assert_eq!(said, "Once\tupon a \\u{1b}[31mtime\nthe\n");
    let follow = ["stream", "-f", "--after", "2", &id];
    let (said, ()) = tokio::join!(site.run(&follow), async {
        add(json!([" end", {"words": 6}])).await;
        site.end(&worker, &claimed, json!({"outcome": "completed"})).await;
    });
    assert_eq!(said.well(), "the end\n{\"words\":6}\n");
    let lines = site.run(&["stream", "--json", "--after", "4", &id]).await.well();
    assert_eq!(serde_json::from_str::<Value>(&lines).unwrap()["chunk"], json!({"words": 6}));
    site.served.stop().await;
}

#[tokio::test]
async fn ids_may_be_cut_and_ambiguous_ones_list_candidates() {
    let site = Site::start().await;
    let id = site.submit(&["a"]).await;
    let end = &id[id.len() - 5..];
    for part in
        [id.clone(), id.to_uppercase(), format!("{}…{end}", &id[..13]), format!("…{end}"), end.to_owned()]
    {
        assert!(site.run(&["show", &part]).await.well().starts_with(&id), "{part}");
    }
    let second = site.submit(&["a"]).await;
    let said = site.run(&["show", &id[..4]]).await;
    assert!(said.code == 3 && said.err.contains(&id) && said.err.contains(&second), "{said:?}");
    for none in ["ffffffff", "nothing", "../keys", ""] {
        assert_eq!(site.run(&["show", none]).await.code, 3, "{none}");
    }
    let said = site.run(&["show", "fffff"]).await.err;
    assert!(said.contains("starts with `fffff`") && said.contains("none of all jobs"), "{said}");
    // However many jobs are newer, and however many were submitted in the same moment.
    let lines: String = (0..8_000).map(|_| "{\"type\":\"many\",\"hold\":true}\n").collect();
    run_with(&site.url, &["batch", "-"], &[], &lines).await.well();
    assert!(site.run(&["show", &id[..20]]).await.well().starts_with(&id));
    let many = &site.run(&["list", "-n", "1", "--order", "newest", "--json"]).await.documents()[0];
    let one = many["id"].as_str().unwrap();
    assert!(site.run(&["show", &one[..30]]).await.well().starts_with(one));
    let said = site.run(&["show", &format!("…{}", &id[20..])]).await;
    assert!(said.code == 3 && said.err.contains("none of the newest 5,000 jobs"), "{said:?}");
    site.served.stop().await;
}

#[tokio::test]
async fn one_job_is_acted_on_by_id() {
    let site = Site::start().await;
    let id = site.submit(&["a"]).await;
    assert!(site.run(&["suspend", &id, "--reason", "wait"]).await.well().contains("suspended"));
    assert!(site.run(&["suspend", &id]).await.well().contains("unchanged"));
    assert!(site.run(&["resume", &id]).await.well().contains("scheduled"));
    assert!(site.run(&["priority", "90", &id]).await.well().contains("priority 90"));
    assert!(site.run(&["cancel", &id, "--dry-run"]).await.well().contains("scheduled"));
    let early = site.run(&["delete", &id]).await;
    assert!(early.code == 4 && early.err.contains("state_conflict"), "{early:?}");
    assert!(site.run(&["cancel", &id]).await.well().contains("cancelled"));
    let again = &site.run(&["redrive", &id, "--json"]).await.documents()[0];
    assert_eq!(again["retry_of"], id.as_str());
    // One that fails does not keep the others.
    let new = again["id"].as_str().unwrap();
    let both = site.run(&["cancel", "ffffffff", new]).await;
    assert!(both.code == 3 && both.out.contains("cancelled") && both.err.contains("ffffffff"), "{both:?}");
    assert!(site.run(&["delete", &id]).await.well().contains("deleted"));
    assert_eq!(site.run(&["show", &id]).await.code, 3);
    site.served.stop().await;
}

#[tokio::test]
async fn many_jobs_are_acted_on_only_after_a_yes() {
    let site = Site::start().await;
    for _ in 0..3 {
        site.submit(&["a"]).await;
    }
    site.submit(&["b"]).await;
    let said = site.run(&["cancel", "--type", "a"]).await;
    assert!(said.code == 2 && said.err.contains("cancel 3 jobs?") && said.err.contains("--yes"), "{said:?}");
    assert_eq!(site.run(&["cancel", "--type", "a", "--dry-run"]).await.well(), "3 jobs fit\n");
    assert_eq!(site.run(&["cancel", "--type", "a", "--yes"]).await.well(), "3 of 3 jobs cancelled\n");
    let done = site.run(&["cancel", "--all", "--yes", "--json"]).await.documents();
    assert_eq!(done[0], json!({"matched": 4, "changed": 1}));
    let single = site.run(&["redrive", "--type", "a", "--reset-checkpoints", "--yes"]).await;
    assert_eq!(single.code, 2, "{single:?}");
    site.served.stop().await;
}

#[tokio::test]
async fn a_list_pages_and_filters() {
    let site = Site::start().await;
    let lines: String = (0..700).map(|_| "{\"type\":\"many\"}\n").collect();
    assert_eq!(run_with(&site.url, &["batch", "-"], &[], &lines).await.well(), "submitted 700 jobs\n");
    site.submit(&["few", "--queue", "q", "--tag", "k:v"]).await;
    assert_eq!(site.run(&["list", "--all", "--json"]).await.documents().len(), 701);
    assert_eq!(site.run(&["list", "-n", "600", "--json"]).await.documents().len(), 600);
    for filter in
        [["--type", "few"], ["--queue", "q"], ["--tag", "k:v"], ["--created-after", "2100-01-01T00:00:00Z"]]
    {
        let found = site.run(&[&["list", "--json"][..], &filter].concat()).await.documents().len();
        assert_eq!(found, usize::from(filter[0] != "--created-after"), "{filter:?}");
    }
    let said = site.run(&["list", "-n", "1"]).await;
    assert!(said.err.contains("the first 1"), "{said:?}");
    site.served.stop().await;
}

#[tokio::test]
async fn a_batch_from_a_pipe_with_a_name_is_read_once() {
    let site = Site::start().await;
    let lines = "{\"type\":\"a\"}\n{\"type\":\"b\"}\n";
    let said = run_with(&site.url, &["batch", "/dev/stdin"], &[], lines).await.well();
    assert_eq!(said, "submitted 2 jobs\n");
    site.served.stop().await;
}

#[tokio::test]
async fn a_batch_reports_refused_lines_and_submits_nothing_twice() {
    let site = Site::start().await;
    let lines = "{\"type\":\"a\"}\n\n{\"type\":\"a\",\"priority\":101}\nnonsense\n{\"type\":\"a\",\"idempotency_key\":\"mine\"}\n";
    let said = run_with(&site.url, &["batch", "-"], &[], lines).await;
    assert_eq!((said.code, said.out.as_str()), (4, "submitted 2 jobs, 2 refused\n"), "{said:?}");
    assert!(
        said.err.contains("line 3: priority: is 101") && said.err.contains("line 4: not a JSON"),
        "{said:?}"
    );
    let again = run_with(&site.url, &["batch", "-", "--json"], &[], lines).await;
    let report: serde_json::Value = serde_json::from_str(&again.out).unwrap();
    assert_eq!((&report["submitted"], &report["duplicates"]), (&json!(0), &json!(2)), "{report}");
    assert_eq!(report["refused"][1]["line"], 3, "{report}");
    let other = run_with(&site.url, &["batch", "-", "--run", "second"], &[], "{\"type\":\"a\"}\n").await;
    assert_eq!(other.well(), "submitted 1 job\n");
    site.served.stop().await;
}

#[tokio::test]
async fn a_held_job_is_released_and_a_job_receives_a_signal() {
    let site = Site::start().await;
    let id = site.submit(&["order.ship", "{}", "--hold"]).await;
    assert!(site.run(&["show", &id]).await.well().contains("created"));
    let sent = site.run(&["signal", &id, "packed", r#"{"boxes": 2}"#]).await;
    assert_eq!(sent.well().trim(), format!("{id}  packed sent"));
    let json = site.run(&["signal", &id, "paid", "--json"]).await.documents();
    assert_eq!((&json[0]["id"], &json[0]["signal"]), (&json!(id), &json!("paid")));
    let bad = site.run(&["signal", &id, "packed", "two"]).await;
    assert!(bad.code == 2 && bad.err.contains("the value is not JSON"), "{bad:?}");
    assert_eq!(site.run(&["release", &id]).await.well().trim(), format!("{id}  scheduled"));
    let again = site.run(&["release", &id]).await;
    assert!(again.code == 4 && again.err.contains("scheduled"), "{again:?}");
    // One that does not exist does not stop the others.
    let other = site.submit(&["order.ship", "{}", "--hold"]).await;
    let both = site.run(&["release", "00000000-0000-7000-8000-000000000000", &other]).await;
    assert!(both.code != 0 && both.out.contains(&format!("{other}  scheduled")), "{both:?}");
    site.served.stop().await;
}
