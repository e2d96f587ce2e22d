//! The dashboard in a real browser: headless Chromium, driven over its debugging pipe. A missing browser is a failure.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

mod access;
mod actions;
mod alerts;
mod auth;
mod bulk;
mod fixture;
mod forms;
mod history;
mod job;
mod journeys;
mod lists;
mod markup;
mod overview;
mod pages;
mod refresh;
mod roles;
mod scale;
mod settings;
