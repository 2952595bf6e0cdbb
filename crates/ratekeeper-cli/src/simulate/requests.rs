//! CSV reader for requests: one at a time, in the memory of one line.
//!
//! Columns may have any order, and empty fields have defaults. Times are converted to microseconds without floats. Lines, keys
//! and numbers are bounded, and times must ascend.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use csv::{ByteRecord, ReaderBuilder, Terminator};
use ratekeeper_core::{Span, Terms, Timestamp, Verb, bounds::MAX_KEY_BYTES};

use super::csv_fields;
use crate::report::{Failure, RequestProblem, millis};

/// One line of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestLine<'a> {
    pub(crate) at: Timestamp,
    pub(crate) key: &'a str,
    pub(crate) cost: u64,
    pub(crate) verb: Verb,
    pub(crate) terms: Terms,
    /// Counted from 1, the header aside.
    pub(crate) number: u64,
}

/// One line of a file with `entry:` columns.
#[derive(Clone, Debug)]
pub(crate) struct DescriptorLine {
    pub(crate) at: Timestamp,
    /// The entries of each descriptor; at least one.
    pub(crate) descriptors: Vec<Vec<(String, String)>>,
    /// `None`: the cost of the policy.
    pub(crate) cost: Option<u64>,
    pub(crate) verb: Verb,
    pub(crate) terms: Terms,
    pub(crate) number: u64,
}

/// A requests file, being read.
pub(crate) struct Requests {
    name: String,
    reader: csv::Reader<Guarded>,
    record: ByteRecord,
    columns: Columns,
    default_cost: u64,
    last_at: Timestamp,
    number: u64,
    size: Option<u64>,
}

/// Indexes of the columns.
#[derive(Clone, Debug, Default)]
struct Columns {
    at: usize,
    key: usize,
    /// `entry:` columns: descriptor, name of the entry, position.
    entries: Vec<(usize, String, usize)>,
    cost: Option<usize>,
    max_wait: Option<usize>,
    op: Option<usize>,
    id: Option<usize>,
    lifetime: Option<usize>,
    on_expiry: Option<usize>,
    at_least: Option<usize>,
    count: usize,
}

impl Requests {
    /// Opens a file, or standard input for `-`, and reads the header.
    pub(crate) fn open(path: &Path, default_cost: u64) -> Result<Self, Failure> {
        if path == Path::new("-") {
            return Self::read("standard input".to_owned(), Box::new(io::stdin()), None, default_cost);
        }
        let file = path.display().to_string();
        let unreadable = |cause| Failure::Unreadable { file: file.clone(), cause };
        let input = File::open(path).map_err(unreadable)?;
        let size = input.metadata().ok().filter(std::fs::Metadata::is_file).map(|metadata| metadata.len());
        Self::read(file, Box::new(input), size, default_cost)
    }

    /// Requests in memory.
    pub(crate) fn of_text(name: &str, text: String, default_cost: u64) -> Result<Self, Failure> {
        let size = text.len() as u64;
        Self::read(name.to_owned(), Box::new(io::Cursor::new(text)), Some(size), default_cost)
    }

    fn read(name: String, input: Box<dyn Read>, size: Option<u64>, default_cost: u64) -> Result<Self, Failure> {
        let guarded = Guarded { input, delivered: 0, record_began: 0, ended: false, stopped: false };
        // Only a line feed ends a line, so that line numbers are those of an editor; a carriage return before it is cut
        // off below.
        let reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .terminator(Terminator::Any(b'\n'))
            .buffer_capacity(READ_BYTES)
            .from_reader(guarded);
        let mut requests = Self {
            name,
            reader,
            record: ByteRecord::new(),
            columns: Columns::default(),
            default_cost,
            last_at: Timestamp::EPOCH,
            number: 0,
            size,
        };
        if !requests.advance()? {
            return Err(requests.failure_at(1, RequestProblem::Empty));
        }
        requests.columns = Columns::of(&requests.record).map_err(|problem| requests.failure(problem))?;
        Ok(requests)
    }

