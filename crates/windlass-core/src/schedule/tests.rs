//! Tests of timings: expressions, changes of the clocks, missed runs.

mod independent;

use proptest::prelude::*;

use super::*;

fn cron(text: &str) -> Cron {
    text.parse().unwrap_or_else(|problem| panic!("{text}: {problem}"))
}

fn in_zone(expression: &str, zone: &str) -> ScheduleSpec {
    ScheduleSpec::Cron { cron: cron(expression), timezone: zone.parse().unwrap() }
}

fn at(text: &str) -> Timestamp {
    let moment: jiff::Timestamp = text.parse().unwrap();
    Timestamp::from_millis(moment.as_millisecond())
}

/// The first runs after a moment, as text.
fn runs(timing: &ScheduleSpec, after: &str, count: usize) -> Vec<String> {
    let after = at(after);
    timing.next_runs(after, after, count).iter().map(|run| run.to_string().replace(".000Z", "Z")).collect()
}

/// Model: schedule-runs. Five fields or six, lists, ranges, steps, names.
#[test]
fn an_expression_names_the_times_it_says() {
    let cases: [(&str, &[&str]); 12] = [
        ("*/20 * * * *", &["2027-01-01T00:20:00Z", "2027-01-01T00:40:00Z", "2027-01-01T01:00:00Z"]),
        ("*/20 * * * * *", &["2027-01-01T00:00:20Z", "2027-01-01T00:00:40Z", "2027-01-01T00:01:00Z"]),
        ("0 9-17/4 * * *", &["2027-01-01T09:00:00Z", "2027-01-01T13:00:00Z", "2027-01-01T17:00:00Z"]),
        ("5,35 8 * * *", &["2027-01-01T08:05:00Z", "2027-01-01T08:35:00Z", "2027-01-02T08:05:00Z"]),
        ("0 0 * * mon-WED", &["2027-01-04T00:00:00Z", "2027-01-05T00:00:00Z", "2027-01-06T00:00:00Z"]),
        ("0 0 * * 7", &["2027-01-03T00:00:00Z", "2027-01-10T00:00:00Z"]),
        ("0 0 1 feb,Apr *", &["2027-02-01T00:00:00Z", "2027-04-01T00:00:00Z", "2028-02-01T00:00:00Z"]),
        ("0 0 29 2 *", &["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"]),
        ("0 0 31 * *", &["2027-01-31T00:00:00Z", "2027-03-31T00:00:00Z", "2027-05-31T00:00:00Z"]),
        // Either day fits if both are named; if one is left open, the other decides.
        ("0 0 13 * 5", &["2027-01-08T00:00:00Z", "2027-01-13T00:00:00Z", "2027-01-15T00:00:00Z"]),
        ("30/10 0 * * ?", &["2027-01-01T00:30:00Z", "2027-01-01T00:40:00Z", "2027-01-01T00:50:00Z"]),
        ("@Daily", &["2027-01-02T00:00:00Z", "2027-01-03T00:00:00Z"]),
    ];
    for (expression, expected) in cases {
        let found = runs(&in_zone(expression, "UTC"), "2027-01-01T00:00:00Z", expected.len());
        assert_eq!(found, expected, "{expression}");
    }
}

/// Model: schedule-runs
#[test]
fn an_expression_that_means_nothing_is_refused_in_words() {
    let cases = [
        ("", "0 fields"),
        ("* * * *", "4 fields"),
        ("* * * * * * *", "7 fields"),
        ("60 * * * *", "minute `60` is not from 0 to 59"),
        ("* 24 * * *", "hour `24`"),
        ("* * 0 * *", "day of month `0`"),
        ("* * * 13 *", "month `13`"),
        ("* * * * 8", "day of week `8`"),
        ("* * * * monday", "day of week `monday`"),
        ("5-1 * * * *", "ends before it begins"),
        ("*/0 * * * *", "minute has no step `0`"),
        ("*/x * * * *", "minute has no step `x`"),
        ("-1 * * * *", "minute `` is not"),
        ("+1 * * * *", "minute `+1`"),
        ("1, * * * *", "minute `` is not"),
        ("0 0 31 2 *", "matches no valid date"),
        ("@often", "1 fields"),
    ];
    for (expression, expected) in cases {
        let problem = expression.parse::<Cron>().expect_err(expression).to_string();
        assert!(problem.contains(expected), "{expression}: {problem}");
    }
    let long = "0 ".repeat(limits::CRON_CHARS_MAX);
    assert!(matches!(long.parse::<Cron>(), Err(FieldProblem::TooLong { .. })));
    assert!("Mars/Olympus".parse::<Zone>().is_err());
    assert_eq!("europe/berlin".parse::<Zone>().unwrap().as_str(), "Europe/Berlin");
}

