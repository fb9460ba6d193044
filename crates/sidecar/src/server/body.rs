//! The body of a request.

use http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;
use serde_json::error::Category;

use super::failure::NotDone;

/// Reads the JSON of a request.
///
/// # Errors
/// 415 where it is said to be something else, 400 where it is no JSON, 422 where it is not what is asked.
pub(super) fn read<T: DeserializeOwned>(headers: &HeaderMap, body: &[u8]) -> Result<T, NotDone> {
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let is_json = kind.eq_ignore_ascii_case("application/json") || kind.ends_with("+json");
    if !is_json {
        let error = "the header Content-Type has to be application/json";
        return Err(NotDone::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, error));
    }
    serde_json::from_slice(body).map_err(|problem| {
        let (code, error) = match problem.classify() {
            Category::Data => {
                let error = "the request is not what is asked for here";
                (StatusCode::UNPROCESSABLE_ENTITY, error)
            }
            Category::Syntax | Category::Eof | Category::Io => {
                (StatusCode::BAD_REQUEST, "the request is no JSON")
            }
        };
        NotDone::new(code, error).with_details(problem.to_string())
    })
}
