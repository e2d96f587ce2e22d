//! What requests pass through: sessions, forms, signed messages, actions.

pub(in crate::dashboard) mod assets;
pub(in crate::dashboard) mod bulk_action;
pub(in crate::dashboard) mod context;
pub(in crate::dashboard) mod flash;
pub(in crate::dashboard) mod form;
pub(in crate::dashboard) mod job_actions;
pub(in crate::dashboard) mod middleware;
pub(in crate::dashboard) mod partial;
pub(in crate::dashboard) mod pauses;
pub(in crate::dashboard) mod preferences;
pub(in crate::dashboard) mod refresh;
pub(in crate::dashboard) mod resume;
pub(in crate::dashboard) mod session;
pub(in crate::dashboard) mod settings_form;
pub(in crate::dashboard) mod undo;
