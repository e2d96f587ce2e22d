//! The examples, run as a newcomer runs them: each ends by itself and says what it promises to show.

use std::path::PathBuf;
use std::process::Command;

/// What an example printed.
fn output_of(example: &str) -> String {
    let tests = std::env::current_exe().expect("a running program has a path");
    let profile = tests.ancestors().nth(2).expect("tests are built in a folder below the profile's");
    let program: PathBuf =
        profile.join("examples").join(example).with_extension(std::env::consts::EXE_EXTENSION);
    assert!(program.exists(), "{} is not built: `cargo test` without `--test` does it", program.display());
    let ran = Command::new(&program).output().expect("the example starts");
    let (said, complained) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{example}: {}\n{said}\n{complained}", ran.status);
    let stray: Vec<&str> = complained.lines().filter(|line| !line.starts_with("windlass: job ")).collect();
    assert!(stray.is_empty(), "{example} complains: {stray:?}");
    said.into_owned()
}

/// An embedded handler that fails says so, also in a program that has not set up tracing.
#[test]
fn a_failing_handler_is_reported_on_standard_error() {
    let tests = std::env::current_exe().expect("a running program has a path");
    let profile = tests.ancestors().nth(2).expect("tests are built in a folder below the profile's");
    let program = profile.join("examples").join("retries").with_extension(std::env::consts::EXE_EXTENSION);
    let ran = Command::new(&program).output().expect("the example starts");
    let stderr = String::from_utf8_lossy(&ran.stderr);
    let is_there = |from: &str, what: &str| {
        stderr
            .lines()
            .any(|line| line.starts_with("windlass: job ") && line.contains(from) && line.ends_with(what))
    };
    let (stolen, broken) = ("the card was reported stolen (permanent,", "the bank is on fire (");
    assert!(is_there("(charge) failed in attempt 1 of 4: ", ")") && stderr.contains(stolen), "{stderr}");
    assert_eq!(stderr.matches(broken).count(), 4, "every attempt is printed: {stderr}");
}

/// Each of these lines is there, in this order; others may be between them.
fn assert_says(output: &str, lines: &[&str]) {
    let mut said = output.lines();
    for line in lines {
        assert!(
            said.any(|said| said.trim_end() == *line),
            "`{line}` is not there, or not there in turn:\n{output}"
        );
    }
}

#[test]
fn hello_answers() {
    let output = output_of("hello");
    assert_says(
        &output,
        &["submitted: the job is on disk", "answered:  Hello, world!", "kept:      Hello, world!"],
    );
}

/// Model: backoff, error-categories, retry-after
#[test]
fn retries_shows_what_each_error_means() {
    let output = output_of("retries");
    assert_says(
        &output,
        &["custom:  failure 1 was: the bank hung up", "custom:  failure 2 was: the bank hung up"],
    );
    let lines = [
        "flaky:   completed after 3 attempts: charged in attempt 3, after 2 failures",
        "busy:    completed after 2 attempts: charged in attempt 2, after 1 failures",
        "stolen:  failed after 1 attempts: job … ended failed in attempt 1: the card was reported stolen (permanent, card_stolen)",
        "early:   completed after 2 attempts: charged in attempt 2, after 0 failures",
        "broken:  dead_letter after 4 attempts: job … ended dead_letter in attempt 4: the bank is on fire (temporary)",
        "custom:  completed after 3 attempts: charged in attempt 3, after 2 failures",
    ];
    assert_says(&output, &lines);
}

/// Model: crashes-and-poison, child-groups
#[test]
fn documents_are_merged_without_their_bad_pages() {
    let output = output_of("documents");
    for page in [1, 2, 6, 7] {
        assert_says(&output, &[&format!("process report.pdf page {page} in attempt 1")]);
    }
    for page in [4, 8] {
        assert_says(&output, &[&format!("process report.pdf page {page} in attempt 3")]);
    }
    let crash = "crash   page 5 does something terrible";
    let lines = [
        "split   report.pdf into 8 pages",
        crash,
        crash,
        crash,
        "merge   without page 3, which is failed: the page cannot be decoded",
        "merge   without page 5, which is dead_letter: 3 crashes: the job is poison (panicked: page 5 does something terrible)",
        "merged  628 words, missing pages: [3, 5]",
    ];
    assert_says(&output, &lines);
    assert_eq!(output.matches("split ").count(), 1, "the document is split once:\n{output}");
}

