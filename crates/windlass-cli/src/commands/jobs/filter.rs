//! The API's job filters as flags.

use clap::Args;
use windlass::job::{JobId, JobState, JobType, QueueName, Tenant};
use windlass_api::filter::JobFilter;
use windlass_api::text::Text;
use windlass_api::time::Moment;

use crate::commands::manage::settings::is_empty;
use crate::connection::client::ServerClient;
use crate::error::Failure;

/// Filters for jobs; a job must match all of them.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Filters")]
pub(crate) struct FilterArgs {
    /// In one of these states, separated by commas
    #[arg(long, value_name = "STATES", value_delimiter = ',')]
    state: Vec<Text<JobState>>,
    /// Of this type
    #[arg(long = "type", value_name = "TYPE")]
    job_type: Option<Text<JobType>>,
    /// In this queue
    #[arg(long, value_name = "QUEUE")]
    queue: Option<Text<QueueName>>,
    /// With this tag
    #[arg(long, value_name = "NAME:VALUE")]
    tag: Option<String>,
    /// With this correlation id
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,
    /// Submitted by this actor
    #[arg(long, value_name = "ACTOR")]
    owner: Option<String>,
    /// Spawned by this job: an id, or a part of one
    #[arg(long, value_name = "ID")]
    parent: Option<String>,
    /// Submitted at or after this time, RFC 3339
    #[arg(long, value_name = "TIME")]
    created_after: Option<Moment>,
    /// Submitted before this time
    #[arg(long, value_name = "TIME")]
    created_before: Option<Moment>,
    /// `true` or `false`: whether the job was redriven as a new job
    #[arg(long, value_name = "BOOL")]
    redriven: Option<bool>,
    /// Of this tenant, for keys that can see several
    #[arg(long, value_name = "TENANT")]
    tenant: Option<Text<Tenant>>,
}

impl FilterArgs {
    /// Whether no filter is given, so that all jobs match.
    pub(crate) fn is_empty(&self) -> bool {
        self.parent.is_none() && is_empty(&self.with_parent(None))
    }

    /// The filter as the API takes it; the server is asked for the whole id of the parent.
    pub(crate) async fn filter(&self, client: &ServerClient) -> Result<JobFilter, Failure> {
        let Some(parent) = &self.parent else { return Ok(self.with_parent(None)) };
        let id = client.job_id(parent).await?;
        let whole = id.parse().map_err(|_| Failure::NotFound(format!("no job `{id}`")))?;
        Ok(self.with_parent(Some(whole)))
    }

    fn with_parent(&self, parent: Option<Text<JobId>>) -> JobFilter {
        JobFilter {
            state: self.state.iter().map(|state| state.0).collect(),
            r#type: self.job_type.clone(),
            queue: self.queue.clone(),
            tag: self.tag.clone(),
            correlation_id: self.correlation_id.clone(),
            owner: self.owner.clone(),
            parent,
            created_after: self.created_after,
            created_before: self.created_before,
            redriven: self.redriven,
            tenant: self.tenant.clone(),
            ..JobFilter::default()
        }
    }
}
