//! Schedules: when each runs next, on a small calendar of the days ahead, and running, pausing or removing them.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State as AxumState};
use axum::response::{IntoResponse, Redirect, Response};
use windlass::clock::Timestamp;
use windlass::job::{ScheduleName, Tenant};
use windlass::schedule::{Missed, Overlap, Timing};
use windlass::store::caller::Permission;
use windlass::store::schedules::{PauseSchedule, Schedule, ScheduleRef};

use super::form::{Form, Query, segment};
use super::format::{Moment, count, span};
use super::guard::Visitor;
use super::mark::JobLink;
use super::overview::moment;
use super::page::{Shell, Trouble, show};
use super::{Dashboard, limits};

/// A schedule as shown.
struct ScheduleView {
    name: String,
    tenant: String,
    /// Where its forms go.
    act: String,
    /// The id of the form that pauses it.
    pop: String,
    timing: String,
    job_type: String,
    queue: String,
    next: Vec<Moment>,
    last: Option<Moment>,
    last_job: Option<JobLink>,
    submitted: String,
    policy: String,
    paused: Option<PausedView>,
    refused: Option<String>,
}

/// A pause of a schedule.
struct PausedView {
    by: String,
    since: Moment,
    reason: Option<String>,
    until: Option<Moment>,
}

/// A day of the calendar.
struct Day {
    name: String,
    is_today: bool,
    /// Time of the first run, name, and how many more on that day.
    runs: Vec<(String, String, usize)>,
    more: usize,
}

#[derive(Template)]
#[template(path = "schedules.html")]
struct SchedulesPage {
    shell: Shell,
    schedules: Vec<ScheduleView>,
    days: Vec<Day>,
    can_act: bool,
    show_tenant: bool,
}

/// `GET /schedules`
pub(super) async fn page(
    AxumState(board): AxumState<Dashboard>,
    visitor: Visitor,
    Query(query): Query,
) -> Result<Response, Trouble> {
    let (store, caller, now) = (board.store(), &visitor.caller, board.now());
    let config = store.config(caller).await?;
    let found = store.schedules(caller).await?;
    let page = SchedulesPage {
        shell: Shell::of(&board, &visitor, &config, "schedules", "Schedules").saying(&query),
        schedules: found.iter().map(|schedule| view(schedule, now)).collect(),
        days: calendar(&found, now),
        can_act: visitor.may(Permission::Schedule),
        show_tenant: found.iter().any(|schedule| schedule.tenant != Tenant::default()),
    };
    show(&page)
}

fn timing(timing: &Timing) -> String {
    match timing {
        Timing::Cron { cron, timezone } => format!("{cron} ({timezone})"),
        Timing::Every(every) => format!("every {}", span(*every)),
        Timing::At(at) => format!("once, {at}"),
    }
}

fn view(schedule: &Schedule, now: Timestamp) -> ScheduleView {
    let missed = match schedule.missed {
        Missed::Skip => "left out if missed",
        Missed::Once => "made up for once if missed",
        Missed::All => "all made up for if missed",
    };
    let overlap = match schedule.overlap {
        Overlap::Allow => "may overlap",
        Overlap::Skip => "one at a time",
        Overlap::Cancel => "each cancels the one before",
    };
    let paused = schedule.pause_now(now).map(|pause| PausedView {
        by: pause.by.clone(),
        since: Moment::new(pause.since, now),
        reason: pause.reason.clone(),
        until: moment(pause.expires_at, now),
    });
    ScheduleView {
        name: schedule.name.to_string(),
        tenant: schedule.tenant.to_string(),
        act: format!(
            "/schedules/{}/{}/act",
            segment(schedule.tenant.as_str()),
            segment(schedule.name.as_str())
        ),
        pop: format!("pause-{}-{}", schedule.tenant, schedule.name),
        timing: timing(&schedule.timing),
        job_type: schedule.job.job_type.to_string(),
        queue: schedule.job.queue.to_string(),
        next: schedule.next_runs().into_iter().map(|run| Moment::new(run, now)).collect(),
        last: moment(schedule.last_run, now),
        last_job: schedule.last_job.map(JobLink),
        submitted: count(schedule.submitted),
        policy: format!("{overlap}, {missed}"),
        paused,
        refused: schedule.refused.as_ref().map(|refused| refused.message.clone()),
    }
}

const DAY_MILLIS: i64 = 86_400_000;
const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

/// The days ahead in UTC, with the runs of each.
fn calendar(schedules: &[Arc<Schedule>], now: Timestamp) -> Vec<Day> {
    let today = now.as_millis().div_euclid(DAY_MILLIS);
    let mut days = Vec::new();
    for number in today..today + limits::CALENDAR_DAYS {
        let begins = Timestamp::from_millis(number * DAY_MILLIS);
        let ends = Timestamp::from_millis((number + 1) * DAY_MILLIS);
        let mut runs = Vec::new();
        for schedule in schedules {
            let Some(first) = schedule.next_at else { continue };
            // The run before midnight is yesterday's; one at midnight itself is today's.
            let after = begins.as_millis().max(first.as_millis()) - 1;
            let after = Timestamp::from_millis(after);
            let found = schedule.timing.next_runs(schedule.start, after, limits::CALENDAR_RUNS_MAX);
            let found: Vec<Timestamp> = found.into_iter().filter(|run| *run < ends).collect();
            if let Some(first) = found.first() {
                let time = first.to_string().get(11..16).unwrap_or_default().to_owned();
                runs.push((time, schedule.name.to_string(), found.len() - 1));
            }
        }
        runs.sort();
        let more = runs.len().saturating_sub(limits::CALENDAR_LINES);
        runs.truncate(limits::CALENDAR_LINES);
        let weekday = WEEKDAYS[usize::try_from(number.rem_euclid(7)).unwrap_or(0)];
        let date = begins.to_string().get(5..10).unwrap_or_default().to_owned();
        days.push(Day { name: format!("{weekday} {date}"), is_today: number == today, runs, more });
    }
    days
}

/// `POST /schedules/{tenant}/{name}/act`
pub(super) async fn act(
    AxumState(board): AxumState<Dashboard>,
    visitor: Visitor,
    Path((tenant, name)): Path<(String, String)>,
    Form(form): Form,
) -> Result<Response, Trouble> {
    let missing = || Trouble::not_found(format!("no schedule {name}"));
    let which = ScheduleRef {
        tenant: Some(Tenant::new(&tenant).map_err(|_| missing())?),
        name: ScheduleName::new(&name).map_err(|_| missing())?,
    };
    let (store, caller) = (board.store(), &visitor.caller);
    let done = match form.need("action")? {
        "pause" => {
            let how = PauseSchedule { reason: form.text("reason"), expires: form.duration("expires")? };
            if store.pause_schedule(caller, which, how).await? { "paused" } else { "unchanged" }
        }
        "resume" => {
            if store.resume_schedule(caller, which).await? {
                "lifted"
            } else {
                "unchanged"
            }
        }
        "trigger" => {
            store.trigger_schedule(caller, which).await?;
            "triggered"
        }
        "delete" => {
            store.delete_schedule(caller, which).await?;
            "removed"
        }
        _ => return Err(Trouble::invalid("there is no such action")),
    };
    Ok(Redirect::to(&format!("/schedules?done={done}")).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_their_names() {
        let now = Timestamp::from_millis(1_794_726_000_000);
        assert!(now.to_string().starts_with("2026-11-15"));
        let days = calendar(&[], now);
        assert_eq!(days[0].name, "Sun 11-15");
        assert_eq!(days[1].name, "Mon 11-16");
        assert!(days[0].is_today && !days[1].is_today);
    }
}
