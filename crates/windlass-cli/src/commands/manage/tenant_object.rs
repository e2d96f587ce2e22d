//! Alerts and schedules: objects that a name and a tenant identify. The commands `show`, `pause`, `resume`, `delete` and those
//! that submit a job are the same for both; a [`TenantObject`] says how they differ.

use std::marker::PhantomData;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use windlass::clock::Timestamp;
use windlass::job::Tenant;
use windlass_api::expires::Expiry;
use windlass_api::job::Job;
use windlass_api::text::Text;
use windlass_api::time::Span;

use crate::commands::jobs::actions::confirmed;
use crate::connection::client::Call;
use crate::connection::connect::ConnectArgs;
use crate::exit_code::Exit;
use crate::output::{self, escaped};

/// A kind of objects; the implementor is an object as the server returns it, also after an action.
pub(crate) trait TenantObject: DeserializeOwned {
    /// The singular, for people.
    const NOUN: &'static str;
    /// The plural: the path of the API, and the command.
    const PLURAL: &'static str;
    /// Help of the name.
    const NAME_HELP: &'static str;
    /// Help of the tenant.
    const TENANT_HELP: &'static str;

    /// Prints the object.
    fn print(&self, now: Timestamp) -> anyhow::Result<ExitCode>;
    /// What to say once the object with this name is deleted.
    fn deleted(name: &str) -> String;
}

/// An object's name and tenant.
#[derive(Args)]
pub(crate) struct ObjectArgs<O: TenantObject> {
    #[arg(help = O::NAME_HELP)]
    pub(crate) name: String,
    #[arg(long, value_name = "TENANT", help = O::TENANT_HELP)]
    pub(crate) tenant: Option<Text<Tenant>>,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
    #[arg(skip)]
    kind: PhantomData<fn() -> O>,
}

/// Arguments of `pause`.
#[derive(Args)]
pub(crate) struct PauseArgs<O: TenantObject> {
    /// Reason, for other operators
    #[arg(long)]
    reason: Option<String>,
    /// Resume automatically after this time
    #[arg(long, value_name = "DURATION")]
    expires: Option<Span>,
    #[command(flatten)]
    object: ObjectArgs<O>,
}

/// Arguments of `delete`.
#[derive(Args)]
pub(crate) struct DeleteArgs<O: TenantObject> {
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    object: ObjectArgs<O>,
}

/// A word of the API.
pub(crate) fn api_word<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(text.into()).map_err(|error| error.to_string())
}

/// Prints an object; nothing if it was printed as JSON.
pub(crate) fn print<O: TenantObject>(object: Option<&O>, now: Timestamp) -> anyhow::Result<ExitCode> {
    object.map_or_else(|| Ok(Exit::Done.into()), |object| object.print(now))
}

impl<O: TenantObject> ObjectArgs<O> {
    /// The object's path in the API.
    pub(crate) fn path(&self) -> [&str; 2] {
        [O::PLURAL, &self.name]
    }

    fn action(&self, action: &str) -> Call {
        self.in_tenant(Call::post(&[O::PLURAL, &self.name, action]))
    }

    pub(crate) fn in_tenant(&self, call: Call) -> Call {
        call.query_if("tenant", self.tenant.as_ref().map(|tenant| tenant.0.as_str()))
    }

    pub(crate) async fn show(&self) -> anyhow::Result<ExitCode> {
        self.send(self.in_tenant(Call::get(&self.path()))).await
    }

    /// Sends an action without a body and prints the object.
    pub(crate) async fn act(&self, action: &str) -> anyhow::Result<ExitCode> {
        self.send(self.action(action)).await
    }

    /// Sends an action that submits a job and prints the job's id.
    pub(crate) async fn submit(&self, action: &str) -> anyhow::Result<ExitCode> {
        if let Some(job) = self.connect.client()?.show::<Job>(self.action(action)).await? {
            output::line(&job.id.to_string())?;
        }
        Ok(Exit::Done.into())
    }

    /// Sends a call and prints the object that it returns.
    async fn send(&self, call: Call) -> anyhow::Result<ExitCode> {
        let client = self.connect.client()?;
        print(client.show::<O>(call).await?.as_ref(), client.now())
    }
}

impl<O: TenantObject> PauseArgs<O> {
    /// Pauses the object; `body` makes the request of a reason and an end.
    pub(crate) async fn run<B: Serialize>(
        &self,
        body: impl FnOnce(Option<String>, Option<Expiry>) -> B,
    ) -> anyhow::Result<ExitCode> {
        let body = body(self.reason.clone(), self.expires.map(Expiry::After));
        self.object.send(self.object.action("pause").json(&body)).await
    }
}

impl<O: TenantObject> DeleteArgs<O> {
    pub(crate) async fn run(&self) -> anyhow::Result<ExitCode> {
        let (object, name) = (&self.object, escaped(&self.object.name));
        let client = object.connect.client()?;
        if !self.yes && !confirmed(&format!("delete {} {name}?", O::NOUN))? {
            output::note("nothing was changed");
            return Ok(Exit::No.into());
        }
        client.send(object.in_tenant(Call::delete(&object.path()))).await?;
        if object.connect.json {
            output::json(&json!({"name": object.name, "deleted": true}))?;
        } else {
            output::note(&O::deleted(&name));
        }
        Ok(Exit::Done.into())
    }
}
