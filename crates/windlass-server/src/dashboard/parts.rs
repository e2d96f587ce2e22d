//! Parts of pages: rows, cards, charts, lists of details.

pub(in crate::dashboard) mod chart;
pub(in crate::dashboard) mod children;
pub(in crate::dashboard) mod components;
pub(in crate::dashboard) mod failure;
pub(in crate::dashboard) mod filter;
pub(in crate::dashboard) mod format;
pub(in crate::dashboard) mod history;
pub(in crate::dashboard) mod job_audit;
pub(in crate::dashboard) mod job_details;
pub(in crate::dashboard) mod job_row;
pub(in crate::dashboard) mod json_view;
pub(in crate::dashboard) mod latest_records;
pub(in crate::dashboard) mod output;
pub(in crate::dashboard) mod pager;
pub(in crate::dashboard) mod queue_row;
pub(in crate::dashboard) mod reason;
pub(in crate::dashboard) mod sorting;
pub(in crate::dashboard) mod stat_card;
pub(in crate::dashboard) mod timeline;
pub(in crate::dashboard) mod waterfall;
