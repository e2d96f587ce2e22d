//! The reference of the HTTP API for people, `/docs/api`: the OpenAPI document as a page, with examples, error codes and a search.
//! It is rendered here and works without JavaScript; it loads nothing from other servers.

mod fields;
mod operation;

use askama::Template;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use windlass::store::caller::{Permission, Role};
use windlass_api::error_code::CODES;

use self::fields::FieldRow;
use self::operation::OperationView;
use super::app::App;
use super::reply::error::ApiError;
use super::request::query::Query;
use super::schema::{Reply, Shape};
use crate::limits::SEARCH_CHARS_MAX;

const STYLE: &str =
    concat!(include_str!("../../assets/color.css"), include_str!("../../assets/reference.css"));

/// The reference, rendered once.
pub(crate) struct Reference {
    groups: Vec<Group>,
    objects: Vec<ObjectView>,
    version: String,
    /// The page without a search.
    whole: Bytes,
    /// The policy allows this one style and nothing else.
    policy: HeaderValue,
}

/// Operations with the same tag.
struct Group {
    name: String,
    description: String,
    operations: Vec<OperationView>,
}

/// A schema with fields, or a list of words.
struct ObjectView {
    name: String,
    description: String,
    rows: Vec<FieldRow>,
    /// Its values, if it is an enumeration or has several forms.
    forms: String,
    /// Lower case, for the search.
    text: String,
}

#[derive(Template)]
#[template(path = "documents/reference.html")]
struct ReferencePage<'a> {
    style: &'static str,
    version: &'a str,
    asked: &'a str,
    groups: Vec<(&'a Group, Vec<&'a OperationView>)>,
    objects: Vec<&'a ObjectView>,
    codes: Vec<&'static (u16, &'static str, &'static str)>,
    roles: Vec<(&'static str, String)>,
}

impl Reference {
    /// The reference of an OpenAPI document.
    pub(crate) fn new(document: &Value) -> Reference {
        let digest = STANDARD.encode(Sha256::digest(STYLE.as_bytes()));
        let policy = format!(
            "default-src 'none'; style-src 'sha256-{digest}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        );
        let mut reference = Reference {
            groups: groups(document),
            objects: objects(document),
            version: document["info"]["version"].as_str().unwrap_or_default().to_owned(),
            whole: Bytes::new(),
            policy: HeaderValue::try_from(policy).expect("it is plain text"),
        };
        reference.whole = reference.page("").into();
        reference
    }

    /// The page with what contains all words of the search.
    fn page(&self, asked: &str) -> String {
        let lower = asked.to_lowercase();
        let words: Vec<&str> = lower.split_whitespace().collect();
        let matches = |text: &str| words.iter().all(|word| text.contains(word));
        let group = |group: &'_ Group| -> Vec<usize> {
            let all = group.operations.iter().enumerate();
            all.filter(|(_, operation)| matches(&operation.text)).map(|(place, _)| place).collect()
        };
        let groups = self
            .groups
            .iter()
            .map(|one| (one, group(one).into_iter().map(|place| &one.operations[place]).collect::<Vec<_>>()));
        let page = ReferencePage {
            style: STYLE,
            version: &self.version,
            asked,
            groups: groups.filter(|(_, operations)| !operations.is_empty()).collect(),
            objects: self.objects.iter().filter(|object| matches(&object.text)).collect(),
            codes: CODES
                .iter()
                .filter(|(_, code, about)| matches(code) || matches(&about.to_lowercase()))
                .collect(),
            roles: roles(),
        };
        page.render().expect("the template has everything it needs")
    }
}

impl Reference {
    /// What contains all words of a search, as data, bounded by the sizes of the reference itself.
    pub(crate) fn found(&self, asked: &str) -> Value {
        let lower = asked.to_lowercase();
        let words: Vec<&str> = lower.split_whitespace().take(SEARCH_CHARS_MAX).collect();
        let matches = |text: &str| words.iter().all(|word| text.contains(word));
        let operations = self.groups.iter().flat_map(|group| &group.operations);
        let operations: Vec<Value> = operations
            .filter(|operation| matches(&operation.text))
            .map(|operation| {
                json!({"operation": operation.id, "method": operation.method, "path": operation.path,
                    "summary": operation.summary, "request": operation.request})
            })
            .collect();
        let objects = self.objects.iter().filter(|object| matches(&object.text));
        let objects: Vec<&str> = objects.map(|object| object.name.as_str()).collect();
        let codes =
            CODES.iter().filter(|(_, code, about)| matches(&format!("{code} {about}").to_lowercase()));
        let codes: Vec<Value> = codes
            .map(|(status, code, about)| json!({"status": status, "code": code, "when": about}))
            .collect();
        json!({"operations": operations, "objects": objects, "error_codes": codes, "more": "/docs/api, /docs/guides"})
    }
}

/// Each role with its permissions.
fn roles() -> Vec<(&'static str, String)> {
    let permissions = |role: Role| {
        let all = Permission::ALL.into_iter().filter(|permission| role.includes(*permission));
        let names: Vec<&str> = all.map(Permission::name).collect();
        if names.is_empty() { "view".to_owned() } else { format!("view, {}", names.join(", ")) }
    };
    Role::ALL.into_iter().map(|role| (role.as_str(), permissions(role))).collect()
}

fn groups(document: &Value) -> Vec<Group> {
    let tags = document["tags"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    tags.map(|tag| Group {
        name: text(&tag["name"]),
        description: text(&tag["description"]),
        operations: operation::with_tag(document, tag["name"].as_str().unwrap_or_default()),
    })
    .collect()
}

fn objects(document: &Value) -> Vec<ObjectView> {
    let schemas = document["components"]["schemas"].as_object().into_iter().flatten();
    schemas
        .map(|(name, schema)| {
            let rows = fields::rows(schema);
            let description = schema["description"].as_str().unwrap_or_default().to_owned();
            let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
            let text = format!("{name} {description} {}", names.join(" ")).to_lowercase();
            let forms = if rows.is_empty() { fields::kind(schema) } else { String::new() };
            ObjectView { name: name.clone(), description: fields::prose(&description), rows, forms, text }
        })
        .collect()
}

/// What to search for.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ReferenceQuery {
    /// Words that an operation, object or error must contain.
    q: Option<String>,
}

/// The page, with the policy for it.
pub(crate) struct ReferenceResponse {
    page: Bytes,
    policy: HeaderValue,
}

impl IntoResponse for ReferenceResponse {
    fn into_response(self) -> Response {
        let headers = [
            (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
            (header::CONTENT_SECURITY_POLICY, self.policy),
        ];
        (headers, self.page).into_response()
    }
}

impl Reply for ReferenceResponse {
    fn describe(shape: &mut Shape) {
        shape.add_text_response("text/html");
    }
}

/// `GET /docs/api`
pub(crate) async fn reference(
    State(app): State<App>,
    Query(query): Query<ReferenceQuery>,
) -> Result<ReferenceResponse, ApiError> {
    let reference = &app.documents().1;
    let asked = query.q.unwrap_or_default();
    if asked.chars().count() > SEARCH_CHARS_MAX {
        return Err(ApiError::invalid("q", format!("is longer than {SEARCH_CHARS_MAX} characters")));
    }
    let asked = asked.trim();
    let page = if asked.is_empty() { reference.whole.clone() } else { reference.page(asked).into() };
    Ok(ReferenceResponse { page, policy: reference.policy.clone() })
}
