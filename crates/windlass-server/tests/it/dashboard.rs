//! The dashboard in a real browser: headless Chromium, driven over its debugging pipe. A missing browser is a failure.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod access;
mod act;
mod browser;
mod door;
mod fresh;
mod glance;
mod job;
mod look;
mod many;
mod markup;
mod roles;
mod scale;
mod sets;
mod site;
