//! Callers and permissions: roles, tenants and ownership. Decided here for every interface, so that the
//! embedded library and the server cannot differ.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Words;
use crate::error::{FieldProblem, Forbidden};
use crate::job::{JobRecord, Spec, Tenant};
use crate::key::KeyId;

/// The role of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Words)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Everything, for all tenants.
    Admin,
    /// All actions within a tenant.
    Operator,
    /// Submits jobs, and manages its own.
    Submitter,
    /// Claims and finishes jobs.
    Worker,
    /// Submits jobs, manages its own, claims and finishes jobs.
    App,
    /// Read-only access.
    Viewer,
}

impl Role {
    /// Whether it manages only jobs that it submitted itself.
    pub fn manages_own_jobs_only(self) -> bool {
        matches!(self, Role::Submitter | Role::App)
    }

    /// Whether the role includes this permission. For jobs, the caller's relation to the job matters as well.
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

/// A permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Permission {
    /// Submit jobs.
    Submit,
    /// Suspend, resume, cancel, change, redrive, signal or delete a job.
    ManageJob,
    /// Claim jobs and report their outcomes.
    Work,
    /// Read payloads, results, checkpoints and logs of at least some jobs: see [`Caller::reads_payload`].
    ReadPayload,
    /// Pause queues and types of a tenant, and workers.
    Pause,
    /// Change settings of a tenant's queues.
    Configure,
    /// Create and manage schedules.
    Schedule,
    /// Pause and resume all processing, and change what applies to all tenants.
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

    /// A short name.
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

    /// A description of what it allows.
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

/// The caller's relation to a job, or to the job's parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeyBinding {
    /// It submitted the job.
    pub is_owner: bool,
    /// A worker that it registered holds the job's lease.
    pub holds_lease: bool,
}

/// The caller of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Kind of actor in the audit trail: `user`, `worker` or `system`.
    pub kind: &'static str,
    /// The actor id in the audit trail; also the owner of jobs it submits.
    pub id: String,
    /// The caller's role.
    pub role: Role,
    /// Its tenant; `None` for all tenants.
    pub tenant: Option<Tenant>,
    /// The trace the request belongs to.
    pub trace_id: Option<String>,
    /// The API key it used; `None` for the program that serves the store, and for any caller while there are no keys.
    pub key: Option<KeyId>,
}

impl Caller {
    /// The program that embeds the store: it has all permissions.
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

    /// A caller with this role in this tenant.
    pub fn new(id: impl Into<String>, role: Role, tenant: Option<Tenant>) -> Caller {
        Caller { kind: "user", id: id.into(), role, tenant, trace_id: None, key: None }
    }

    /// Whether jobs of this tenant exist for this caller.
    pub fn can_see(&self, tenant: &Tenant) -> bool {
        self.tenant.as_ref().is_none_or(|own| own == tenant)
    }

    /// Returns an error if the role does not include the permission.
    pub fn require(&self, permission: Permission) -> Result<(), Forbidden> {
        if self.role.includes(permission) { Ok(()) } else { Err(self.denied(permission)) }
    }

    /// Returns an error unless this caller may manage the job: its owner, an operator or an admin.
    pub fn require_manage(&self, job: &JobRecord, spec: &Spec) -> Result<(), Forbidden> {
        self.require(Permission::ManageJob)?;
        if self.role.manages_own_jobs_only() && !self.owns(job, spec) {
            return Err(self.denied(Permission::ManageJob));
        }
        Ok(())
    }

    /// The name under which limits count its requests: its API key, or its id if it has none.
    pub fn bucket(&self) -> String {
        self.key.as_ref().map_or_else(|| self.id.clone(), KeyId::to_string)
    }

    /// Whether this caller submitted the job: with the same API key, because names of keys need not be unique, or under
    /// the same name if there is no key.
    pub fn owns(&self, job: &JobRecord, spec: &Spec) -> bool {
        match (&job.details.owner_key, &self.key) {
            (None, None) => spec.owner == self.id,
            (owner, own) => owner == own,
        }
    }

    /// Whether this caller may read user data of a job: its payload, result, checkpoints and logs, and the query of its
    /// callback URL. They can contain anything, so seeing the job is not enough.
    pub fn reads_payload(&self, ties: KeyBinding) -> bool {
        match self.role {
            Role::Admin | Role::Operator => true,
            Role::Submitter => ties.is_owner,
            Role::Worker => ties.holds_lease,
            Role::App => ties.is_owner || ties.holds_lease,
            Role::Viewer => false,
        }
    }

    /// Whether this caller may read payloads and URL queries in settings and schedules.
    pub fn reads_settings_payload(&self) -> bool {
        self.reads_payload(KeyBinding::default())
    }

    /// The refusal of an action that needs this permission.
    pub fn denied(&self, permission: Permission) -> Forbidden {
        Forbidden { actor: self.id.clone(), role: self.role.as_str(), action: permission.as_str() }
    }
}
