//! A job's page: it stays small whatever a job carries, and speaks of workers and times as people do.

use windlass::job::{Dependency, ErrorCause, Failure};
use windlass::store::caller::Caller;
use windlass::store::{ActionRequest, AttemptWrite, LeaseRef, Pause, PauseTarget, Suspend};

use crate::fixture::{Site, new, queue};

#[tokio::test]
async fn a_job_with_many_large_checkpoints_and_log_lines_has_a_small_page() {
    let site = Site::start().await;
    let id = site.job("mail").await;
    let claimed = site.claim().await;
    let hand = LeaseRef { job: id, fence: claimed.job.fence, worker: Some(claimed.worker) };
    let nested = format!("{}{}", "[".repeat(2_000), "]".repeat(2_000));
    let mut notes: Vec<AttemptWrite> = (0..200)
        .map(|number| AttemptWrite::Checkpoint {
            step: format!("step-{number:03}"),
            value: nested.clone().into(),
        })
        .collect();
    notes.push(AttemptWrite::Logs(
        (0..500).map(|number| format!("{number} {}", "<x>".repeat(2_600))).collect(),
    ));
    site.store.record(&Caller::local(), hand, notes).await.unwrap();
    let page = site.ask("GET", &format!("/jobs/{id}"), &[], "").await.body;
    assert!(page.len() < 1_500_000, "{} bytes", page.len());
    assert!(page.contains("step-099") && page.contains("100 more are not shown"));
    assert!(page.contains("499 &#60;x&#62;") && page.contains("earlier ones are not shown"));
    assert!(page.contains("times in UTC"));
}

#[tokio::test]
async fn workers_are_called_by_name_and_times_are_shown_as_time_of_day() {
    let site = Site::start().await;
    let id = site.job("mail").await;
    site.claim().await.fail(Failure::temporary("refused")).await;
    let pause = Pause { reason: Some("night".into()), ..Pause::default() };
    site.store.pause(&Caller::local(), PauseTarget::Queue(queue("default")), pause).await.unwrap();
    let page = site.ask("GET", &format!("/jobs/{id}"), &[], "").await.body;
    assert!(page.contains(">bench</a>"), "the attempt's worker");
    let (_, why) = page.split_once("id=\"why\"").unwrap();
    let why = why.split("</section>").next().unwrap();
    assert!(why.contains(" UTC (in ") && !why.contains("Z<"), "{why}");
    let (_, facts) = page.split_once("<dt>Submitted</dt>").unwrap();
    assert!(facts.split("</dd>").next().unwrap().contains(" UTC · "));
    assert!(page.contains("tenant default"));
}

#[tokio::test]
async fn a_wide_graph_takes_the_width_of_the_page() {
    let site = Site::start().await;
    let mut last = site.job("etl.load").await;
    for _ in 0..4 {
        let mut job = new("etl.load");
        job.after = vec![Dependency::Job(last)];
        last = site.submit(job).await.id;
    }
    let page = site.ask("GET", &format!("/jobs/{last}"), &[], "").await.body;
    let (before, _) = page.split_once("id=\"graph\"").unwrap();
    assert!(before.contains("id=\"facts\""), "facts stand beside the timeline, the graph below both");
    assert_eq!(page.matches("id=\"facts\"").count(), 1);
}

