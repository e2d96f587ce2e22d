//! Settings of queues, types and tenants from the command line.

use serde_json::{Value, json};
use windlass_testkit::Site;

#[tokio::test]
async fn a_queue_is_set_field_by_field_and_cleared_again() {
    let site = Site::start().await;
    let refused = site.run(&["queues", "set", "mail", "--max-running", "10"]).await;
    assert!(refused.code == 3 && refused.err.contains("--create"), "{refused:?}");
    site.run(&["queues", "set", "mail", "--max-running", "9", "--create"]).await.well();
    let set = async |words: &[&str]| {
        let all = [&["queues", "set", "mail"], words].concat();
        site.run(&all).await
    };
    let said = set(&["--max-running", "10", "--rate", "100/s", "--max-depth", "5,000"]).await.well();
    for line in ["max-running  10", "rate  100 per 1s", "max-depth  5000"] {
        assert!(said.contains(line), "{said}");
    }
    set(&["--retry", "backoff", "--attempts", "7", "--timeout", "10m", "--priority", "high"]).await.well();
    set(&["--fair-by", "tenant", "--aging", "1m", "--audit", "outcomes", "--rate-per-key", "5/10m"])
        .await
        .well();
    set(&["--max-running-per-key", "2", "--rate", "none", "--concurrency", "11"]).await.well();
    let queue = &site.run(&["queues", "show", "mail", "--json"]).await.documents()[0];
    assert_eq!((&queue["max_running"], &queue["max_running_per_key"]), (&json!(11), &json!(2)), "{queue}");
    assert_eq!((&queue["rate"], &queue["max_depth"]), (&Value::Null, &json!(5000)), "{queue}");
    assert_eq!(queue["rate_per_key"], json!({"count": 5, "per": "10m"}), "{queue}");
    assert_eq!(
        (&queue["retry"]["max_attempts"], &queue["timeouts"]["execution"]),
        (&json!(7), &json!("10m"))
    );
    assert_eq!(
        (&queue["fair_by"], &queue["audit"], &queue["aging"]),
        (&json!("tenant"), &json!("outcomes"), &json!("1m"))
    );
    set(&["--attempts", "9"]).await.well();
    let changed = &site.run(&["queues", "show", "mail", "--json"]).await.documents()[0];
    let mut expected = queue["retry"].clone();
    expected["max_attempts"] = json!(9);
    expected["max_retries"] = json!(8);
    assert_eq!(changed["retry"], expected, "the rest of the policy stays");
    let refused = set(&["--attempts", "7", "--retry", "none"]).await;
    assert!(refused.code == 2 && refused.err.contains("only one of them"), "{refused:?}");
    set(&["--attempts", "7"]).await.well();
    let again = set(&["--max-running", "11"]).await;
    assert!(again.err.contains("already in that state"), "{again:?}");
    let refused = set(&["--fair-by", "weather"]).await;
    assert!(refused.code == 2 && refused.err.contains("--fair-by"), "{refused:?}");
    let shown = site.run(&["queues", "show", "mail"]).await.well();
    assert!(shown.starts_with("queue mail\n") && shown.contains("timeout  10m"), "{shown}");
    assert!(shown.contains("7 attempts"), "{shown}");
    site.served.stop().await;
}

#[tokio::test]
async fn a_type_and_a_tenant_are_set_and_looked_at() {
    let site = Site::start().await;
    let kind = [
        "types",
        "set",
        "email.send",
        "--concurrency",
        "3",
        "--rate",
        "5/m",
        "--success-event",
        "SENT",
        "--create",
    ];
    assert!(site.run(&kind).await.well().contains("success-event  SENT"));
    site.submit(&["email.send"]).await;
    let (worker, claimed) = site.claim("email.send").await;
    let listed = site.run(&["types"]).await.well();
    assert!(listed.lines().nth(1).unwrap().contains("1/3"), "running of how many: {listed}");
    site.end(&worker, &claimed, json!({"outcome": "completed"})).await;
    let shown = site.run(&["types", "show", "email.send"]).await.well();
    assert!(shown.contains("1 completed") && shown.contains("5 per 1m"), "{shown}");
    let typo = site.run(&["types", "set", "email.sent", "--max-running", "3"]).await;
    assert!(typo.code == 3 && typo.err.contains("did you mean `email.send`?"), "{typo:?}");
    let shown = site.run(&["types", "show", "email.sent"]).await;
    assert!(shown.err.contains("did you mean `email.send`?"), "{shown:?}");
    let typo = site.run(&["pause", "type", "email.sent"]).await;
    assert!(typo.code == 3 && typo.err.contains("email.send"), "{typo:?}");
    let tenant = [
        "tenants",
        "set",
        "acme",
        "--weight",
        "3",
        "--budget",
        "12345",
        "--budget-period",
        "day",
        "--create",
    ];
    assert!(site.run(&tenant).await.well().contains("budget  123.45"));
    let listed = site.run(&["tenants"]).await.well();
    assert!(listed.contains("123.45/day"), "{listed}");
    site.run(&["pause", "tenant", "acme", "--reason", "unpaid"]).await.well();
    assert!(site.run(&["tenants", "show", "acme"]).await.well().contains("unpaid"));
    let keys = ["tenants", "set", "acme", "--max-concurrency-keys", "500"];
    assert!(site.run(&keys).await.well().contains("max-concurrency-keys  500"));
    let clear = ["tenants", "set", "acme", "--budget", "none", "--json"];
    assert_eq!(site.run(&clear).await.documents()[0]["budget_cents"], Value::Null);
    site.served.stop().await;
}
