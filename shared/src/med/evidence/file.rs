//! What a file is said to be: its name, size and type.

use std::fmt::Write as _;

use domain::text;
use domain::vocabulary::Vocabulary;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::http::{Fields, JsonObject, Object, Problem};
use crate::med::EvidenceError;

/// The longest name, in characters.
const MAX_NAME_CHARS: usize = 255;

/// The largest file, in bytes: 10 MB (contract: Limits).
pub const MAX_BYTES: u32 = 10_485_760;

/// What is said of a name that is not taken.
const NO_NAME: &str = "must be a visible file name without a path, control characters or characters that change the direction of text";

/// A file that is evidence, as it was declared before it was sent.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct EvidenceFile {
    /// Its name.
    pub name: FileName,
    /// In bytes, exactly.
    pub size: u32,
    /// Its type.
    pub mime_type: MimeType,
}

impl EvidenceFile {
    /// Reads `{file_name, file_size, mime_type}`.
    pub fn parse(body: &JsonObject) -> Result<Self, Problem> {
        let mut fields = Fields::new();
        let root = Object::root(body);
        let name = name(&mut fields, &root);
        let size = size(&mut fields, &root);
        let mime_type = fields.required_word(&root, "mime_type", &MimeType::vocabulary());
        let file = match (name, size, mime_type) {
            (Some(name), Some(size), Some(mime_type)) => Some(Self { name, size, mime_type }),
            _ => None,
        };
        fields.finish(file)
    }

    /// A file that is at hand: what it is, its first bytes say.
    ///
    /// # Errors
    ///
    /// When its name, size or type is none that evidence may have.
    pub fn of(name: &str, bytes: &[u8]) -> Result<Self, EvidenceError> {
        let invalid =
            |param, message: &str| EvidenceError::InvalidFile { param, message: message.to_owned() };
        let name = FileName::parse(name).ok_or_else(|| invalid("file_name", NO_NAME))?;
        let size = allowed(bytes.len()).ok_or_else(|| invalid("file_size", &no_size()))?;
        let mime_type = MimeType::all()
            .find(|mime_type| mime_type.begins(bytes))
            .ok_or_else(|| invalid("mime_type", "must be PNG, JPEG, WebP, GIF or PDF"))?;
        Ok(Self { name, size, mime_type })
    }
}

/// A size that evidence may have.
fn allowed(bytes: impl TryInto<u32>) -> Option<u32> {
    bytes.try_into().ok().filter(|bytes| (1..=MAX_BYTES).contains(bytes))
}

fn no_size() -> String {
    format!("must be an integer from 1 to {MAX_BYTES} (bytes)")
}

fn name(fields: &mut Fields, root: &Object<'_>) -> Option<FileName> {
    if root.get("file_name").is_none() {
        fields.reject("file_name", format!("is required: 1 to {MAX_NAME_CHARS} characters"));
    }
    let name = FileName::parse(fields.text(root, "file_name", 1, MAX_NAME_CHARS)?);
    if name.is_none() {
        fields.reject("file_name", NO_NAME);
    }
    name
}

fn size(fields: &mut Fields, root: &Object<'_>) -> Option<u32> {
    if root.get("file_size").is_none() {
        fields.reject("file_size", format!("is required: an integer from 1 to {MAX_BYTES} (bytes)"));
    }
    let size = allowed(fields.integer(root, "file_size")?);
    if size.is_none() {
        fields.reject("file_size", no_size());
    }
    size
}

/// A file's name: 1 to 255 characters that name no path and can't hide what they say. It is data; no place is named by it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct FileName(String);

impl FileName {
    /// Takes a name of any script.
    pub fn parse(text: &str) -> Option<Self> {
        let length = text.chars().count();
        let refused = |character: char| text::is_unfit_for_line(character) || matches!(character, '/' | '\\');
        let taken = (1..=MAX_NAME_CHARS).contains(&length)
            && !text.chars().any(refused)
            && !text::is_blank(text)
            && !matches!(text.trim(), "." | "..");
        taken.then(|| Self(text.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A `Content-Disposition` that saves the file under this name (RFC 6266): an ASCII form, and the exact one. A browser
    /// shows nothing that is an attachment.
    pub(super) fn attachment(&self) -> String {
        let plain = |character: char| match character {
            // Quotes end it, and `%` is read as an escape by some.
            '"' | '%' => '_',
            character if character.is_ascii() => character,
            _ => '_',
        };
        let ascii: String = self.0.chars().map(plain).collect();
        let mut exact = String::new();
        for byte in self.0.bytes() {
            // RFC 8187, attr-char.
            if byte.is_ascii_alphanumeric() || b"!#$&+-.^_`|~".contains(&byte) {
                exact.push(char::from(byte));
            } else {
                let _ = write!(exact, "%{byte:02X}");
            }
        }
        format!("attachment; filename=\"{ascii}\"; filename*=UTF-8''{exact}")
    }
}

/// A type that evidence may have (contract: Limits).
#[derive(Clone, Copy, Debug, Deserialize, Eq, IntoStaticStr, PartialEq, Serialize, VariantArray)]
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

impl MimeType {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Whether a file of this type begins so.
    pub(super) fn begins(self, bytes: &[u8]) -> bool {
        match self {
            Self::Png => bytes.starts_with(b"\x89PNG\r\n\x1a\n"),
            Self::Jpeg => bytes.starts_with(b"\xff\xd8\xff"),
            // Its length stands between.
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
    fn a_name_is_no_path_and_says_what_it_is() {
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
    fn a_disposition_is_one_header_whatever_the_name() {
        let disposition = |name: &str| FileName::parse(name).unwrap().attachment();
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
    fn leading_bytes_tell_the_types_apart() {
        let files: [(&[u8], MimeType); 6] = [
            (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", MimeType::Png),
            (b"\xff\xd8\xff\xe0\0\x10JFIF", MimeType::Jpeg),
            (b"RIFF\x24\0\0\0WEBPVP8 ", MimeType::Webp),
            (b"GIF87a", MimeType::Gif),
            (b"GIF89a", MimeType::Gif),
            (b"%PDF-1.7\n", MimeType::Pdf),
        ];
        for (bytes, is) in files {
            for (word, mime_type) in MimeType::vocabulary() {
                assert_eq!(mime_type.as_str(), word);
                assert_eq!(mime_type.begins(bytes), mime_type == is, "{word} {bytes:?}");
            }
        }
        assert!(MimeType::all().all(|mime_type| !mime_type.begins(b"RIFF")));
    }
}