/// Model: schedule-runs. A time in the gap runs once, at the first valid moment.
#[test]
fn a_time_that_the_clocks_skip_runs_once_at_the_end_of_the_gap() {
    let cases: [(&str, &str, &str, &[&str]); 6] = [
        // New York skips 2:00 to 3:00.
        (
            "30 2 * * *",
            "America/New_York",
            "2027-03-13T12:00:00Z",
            &["2027-03-14T07:00:00Z", "2027-03-15T06:30:00Z"],
        ),
        ("*/10 2 14 3 *", "America/New_York", "2027-03-13T12:00:00Z", &["2027-03-14T07:00:00Z"]),
        // Cairo skips the first hour of the day.
        (
            "0 0 * * *",
            "Africa/Cairo",
            "2027-04-29T12:00:00Z",
            &["2027-04-29T22:00:00Z", "2027-04-30T21:00:00Z"],
        ),
        (
            "0 0,1 * * *",
            "Africa/Cairo",
            "2027-04-29T12:00:00Z",
            &["2027-04-29T22:00:00Z", "2027-04-30T21:00:00Z"],
        ),
        // Lord Howe skips half an hour.
        (
            "15 2 * * *",
            "Australia/Lord_Howe",
            "2027-10-02T12:00:00Z",
            &["2027-10-02T15:30:00Z", "2027-10-03T15:15:00Z"],
        ),
        // Samoa skipped a day.
        (
            "0 12 * * *",
            "Pacific/Apia",
            "2011-12-29T23:00:00Z",
            &["2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"],
        ),
    ];
    for (expression, zone, after, expected) in cases {
        assert_eq!(
            runs(&in_zone(expression, zone), after, expected.len()),
            expected,
            "{expression} in {zone}"
        );
    }
}

/// Model: schedule-runs. A time in the overlap runs once, the first time it comes.
#[test]
fn a_time_that_the_clocks_show_twice_runs_once() {
    let cases: [(&str, &str, &str, &[&str]); 3] = [
        (
            "30 1 * * *",
            "America/New_York",
            "2027-11-06T12:00:00Z",
            &["2027-11-07T05:30:00Z", "2027-11-08T06:30:00Z"],
        ),
        (
            "0,30 23 * * *",
            "Africa/Cairo",
            "2027-10-28T12:00:00Z",
            &["2027-10-28T20:00:00Z", "2027-10-28T20:30:00Z", "2027-10-29T21:00:00Z"],
        ),
        (
            "45 1 * * *",
            "Australia/Lord_Howe",
            "2027-04-03T12:00:00Z",
            &["2027-04-03T14:45:00Z", "2027-04-04T15:15:00Z"],
        ),
    ];
    for (expression, zone, after, expected) in cases {
        assert_eq!(
            runs(&in_zone(expression, zone), after, expected.len()),
            expected,
            "{expression} in {zone}"
        );
    }
    // Also when looked at from within the hour that comes again.
    let second_time = runs(&in_zone("30 1 * * *", "America/New_York"), "2027-11-07T06:10:00Z", 1);
    assert_eq!(second_time, ["2027-11-08T06:30:00Z"]);
}

/// Model: schedule-runs. What runs every hour runs by elapsed time.
#[test]
fn what_runs_every_hour_does_so_whatever_the_clocks_do() {
    let hourly = in_zone("30 * * * *", "America/New_York");
    let spring = runs(&hourly, "2027-03-14T05:45:00Z", 3);
    assert_eq!(spring, ["2027-03-14T06:30:00Z", "2027-03-14T07:30:00Z", "2027-03-14T08:30:00Z"]);
    let autumn = runs(&hourly, "2027-11-07T04:45:00Z", 3);
    assert_eq!(autumn, ["2027-11-07T05:30:00Z", "2027-11-07T06:30:00Z", "2027-11-07T07:30:00Z"]);
}

/// Model: schedule-runs
#[test]
fn every_counts_from_the_start_and_once_is_once() {
    let start = at("2027-01-01T00:00:07Z");
    let every = ScheduleSpec::Every(Duration::from_secs(90));
    assert_eq!(every.next_after(start, start), Some(at("2027-01-01T00:01:37Z")));
    assert_eq!(every.next_after(start, at("2027-01-01T00:01:36.999Z")), Some(at("2027-01-01T00:01:37Z")));
    assert_eq!(every.next_after(start, at("2027-01-01T00:01:37Z")), Some(at("2027-01-01T00:03:07Z")));
    assert_eq!(every.next_after(start, Timestamp::MIN), Some(at("2027-01-01T00:01:37Z")));
    assert_eq!(ScheduleSpec::Every(limits::DURATION_MAX).next_after(Timestamp::MAX, Timestamp::MAX), None);
    let once = ScheduleSpec::At(at("2027-01-01T00:00:08Z"));
    assert_eq!(once.next_runs(start, start, 5), [at("2027-01-01T00:00:08Z")]);
    assert_eq!(once.next_after(start, at("2027-01-01T00:00:08Z")), None);
    assert!(ScheduleSpec::Every(Duration::from_millis(999)).check().is_err());
    assert!(every.check().is_ok());
}

