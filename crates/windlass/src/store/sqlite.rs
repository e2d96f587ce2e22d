//! The engine on one file.
#![allow(dead_code)]
mod advance;
mod audit;
mod claim;
mod document;
mod facet;
mod insert;
mod migrate;
mod prune;
mod query;
mod row;
mod tables;
