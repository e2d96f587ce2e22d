//! What the limits in a settings form would have held back in the last hour.

use std::time::Duration;

use askama::Template;
use axum::extract::{Path, State as AxumState};
use axum::response::Response;
use windlass::settings::Rate;
use windlass::settings::preview::{LimitPreview, ProposedLimit};
use windlass::store::caller::Permission;
use windlass::store::documents::minute_stats::Minute;

use crate::dashboard::Dashboard;
use crate::dashboard::page::{PageError, show};
use crate::dashboard::pages::{job_types, queues};
use crate::dashboard::parts::chart;
use crate::dashboard::parts::format::{count, span};
use crate::dashboard::requests::form::{Fields, Query};
use crate::dashboard::requests::middleware::Visitor;
use crate::dashboard::requests::settings_form::parse_integer;

/// The preview as a part of a page.
#[derive(Template, Default)]
#[template(path = "queues/limit_preview.html")]
pub(in crate::dashboard) struct PreviewView {
    problem: Option<String>,
    text: String,
    started: String,
    mean: Option<String>,
}

/// The preview of these limits in this hour.
pub(in crate::dashboard) fn of_limit(limit: &ProposedLimit, hour: &[Minute]) -> PreviewView {
    let sum = chart::total(hour);
    let runs = sum.ran.count();
    let mean = sum.ran_ms.checked_div(runs).map(Duration::from_millis);
    let starts: Vec<u64> = hour.iter().map(|minute| minute.claimed).collect();
    let preview = limit.preview(&starts, mean);
    PreviewView {
        problem: None,
        text: text(limit, &preview, mean.is_some()),
        started: count(preview.started),
        mean: mean.map(span),
    }
}

fn text(limit: &ProposedLimit, preview: &LimitPreview, has_runs: bool) -> String {
    if limit.max_running.is_none() && limit.rate.is_none() {
        return "No limit on starts: nothing would have waited for one.".to_owned();
    }
    if preview.started == 0 {
        return "No attempt started in the last hour, so there is nothing to compare with.".to_owned();
    }
    if limit.max_running.is_some() && limit.rate.is_none() && !has_runs {
        return "No attempt ended in the last hour, so it is not known how long runs take.".to_owned();
    }
    if preview.delayed == 0 {
        return "Nothing would have been held back.".to_owned();
    }
    let (delayed, started) = (count(preview.delayed), count(preview.started));
    let longest = match preview.longest {
        Some(longest) => format!(", the last of them by about {}", span(longest)),
        None => " for good".to_owned(),
    };
    let waiting = match preview.waiting {
        0 => String::new(),
        waiting => format!(" {} would still be waiting.", count(waiting)),
    };
    format!("About {delayed} of {started} starts would have been held back{longest}.{waiting}")
}

/// The limits in a form; the values that the page showed are not needed.
fn proposed(fields: &Fields) -> Result<ProposedLimit, PageError> {
    let number = |name: &str| fields.get(name).map(|text| parse_integer(name, text)).transpose();
    let rate = match (number("rate_count")?, fields.duration("rate_per")?) {
        (Some(count), Some(per)) => Some(Rate::new(count, per)),
        (Some(_), None) => {
            return Err(PageError::invalid("max starts: the period is missing, such as 1s or 1m"));
        }
        _ => None,
    };
    Ok(ProposedLimit { max_running: number("max_running")?, rate })
}

fn shown(fields: &Fields, hour: &[Minute]) -> Result<Response, PageError> {
    let view = match proposed(fields) {
        Ok(limit) => of_limit(&limit, hour),
        Err(problem) => PreviewView { problem: Some(problem.message().to_owned()), ..PreviewView::default() },
    };
    show(&view)
}

/// `GET /queues/{name}/preview`
pub(in crate::dashboard) async fn of_queue(
    AxumState(board): AxumState<Dashboard>,
    visitor: Visitor,
    Path(name): Path<String>,
    Query(query): Query,
) -> Result<Response, PageError> {
    visitor.caller.require(Permission::Configure)?;
    let info = board.store().queue(&visitor.caller, queues::name_of(&name)?).await?;
    shown(&query, &chart::hour(&info.minutes, board.now()))
}

/// `GET /types/{name}/preview`
pub(in crate::dashboard) async fn of_type(
    AxumState(board): AxumState<Dashboard>,
    visitor: Visitor,
    Path(name): Path<String>,
    Query(query): Query,
) -> Result<Response, PageError> {
    visitor.caller.require(Permission::Administer)?;
    let name = job_types::name_of(&name)?;
    let found = board.store().job_types(&visitor.caller).await?.into_iter().find(|info| info.name == name);
    let minutes = found.map(|info| info.minutes).unwrap_or_default();
    shown(&query, &chart::hour(&minutes, board.now()))
}
