//! Columns, saved views and the time zone: what a visitor chooses for its own browser. Works without scripts.

use axum::http::header;
use axum::response::{IntoResponse, Redirect, Response};
use windlass::schedule::Zone;

use crate::dashboard::page::PageError;
use crate::dashboard::pages::jobs::job_columns::{Columns, FIXED};
use crate::dashboard::pages::limits;
use crate::dashboard::requests::context::{FormContext, PageContext};
use crate::dashboard::requests::form::{Fields, address};
use crate::dashboard::requests::middleware::Visitor;
use crate::dashboard::requests::preferences::{Preferences, View, columns_cookie, views_cookie, zone_cookie};

/// A column with its check box.
pub(in crate::dashboard) struct ColumnBox {
    pub(in crate::dashboard) word: String,
    pub(in crate::dashboard) label: String,
    pub(in crate::dashboard) is_ticked: bool,
}

/// The form that chooses columns.
pub(in crate::dashboard) struct ColumnChoice {
    pub(in crate::dashboard) boxes: Vec<ColumnBox>,
    /// Names of tags that have a column.
    pub(in crate::dashboard) tags: String,
}

impl ColumnChoice {
    pub(in crate::dashboard) fn new(columns: &Columns) -> ColumnChoice {
        let boxes = FIXED.iter().map(|column| ColumnBox {
            word: column.name(),
            label: column.label(),
            is_ticked: columns.has(column),
        });
        ColumnChoice { boxes: boxes.collect(), tags: columns.tags() }
    }
}

/// A saved view.
pub(in crate::dashboard) struct ViewLink {
    pub(in crate::dashboard) name: String,
    pub(in crate::dashboard) link: String,
    /// Whether the list shows it now.
    pub(in crate::dashboard) is_chosen: bool,
}

/// The saved views, and the list that could be saved.
pub(in crate::dashboard) struct ViewList {
    pub(in crate::dashboard) links: Vec<ViewLink>,
    /// Filter and order of this list.
    pub(in crate::dashboard) query: String,
}

impl ViewList {
    pub(in crate::dashboard) fn new<'a>(
        visitor: &Visitor,
        pairs: impl Iterator<Item = (&'a str, String)>,
    ) -> ViewList {
        let query = address("", pairs).trim_start_matches('?').to_owned();
        let Preferences { views, columns, .. } = &visitor.preferences;
        let links = views.iter().map(|view| ViewLink {
            name: view.name.clone(),
            link: address("/jobs", [("view", view.name.clone())]),
            is_chosen: view.query == query && view.columns == *columns,
        });
        ViewList { links: links.collect(), query }
    }
}

/// Shows a saved view: its list, with its columns.
pub(in crate::dashboard) fn open(context: &PageContext, name: &str) -> Result<Response, PageError> {
    let views = &context.visitor.preferences.views;
    let view = views.iter().find(|view| view.name == name);
    let view = view.ok_or_else(|| PageError::not_found("this browser has no view of that name"))?;
    let cookie = columns_cookie(&view.columns, context.board.0.is_secure);
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to(&list(&view.query))).into_response())
}

/// The address of a list. A cookie or a form may contain anything, so its parts are encoded again.
fn list(query: &str) -> String {
    let parts = Fields::parse(query.as_bytes());
    address("/jobs", parts.pairs().map(|(name, value)| (name, value.to_owned())))
}

/// The list that a form came from.
fn back(form: &Fields) -> String {
    list(form.get("query").unwrap_or_default())
}

/// `POST /jobs/columns`
pub(in crate::dashboard) async fn choose_columns(
    FormContext { board, form, .. }: FormContext,
) -> Result<Response, PageError> {
    let columns = if form.get("action") == Some("reset") {
        Columns::default()
    } else {
        let tags = form.get("tags").unwrap_or_default().split(',').map(|name| format!("tag:{}", name.trim()));
        Columns::from_words(form.all("column").map(str::to_owned).chain(tags))
    };
    let cookie = columns_cookie(&columns, board.0.is_secure);
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to(&back(&form))).into_response())
}

/// `POST /jobs/views`: saves the list under a name, or removes a view.
pub(in crate::dashboard) async fn save(
    FormContext { board, visitor, form }: FormContext,
) -> Result<Response, PageError> {
    let mut preferences = visitor.preferences;
    let name = form.need("name")?.trim();
    if form.get("action") == Some("remove") {
        preferences.views.retain(|view| view.name != name);
    } else {
        if name.is_empty() || name.chars().count() > limits::VIEW_NAME_CHARS_MAX {
            let most = limits::VIEW_NAME_CHARS_MAX;
            return Err(PageError::invalid(format!("name: must have 1 to {most} characters")));
        }
        let query = form.text("query").unwrap_or_default();
        let view = View { name: name.to_owned(), query, columns: preferences.columns.clone() };
        if !preferences.save(view) {
            let most = limits::VIEWS_MAX;
            return Err(PageError::invalid(format!(
                "a browser keeps {most} views of limited length: remove one first"
            )));
        }
    }
    let cookie = views_cookie(&preferences.views, board.0.is_secure);
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to(&back(&form))).into_response())
}

/// `POST /time-zone`
pub(in crate::dashboard) async fn choose_zone(
    FormContext { board, form, .. }: FormContext,
) -> Result<Response, PageError> {
    let zone = form.get("zone").map(str::parse::<Zone>).transpose();
    let zone = zone.map_err(|problem| PageError::invalid(format!("zone: {problem}")))?;
    let zone = zone.filter(|zone| zone.as_str() != "UTC");
    let cookie = zone_cookie(zone.as_ref(), board.0.is_secure);
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to("/settings#times")).into_response())
}