/// Model: error-categories
#[test]
fn rows_are_inserted_a_hundred_at_a_time_and_each_has_an_end_of_its_own() {
    let output = output_of("inserts");
    let lines = [
        "job … ended failed in attempt 1: row 13 is there already (permanent, duplicate)",
        "row 77 written in attempt 2",
        "248 rows written at once",
        "251 attempts, up to 100 of them in one call",
    ];
    assert_says(&output, &lines);
}

/// Model: result-cost-and-progress, exhaustion, audit-trail
#[test]
fn emails_leave_their_audit_records() {
    let output = output_of("email");
    let lines = [
        "provider: ada@example.com: sent",
        "provider: ada@example.com: was sent before, not sent again",
        "audit:    ada@example.com: completed for 2 cents: EMAIL_SENT",
        "audit:    bob@example.com: completed for 1 cents: EMAIL_SENT",
        "audit:    cleo@nowhere.example: dead_letter for 4 cents: job.lifecycle.exhausted",
    ];
    assert_says(&output, &lines);
    assert_eq!(output.matches(": sent\n").count(), 2, "each is sent once:\n{output}");
}

/// Model: rate-limits
#[test]
fn calls_of_a_language_model_keep_to_rate_and_budget() {
    let output = output_of("llm");
    let parts = ["one", "a difficult one", "three", "four", "five", "six", "seven", "eight"];
    let draft = parts.map(|part| format!("summary of {part}")).join("; ");
    let lines = [
        "at once  3 answers: four calls a minute may start, and one was refused",
        "10 min   6 answers for 12 cents: the budget of the day is spent",
        "1 day    8 answers; the draft waits for a person",
        &format!("publish  {draft}"),
        "==>      Some(Completed)",
    ];
    assert_says(&output, &lines);
}

/// Model: steps, sleeps-and-signals
#[test]
fn orders_are_shipped_or_given_back() {
    let output = output_of("order");
    for number in [1, 2] {
        let by_day = ["reserve stock", "charge card"]
            .map(|what| format!("order {number}: {what} (by the day worker)"));
        assert_says(&output, &[&by_day[0], &by_day[1], "-- the day worker has gone, both orders wait"]);
    }
    assert_says(&output, &["order 1: ship (by the night worker)", "==> shipped in 2 parcels"]);
    let given_back = [
        "order 2: refund card (by the night worker)",
        "order 2: release stock (by the night worker)",
        "==> given back: the warehouse did not answer",
    ];
    assert_says(&output, &given_back);
    assert_eq!(output.matches("(by the").count(), 7, "every step is done once:\n{output}");
}

/// Model: repeated-actions, queue-pause, worker-pause, interrupted-writes
#[test]
fn a_pause_outlives_a_restart_and_nothing_is_done_twice() {
    let output = output_of("pause_resume");
    let lines = [
        "import: part 1 (attempt 1)",
        "import: part 2 (attempt 1)",
        "pause:  the job: Ok(Changed)",
        "pause:  again: Ok(Unchanged)",
        "pause:  strictly: refused: true",
        "pause:  its queue: Ok(Changed)",
        "-- everything is stopped, and opened again",
        "reopen: the job is suspended with 0 failures",
        "resume: the job: Ok(Changed)",
        "resume: it does not run yet: queue_paused",
        "resume: its queue: Ok(Changed)",
        "worker: paused: true",
        "import: part 3 (attempt 2)",
        "import: part 4 (attempt 2)",
        "done:   4 parts, each imported once",
    ];
    assert_says(&output, &lines);
}
