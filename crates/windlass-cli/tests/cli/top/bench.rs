//! `windlass bench`: every workload returns its figures, nothing is left behind, and existing jobs are not disturbed
//! without consent.

use serde_json::{Value, json};
use windlass::key::KeySecret;
use windlass_testkit::{ServerProcess, Terminal, binary, store_folder, store_in, windlass};

#[tokio::test]
async fn every_workload_is_measured_and_nothing_is_left_behind() {
    let folder = store_folder();
    let done = windlass(&["bench", "--quick", "--json"]).current_dir(folder.path()).output().await.unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    let figures = report["figures"].as_array().unwrap();
    let of = |workload: &'static str| figures.iter().filter(move |figure| figure["workload"] == workload);
    for workload in ["submit", "batch", "drain", "pick-up", "steps", "children", "idle"] {
        assert!(of(workload).count() > 0, "{workload} is missing in {report}");
    }
    for workload in ["submit", "batch", "drain", "pick-up", "idle"] {
        let over_http = of(workload).any(|figure| figure["what"].as_str().unwrap().ends_with("over HTTP"));
        assert!(over_http, "{workload} over HTTP is missing in {report}");
    }
    for figure in of("batch").chain(of("drain")).filter(|figure| figure["floor_per_second"].is_number()) {
        assert!(figure["ratio"].as_f64().unwrap() > 0.0, "{figure}");
    }
    let idle = of("idle").find(|figure| figure["bytes"].is_number()).unwrap();
    assert!(idle["bytes"].as_f64().unwrap() > 1e6, "{idle}");
    // Each figure was printed as it was measured.
    assert!(String::from_utf8_lossy(&done.stderr).lines().count() >= figures.len());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn every_page_of_the_dashboard_is_measured_and_small() {
    let folder = store_folder();
    let command = ["bench", "--dashboard", "--quick", "--json"];
    let done = windlass(&command).current_dir(folder.path()).output().await.unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    let figures = report["figures"].as_array().unwrap();
    let (claims, pages): (Vec<_>, Vec<_>) = figures.iter().partition(|figure| figure["ratio"].is_number());
    assert_eq!(claims.len(), 1, "{report}");
    assert!(pages.len() > 50, "{report}");
    for page in pages {
        // Charts of days have a text and a link for each of up to 180 steps; browsers receive 16 kB.
        let is_of_days = page["what"].as_str().is_some_and(|what| what.contains("range="));
        let most = if is_of_days { 160_000.0 } else { 100_000.0 };
        assert!(page["bytes"].as_f64().unwrap() < most, "{page}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn what_has_jobs_is_not_measured_unasked() {
    let folder = store_folder();
    let store = store_in(folder.path());
    let server =
        ServerProcess::start(windlass(&["serve", "--listen", "127.0.0.1:0", "--store", &store])).await;
    server.post("/jobs", &json!({"type": "a"})).await;
    let url = format!("http://{}", server.address);
    for place in [["--store", &store], ["--server", &url]] {
        let refused = windlass(&[&["bench"], &place[..]].concat()).output().await.unwrap();
        assert_eq!(refused.status.code(), Some(1));
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(said.contains("has jobs") && said.contains("--i-know"), "{said}");
    }
    let jobs = server.request("GET", "/jobs").send().await.json();
    assert_eq!(jobs["jobs"].as_array().unwrap().len(), 1, "nothing was submitted");
    server.stop().await;
}

#[tokio::test]
async fn a_server_that_is_not_there_or_not_open_has_its_exit_code() {
    let unknown = windlass(&["bench", "--server", "http://127.0.0.1:1"]).output().await.unwrap();
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("no server at 127.0.0.1:1"), "{unknown:?}");
    assert_eq!(unknown.status.code(), Some(6));
    let folder = store_folder();
    let store = store_in(folder.path());
    let create = ["keys", "create", "--store", &store, "--name", "boss", "--role", "admin"];
    assert!(windlass(&create).output().await.unwrap().status.success());
    let server =
        ServerProcess::start(windlass(&["serve", "--listen", "127.0.0.1:0", "--store", &store])).await;
    let url = format!("http://{}", server.address);
    let wrong = KeySecret::new(7, [1, 2]);
    let refused = windlass(&["bench", "--server", &url, "--key", wrong.reveal()]).output().await.unwrap();
    assert_eq!(refused.status.code(), Some(5), "{refused:?}");
    assert!(!String::from_utf8_lossy(&refused.stderr).contains(wrong.reveal()), "{refused:?}");
    let terminal = Terminal::open(100, 20).await;
    let program = binary();
    let top = format!("env WINDLASS_KEY={} {} top --url {url}", wrong.reveal(), program.display());
    terminal.run(&top).await;
    terminal.shows(&["invalid API key"]).await;
    terminal.is_left_clean(5).await;
    server.stop().await;
}
