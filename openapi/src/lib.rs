//! The description of the HTTP API.

mod document;
mod responses;

pub use document::{CDN_REQUIRED, document, routes};

#[cfg(test)]
mod tests {
    #[test]
    fn the_file_of_the_description_is_up_to_date() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/openapi.json");
        let description = format!("{}\n", serde_json::to_string_pretty(&crate::document()).unwrap());
        if std::env::var_os("UPDATE_DESCRIPTION").is_some() {
            std::fs::write(file, &description).unwrap();
        }
        let is_same = std::fs::read_to_string(file).unwrap() == description;
        assert!(is_same, "docs/openapi.json is out of date: run UPDATE_DESCRIPTION=1 cargo test -p openapi");
    }
}
