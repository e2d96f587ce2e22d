//! The pages, one file each.

pub(in crate::dashboard) mod audit;
pub(in crate::dashboard) mod bulk_confirm;
pub(in crate::dashboard) mod calendar;
pub(in crate::dashboard) mod clock;
pub(in crate::dashboard) mod dead_letters;
pub(in crate::dashboard) mod graph;
pub(in crate::dashboard) mod health;
pub(in crate::dashboard) mod job;
pub(in crate::dashboard) mod job_types;
pub(in crate::dashboard) mod jobs;
pub(in crate::dashboard) mod keys;
pub(in crate::dashboard) mod limits;
pub(in crate::dashboard) mod new_job;
pub(in crate::dashboard) mod overview;
pub(in crate::dashboard) mod queues;
pub(in crate::dashboard) mod schedule_form;
pub(in crate::dashboard) mod schedules;
pub(in crate::dashboard) mod search;
pub(in crate::dashboard) mod search_jobs;
pub(in crate::dashboard) mod settings;
pub(in crate::dashboard) mod sign_in;
pub(in crate::dashboard) mod tenants;
pub(in crate::dashboard) mod workers;
