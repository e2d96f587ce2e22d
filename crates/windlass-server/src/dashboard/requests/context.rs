//! What pages and actions start from: the store, the visitor, and what the browser sent.

use axum::body::to_bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::response::Response;
use subtle::ConstantTimeEq;
use windlass::settings::patch::SettingsPatch;
use windlass::store::caller::Caller;
use windlass::store::{Config, Pause, PauseMode, PauseTarget};

use crate::dashboard::page::{Layout, PageError};
use crate::dashboard::requests::form::{Fields, Query, TOKEN_FIELD, unread};
use crate::dashboard::requests::middleware::Visitor;
use crate::dashboard::requests::undo::{PageAddress, UndoRequest, scope_of};
use crate::dashboard::{Dashboard, pages::limits};

/// A request for a page.
pub(in crate::dashboard) struct PageContext {
    pub(in crate::dashboard) board: Dashboard,
    pub(in crate::dashboard) visitor: Visitor,
    /// The fields of the URL.
    pub(in crate::dashboard) query: Fields,
    /// The settings of the store that the visitor can see.
    pub(in crate::dashboard) config: Config,
}

impl FromRequestParts<Dashboard> for PageContext {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, board: &Dashboard) -> Result<PageContext, PageError> {
        let visitor = Visitor::from_request_parts(parts, board).await?;
        let Query(query) = Query::from_request_parts(parts, board).await?;
        let config = board.store().config(&visitor.caller).await?;
        Ok(PageContext { board: board.clone(), visitor, query, config })
    }
}

impl PageContext {
    /// The layout of a page in this section, with the flash message of the last action.
    pub(in crate::dashboard) fn layout(&self, section: &'static str, title: impl Into<String>) -> Layout {
        Layout::new(&self.board, &self.visitor, &self.config, section, title).with_flash(&self.query)
    }
}

/// A form of one of our own pages. It is accepted only with the token of its page (CSRF); actions cannot read a form any
/// other way.
pub(in crate::dashboard) struct FormContext {
    pub(in crate::dashboard) board: Dashboard,
    pub(in crate::dashboard) visitor: Visitor,
    pub(in crate::dashboard) form: Fields,
}

impl FromRequest<Dashboard> for FormContext {
    type Rejection = PageError;

    async fn from_request(request: Request, board: &Dashboard) -> Result<FormContext, PageError> {
        let (mut parts, body) = request.into_parts();
        let visitor = Visitor::from_request_parts(&mut parts, board).await?;
        let bytes = to_bytes(body, limits::FORM_BYTES_MAX).await.map_err(|error| unread(&error))?;
        let form = Fields::parse(&bytes);
        let token = form.get(TOKEN_FIELD).unwrap_or_default();
        let is_ours =
            !visitor.form_token.is_empty() && token.as_bytes().ct_eq(visitor.form_token.as_bytes()).into();
        if !is_ours {
            return Err(PageError::stale_form());
        }
        Ok(FormContext { board: board.clone(), visitor, form })
    }
}

impl FormContext {
    /// Pauses or resumes as the form asks, as its visitor or in the name of a tenant, and returns to a page.
    pub(in crate::dashboard) async fn pause_or_resume(
        &self,
        caller: &Caller,
        target: PauseTarget,
        place: &PageAddress,
    ) -> Result<Response, PageError> {
        let (store, form, now) = (self.board.store(), &self.form, self.board.now());
        // A form that names a scope resumes it unless it says otherwise.
        let action = if form.get("scope").is_some() {
            form.get("action").unwrap_or("resume")
        } else {
            form.need("action")?
        };
        let is_gate = target == PauseTarget::Gate || matches!(action, "close" | "open");
        let scope = scope_of(&target, caller);
        let config = store.config(caller).await?;
        let before = config.pauses.get(&scope).filter(|pause| pause.is_active(now));
        let (is_changed, before, done) = match action {
            "pause" | "close" => {
                let done = if is_gate { "closed" } else { "paused" };
                (store.pause(caller, target, pause_of(form)?).await?, None, done)
            }
            "resume" | "open" => {
                let done = if is_gate { "opened" } else { "unpaused" };
                (store.resume(caller, target, form.text("reason")).await?, before, done)
            }
            _ => return Err(PageError::invalid("unknown action")),
        };
        // A pause that replaces another one: undoing it would not bring the other one back.
        let undo = UndoRequest::of_pause((&scope, before), place, now);
        Ok(place.after(if is_changed { done } else { "unchanged" }, Some(&undo)))
    }

    /// Saves settings and returns to their page, or to the one that the form names.
    pub(in crate::dashboard) async fn save(
        &self,
        patch: SettingsPatch,
        (to, place): (&str, PageAddress),
        private: &[&str],
    ) -> Result<Response, PageError> {
        let done = self.board.store().configure(&self.visitor.caller, patch).await?;
        let undo = UndoRequest::of_settings(to, &self.form, private);
        let place = self.form.get("back").map_or(place, |back| PageAddress::read(Some(back)));
        Ok(place.after(if done.is_changed { "saved" } else { "unchanged" }, undo.as_ref()))
    }
}

/// The pause that a form describes.
fn pause_of(form: &Fields) -> Result<Pause, PageError> {
    let mode = match form.get("mode") {
        Some("aggressive") => PauseMode::Aggressive,
        _ => PauseMode::Graceful,
    };
    Ok(Pause { mode, reason: form.text("reason"), expires: form.duration("expires")? })
}