/// Model: schedule-runs. After downtime as the policy says, and a run that is on time is never a missed one.
#[test]
fn missed_runs_are_made_up_for_as_set() {
    let hourly = in_zone("0 * * * *", "UTC");
    let start = at("2027-01-01T00:00:00Z");
    let due = |now: &str, missed| hourly.due(start, at("2027-01-01T02:00:00Z"), at(now), missed);
    let hours = |list: &[u8]| -> Vec<Timestamp> {
        list.iter().map(|hour| at(&format!("2027-01-01T{hour:02}:00:00Z"))).collect()
    };
    for missed in [CatchUp::Skip, CatchUp::Once, CatchUp::All] {
        assert_eq!(due("2027-01-01T02:59:59.999Z", missed), None, "nothing is due");
        let on_time = due("2027-01-01T03:00:02Z", missed).unwrap();
        assert_eq!((on_time.runs, on_time.missed_since), (hours(&[3]), None), "{missed:?}");
    }
    let late = "2027-01-01T06:30:00Z";
    for (missed, runs) in [(CatchUp::Skip, &[][..]), (CatchUp::Once, &[6]), (CatchUp::All, &[3, 4, 5, 6])] {
        let found = due(late, missed).unwrap();
        assert_eq!(found.runs, hours(runs), "{missed:?}");
        assert_eq!((found.through, found.missed_since), (hours(&[6])[0], Some(hours(&[3])[0])));
    }
    // One run alone is missed as several are, from the first moment that is too late.
    for (now, missed, runs) in [
        ("2027-01-01T03:00:02.001Z", CatchUp::Skip, &[][..]),
        ("2027-01-01T03:59:59Z", CatchUp::Skip, &[]),
        ("2027-01-01T03:00:02.001Z", CatchUp::Once, &[3]),
        ("2027-01-01T03:00:02.001Z", CatchUp::All, &[3]),
    ] {
        let found = due(now, missed).unwrap();
        assert_eq!(
            (found.runs, found.missed_since),
            (hours(runs), Some(hours(&[3])[0])),
            "{now}: {missed:?}"
        );
    }
    // The latest is on time, those before it are not.
    for (missed, runs) in [(CatchUp::Skip, &[6][..]), (CatchUp::Once, &[6]), (CatchUp::All, &[3, 4, 5, 6])] {
        assert_eq!(due("2027-01-01T06:00:01Z", missed).unwrap().runs, hours(runs), "{missed:?}");
    }
}

/// Model: schedule-runs. Bounded, however long nothing ran.
#[test]
fn a_century_of_missed_seconds_is_dealt_with_at_once() {
    let (start, now) = (at("1970-01-01T00:00:00Z"), at("2090-06-01T12:00:00Z"));
    for timing in [in_zone("* * * * * *", "Europe/Berlin"), ScheduleSpec::Every(Duration::from_secs(1))] {
        let due = timing.due(start, start, now, CatchUp::All).unwrap();
        assert_eq!(due.runs.len(), limits::SCHEDULE_MISSED_MAX);
        assert_eq!((due.runs.last(), due.through), (Some(&now), now));
        assert!(due.runs.windows(2).all(|pair| pair[1].since(pair[0]) == Duration::from_secs(1)));
    }
}

fn any_timing() -> impl Strategy<Value = ScheduleSpec> {
    let field = |last: u8| {
        prop_oneof![
            Just("*".to_owned()),
            (0..=last).prop_map(|n| n.to_string()),
            (1..=last).prop_map(|n| format!("*/{n}"))
        ]
    };
    let zone = prop::sample::select(vec!["UTC", "America/New_York", "Africa/Cairo", "Australia/Lord_Howe"]);
    let expression = (field(59), field(23), zone)
        .prop_map(|(minute, hour, zone)| in_zone(&format!("{minute} {hour} * * *"), zone));
    prop_oneof![expression, (60_u64..90_000).prop_map(|secs| ScheduleSpec::Every(Duration::from_secs(secs)))]
}

proptest! {
    /// Halving finds what walking finds.
    #[test]
    fn due_runs_are_those_that_walking_finds(timing in any_timing(), from in 0_i64..900_000_000, gap in 0_i64..400_000) {
        let start = Timestamp::from_millis((1_500_000_000 + from) * 1000);
        let now = start.plus(Duration::from_secs(gap.unsigned_abs()));
        let walked: Vec<Timestamp> =
            std::iter::successors(timing.next_after(start, start), |run| timing.next_after(start, *run))
                .take_while(|run| *run <= now)
                .collect();
        let all = timing.due(start, start, now, CatchUp::All);
        prop_assert_eq!(all.as_ref().map(|due| due.through), walked.last().copied());
        let kept = walked.len().saturating_sub(limits::SCHEDULE_MISSED_MAX);
        prop_assert_eq!(all.map_or_else(Vec::new, |due| due.runs), walked[kept..].to_vec());
        let once = timing.due(start, start, now, CatchUp::Once).map_or_else(Vec::new, |due| due.runs);
        prop_assert_eq!(&once, &walked.last().copied().into_iter().collect::<Vec<_>>());
        let skip = timing.due(start, start, now, CatchUp::Skip).map_or_else(Vec::new, |due| due.runs);
        let is_late = |run: &Timestamp| now.since(*run) > limits::SCHEDULE_LATE_MAX;
        prop_assert_eq!(skip, once.into_iter().filter(|run| !is_late(run)).collect::<Vec<_>>());
    }
}
