//! The dashboard in a real browser: headless Chromium, driven over its debugging pipe. A missing browser is a failure.

mod access;
mod act;
mod browser;
mod door;
mod look;
mod markup;
mod scale;
mod site;
