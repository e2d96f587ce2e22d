//! The version of a worker's program, as a job requires it.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::FieldProblem;
use crate::limits;

/// A version that a job requires: only workers registered with exactly this version receive the job.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WorkerVersion(Arc<str>);

impl WorkerVersion {
    /// Validates a version: 1–255 letters, digits and `_ . : + / @ -`. That covers release numbers, commits and image
    /// tags.
    pub fn new(text: &str) -> Result<WorkerVersion, FieldProblem> {
        if text.is_empty() {
            return Err(FieldProblem::Missing);
        }
        let (length, limit) = (text.chars().count(), limits::REQUIRED_VERSION_CHARS_MAX);
        if length > limit {
            return Err(FieldProblem::TooLong { length, limit });
        }
        if text.chars().all(|c| c.is_ascii_alphanumeric() || "_.:+/@-".contains(c)) {
            Ok(WorkerVersion(Arc::from(text)))
        } else {
            Err(FieldProblem::NotAVersion(text.to_owned()))
        }
    }

    /// The version as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for WorkerVersion {
    type Error = FieldProblem;

    fn try_from(text: String) -> Result<WorkerVersion, FieldProblem> {
        WorkerVersion::new(&text)
    }
}

impl From<WorkerVersion> for String {
    fn from(version: WorkerVersion) -> String {
        version.0.to_string()
    }
}

impl fmt::Display for WorkerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for WorkerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_a_release_number_a_commit_or_an_image() {
        for good in
            ["1", "2.4.0-rc.1+build.7", "9f2c1ab", "registry.example/app:v1@sha256:00ff", &"v".repeat(255)]
        {
            assert_eq!(WorkerVersion::new(good).unwrap().as_str(), good);
        }
        assert_eq!(WorkerVersion::new(""), Err(FieldProblem::Missing));
        let long = "v".repeat(256);
        assert_eq!(WorkerVersion::new(&long), Err(FieldProblem::TooLong { length: 256, limit: 255 }));
        for bad in ["1 2", " ", "v1\n", "ü", "a\0", "v1,v2"] {
            assert_eq!(WorkerVersion::new(bad), Err(FieldProblem::NotAVersion(bad.to_owned())));
        }
    }
}
