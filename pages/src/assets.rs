//! The style sheets, the script and the icon. A browser keeps them for a year, because a change changes their URL.

use std::borrow::Cow;
use std::sync::LazyLock;

use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use domain::account::Color;
use domain::hex;
use maud::{Markup, html};
use sha2::{Digest, Sha256};
use shared::product::Product;

/// The path under which `functions/dashboard` serves the assets.
pub(crate) const ASSETS: &str = "/dashboard/assets";

const KEPT: &str = "public, max-age=31536000, immutable";

/// Hexadecimal digits of the hash in a name.
const HASH_CHARS: usize = 16;

pub static STYLE: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("style", "css", "text/css; charset=utf-8", include_str!("style.css")));

pub static SCRIPT: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("script", "js", "text/javascript; charset=utf-8", include_str!("script.js")));

/// The mark of the product.
pub(crate) static ICON: LazyLock<Asset> = LazyLock::new(|| {
    let mark = Product::shown().mark();
    let icon = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24"><path fill="#0f6b5c" fill-rule="evenodd" d="{mark}"/></svg>"##
    );
    Asset::new("icon", "svg", "image/svg+xml", icon)
});

#[derive(Debug)]
pub struct Asset {
    /// Such as `style-0123456789abcdef.css`.
    pub name: String,
    content_type: &'static str,
    content: Cow<'static, str>,
}

impl Asset {
    fn new(
        name: &str,
        ending: &str,
        content_type: &'static str,
        content: impl Into<Cow<'static, str>>,
    ) -> Self {
        let content = content.into();
        let hash: String = hex::encode(Sha256::digest(content.as_bytes())).chars().take(HASH_CHARS).collect();
        Self { name: format!("{name}-{hash}.{ending}"), content_type, content }
    }
}

/// The rules for a shop's colour. The edge of the buttons keeps its contrast with the page, in light and dark.
pub fn accent(color: Color) -> String {
    let text = color.text();
    format!(
        ":root{{--brand:{color};--on:{text}}}button,.button{{border-color:var(--edge)}}main{{border-top:.25rem solid {color}}}"
    )
}

/// The link to the style sheet of a shop's colour.
pub(crate) fn accent_link(color: Color) -> Markup {
    let color = color.to_string();
    html! { link rel="stylesheet" href={ (ASSETS) "/" (ACCENT) (color.trim_start_matches('#')) ".css" }; }
}

const ACCENT: &str = "accent-";

/// Answers a request for the asset with this name; 404 for another. A page of a function that does not know the
/// operator's mark has another name for the icon.
pub fn respond(name: &str) -> Response {
    let color =
        name.strip_prefix(ACCENT).and_then(|name| format!("#{}", name.strip_suffix(".css")?).parse().ok());
    if let Some(color) = color {
        return ([(CONTENT_TYPE, STYLE.content_type), (CACHE_CONTROL, KEPT)], accent(color)).into_response();
    }
    let is_asked =
        |asset: &&Asset| asset.name == name || (asset.name == ICON.name && name.starts_with("icon-"));
    let Some(asset) = [&*STYLE, &*SCRIPT, &*ICON].into_iter().find(is_asked) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let headers = [(CONTENT_TYPE, asset.content_type), (CACHE_CONTROL, KEPT)];
    (headers, asset.content.as_ref()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colour_has_a_style_sheet_and_another_name_has_none() {
        assert_eq!(respond("accent-0f6b5c.css").status(), StatusCode::OK);
        for name in ["accent-0f6b5.css", "accent-red.css", "accent-0f6b5c", "accent-#0f6b5c.css"] {
            assert_eq!(respond(name).status(), StatusCode::NOT_FOUND, "{name}");
        }
        let link = accent_link("#0F6b5c".parse().unwrap()).into_string();
        assert_eq!(link, r#"<link rel="stylesheet" href="/dashboard/assets/accent-0f6b5c.css">"#);
    }

    #[test]
    fn the_style_sheet_and_the_script_are_small() {
        assert!(STYLE.content.len() <= 12 * 1024, "{}", STYLE.content.len());
        assert!(SCRIPT.content.len() <= 6 * 1024, "{}", SCRIPT.content.len());
    }
}
