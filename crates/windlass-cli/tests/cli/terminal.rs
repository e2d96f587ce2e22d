//! What a person sees at a terminal: `script` lends one.

use windlass_testkit::{Site, at_terminal, run_with};

#[tokio::test]
async fn colours_are_for_terminals_and_not_against_no_color() {
    let site = Site::start().await;
    site.submit(&["a"]).await;
    let (shown, _) = at_terminal(&site, "list", &[("COLUMNS", "120")], "").await;
    assert!(shown.contains("\x1b[1mID"), "{shown:?}");
    for plain in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let (shown, _) = at_terminal(&site, "list", &[plain, ("COLUMNS", "120")], "").await;
        assert!(!shown.contains("\x1b[1m"), "{plain:?}: {shown:?}");
    }
    site.served.stop().await;
}

#[tokio::test]
async fn tables_fit_the_width_they_are_given() {
    let site = Site::start().await;
    site.submit(&["a-type-with-a-long-name", "--queue", "a-queue-with-a-long-name"]).await;
    for width in [40, 80, 140] {
        let columns = width.to_string();
        for command in ["list", "queues", "types", "tenants", "stats", "events"] {
            let said = run_with(&site.url, &[command], &[("COLUMNS", &columns)], "").await.well();
            for line in said.lines() {
                assert!(line.chars().count() <= width.max(60), "{command} at {width}: {line}");
            }
        }
    }
    // A pipe gets everything.
    assert!(site.run(&["list"]).await.well().contains("a-queue-with-a-long-name"));
    site.served.stop().await;
}

/// Work that a person waits for, long enough to be seen.
#[tokio::test]
async fn long_work_shows_how_far_it_is_and_a_program_sees_nothing_of_it() {
    let site = Site::start().await;
    let lines: String = (0..30_000).map(|_| "{\"type\":\"a\"}\n").collect();
    run_with(&site.url, &["batch", "-"], &[], &lines).await.well();
    let (shown, code) = at_terminal(&site, "cancel --type a --yes", &[], "").await;
    assert!(shown.contains("of 30,000 jobs, ") && shown.contains("/s, "), "{shown:?}");
    assert!(shown.contains("30,000 of 30,000 jobs cancelled") && code == 0, "{shown:?}");
    let (shown, code) = at_terminal(&site, "delete --type a --yes --json", &[], "").await;
    assert!(!shown.contains("/s") && shown.contains(r#""changed":30000"#) && code == 0, "{shown:?}");
    let store = site.store.clone();
    let (shown, code) = at_terminal(&site, &format!("verify --store {store}"), &[], "").await;
    assert!(shown.contains("jobs and records, ") && shown.contains("hold") && code == 0, "{shown:?}");
    let said = site.run(&["verify", "--store", &store, "--json"]).await;
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
    site.served.stop().await;
}

#[tokio::test]
async fn a_person_is_asked_before_a_job_is_deleted_and_a_script_is_not() {
    let site = Site::start().await;
    let id = site.submit(&["a"]).await;
    site.run(&["cancel", &id]).await.well();
    let (shown, code) = at_terminal(&site, &format!("delete {id}"), &[], "n\n").await;
    assert!(
        shown.contains(&format!("delete job {id} with payload, result and log? [y/N]")) && code == 1,
        "{shown}"
    );
    assert_eq!(site.run(&["show", &id]).await.code, 0, "it is still there");
    assert_eq!(site.run(&["delete", &id]).await.well().trim(), format!("{id}  deleted"));
    site.served.stop().await;
}

#[tokio::test]
async fn a_person_is_asked_before_many_jobs_are_changed() {
    let site = Site::start().await;
    site.submit(&["a"]).await;
    let (shown, code) = at_terminal(&site, "cancel --type a", &[], "n\n").await;
    assert!(shown.contains("cancel 1 job? [y/N]") && shown.contains("nothing was changed"), "{shown}");
    assert_eq!(code, 1);
    let (shown, code) = at_terminal(&site, "cancel --type a", &[], "y\n").await;
    assert!(shown.contains("1 of 1 job cancelled"), "{shown}");
    assert_eq!(code, 0);
    site.served.stop().await;
}
