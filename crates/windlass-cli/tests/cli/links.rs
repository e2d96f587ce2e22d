//! Jobs that belong together: parents and children, those that wait for each other, and lines of a batch that name others.

use serde_json::json;
use windlass_testkit::{Site, run_with};

#[tokio::test]
async fn the_whole_graph_around_a_job_is_drawn() {
    let site = Site::start().await;
    let parent = site.submit(&["fan.out"]).await;
    let (_, claimed) = site.claim("fan.out").await;
    let children = json!({"fence": claimed["fence"], "jobs": [{"type": "part"}, {"type": "part"}]});
    site.served.post(&format!("/jobs/{parent}/children"), &children).await;
    let found = site.served.request("GET", &format!("/jobs/{parent}/children")).send().await.json();
    let [first, second] = [0, 1].map(|at: usize| found["children"][at]["id"].as_str().unwrap().to_owned());
    let after = site.submit(&["report", "--after", &parent]).await;
    let mail = site.submit(&["mail", "--after", &after]).await;
    for id in [&parent, &first, &after, &mail] {
        let shown = site.run(&["show", id]).await.well();
        let (_, drawn) = shown.split_once("Related jobs").unwrap();
        for other in [&parent, &after, &mail] {
            assert!(drawn.contains(other.as_str()), "{other} is missing for {id}: {drawn}");
        }
        assert!(
            drawn.lines().any(|line| line.contains(id.as_str()) && line.ends_with("this job")),
            "{drawn}"
        );
    }
    let shown = site.run(&["show", &first]).await.well();
    assert!(shown.contains(&format!("─ {second}  part")), "its brother is drawn: {shown}");
    site.served.stop().await;
}

/// More lines than one request takes, named in both directions.
#[tokio::test]
async fn names_hold_across_the_requests_of_a_batch() {
    let site = Site::start().await;
    let filler: String = (0..10_000).map(|_| "{\"type\":\"filler\",\"hold\":true}\n").collect();
    let lines = format!(
        "{}\n{}\n{filler}{}\n{}\n",
        json!({"type": "first", "name": "first"}),
        json!({"type": "early", "after": ["@last"]}),
        json!({"type": "late", "after": ["@first"], "payload": {"b": 1.0, "a": 2}}),
        json!({"type": "last", "name": "last"}),
    );
    let said = run_with(&site.url, &["batch", "-"], &[], &lines).await;
    assert_eq!(said.out, "submitted 10,004 jobs\n", "{}", said.err);
    let id = async |job_type: &str| {
        let found = site.run(&["list", "--type", job_type, "--json"]).await.documents();
        found[0]["id"].as_str().unwrap().to_owned()
    };
    for (waiting, awaited) in [("early", "last"), ("late", "first")] {
        let job = &site.run(&["show", &id(waiting).await, "--json"]).await.documents()[0];
        assert_eq!(job["after"], json!([id(awaited).await]), "{waiting}");
    }
    // Nothing is submitted twice, and every name is found again.
    let again = run_with(&site.url, &["batch", "-"], &[], &lines).await.well();
    assert_eq!(again, "submitted 0 jobs, 10004 were submitted before\n");
    site.served.stop().await;
}

#[tokio::test]
async fn a_line_that_names_one_that_was_refused_is_refused_with_the_reason() {
    let site = Site::start().await;
    let lines = [
        json!({"type": "a", "name": "x", "priority": 101}),
        json!({"type": "b", "after": ["@x"]}),
        json!({"type": "c"}),
        json!({"type": "d", "after": ["@unknown"]}),
    ];
    let lines = lines.map(|line| line.to_string()).join("\n");
    let said = run_with(&site.url, &["batch", "-"], &[], &lines).await;
    assert_eq!((said.code, said.out.as_str()), (4, "submitted 1 job, 3 refused\n"), "{said:?}");
    for part in ["line 1: ", "line 2: it refers to `@x`, which was rejected", "line 4: "] {
        assert!(said.err.contains(part), "{said:?}");
    }
    site.served.stop().await;
}