    /// The next request; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<RequestLine<'_>>, Failure> {
        if self.has_descriptors() {
            return Err(self.failure(RequestProblem::EntriesHere));
        }
        if !self.advance()? {
            return Ok(None);
        }
        self.number += 1;
        match self.columns.request(&self.record, self.default_cost) {
            Ok(request) if request.at < self.last_at => {
                let (at, before) = (millis(request.at), millis(self.last_at));
                Err(self.failure(RequestProblem::Backwards { at, before }))
            }
            Ok(request) => {
                self.last_at = request.at;
                Ok(Some(RequestLine { number: self.number, ..request }))
            }
            Err(problem) => Err(self.failure(problem)),
        }
    }

    /// The next request of a file with `entry:` columns; `None` at the end.
    pub(crate) fn next_descriptors(&mut self) -> Result<Option<DescriptorLine>, Failure> {
        if !self.advance()? {
            return Ok(None);
        }
        self.number += 1;
        let line = self.columns.descriptors(&self.record).map_err(|problem| self.failure(problem))?;
        if line.at < self.last_at {
            let (at, before) = (millis(line.at), millis(self.last_at));
            return Err(self.failure(RequestProblem::Backwards { at, before }));
        }
        self.last_at = line.at;
        Ok(Some(DescriptorLine { number: self.number, ..line }))
    }

    /// Whether the file has `entry:` columns.
    pub(crate) fn has_descriptors(&self) -> bool {
        !self.columns.entries.is_empty()
    }

    /// The cost of requests without one.
    pub(crate) fn set_default_cost(&mut self, cost: u64) {
        self.default_cost = cost;
    }

    /// Whether the file has a column `op`.
    pub(crate) fn has_ops(&self) -> bool {
        self.columns.op.is_some()
    }

    /// Bytes read so far, and the size of the file if known.
    pub(crate) fn progress(&self) -> (u64, Option<u64>) {
        (self.reader.position().byte(), self.size)
    }

    /// The line the current record begins in, as an editor counts.
    pub(crate) fn line(&self) -> u64 {
        // Every record ends with a line feed; the end mark begins with one.
        self.line_after(1)
    }

    /// The same, with the reader `past` lines after the record.
    fn line_after(&self, past: u64) -> u64 {
        let inside = self.record.iter().flatten().filter(|&&byte| byte == b'\n').count() as u64;
        self.reader.position().line().saturating_sub(inside + past)
    }

    /// An error about the current record.
    pub(crate) fn failure(&self, problem: RequestProblem) -> Failure {
        self.failure_at(self.line(), problem)
    }

    fn failure_at(&self, line: u64, problem: RequestProblem) -> Failure {
        Failure::Request { file: self.name.clone(), line, problem }
    }

    /// Reads one record that is not a blank line. `false` at the end.
    fn advance(&mut self) -> Result<bool, Failure> {
        loop {
            let (began, line) = (self.reader.position().byte(), self.reader.position().line());
            self.reader.get_mut().record_began = began;
            match self.reader.read_byte_record(&mut self.record) {
                Ok(false) => return Ok(false),
                Ok(true) if self.reader.get_ref().is_at_end(self.reader.position().byte()) => {
                    return if self.record.len() == 1 && self.record[0] == END[1..] {
                        Ok(false)
                    } else {
                        Err(self.failure_at(self.line_after(0), RequestProblem::OpenQuote))
                    };
                }
                Ok(true) if self.reader.position().byte() - began > MAX_RECORD_BYTES => {
                    return Err(self.failure_at(line, RequestProblem::TooLong { max: MAX_RECORD_BYTES }));
                }
                Ok(true) if self.record.len() == 1 && self.record[0].trim_ascii().is_empty() => {}
                Ok(true) => return Ok(true),
                Err(_) if self.reader.get_ref().stopped => {
                    return Err(self.failure_at(line, RequestProblem::TooLong { max: MAX_RECORD_BYTES }));
                }
                Err(error) => {
                    let cause = match error.into_kind() {
                        csv::ErrorKind::Io(cause) => cause,
                        other => io::Error::other(format!("{other:?}")),
                    };
                    return Err(Failure::Unreadable { file: self.name.clone(), cause });
                }
            }
        }
    }
}

