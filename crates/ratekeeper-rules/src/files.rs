//! Rule files on disk: reading of single files and directories.
//!
//! Bound: a file has at most [`MAX_FILE_BYTES`]. Only regular files are read.

use std::{
    collections::HashSet,
    fs::{self, File, FileType},
    io::{self, Read},
    path::{Path, PathBuf},
};

use crate::{Format, Problem, Problems, RuleFile, cross_file::CrossFileCheck, location::Location, read_str};

/// The most bytes of a rule file. Tens of thousands of policies fit; a log file given by mistake does not.
pub const MAX_FILE_BYTES: usize = 8 << 20;

/// Reads one file. Its extension selects the language.
pub fn read_path(path: impl AsRef<Path>) -> Result<RuleFile, Problems> {
    let path = path.as_ref();
    let name = path.display().to_string();
    let Some(format) = Format::of_path(path) else {
        let message = "the name should end in .yaml, .yml, .toml or .json, which selects the format";
        return Err(Problems::unreadable(name, message));
    };
    let bytes = read_bytes(path).map_err(|problem| Problems::unreadable(&name, problem))?;
    if bytes.len() > MAX_FILE_BYTES {
        let message = format!("larger than {MAX_FILE_BYTES} bytes; split it, several files may share a domain");
        return Err(Problems::unreadable(name, message));
    }
    match std::str::from_utf8(&bytes) {
        Ok(text) => read_str(&name, text, format),
        Err(error) => Err(not_utf8(name, &bytes, error.valid_up_to())),
    }
}

/// Reads files and directories, in the given order. The rule files of a directory are read in the order of their names;
/// hidden files and subdirectories are skipped.
///
/// Files of the native format may share a domain: their policies are one list, in the order of the files. A file of the
/// Envoy format must be the only one of its domain.
pub fn read_paths<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Result<Vec<RuleFile>, Problems> {
    let mut files = Vec::new();
    let mut problems = Vec::new();
    for path in paths {
        match expand(path.as_ref()) {
            Ok(found) => files.extend(found),
            Err(problem) => problems.push(problem),
        }
    }
    let mut read = Vec::new();
    let mut together = CrossFileCheck::default();
    let mut named = HashSet::new();
    for path in files {
        if !named.insert(path.clone()) {
            problems.push(Problems::unreadable(path.display().to_string(), "named twice; once is enough"));
            continue;
        }
        match read_path(path) {
            Ok(file) => {
                problems.extend(together.add(&file));
                read.push(file);
            }
            Err(problem) => problems.push(problem),
        }
    }
    match Problems::gather(problems) {
        Some(problems) => Err(problems),
        None => Ok(read),
    }
}

/// The rule files of a directory, sorted; any other path as it is.
fn expand(path: &Path) -> Result<Vec<PathBuf>, Problems> {
    let name = path.display().to_string();
    if !path.is_dir() {
        // A missing path without an extension is probably a directory, so the message must not ask for an extension.
        if path.extension().is_none() && !path.exists() {
            return Err(Problems::unreadable(name, "there is no such file or directory"));
        }
        return Ok(vec![path.to_owned()]);
    }
    let unreadable = |error: io::Error| Problems::unreadable(&name, describe(&error));
    let mut found = Vec::new();
    for entry in fs::read_dir(path).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?.path();
        // Kubernetes stores the files of a mounted ConfigMap in hidden directories and links to them.
        let hidden = entry.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if !hidden && Format::of_path(&entry).is_some() && !entry.is_dir() {
            found.push(entry);
        }
    }
    if found.is_empty() {
        let message = "no rule files in this directory; their names end in .yaml, .yml, .toml or .json";
        return Err(Problems::unreadable(name, message));
    }
    found.sort();
    Ok(found)
}

/// Reads a regular file, up to one byte more than [`MAX_FILE_BYTES`], so that the caller detects a larger one. Other
/// kinds are refused: opening a pipe blocks until a writer opens it, and reading a device can have any effect.
fn read_bytes(path: &Path) -> Result<Vec<u8>, String> {
    let kind = fs::metadata(path).map_err(|error| describe(&error))?.file_type();
    if !kind.is_file() && !kind.is_dir() {
        return Err(format!("it is {}; rules are read from regular files", kind_name(kind)));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| describe(&error))?;
    file.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(|error| describe(&error))?;
    Ok(bytes)
}

#[cfg(unix)]
fn kind_name(kind: FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    if kind.is_fifo() {
        "a named pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

#[cfg(not(unix))]
fn kind_name(_: FileType) -> &'static str {
    "something special"
}

fn describe(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such file".to_owned(),
        io::ErrorKind::PermissionDenied => "this user may not read it".to_owned(),
        io::ErrorKind::IsADirectory => "it is a directory, and a file was asked for".to_owned(),
        _ => format!("could not be read: {error}"),
    }
}

fn not_utf8(file: String, bytes: &[u8], valid: usize) -> Problems {
    let before = String::from_utf8_lossy(&bytes[..valid]);
    let Location { line, column } = Location::of_offset(&before, before.len());
    let byte = bytes.get(valid).copied().unwrap_or_default();
    let message = format!("the byte 0x{byte:02x} is not UTF-8; save the file in that encoding");
    Problems::from(Problem { file, line, column, field: String::new(), message })
}
