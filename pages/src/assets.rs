//! The style sheet, the script and the icon. A browser keeps them for a year, because a change changes their URL.

use std::sync::LazyLock;

use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use domain::hex;
use sha2::{Digest, Sha256};

/// Hexadecimal digits of the hash in a name.
const HASH_CHARS: usize = 16;

pub static STYLE: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("style", "css", "text/css; charset=utf-8", include_str!("style.css")));

pub static SCRIPT: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("script", "js", "text/javascript; charset=utf-8", include_str!("script.js")));

pub(crate) static ICON: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("icon", "svg", "image/svg+xml", include_str!("icon.svg")));

#[derive(Debug)]
pub struct Asset {
    /// Such as `style-0123456789abcdef.css`.
    pub name: String,
    content_type: &'static str,
    content: &'static str,
}

impl Asset {
    fn new(name: &str, ending: &str, content_type: &'static str, content: &'static str) -> Self {
        let hash: String = hex::encode(Sha256::digest(content)).chars().take(HASH_CHARS).collect();
        Self { name: format!("{name}-{hash}.{ending}"), content_type, content }
    }
}

/// Answers a request for the asset with this name; 404 for another.
pub fn respond(name: &str) -> Response {
    let Some(asset) = [&*STYLE, &*SCRIPT, &*ICON].into_iter().find(|asset| asset.name == name) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let headers =
        [(CONTENT_TYPE, asset.content_type), (CACHE_CONTROL, "public, max-age=31536000, immutable")];
    (headers, asset.content).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_style_sheet_and_the_script_are_small() {
        assert!(STYLE.content.len() <= 10 * 1024, "{}", STYLE.content.len());
        assert!(SCRIPT.content.len() <= 6 * 1024, "{}", SCRIPT.content.len());
    }
}
