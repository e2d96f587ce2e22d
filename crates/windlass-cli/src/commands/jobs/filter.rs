//! The API's job filters as flags.

use clap::Args;
use serde_json::{Map, Value};

use crate::connection::client::Call;

/// Filters for jobs; a job must match all of them.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Filters")]
pub(crate) struct FilterArgs {
    /// In one of these states, separated by commas
    #[arg(long, value_name = "STATES")]
    state: Option<String>,
    /// Of this type
    #[arg(long = "type", value_name = "TYPE")]
    job_type: Option<String>,
    /// In this queue
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
    /// With this tag
    #[arg(long, value_name = "NAME:VALUE")]
    tag: Option<String>,
    /// With this correlation id
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,
    /// Submitted by this actor
    #[arg(long, value_name = "ACTOR")]
    owner: Option<String>,
    /// Spawned by this job
    #[arg(long, value_name = "ID")]
    parent: Option<String>,
    /// Submitted at or after this time, RFC 3339
    #[arg(long, value_name = "TIME")]
    created_after: Option<String>,
    /// Submitted before this time
    #[arg(long, value_name = "TIME")]
    created_before: Option<String>,
    /// `true` or `false`: whether the job was redriven as a new job
    #[arg(long, value_name = "BOOL")]
    redriven: Option<bool>,
    /// Of this tenant, for keys that can see several
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
}

impl FilterArgs {
    fn given(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let all = [
            ("state", &self.state),
            ("type", &self.job_type),
            ("queue", &self.queue),
            ("tag", &self.tag),
            ("correlation_id", &self.correlation_id),
            ("owner", &self.owner),
            ("parent", &self.parent),
            ("created_after", &self.created_after),
            ("created_before", &self.created_before),
            ("tenant", &self.tenant),
        ];
        all.into_iter().filter_map(|(name, value)| value.as_ref().map(|value| (name, value)))
    }

    /// Whether no filter is given, so that all jobs match.
    pub(crate) fn is_empty(&self) -> bool {
        self.given().next().is_none() && self.redriven.is_none()
    }

    /// Adds the filter to a request's query.
    pub(crate) fn query(&self, call: Call) -> Call {
        let call = self.given().fold(call, |call, (name, value)| call.query(name, value));
        self.redriven
            .into_iter()
            .fold(call, |call, is_redriven| call.query("redriven", is_redriven.to_string()))
    }

    /// The filter as fields of a request body.
    pub(crate) fn body(&self) -> Map<String, Value> {
        let given = self.given().map(|(name, value)| (name.to_owned(), value.clone().into()));
        given.chain(self.redriven.map(|is_redriven| ("redriven".to_owned(), is_redriven.into()))).collect()
    }
}
