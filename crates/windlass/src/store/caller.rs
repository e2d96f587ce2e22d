//! Who is asking, and what they may do: roles, tenants and ownership (M90, M91). Decided here for every way in, so that the
//! embedded library and the server cannot differ.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{FieldProblem, Forbidden};
use crate::job::{JobRecord, Spec, Tenant};
use crate::key::KeyId;

/// What a caller may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Everything, for all tenants.
    Admin,
    /// All verbs within a tenant.
    Operator,
    /// Submits, and manages what it submitted.
    Submitter,
    /// Claims and finishes.
    Worker,
    /// A program that does both: submits, manages what it submitted, claims and finishes.
    App,
    /// Looks on.
    Viewer,
}

impl Role {
    /// Every role.
    pub const ALL: [Role; 6] =
        [Role::Admin, Role::Operator, Role::Submitter, Role::Worker, Role::App, Role::Viewer];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Admin => "admin",
            Role::Operator => "operator",
            Role::Submitter => "submitter",
            Role::Worker => "worker",
            Role::App => "app",
            Role::Viewer => "viewer",
        }
    }

    /// Whether it manages only jobs that it submitted itself.
    pub fn manages_own_jobs_only(self) -> bool {
        matches!(self, Role::Submitter | Role::App)
    }

    /// Whether the role includes this permission. For jobs, what connects the caller with the job decides as well.
    pub fn includes(self, permission: Permission) -> bool {
        let submits = matches!(permission, Permission::Submit | Permission::ManageJob);
        match self {
            Role::Admin => true,
            Role::Operator => permission != Permission::Administer,
            Role::Submitter => submits || permission == Permission::ReadPayload,
            Role::Worker => matches!(permission, Permission::Work | Permission::ReadPayload),
            Role::App => submits || matches!(permission, Permission::Work | Permission::ReadPayload),
            Role::Viewer => false,
        }
    }
}

impl FromStr for Role {
    type Err = FieldProblem;

    fn from_str(word: &str) -> Result<Role, FieldProblem> {
        Role::ALL.into_iter().find(|role| role.as_str() == word).ok_or_else(|| FieldProblem::Unknown {
            value: word.chars().take(64).collect(),
            allowed: "admin, operator, submitter, worker, app, viewer",
        })
    }
}

/// Something a caller wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// Submit jobs.
    Submit,
    /// Suspend, resume, cancel, change, redrive, signal or delete a job.
    ManageJob,
    /// Claim jobs and report on them.
    Work,
    /// Read payloads, results, checkpoints and logs, of at least some jobs: see [`Caller::reads_payload`].
    ReadPayload,
    /// Pause queues and types of a tenant, and workers.
    Pause,
    /// Change settings of a tenant's queues.
    Configure,
    /// Put schedules in place and handle them.
    Schedule,
    /// Open and close the gate, and whatever counts for all tenants.
    Administer,
}

impl Permission {
    /// Every permission.
    pub const ALL: [Permission; 8] = [
        Permission::Submit,
        Permission::ManageJob,
        Permission::Work,
        Permission::ReadPayload,
        Permission::Pause,
        Permission::Configure,
        Permission::Schedule,
        Permission::Administer,
    ];

    /// One word for it.
    pub fn name(self) -> &'static str {
        match self {
            Permission::Submit => "submit",
            Permission::ManageJob => "manage_job",
            Permission::Work => "work",
            Permission::ReadPayload => "payload:read",
            Permission::Pause => "pause",
            Permission::Configure => "configure",
            Permission::Schedule => "schedule",
            Permission::Administer => "administer",
        }
    }

    /// What it allows, in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Permission::Submit => "submit jobs",
            Permission::ManageJob => "manage this job",
            Permission::Work => "claim and finish jobs",
            Permission::ReadPayload => "read payloads, results, checkpoints and logs of this job",
            Permission::Pause => "pause or resume",
            Permission::Configure => "change settings",
            Permission::Schedule => "handle schedules",
            Permission::Administer => "act for all tenants",
        }
    }
}