/// Model: pending-suspension. Until the attempt ends, the page says who asked for a suspension and lets them withdraw it.
#[tokio::test]
async fn a_suspension_that_waits_for_the_attempt_and_the_causes_of_an_error_are_shown() {
    let site = Site::start().await;
    let id = site.job("mail").await;
    let claimed = site.claim().await;
    let suspend = ActionRequest::Suspend(Suspend::graceful().reason("the printer is moved"));
    site.store.act(&Caller::local(), id, suspend).await.unwrap();
    let page = site.ask("GET", &format!("/jobs/{id}"), &[], "").await.body;
    for text in ["What happens next", "suspend_requested", "the printer is moved", "Withdraw suspension"] {
        assert!(page.contains(text), "{text}");
    }
    let cause = ErrorCause::new("no <paper>").with_code("E7");
    claimed.fail(Failure::temporary("cannot print").with_cause("cannot feed").with_cause(cause)).await;
    let page = site.ask("GET", &format!("/jobs/{id}"), &[], "").await.body;
    assert!(!page.contains("Withdraw suspension") && page.contains(">Resume</button>"));
    let (_, causes) = page.split_once("id=\"error-causes\"").unwrap();
    let causes = causes.split("</ol>").next().unwrap();
    assert!(
        causes.contains("cannot feed") && causes.contains("no &#60;paper&#62; <code>E7</code>"),
        "{causes}"
    );
    assert!(page.contains("caused by: cannot feed"), "beside its attempt");
}

#[tokio::test]
async fn attempts_steps_waits_and_log_lines_stand_on_one_time_axis_in_plain_words() {
    let site = Site::start().await;
    let id = site.job("order").await;
    let claimed = site.claim().await;
    for step in ["reserve", "charge", "deadline:signal:approval"] {
        claimed.note(AttemptWrite::Checkpoint { step: step.into(), value: "1".into() }).await;
    }
    claimed.log("waiting for the approval").await;
    let page = site.ask("GET", &format!("/jobs/{id}"), &[], "").await.body;
    let (_, waterfall) = page.split_once(r#"<ol class="waterfall">"#).expect("the job has steps");
    let (waterfall, _) = waterfall.split_once("</ol>").expect("the list ends");
    let words: String = waterfall
        .split('<')
        .filter_map(|part| Some(part.split_once('>')?.1.trim().to_owned() + " "))
        .collect();
    let words: Vec<&str> = words.split_whitespace().collect();
    let text = words.join(" ");
    assert!(text.starts_with("attempt 1 running"), "{text}");
    assert!(text.contains("step reserve") && text.contains("step charge"), "{text}");
    assert!(text.find("reserve") < text.find("charge"), "in the order in which they were saved");
    assert!(text.contains("log 1 line") && !text.contains("deadline"), "{text}");
    assert!(page.contains("deadline of signal approval") && !page.contains("deadline:signal:"));
    let other = site.job("plain").await;
    let page = site.ask("GET", &format!("/jobs/{other}"), &[], "").await.body;
    assert!(!page.contains("Steps over time"), "there is nothing to show");
}

#[tokio::test]
async fn the_output_of_the_latest_attempt_is_shown_as_text_and_stays_small() {
    let site = Site::start().await;
    let id = site.job("story").await;
    let page = async || site.ask("GET", &format!("/jobs/{id}"), &[], "").await.body;
    assert!(!page().await.contains("h-output"), "a job without output has no such part");
    let chunks = |chunks: &[&str]| AttemptWrite::Stream {
        offset: None,
        chunks: chunks.iter().map(|chunk| chunk.as_bytes().to_vec()).collect(),
    };
    let claimed = site.claim().await;
    claimed.note(chunks(&[r#""Once upon""#, r#"" a <time>""#, r#"{"words": 4}"#])).await;
    let shown = page().await;
    assert!(shown.contains("Once upon a &#60;time&#62;{&#34;words&#34;: 4}\n</pre>"), "{shown}");
    assert!(shown.contains("<span class=\"soft\">3 chunks</span>"));
    let large = format!("{:?}", "x".repeat(60_000));
    for _ in 0..3 {
        claimed.note(chunks(&[large.as_str(); 16])).await;
    }
    claimed.note(chunks(&[r#""the end""#])).await;
    let shown = page().await;
    assert!(shown.contains("xthe end</pre>") && shown.contains("52 chunks · from chunk 51"));
    assert!(shown.len() < 250_000, "{} bytes", shown.len());
}
