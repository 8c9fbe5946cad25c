//! Checks that the top-level modules of a library crate have no import cycles. Modules in a cycle can't be
//! understood, moved or tested one at a time.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that fails may panic"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{fs, io};

/// The top-level modules that each top-level module imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// Adds the imports of all source files in a directory. Imports of tests are ignored, because a test may use
/// any module for its setup.
fn collect(directory: &Path, module: Option<&str>, imports: &mut Imports) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let module = module.unwrap_or(name);
        if path.is_dir() {
            collect(&path, Some(module), imports)?;
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && !["lib", "tests", "testing"].contains(&name)
        {
            let source = fs::read_to_string(&path)?;
            let code = source.split("#[cfg(test)]\nmod tests").next().unwrap();
            imports
                .entry(module.to_owned())
                .or_default()
                .extend(imported(code).filter(|imported| imported != module));
        }
    }
    Ok(())
}

/// Returns the top-level modules that code imports by `crate::`.
fn imported(code: &str) -> impl Iterator<Item = String> {
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.flat_map(|line| line.split("crate::").skip(1)).flat_map(|rest| {
        let is_name_character = |character: char| character.is_alphanumeric() || character == '_';
        let names: Vec<String> = match rest.strip_prefix('{') {
            // `use crate::{hex, random};`
            Some(group) => {
                let group = group.split('}').next().unwrap_or_default();
                group.split(',').map(|name| name.trim().to_owned()).collect()
            }
            None => {
                vec![
                    rest.split(|character| !is_name_character(character))
                        .next()
                        .unwrap_or_default()
                        .to_owned(),
                ]
            }
        };
        names.into_iter().map(|name| name.split("::").next().unwrap_or_default().to_owned())
    })
}

/// Repeatedly removes the modules that import nothing, and the imports of these modules. Returns the modules
/// that remain: those in a cycle, and those that import a module of a cycle.
fn cycles(mut imports: Imports) -> Imports {
    loop {
        let left: BTreeSet<String> = imports.keys().cloned().collect();
        for imported in imports.values_mut() {
            imported.retain(|module| left.contains(module));
        }
        imports.retain(|_, imported| !imported.is_empty());
        if imports.len() == left.len() {
            return imports;
        }
    }
}

#[test]
fn modules_have_no_import_cycles() {
    for (crate_directory, importing, imported) in [("shared", "refund", "charge"), ("domain", "ids", "time")]
    {
        let mut imports = Imports::new();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(crate_directory).join("src");
        collect(&source, None, &mut imports).unwrap();
        assert!(imports[importing].contains(imported), "{imports:#?}");
        let cycles = cycles(imports);
        assert!(
            cycles.is_empty(),
            "{crate_directory}: these modules are in an import cycle, or import one that is: {cycles:#?}"
        );
    }
}

#[test]
fn an_import_cycle_is_detected() {
    let mut imports = Imports::new();
    for (from, to) in
        [("refund", "charge"), ("charge", "acquirer"), ("acquirer", "refund"), ("charge", "money")]
    {
        imports.entry(from.to_owned()).or_default().insert(to.to_owned());
        imports.entry(to.to_owned()).or_default();
    }
    assert_eq!(cycles(imports).keys().collect::<Vec<_>>(), ["acquirer", "charge", "refund"]);
}