/// What connects a caller with a job, or with the job's parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeyBinding {
    /// It submitted the job.
    pub is_owner: bool,
    /// A worker that it registered holds the job's lease.
    pub holds_lease: bool,
}

/// Who is asking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Kind of actor in the audit trail: `user`, `worker` or `system`.
    pub kind: &'static str,
    /// Identity in the audit trail; also the owner of what it submits.
    pub id: String,
    /// What it may do.
    pub role: Role,
    /// Its tenant; none for all of them.
    pub tenant: Option<Tenant>,
    /// The trace the request belongs to.
    pub trace_id: Option<String>,
    /// The API key it came with; none for the program that keeps the store, and for anybody while there are no keys.
    pub key: Option<KeyId>,
}

impl Caller {
    /// The program that embeds the store: it may do everything.
    pub fn local() -> Caller {
        Caller {
            kind: "user",
            id: "local".into(),
            role: Role::Admin,
            tenant: None,
            trace_id: None,
            key: None,
        }
    }

    /// The store itself.
    pub fn system() -> Caller {
        Caller {
            kind: "system",
            id: "windlass".into(),
            role: Role::Admin,
            tenant: None,
            trace_id: None,
            key: None,
        }
    }

    /// Somebody with this role in this tenant.
    pub fn new(id: impl Into<String>, role: Role, tenant: Option<Tenant>) -> Caller {
        Caller { kind: "user", id: id.into(), role, tenant, trace_id: None, key: None }
    }

    /// Whether jobs of this tenant exist for this caller (M90).
    pub fn can_see(&self, tenant: &Tenant) -> bool {
        self.tenant.as_ref().is_none_or(|own| own == tenant)
    }

    /// Whether the role allows it at all.
    pub fn require(&self, permission: Permission) -> Result<(), Forbidden> {
        if self.role.includes(permission) { Ok(()) } else { Err(self.denied(permission)) }
    }

    /// Whether this caller may manage this job: its owner, an operator or an admin (M91).
    pub fn require_manage(&self, job: &JobRecord, spec: &Spec) -> Result<(), Forbidden> {
        self.require(Permission::ManageJob)?;
        if self.role.manages_own_jobs_only() && !self.owns(job, spec) {
            return Err(self.denied(Permission::ManageJob));
        }
        Ok(())
    }

    /// What limits count its requests under: its API key, or its name where it has none.
    pub fn bucket(&self) -> String {
        self.key.as_ref().map_or_else(|| self.id.clone(), KeyId::to_string)
    }

    /// Whether this caller submitted the job: with the same API key, since names of keys need not be unique, or under the
    /// same name where there is no key.
    pub fn owns(&self, job: &JobRecord, spec: &Spec) -> bool {
        match (&job.details.owner_key, &self.key) {
            (None, None) => spec.owner == self.id,
            (owner, own) => owner == own,
        }
    }

    /// Whether this caller reads what users put into a job: its payload, result, checkpoints and logs, and the query of its
    /// callback address. They can hold anything, so seeing the job is not enough.
    pub fn reads_payload(&self, ties: KeyBinding) -> bool {
        match self.role {
            Role::Admin | Role::Operator => true,
            Role::Submitter => ties.is_owner,
            Role::Worker => ties.holds_lease,
            Role::App => ties.is_owner || ties.holds_lease,
            Role::Viewer => false,
        }
    }

    /// Whether this caller reads what an operator put into settings and schedules: payloads and the queries of addresses.
    pub fn reads_settings_payload(&self) -> bool {
        self.reads_payload(KeyBinding::default())
    }

    pub(crate) fn denied(&self, permission: Permission) -> Forbidden {
        Forbidden { actor: self.id.clone(), role: self.role.as_str(), action: permission.as_str() }
    }
}
