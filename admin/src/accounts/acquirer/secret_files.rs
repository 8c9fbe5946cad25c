//! Reads secrets and certificates from files, a terminal or standard input. A secret is never an argument,
//! because every process of the machine can read the arguments of the others.

use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal, Read};
use std::path::{Path, PathBuf};

use acquirer_core::configuration::MAX_PEM_BYTES;
use secrecy::SecretString;

use crate::Result;
use crate::target::Stack;

/// The maximum length of a line that is read from standard input or a file, in bytes.
const MAX_LINE_BYTES: u64 = 4_096;

/// An argument `NAME=FILE`: the name of a header or parameter, and the file with its value.
#[derive(Clone, Debug)]
pub(super) struct NamedFile {
    pub(super) name: String,
    pub(super) file: PathBuf,
}

pub(super) fn named_file(text: &str) -> Result<NamedFile, String> {
    match text.split_once('=') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => {
            Ok(NamedFile { name: name.to_owned(), file: file.into() })
        }
        _ => Err("must be NAME=FILE".to_owned()),
    }
}

pub(super) fn read_pem_file(stack: &Stack, path: &Path) -> Result<String> {
    // Reads at most one byte more than the limit. If the file is too long, the parser of the PEM then rejects
    // the text, because it is longer than the limit.
    read_at_most(stack, path, u64::try_from(MAX_PEM_BYTES)?.saturating_add(1))
}

pub(super) fn read_secret_file(stack: &Stack, path: &Path) -> Result<SecretString> {
    let text = read_at_most(stack, path, MAX_LINE_BYTES)?;
    Ok(text.trim_end_matches(['\r', '\n']).into())
}

/// Reads a file, or what a proposal took along in its place.
fn read_at_most(stack: &Stack, path: &Path, bytes: u64) -> Result<String> {
    if let Some(content) = stack.brought.get(path) {
        return Ok(content.clone());
    }
    let with_path = |error: &dyn Error| format!("{}: {error}", path.display());
    let mut text = String::new();
    let file = File::open(path).map_err(|error| with_path(&error))?;
    file.take(bytes).read_to_string(&mut text).map_err(|error| with_path(&error))?;
    Ok(text)
}

/// Reads a secret: prompts for it on a terminal, without echo, or reads one line of standard input.
pub(super) fn read_secret(name: &str) -> Result<SecretString> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        return Ok(rpassword::prompt_password(format!("{name}: "))?.into());
    }
    let mut line = String::new();
    let mut input = BufReader::new(stdin.lock().take(MAX_LINE_BYTES));
    input.read_line(&mut line)?;
    // Rejects several lines and a line that is too long, because a part of the secret would be lost silently.
    // The check looks only at bytes that were already read, so it does not wait for more input.
    if !input.buffer().is_empty() || (!line.ends_with('\n') && input.get_ref().limit() == 0) {
        return Err(format!(
            "{name}: standard input has more than one line, or a line of {MAX_LINE_BYTES} bytes or more"
        )
        .into());
    }
    Ok(line.trim_end_matches(['\r', '\n']).into())
}
