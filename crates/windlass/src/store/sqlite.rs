//! The SQLite engine.
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
