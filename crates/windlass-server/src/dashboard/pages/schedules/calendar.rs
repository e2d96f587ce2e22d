//! A calendar of the next days: which schedules run when. Computes the first run of each schedule and day; the number of
//! runs per day only for the schedules shown.

use std::sync::Arc;

use windlass::clock::Timestamp;
use windlass::schedule::ScheduleSpec;
use windlass::store::Schedule;

use crate::dashboard::pages::limits;
use crate::dashboard::parts::format::{from_local, local, span};

/// A day of the calendar.
pub(in crate::dashboard) struct Day {
    pub(in crate::dashboard) name: String,
    pub(in crate::dashboard) is_today: bool,
    pub(in crate::dashboard) runs: Vec<Run>,
    pub(in crate::dashboard) more: usize,
}

/// A schedule on one day.
pub(in crate::dashboard) struct Run {
    /// Time of its first run, in the visitor's time zone.
    pub(in crate::dashboard) time: String,
    pub(in crate::dashboard) name: String,
    /// How often it runs, if more than once.
    pub(in crate::dashboard) often: Option<String>,
    /// The same time in the schedule's own time zone, if it is not UTC.
    pub(in crate::dashboard) own_time: Option<String>,
}

const DAY_MILLIS: i64 = 86_400_000;
const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

/// The day of a time in the visitor's time zone, counted from 1970-01-01.
fn day_of(at: Timestamp) -> i64 {
    let midnight = format!("{}T00:00:00Z", local(at).get(..10).unwrap_or_default());
    midnight.parse::<Timestamp>().unwrap_or(at).as_millis().div_euclid(DAY_MILLIS)
}

/// When a day begins in the visitor's time zone.
fn beginning(day: i64) -> Timestamp {
    let in_utc = Timestamp::from_millis(day * DAY_MILLIS);
    from_local(in_utc.to_string().get(..16).unwrap_or_default()).unwrap_or(in_utc)
}

/// The next days in the visitor's time zone, with the runs of each.
pub(in crate::dashboard) fn calendar(schedules: &[Arc<Schedule>], now: Timestamp) -> Vec<Day> {
    let today = day_of(now);
    let begin_of = |day: i64| beginning(today + day);
    let mut by_day: Vec<Vec<(Timestamp, &Schedule)>> =
        (0..limits::CALENDAR_DAYS).map(|_| Vec::new()).collect();
    let mut soonest: Vec<(Timestamp, &Schedule)> =
        schedules.iter().filter_map(|schedule| Some((schedule.next_at?, schedule.as_ref()))).collect();
    soonest.sort_by_key(|(next, _)| *next);
    for (first, schedule) in soonest.into_iter().take(limits::CALENDAR_SCHEDULES_MAX) {
        let mut next = Some(first.max(begin_of(0)));
        while let Some(run) = next {
            let day = day_of(run) - today;
            let Some(runs) = usize::try_from(day).ok().and_then(|day| by_day.get_mut(day)) else { break };
            runs.push((run, schedule));
            // The last millisecond of the day: a run at midnight belongs to the next day.
            let end = Timestamp::from_millis(begin_of(day + 1).as_millis() - 1);
            next = schedule.timing.next_after(schedule.start, end);
        }
    }
    let mut days = Vec::new();
    for (day, mut found) in (0..).zip(by_day) {
        found.sort_by(|a, b| (a.0, &a.1.name).cmp(&(b.0, &b.1.name)));
        let more = found.len().saturating_sub(limits::CALENDAR_LINES);
        found.truncate(limits::CALENDAR_LINES);
        let weekday = WEEKDAYS[usize::try_from((today + day).rem_euclid(7)).unwrap_or(0)];
        let date = local(begin_of(day)).get(5..10).unwrap_or_default().to_owned();
        let runs =
            found.into_iter().map(|(first, schedule)| run(schedule, first, begin_of(day + 1))).collect();
        days.push(Day { name: format!("{weekday} {date}"), is_today: day == 0, runs, more });
    }
    days
}

fn run(schedule: &Schedule, first: Timestamp, ends: Timestamp) -> Run {
    let later = schedule.timing.next_runs(schedule.start, first, limits::CALENDAR_RUNS_MAX);
    let later: Vec<Timestamp> = later.into_iter().take_while(|run| *run < ends).collect();
    let times = later.len() + 1;
    let or_more = if later.len() == limits::CALENDAR_RUNS_MAX { "+" } else { "" };
    let all = std::iter::once(first).chain(later);
    let gaps: Vec<_> = all.clone().zip(all.skip(1)).map(|(a, b)| b.since(a)).collect();
    let often = match gaps.as_slice() {
        [] => None,
        [gap, rest @ ..] if !rest.is_empty() && rest.iter().all(|other| other == gap) => {
            Some(format!("every {}, {}{or_more}×", span(*gap), times - usize::from(!or_more.is_empty())))
        }
        _ => Some(format!("{}{or_more}×", times - usize::from(!or_more.is_empty()))),
    };
    let time = local(first).get(11..16).unwrap_or_default().to_owned();
    Run { time, name: schedule.name.to_string(), often, own_time: own_time(schedule, first) }
}

