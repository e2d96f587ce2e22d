//! What the page on security says is tested, is tested; and what is packaged fits the program.

use std::collections::BTreeSet;
use std::path::Path;

use windlass_testkit::client::Request;
use windlass_testkit::{ServerProcess, repository, store_in, windlass};

fn sources(folder: &Path, into: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn every_threat_of_the_page_has_tests_that_exist() {
    let page = std::fs::read_to_string(repository().join("docs/security.md")).unwrap();
    let mut code = String::new();
    for folder in ["crates", "examples"] {
        sources(&repository().join(folder), &mut code);
    }
    for number in 1..=19 {
        let row = page.lines().find(|line| line.starts_with(&format!("| S{number} |")));
        let row = row.unwrap_or_else(|| panic!("S{number} is not on the page"));
        let tests = row.rsplit('|').nth(1).unwrap();
        let named: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty(), "S{number} names no test");
        for name in named.into_iter().filter(|name| !name.contains(['.', '/', ' '])) {
            assert!(code.contains(&format!("fn {name}")), "S{number}: there is no test {name}");
        }
    }
}

#[test]
fn what_is_packaged_uses_settings_that_exist() {
    let page = std::fs::read_to_string(repository().join("docs/operating.md")).unwrap();
    for file in ["packaging/Dockerfile", "packaging/compose.yaml", "packaging/windlass.service"] {
        let text = std::fs::read_to_string(repository().join(file)).unwrap();
        for piece in text.split("WINDLASS_").skip(1) {
            let name: String = piece.chars().take_while(|c| c.is_ascii_uppercase() || *c == '_').collect();
            let is_own = file.ends_with("compose.yaml") && name == "DATABASE_PASSWORD";
            assert!(is_own || page.contains(&format!("`WINDLASS_{name}`")), "{file}: WINDLASS_{name}");
        }
    }
}

#[tokio::test]
async fn the_page_on_the_api_has_every_route_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let store = store_in(folder.path());
    let served =
        ServerProcess::start(windlass(&["serve", "--listen", "127.0.0.1:0", "--store", &store])).await;
    let description = Request::new(served.address, "GET", "/openapi.json").send().await.json();
    let paths = description["paths"].as_object().unwrap();
    let known: BTreeSet<String> = paths
        .iter()
        .flat_map(|(path, methods)| {
            let path = path.strip_prefix("/api/v1").unwrap_or(path);
            methods.as_object().unwrap().keys().map(move |method| format!("{} {path}", method.to_uppercase()))
        })
        .collect();
    let page = std::fs::read_to_string(repository().join("docs/http-api.md")).unwrap();
    let (_, table) = page.split_once("| route | what it does |").expect("the table of routes");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let written: BTreeSet<String> = rows.map(|row| row.split('`').nth(1).unwrap().to_owned()).collect();
    assert_eq!(written, known);
    served.stop().await;
}
