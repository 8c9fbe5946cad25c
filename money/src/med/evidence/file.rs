use std::fmt::Write as _;

use domain::text;
use domain::vocabulary::Vocabulary;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::med::EvidenceError;
use shared::http::field::{AtMost, BodyFields, Integer, Refined, Text, Word};
use shared::http::{Fields, JsonObject, Problem};

const MAX_NAME_CHARS: usize = 255;

shared::fields! {
    NAME: Refined<FileName> = "file_name",
        Text::of(1, MAX_NAME_CHARS).refined(FileName::parse, NAME_RULE),
        Required, "invoice.pdf",
        "The file's name without a path, one line in any script.";
    SIZE: Integer = "file_size",
        Integer { min: 1, max: AtMost::Refused(MAX_BYTES), unit: "bytes" }, Required, 48213,
        "The exact size of the file in bytes.";
    MIME_TYPE: Word<MimeType> = "mime_type", Word::ALL, Required, "application/pdf",
        "The type of the file. Its first bytes must match.";
}

pub const EVIDENCE_BODY: BodyFields = BodyFields::open(&[&NAME, &SIZE, &MIME_TYPE]);

/// 10 MB.
pub const MAX_BYTES: u32 = 10_485_760;
const NAME_RULE: &str = "must be a visible file name without a path, control characters or characters that change the direction of text";

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct EvidenceFile {
    pub name: FileName,
    pub size: u32,
    pub mime_type: MimeType,
}

impl EvidenceFile {
    /// Reports every failing field at once.
    pub fn parse(body: &JsonObject) -> Result<Self, Problem> {
        let mut fields = Fields::new();
        let root = fields.body(body, EVIDENCE_BODY);
        let name = fields.read(&root, &NAME);
        let size = fields.read(&root, &SIZE).and_then(allowed_size);
        let mime_type = fields.read(&root, &MIME_TYPE);
        let file = match (name, size, mime_type) {
            (Some(name), Some(size), Some(mime_type)) => Some(Self { name, size, mime_type }),
            _ => None,
        };
        fields.finish(file)
    }

    /// The leading bytes determine the type.
    pub(crate) fn from_content(name: &str, bytes: &[u8]) -> Result<Self, EvidenceError> {
        let invalid =
            |param, message: &str| EvidenceError::InvalidFile { param, message: message.to_owned() };
        let name = FileName::parse(name).ok_or_else(|| invalid(NAME.name, NAME_RULE))?;
        let size = allowed_size(bytes.len()).ok_or_else(|| invalid(SIZE.name, &SIZE.kind.rule()))?;
        let mime_type = MimeType::all()
            .find(|mime_type| mime_type.matches_leading_bytes(bytes))
            .ok_or_else(|| invalid(MIME_TYPE.name, "must be PNG, JPEG, WebP, GIF or PDF"))?;
        Ok(Self { name, size, mime_type })
    }
}

fn allowed_size(bytes: impl TryInto<u32>) -> Option<u32> {
    bytes.try_into().ok().filter(|bytes| (1..=MAX_BYTES).contains(bytes))
}

/// 1 to 255 characters in any script, without path separators, control characters and characters that change
/// the direction of text. The keys of stored objects do not contain it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct FileName(String);

