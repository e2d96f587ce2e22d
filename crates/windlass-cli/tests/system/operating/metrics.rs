//! Everything that operators alarm on is in the metrics, and moves.

use serde_json::json;
use windlass_testkit::client::Request;
use windlass_testkit::{PATIENCE, ServerProcess, store_folder, store_in, windlass};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

async fn metrics(served: &ServerProcess) -> String {
    let answer = Request::new(served.address, "GET", "/metrics").send().await;
    assert_eq!(answer.status, 200);
    String::from_utf8(answer.body).unwrap()
}

fn value(text: &str, name: &str) -> f64 {
    let line = text.lines().find(|line| line.split_whitespace().next() == Some(name));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).rsplit(' ').next().unwrap().parse().unwrap()
}

/// The same series as OpenMetrics, with the traces of runs.
async fn openmetrics_has_exemplars(served: &ServerProcess) {
    let open =
        Request::new(served.address, "GET", "/metrics").header("accept", "application/openmetrics-text");
    let open = open.send().await;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(open.header("content-type"), Some(kind));
    let open = String::from_utf8(open.body).unwrap();
    let run = |line: &&str| line.starts_with("windlass_job_run_seconds_bucket{queue=\"mail\"");
    let exemplar = format!("# {{trace_id=\"{TRACE}\"}} ");
    assert_eq!(open.lines().filter(run).filter(|line| line.contains(&exemplar)).count(), 1, "{open}");
    assert!(open.ends_with("# EOF\n") && open.contains("# TYPE windlass_jobs_submitted counter\n"), "{open}");
}

/// What a page says can be measured, is.
fn assert_documented(text: &str) {
    let page = std::fs::read_to_string(windlass_testkit::repository().join("docs/operating.md")).unwrap();
    let words = page.split('`').skip(1).step_by(2).filter(|word| word.starts_with("windlass_"));
    let names: std::collections::BTreeSet<&str> = words.map(|word| word.split('{').next().unwrap()).collect();
    assert!(names.len() >= 10, "{names:?}");
    for name in names {
        assert!(text.contains(&format!("# TYPE {name} ")), "{name}");
    }
}

#[tokio::test]
async fn jobs_commits_and_requests_are_measured() {
    let folder = store_folder();
    let store = store_in(folder.path());
    let served =
        ServerProcess::start(windlass(&["serve", "--listen", "127.0.0.1:0", "--store", &store])).await;
    for _ in 0..3 {
        let traceparent = format!("00-{TRACE}-00f067aa0ba902b7-01");
        let body = json!({"type": "a", "queue": "mail", "traceparent": traceparent});
        served.post("/jobs", &body).await;
    }
    let worker =
        served.post("/workers", &json!({"queues": ["mail"], "types": []})).await["worker_id"].clone();
    let job = served.post("/claims", &json!({"worker_id": worker})).await["jobs"][0].clone();
    let outcome = json!({"id": job["id"], "fence": job["fence"], "outcome": "completed"});
    served.post("/outcomes", &json!({"worker_id": worker, "outcomes": [outcome]})).await;
    // Totals are added up once a second; a queue's counters are there from its first job on.
    let total = "windlass_jobs_finished_total{queue=\"mail\",outcome=\"completed\"}";
    assert!(metrics(&served).await.contains(total), "a counter begins at 0 and not with its first event");
    let counted = async {
        loop {
            let text = metrics(&served).await;
            if text.contains(&format!("{total} 1")) {
                return text;
            }
            // A commit, so that they are.
            served.post("/jobs", &json!({"type": "a", "queue": "other"})).await;
        }
    };
    let text = tokio::time::timeout(PATIENCE, counted).await.expect("totals are counted soon");
    for (name, expected) in [
        ("windlass_jobs{queue=\"mail\",state=\"scheduled\"}", 2.0),
        ("windlass_jobs{queue=\"mail\",state=\"completed\"}", 1.0),
        ("windlass_jobs_submitted_total{queue=\"mail\"}", 3.0),
        ("windlass_attempts_started_total{queue=\"mail\"}", 1.0),
        ("windlass_leases_expired_total{queue=\"mail\"}", 0.0),
        ("windlass_type_jobs_finished_total{type=\"a\",outcome=\"completed\"}", 1.0),
        ("windlass_type_run_seconds_count{type=\"a\"}", 1.0),
        ("windlass_build_info{version=\"0.1.0\",engine=\"sqlite\"}", 1.0),
        ("windlass_job_wait_seconds_bucket{queue=\"mail\",le=\"+Inf\"}", 1.0),
        ("windlass_job_run_seconds_count{queue=\"mail\"}", 1.0),
        ("windlass_http_requests_total{method=\"POST\",route=\"/outcomes\",status=\"200\"}", 1.0),
    ] {
        assert!((value(&text, name) - expected).abs() < f64::EPSILON, "{name}: {text}");
    }
    for name in
        ["windlass_job_wait_seconds_sum{queue=\"mail\"}", "windlass_job_run_seconds_sum{queue=\"mail\"}"]
    {
        assert!(value(&text, name) >= 0.0, "{name}: {text}");
    }
    for name in
        ["windlass_store_bytes", "windlass_disk_free_bytes", "process_start_time_seconds", "process_open_fds"]
    {
        assert!(value(&text, name) > 0.0, "{name}: {text}");
    }
    let commits = value(&text, "windlass_commit_seconds_count");
    assert!(commits >= 5.0, "{text}");
    assert!(value(&text, "windlass_commit_seconds_sum") > 0.0, "{text}");
    assert!(value(&text, "windlass_commit_requests_sum") >= commits, "{text}");
    assert!(value(&text, "windlass_queue_oldest_seconds{queue=\"mail\"}") >= 0.0);
    assert!(value(&text, "windlass_write_wait_seconds_count") >= 5.0, "{text}");
    assert!(value(&text, "windlass_http_requests_in_flight") >= 1.0, "the scrape itself: {text}");
    assert!(!text.contains(TRACE) && !text.contains("# EOF"), "{text}");
    openmetrics_has_exemplars(&served).await;
    served.stop().await;
    assert_documented(&text);
}
