//! Who may use a route. The route table defines it and the OpenAPI document repeats it. The library defines the permissions
//! of each role.

use windlass::store::caller::Permission;

/// Who may use a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Everyone, without a key.
    Open,
    /// Every valid key; it sees the data of its tenant.
    View,
    /// Keys with at least this permission; the objects named in the body may require more.
    May(Permission),
}

impl Access {
    /// The name in the OpenAPI document.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Access::Open => "open",
            Access::View => "view",
            Access::May(permission) => permission.name(),
        }
    }
}
