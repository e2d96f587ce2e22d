//! The pages, grouped by noun.

pub(in crate::dashboard) mod alerts;
pub(in crate::dashboard) mod audit;
pub(in crate::dashboard) mod jobs;
pub(in crate::dashboard) mod limits;
pub(in crate::dashboard) mod overview;
pub(in crate::dashboard) mod queues;
pub(in crate::dashboard) mod schedules;
pub(in crate::dashboard) mod search;
pub(in crate::dashboard) mod settings;
pub(in crate::dashboard) mod sign_in;
pub(in crate::dashboard) mod tenants;
pub(in crate::dashboard) mod types;
pub(in crate::dashboard) mod workers;