impl Columns {
    fn of(header: &ByteRecord) -> Result<Self, RequestProblem> {
        let mut found = Self { count: header.len(), ..Self::default() };
        let (mut at, mut key) = (None, None);
        for (position, name) in header.iter().enumerate() {
            let name = String::from_utf8_lossy(name.trim_ascii()).into_owned();
            let column = match name.as_str() {
                "at_ms" => &mut at,
                "key" => &mut key,
                "cost" => &mut found.cost,
                "max_wait_ms" => &mut found.max_wait,
                "op" => &mut found.op,
                "id" => &mut found.id,
                "lifetime_ms" => &mut found.lifetime,
                "on_expiry" => &mut found.on_expiry,
                "at_least" => &mut found.at_least,
                word if entry_column(word).is_some() => {
                    let Some((descriptor, entry)) = entry_column(word) else { continue };
                    if found.entries.iter().any(|(other, known, _)| (*other, known.as_str()) == (descriptor, entry)) {
                        return Err(RequestProblem::ColumnTwice(name));
                    }
                    found.entries.push((descriptor, entry.to_owned(), position));
                    continue;
                }
                _ => return Err(RequestProblem::UnknownColumn(name)),
            };
            if column.replace(position).is_some() {
                return Err(RequestProblem::ColumnTwice(name));
            }
        }
        found.at = at.ok_or(RequestProblem::MissingColumn("at_ms"))?;
        match (key, found.entries.is_empty()) {
            (Some(key), true) => found.key = key,
            (None, true) => return Err(RequestProblem::MissingColumn("key")),
            (None, false) => {}
            (Some(_), false) => return Err(RequestProblem::KeyAndEntries),
        }
        Ok(found)
    }

    #[inline]
    fn request<'a>(&self, record: &'a ByteRecord, default_cost: u64) -> Result<RequestLine<'a>, RequestProblem> {
        if record.len() != self.count {
            return Err(RequestProblem::Cells { found: record.len(), expected: self.count });
        }
        let (at, cost, verb, terms) = self.common(record, default_cost)?;
        let cost = cost.unwrap_or(default_cost);
        Ok(RequestLine { at, key: self.key(record)?, cost, verb, terms, number: 0 })
    }

    /// Time, cost if there is one, and verb of a record.
    #[inline]
    fn common(
        &self,
        record: &ByteRecord,
        default_cost: u64,
    ) -> Result<(Timestamp, Option<u64>, Verb, Terms), RequestProblem> {
        let cell = |column: usize| record[column].trim_ascii();
        let optional = |column: Option<usize>| column.map(cell).filter(|cell| !cell.is_empty());
        let at = match cell(self.at) {
            b"" => return Err(RequestProblem::NoTime),
            text => Timestamp::EPOCH + csv_fields::micros("at_ms", text)?,
        };
        let cost = optional(self.cost).map(csv_fields::cost).transpose()?;
        let max_wait =
            optional(self.max_wait).map_or(Ok(Span::ZERO), |text| csv_fields::micros("max_wait_ms", text))?;
        let mut terms = Terms::NONE;
        if let Some(id) = optional(self.id) {
            terms = terms.with_id(csv_fields::id(id)?);
        }
        if let Some(lifetime) = optional(self.lifetime) {
            terms = terms.lifetime(csv_fields::micros("lifetime_ms", lifetime)?);
        }
        if let Some(on_expiry) = optional(self.on_expiry) {
            terms = terms.on_expiry(csv_fields::on_expiry(on_expiry)?);
        }
        if let Some(least) = optional(self.at_least) {
            terms = terms.at_least(csv_fields::cost(least)?);
        }
        let op = optional(self.op).unwrap_or(b"take");
        let verb = csv_fields::verb(op, cost.unwrap_or(default_cost), max_wait, terms.id)?;
        Ok((at, cost, verb, terms))
    }

    /// A record of a file with `entry:` columns. Empty fields leave their entry out.
    fn descriptors(&self, record: &ByteRecord) -> Result<DescriptorLine, RequestProblem> {
        if record.len() != self.count {
            return Err(RequestProblem::Cells { found: record.len(), expected: self.count });
        }
        let (at, cost, verb, terms) = self.common(record, 1)?;
        let mut descriptors: Vec<Vec<(String, String)>> = vec![Vec::new(); MAX_DESCRIPTORS];
        for (descriptor, name, column) in &self.entries {
            let cell = &record[*column];
            let cell = if column + 1 == self.count { cell.strip_suffix(b"\r").unwrap_or(cell) } else { cell };
            let value = std::str::from_utf8(cell).map_err(|_| RequestProblem::KeyNotText)?;
            if !value.is_empty() {
                descriptors[*descriptor].push((name.clone(), value.to_owned()));
            }
        }
        descriptors.retain(|entries| !entries.is_empty());
        if descriptors.is_empty() {
            return Err(RequestProblem::NoEntry);
        }
        Ok(DescriptorLine { at, descriptors, cost, verb, terms, number: 0 })
    }

    /// Spaces belong to the key.
    #[inline]
    fn key<'a>(&self, record: &'a ByteRecord) -> Result<&'a str, RequestProblem> {
        let mut key = &record[self.key];
        if self.key + 1 == self.count {
            key = key.strip_suffix(b"\r").unwrap_or(key);
        }
        match key.len() {
            0 => Err(RequestProblem::NoKey),
            bytes if bytes > MAX_KEY_BYTES => Err(RequestProblem::KeyTooLong { bytes }),
            _ => std::str::from_utf8(key).map_err(|_| RequestProblem::KeyNotText),
        }
    }
}

