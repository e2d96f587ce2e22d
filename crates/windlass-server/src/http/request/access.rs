//! Who may use a route, as the table of routes says and the published description repeats. Which role has which permission
//! is the library's to know.

use windlass::store::caller::Permission;

/// Who may use a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Everybody, without a key.
    Open,
    /// Every bearer of a key, who then sees what is of its tenant.
    Look,
    /// Whoever has at least this permission; what a body names may take more.
    May(Permission),
}

impl Access {
    /// The word for it in the description.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Access::Open => "open",
            Access::Look => "look",
            Access::May(permission) => permission.name(),
        }
    }
}
