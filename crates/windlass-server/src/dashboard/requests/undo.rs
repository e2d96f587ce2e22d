//! How an action is undone: the request that does it. The redirect after the action carries it beside the flash message, and
//! the signature of the message covers it, so that no link from another site can offer one.

use axum::response::{IntoResponse, Redirect, Response};
use windlass::clock::Timestamp;
use windlass::store::caller::Caller;
use windlass::store::{PauseMode, PauseRecord, PauseScope, PauseTarget};

use crate::dashboard::page::Undo;
use crate::dashboard::pages::limits;
use crate::dashboard::pages::sign_in::within;
use crate::dashboard::requests::form::{Fields, address};

/// The field of a redirect.
const UNDO: &str = "undo";

/// A page of the dashboard, with the fields of its URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::dashboard) struct PageAddress {
    path: String,
    pairs: Vec<(String, String)>,
}

impl PageAddress {
    pub(in crate::dashboard) fn new(path: impl Into<String>, pairs: &[(&str, &str)]) -> PageAddress {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        PageAddress { path: path.into(), pairs: pairs.collect() }
    }

    /// A page that a form names; the overview if it is not one of ours.
    pub(in crate::dashboard) fn read(text: Option<&str>) -> PageAddress {
        let text = within(text);
        let (path, query) = text.split_once('?').unwrap_or((&text, ""));
        let fields = Fields::parse(query.as_bytes());
        let pairs = fields.pairs().map(|(name, value)| (name.to_owned(), value.to_owned()));
        PageAddress { path: path.to_owned(), pairs: pairs.collect() }
    }

    fn text(&self) -> String {
        address(&self.path, self.pairs.iter().map(|(name, value)| (name.as_str(), value.clone())))
    }

    /// The redirect to it after an action, with the flash message and how to undo the action.
    pub(in crate::dashboard) fn after(&self, done: &str, undo: Option<&UndoRequest>) -> Response {
        let pairs = self.pairs.iter().map(|(name, value)| (name.as_str(), value.clone()));
        let undo = undo.filter(|_| done != "unchanged").map(UndoRequest::text);
        let undo = undo.filter(|text| text.len() <= limits::UNDO_BYTES_MAX).map(|text| (UNDO, text));
        let said = [("done", done.to_owned())].into_iter().chain(undo);
        Redirect::to(&address(&self.path, pairs.chain(said))).into_response()
    }
}

/// The form that undoes an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::dashboard) struct UndoRequest {
    to: String,
    fields: Vec<(String, String)>,
}

impl UndoRequest {
    pub(in crate::dashboard) fn new(to: impl Into<String>, fields: &[(&str, &str)]) -> UndoRequest {
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        UndoRequest { to: to.into(), fields: fields.collect() }
    }

    /// What undoes a settings form: the same form, with the shown and the new values exchanged. `private` fields may contain a
    /// secret, which does not belong in a URL: a change of one cannot be undone.
    pub(in crate::dashboard) fn of_settings(
        to: &str,
        form: &Fields,
        private: &[&str],
    ) -> Option<UndoRequest> {
        let mut fields = Vec::new();
        for (shown, was) in form.pairs() {
            let Some(name) = shown.strip_prefix("was_") else { continue };
            let now = form.get(name).unwrap_or_default();
            if private.contains(&name) && now != was {
                return None;
            }
            // Some values belong together, so those that stay are sent as well.
            if now != was || !was.is_empty() {
                fields.push((name.to_owned(), was.to_owned()));
                fields.push((shown.to_owned(), now.to_owned()));
            }
        }
        fields.retain(|(name, _)| !private.iter().any(|private| name.trim_start_matches("was_") == *private));
        fields.extend(form.text("back").map(|back| ("back".to_owned(), back)));
        (!fields.is_empty()).then(|| UndoRequest { to: to.to_owned(), fields })
    }

    /// What undoes the pause of a scope, or the end of the pause `before`.
    pub(in crate::dashboard) fn of_pause(
        (scope, before): (&PauseScope, Option<&PauseRecord>),
        place: &PageAddress,
        now: Timestamp,
    ) -> UndoRequest {
        let scope = serde_json::to_string(scope).expect("a scope is plain data");
        let mut fields = vec![("scope".to_owned(), scope), ("back".to_owned(), place.text())];
        let mut put = |name: &str, value: String| fields.push((name.to_owned(), value));
        match before {
            None => put("action", "resume".into()),
            Some(pause) => {
                put("action", "pause".into());
                if pause.mode == PauseMode::Aggressive {
                    put("mode", "aggressive".into());
                }
                if let Some(reason) = &pause.reason {
                    put("reason", reason.clone());
                }
                if let Some(at) = pause.expires_at {
                    put("expires", format!("{}s", at.since(now).as_secs().max(1)));
                }
            }
        }
        UndoRequest { to: "/resume".to_owned(), fields }
    }

    fn text(&self) -> String {
        address(&self.to, self.fields.iter().map(|(name, value)| (name.as_str(), value.clone())))
    }

    /// Reads it from the URL of the page after the action, whose signature was checked.
    pub(in crate::dashboard) fn read(query: &Fields) -> Option<Undo> {
        let place = PageAddress::read(Some(query.get(UNDO)?));
        let action = place.pairs.iter().find(|(name, _)| name == "action").map(|(_, value)| value.clone());
        let fields = place.pairs.into_iter().filter(|(name, _)| name != "action").collect();
        Some(Undo { to: place.path, action: action.unwrap_or_default(), fields })
    }
}

/// The scope that a pause by this caller has.
pub(in crate::dashboard) fn scope_of(target: &PauseTarget, caller: &Caller) -> PauseScope {
    let tenant = caller.tenant.clone();
    match target.clone() {
        PauseTarget::Gate => PauseScope::Gate,
        PauseTarget::Tenant(tenant) => PauseScope::Tenant(tenant),
        PauseTarget::Type(job_type) => PauseScope::Type { job_type, tenant },
        PauseTarget::Queue(queue) => PauseScope::Queue { queue, tenant },
        PauseTarget::Worker(worker) => PauseScope::Worker(worker),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(text: &str) -> Fields {
        Fields::parse(text.as_bytes())
    }

    #[test]
    fn a_settings_form_is_undone_by_itself_with_old_and_new_exchanged() {
        let sent = form("n=7&was_n=5&count=3&was_count=3&empty=&was_empty=&tick=1&was_tick=&token=secret");
        let undo = UndoRequest::of_settings("/queues/mail/settings", &sent, &["url"]).unwrap();
        let text = undo.text();
        assert_eq!(
            text, "/queues/mail/settings?n=5&was_n=7&count=3&was_count=3&tick=&was_tick=1",
            "what stays empty and the token are not sent"
        );
        let read = UndoRequest::read(&form(&address("", [("undo", text)])[1..])).unwrap();
        assert_eq!((read.to.as_str(), read.action.as_str()), ("/queues/mail/settings", ""));
        assert_eq!(read.fields.len(), 6);
        let private = form("url=https://x&was_url=https://y&n=1&was_n=2");
        assert_eq!(UndoRequest::of_settings("/x", &private, &["url"]), None);
    }

    #[test]
    fn only_our_own_pages_are_returned_to() {
        assert_eq!(PageAddress::read(Some("/queues?name=a%26b")).text(), "/queues?name=a%26b");
        assert_eq!(PageAddress::read(Some("//evil.example/x")).text(), "/");
        assert_eq!(PageAddress::read(None).text(), "/");
    }
}