/// A time in the schedule's time zone; None if it is UTC.
pub(in crate::dashboard) fn own_time(schedule: &Schedule, at: Timestamp) -> Option<String> {
    let ScheduleSpec::Cron { timezone, .. } = &schedule.timing else { return None };
    let shown = timezone.shown_at(at)?;
    (timezone.as_str() != "UTC").then(|| format!("{shown} {timezone}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use windlass::job::{JobType, NewJob, Payload, ScheduleName};
    use windlass::store::NewSchedule;

    use super::*;
    use crate::dashboard::parts::format::in_zone;

    fn schedule(name: &str, timing: ScheduleSpec, now: Timestamp) -> Arc<Schedule> {
        let job = NewJob::new(JobType::new("mail").expect("a type"), Payload::json("{}"));
        let name = ScheduleName::new(name).expect("a name");
        Arc::new(NewSchedule::new(timing, job).schedule(&name, now, "ada"))
    }

    fn cron(text: &str) -> ScheduleSpec {
        let timezone = "Europe/Berlin".parse().expect("a zone");
        ScheduleSpec::Cron { cron: text.parse().expect("an expression"), timezone }
    }

    /// Sunday, 2026-11-15, 10:20 in UTC.
    fn now() -> Timestamp {
        Timestamp::from_millis(1_794_738_000_000)
    }

    #[test]
    fn days_have_their_names() {
        let days = calendar(&[], now());
        assert_eq!(days.len(), 7);
        assert_eq!((days[0].name.as_str(), days[1].name.as_str()), ("Sun 11-15", "Mon 11-16"));
        assert!(days[0].is_today && !days[1].is_today);
    }

    #[test]
    fn it_says_how_often_and_when_on_the_schedule_s_own_clock() {
        let every = |seconds| ScheduleSpec::Every(Duration::from_secs(seconds));
        let found = [
            schedule("daily", cron("0 2 * * *"), now()),
            schedule("often", cron("*/15 * * * *"), now()),
            schedule("ticks", every(1), now()),
            schedule("twice", cron("0 8,9 * * *"), now()),
        ];
        let days = calendar(&found, now());
        let run_of = |day: usize, name: &str| {
            let run = days[day].runs.iter().find(|run| run.name == name);
            run.map(|run| (run.time.clone(), run.often.clone().unwrap_or_default()))
        };
        assert_eq!(run_of(0, "daily"), None, "it was at one o'clock");
        assert_eq!(run_of(1, "daily"), Some(("01:00".into(), String::new())));
        assert_eq!(run_of(1, "often"), Some(("00:00".into(), "every 15m, 96×".into())));
        assert_eq!(run_of(1, "ticks"), Some(("00:00".into(), "every 1.0 s, 144+×".into())));
        assert_eq!(run_of(6, "twice"), Some(("07:00".into(), "2×".into())));
        let daily = days[1].runs.iter().find(|run| run.name == "daily");
        assert_eq!(daily.and_then(|run| run.own_time.as_deref()), Some("Mon 02:00 Europe/Berlin"));
    }

    #[tokio::test]
    async fn days_and_times_are_the_visitor_s() {
        // In Tokyo it is Monday, 05:20.
        let at = Timestamp::from_millis(now().as_millis() + 36_000_000);
        let found = [schedule("daily", cron("0 2 * * *"), at), schedule("often", cron("*/15 * * * *"), at)];
        let zone = "Asia/Tokyo".parse().expect("a zone");
        let days = in_zone(Some(zone), async { calendar(&found, at) }).await;
        let firsts = |day: usize| days[day].runs.iter().map(|run| run.time.as_str()).collect::<Vec<_>>();
        assert_eq!((days[0].name.as_str(), days[1].name.as_str()), ("Mon 11-16", "Tue 11-17"));
        assert_eq!((firsts(0), firsts(1)), (vec!["05:30", "10:00"], vec!["00:00", "10:00"]));
    }

    #[test]
    fn a_day_names_the_first_and_counts_the_rest() {
        let found: Vec<_> = (0..30).map(|n| schedule(&format!("s{n}"), cron("0 2 * * *"), now())).collect();
        let days = calendar(&found, now());
        assert_eq!((days[1].runs.len(), days[1].more), (8, 22));
    }
}