/// The descriptor, from 0, and the entry of a column such as `entry:user` or `entry2:ip`.
fn entry_column(name: &str) -> Option<(usize, &str)> {
    let (number, entry) = name.strip_prefix("entry")?.split_once(':')?;
    let descriptor = if number.is_empty() { 1 } else { number.parse::<usize>().ok().filter(|number| *number > 1)? };
    ((1..=MAX_DESCRIPTORS).contains(&descriptor) && !entry.is_empty()).then(|| (descriptor - 1, entry))
}

/// Input of the CSV reader with a bound per record: an unclosed quote would otherwise consume the rest of the file. At the
/// end it appends a mark on a separate line; if the mark is not read as a line, a quote is still open.
struct Guarded {
    input: Box<dyn Read>,
    /// Bytes delivered in total. The reader asks for more only after it has consumed them.
    delivered: u64,
    /// Offset of the current record.
    record_began: u64,
    /// Whether the mark has been delivered.
    ended: bool,
    /// Whether the bound was exceeded.
    stopped: bool,
}

impl Guarded {
    /// Whether the reader has consumed everything, the mark included.
    fn is_at_end(&self, read: u64) -> bool {
        self.ended && read == self.delivered
    }
}

impl Read for Guarded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.delivered - self.record_began > MAX_RECORD_BYTES {
            self.stopped = true;
            return Err(io::Error::other("the record is too long"));
        }
        // Do not read after EOF: a file may still grow, and a terminal would need a second EOF.
        if self.ended {
            return Ok(0);
        }
        let mut count = self.input.read(buffer)?;
        if count == 0 && buffer.len() >= END.len() {
            buffer[..END.len()].copy_from_slice(&END);
            self.ended = true;
            count = END.len();
        }
        self.delivered += count as u64;
        Ok(count)
    }
}

/// The mark after the last line. Its line feed ends an unterminated line, or makes a blank one.
const END: [u8; 2] = *b"\n.";
/// The longest record, its line feed included. It has room for several keys of maximal length.
const MAX_RECORD_BYTES: u64 = 64 * 1024;
/// The most descriptors of one line.
const MAX_DESCRIPTORS: usize = 8;
/// Bytes per read.
const READ_BYTES: usize = 64 * 1024;
