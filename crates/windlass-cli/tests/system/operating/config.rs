//! Settings: one order, every key known, nothing secret shown.

use std::collections::BTreeMap;
use std::path::Path;

use windlass_testkit::{ServerProcess, store_in, windlass};

/// What `config check` says: each setting with its value and where it is from.
async fn check(arguments: &[&str], environment: &[(&str, &str)]) -> BTreeMap<String, (String, String)> {
    let all = [&["config", "check"], arguments].concat();
    let output = windlass(&all).envs(environment.iter().copied()).output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().map(|line| {
        let mut words = line.split_whitespace();
        let (name, value) = (words.next().unwrap().to_owned(), words.next().unwrap().to_owned());
        (name, (value, words.collect::<Vec<_>>().join(" ")))
    });
    lines.collect()
}

/// What `config check` complains of.
async fn complaint(file: &Path, text: &str) -> String {
    std::fs::write(file, text).unwrap();
    for command in [&["config", "check"][..], &["serve"]] {
        let all = [command, &["--config", file.to_str().unwrap()]].concat();
        let output = windlass(&all).output().await.unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}: {output:?}");
        if command == ["serve"] {
            return String::from_utf8(output.stderr).unwrap();
        }
    }
    unreachable!("`serve` is the last")
}

#[tokio::test]
async fn a_flag_wins_over_the_environment_that_over_the_file_and_that_over_the_default() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("windlass.toml");
    let text = "
        listen = '127.0.0.1:1111'
        behind_proxy = true
        callback_ports = [443, 9000]
        allow_private_callbacks = '10.0.0.0/8,fd00::/8'
        retention = '2d'
        payload_bytes_max = 1000
        log = 'json'";
    std::fs::write(&file, text).unwrap();
    let path = file.to_str().unwrap();
    let found = check(&["--config", path], &[]).await;
    let of = |name: &str| {
        let (value, source) = &found[name];
        (value.as_str().to_owned(), source.as_str().to_owned())
    };
    let from_file = format!("file {path}");
    for (name, value) in [
        ("listen", "127.0.0.1:1111"),
        ("behind_proxy", "true"),
        ("callback_ports", "443,9000"),
        ("allow_private_callbacks", "10.0.0.0/8,fd00::/8"),
        ("retention", "2d"),
        ("payload_bytes_max", "1000"),
        ("log", "json"),
    ] {
        assert_eq!(of(name), (value.to_owned(), from_file.clone()), "{name}");
    }
    assert_eq!(of("store"), ("sqlite:windlass.db".to_owned(), "default".to_owned()));
    assert_eq!(of("tls_cert"), ("-".to_owned(), "default".to_owned()));
    let environment = [
        ("WINDLASS_CONFIG", path),
        ("WINDLASS_LISTEN", "127.0.0.1:2222"),
        ("WINDLASS_BEHIND_PROXY", "false"),
        ("WINDLASS_CALLBACK_PORTS", "8443"),
    ];
    let found = check(&["--listen", "127.0.0.1:3333", "--retention=3d"], &environment).await;
    assert_eq!(found["listen"], ("127.0.0.1:3333".to_owned(), "flag --listen".to_owned()));
    assert_eq!(found["retention"], ("3d".to_owned(), "flag --retention".to_owned()));
    assert_eq!(found["behind_proxy"], ("false".to_owned(), "environment WINDLASS_BEHIND_PROXY".to_owned()));
    assert_eq!(found["callback_ports"].0, "8443");
    assert_eq!(found["log"].0, "json");
    // A flag can also take back what a file switched on.
    let found = check(&["--config", path, "--behind-proxy=false"], &[]).await;
    assert_eq!(found["behind_proxy"], ("false".to_owned(), "flag --behind-proxy".to_owned()));
}

#[tokio::test]
async fn what_a_file_may_not_say_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("windlass.toml");
    for (text, named) in [
        ("lisen = '127.0.0.1:1'", "`lisen`"),
        ("config = 'other.toml'", "`config`"),
        ("[http]\nlisten = '127.0.0.1:1'", "`http`"),
        ("listen = 'nowhere'", "--listen"),
        ("listen = { port = 1 }", "`listen`"),
        ("behind_proxy = 'perhaps'", "--behind-proxy"),
        ("retention = '3 weeks'", "--retention"),
        ("payload_bytes_max = 99999999999", "--payload-bytes-max"),
        ("callback_ports = [0]", "--callback-ports"),
        ("log = 'loud'", "--log"),
        ("tls_cert = 'a.pem'", "tls_key"),
        ("ticket_trusted = 'unknown'", "--ticket-trusted"),
        ("ticket_lifetime = '1h'", "ticket_key"),
        ("listen = ", "TOML"),
    ] {
        let said = complaint(&file, text).await;
        assert!(said.contains(named), "{text}: {said}");
    }
    let missing = windlass(&["serve", "--config", "/nowhere/windlass.toml"]).output().await.unwrap();
    assert!(!missing.status.success());
    assert!(String::from_utf8_lossy(&missing.stderr).contains("/nowhere/windlass.toml"));
}

#[tokio::test]
async fn a_password_in_the_address_is_not_shown() {
    let store = "postgres://ann:s3cret@127.0.0.1:1/jobs?connect_timeout=1";
    let found = check(&["--store", store], &[]).await;
    assert_eq!(found["store"].0, "postgres://ann:***@127.0.0.1:1/jobs?connect_timeout=1");
    for store in
        [store, "postgre://ann:s3cret@127.0.0.1:1/jobs", "postgres://ann:s3cret@127.0.0.1:1/jobs?notify=s"]
    {
        for command in ["serve", "stats", "verify"] {
            let refused = windlass(&[command, "--store", store]).output().await.unwrap();
            assert!(!refused.status.success());
            assert!(!format!("{refused:?}").contains("s3cret"), "{refused:?}");
        }
    }
}

#[tokio::test]
async fn a_server_runs_with_what_its_file_says() {
    let folder = tempfile::tempdir().unwrap();
    let (file, key) = (folder.path().join("windlass.toml"), folder.path().join("ticket.key"));
    let made = windlass(&["tickets", "key"]).output().await.unwrap();
    std::fs::write(&key, &made.stdout).unwrap();
    let text = format!(
        "store = '{}'\nlisten = '127.0.0.1:0'\npayload_bytes_max = 20\nticket_key = '{}'\n",
        store_in(folder.path()),
        key.display()
    );
    std::fs::write(&file, text).unwrap();
    let served = ServerProcess::start(windlass(&["serve", "--config", file.to_str().unwrap()])).await;
    let large = serde_json::json!({"type": "a", "payload": "x".repeat(30)});
    assert_eq!(served.request("POST", "/jobs").json(&large).send().await.status, 413);
    served.post("/jobs", &serde_json::json!({"type": "a"})).await;
    served.stop().await;
}

/// The page for operators has every setting, with its variable and default, and no other.
#[tokio::test]
async fn the_documents_have_every_setting() {
    let found = check(&[], &[]).await;
    let page = std::fs::read_to_string(windlass_testkit::repository().join("docs/operating.md")).unwrap();
    let (_, table) = page.split_once("| key | environment | default |").expect("the table of settings");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let written: BTreeMap<String, String> = rows
        .map(|row| {
            let cells: Vec<&str> = row.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
            (cells[1].to_owned(), cells[3].to_owned())
        })
        .collect();
    let in_force: BTreeMap<String, String> =
        found.into_iter().map(|(name, (value, _))| (name, value)).collect();
    assert_eq!(written, in_force);
}