impl FileName {
    pub fn parse(text: &str) -> Option<Self> {
        let length = text.chars().count();
        let forbidden =
            |character: char| text::is_forbidden_in_line(character) || matches!(character, '/' | '\\');
        let is_valid = (1..=MAX_NAME_CHARS).contains(&length)
            && !text.chars().any(forbidden)
            && !text::is_blank(text)
            && !matches!(text.trim(), "." | "..");
        is_valid.then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The `Content-Disposition` header with this name, in an ASCII form and in the exact form (RFC 6266). It
    /// says `attachment`, so that browsers do not render the file.
    pub(super) fn content_disposition(&self) -> String {
        let plain = |character: char| match character {
            // A quote would end the header's value, and some browsers decode `%` as an escape.
            '"' | '%' => '_',
            character if character.is_ascii() => character,
            _ => '_',
        };
        let ascii: String = self.0.chars().map(plain).collect();
        let mut exact = String::new();
        for byte in self.0.bytes() {
            // The characters that need no escape: `attr-char` of RFC 8187.
            if byte.is_ascii_alphanumeric() || b"!#$&+-.^_`|~".contains(&byte) {
                exact.push(char::from(byte));
            } else {
                let _ = write!(exact, "%{byte:02X}");
            }
        }
        format!("attachment; filename=\"{ascii}\"; filename*=UTF-8''{exact}")
    }
}

#[derive(
    Clone, Copy, Debug, Deserialize, Eq, IntoStaticStr, JsonSchema, PartialEq, Serialize, VariantArray,
)]
#[schemars(rename = "EvidenceMimeType", description = "The type of an evidence file.")]
pub enum MimeType {
    /// PNG.
    #[strum(serialize = "image/png")]
    #[serde(rename = "image/png")]
    Png,
    /// JPEG.
    #[strum(serialize = "image/jpeg")]
    #[serde(rename = "image/jpeg")]
    Jpeg,
    /// WebP.
    #[strum(serialize = "image/webp")]
    #[serde(rename = "image/webp")]
    Webp,
    /// GIF.
    #[strum(serialize = "image/gif")]
    #[serde(rename = "image/gif")]
    Gif,
    /// PDF.
    #[strum(serialize = "application/pdf")]
    #[serde(rename = "application/pdf")]
    Pdf,
}

domain::named!(MimeType);

impl MimeType {
    pub(super) fn matches_leading_bytes(self, bytes: &[u8]) -> bool {
        match self {
            Self::Png => bytes.starts_with(b"\x89PNG\r\n\x1a\n"),
            Self::Jpeg => bytes.starts_with(b"\xff\xd8\xff"),
            // Bytes 4 to 7 are the length.
            Self::Webp => bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP"),
            Self::Gif => bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a"),
            Self::Pdf => bytes.starts_with(b"%PDF-"),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::med::evidence::file::*;

    #[test]
    fn a_file_name_has_no_path_and_no_hidden_or_misleading_characters() {
        for name in
            ["nota fiscal.pdf", "é.png", "…", "a\"b;c.png", ".profile", "...", "合同.pdf", &"n".repeat(255)]
        {
            assert_eq!(FileName::parse(name).unwrap().as_str(), name);
        }
        let long = "n".repeat(256);
        for name in [
            "",
            " ",
            ".",
            "..",
            "a/b",
            "a\\b",
            "a\0b",
            "a\r\nb",
            "a\u{7f}",
            "a\u{85}",
            "a\u{202e}gpj.exe",
            "\u{200b}\u{2060}",
            &long,
        ] {
            assert_eq!(FileName::parse(name), None, "{name:?}");
        }
    }

    #[test]
    fn special_characters_of_a_name_are_escaped_in_the_disposition_header() {
        let disposition = |name: &str| FileName::parse(name).unwrap().content_disposition();
        assert_eq!(
            disposition("nota fiscal.pdf"),
            "attachment; filename=\"nota fiscal.pdf\"; filename*=UTF-8''nota%20fiscal.pdf"
        );
        assert_eq!(
            disposition("é\"; filename=\"x%.exe"),
            "attachment; filename=\"__; filename=_x_.exe\"; filename*=UTF-8''%C3%A9%22%3B%20filename%3D%22x%25.exe"
        );
    }

    #[test]
    fn leading_bytes_determine_the_type() {
        let files: [(&[u8], MimeType); 6] = [
            (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", MimeType::Png),
            (b"\xff\xd8\xff\xe0\0\x10JFIF", MimeType::Jpeg),
            (b"RIFF\x24\0\0\0WEBPVP8 ", MimeType::Webp),
            (b"GIF87a", MimeType::Gif),
            (b"GIF89a", MimeType::Gif),
            (b"%PDF-1.7\n", MimeType::Pdf),
        ];
        for (bytes, expected) in files {
            for (word, mime_type) in MimeType::vocabulary() {
                assert_eq!(mime_type.as_str(), word);
                assert_eq!(mime_type.matches_leading_bytes(bytes), mime_type == expected, "{word} {bytes:?}");
            }
        }
        assert!(MimeType::all().all(|mime_type| !mime_type.matches_leading_bytes(b"RIFF")));
    }
}
