//! Resources: the description of the API, and any job.

use serde_json::{Value, json};

use super::api::Address;
use super::arguments::shown;
use super::shown::guard;
use super::{RpcError, Session};

const OPENAPI: &str = "windlass://openapi.json";
const JOBS: &str = "windlass://jobs/";
/// The code of the protocol for a resource that does not exist.
const NO_SUCH_RESOURCE: i64 = -32002;

pub(super) fn list() -> Value {
    let about = "The HTTP API as an OpenAPI document.";
    json!({"resources": [{"uri": OPENAPI, "name": "openapi.json", "description": about, "mimeType": "application/json"}]})
}

pub(super) fn templates() -> Value {
    let about = "A job without its payload and result.";
    let template = format!("{JOBS}{{id}}");
    json!({"resourceTemplates": [{"uriTemplate": template, "name": "job", "description": about, "mimeType": "application/json"}]})
}

/// `resources/read`
pub(super) async fn read(session: &Session<'_>, params: &Value) -> Result<Value, RpcError> {
    let uri = params["uri"].as_str().unwrap_or_default();
    let missing = |message: String| RpcError { code: NO_SUCH_RESOURCE, message };
    let text = if uri == OPENAPI {
        String::from_utf8_lossy(&session.app.documents().0).into_owned()
    } else if let Some(id) = uri.strip_prefix(JOBS) {
        let job = session.get(Address::new(&["jobs", id])).await;
        let mut job = job.map_err(|error| missing(error.message))?;
        guard(&mut job, false);
        job.to_string()
    } else {
        return Err(missing(format!("no resource {}", shown(uri))));
    };
    Ok(json!({"contents": [{"uri": uri, "mimeType": "application/json", "text": text}]}))
}
