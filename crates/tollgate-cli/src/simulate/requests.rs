//! Requests from CSV, one at a time: a file of any size is read in the memory of its longest line.
//!
//! Columns may stand in any order, and empty cells take their default. Times become whole microseconds without passing
//! through a float. Nothing in a file is trusted: lines, keys and numbers have bounds, and time may not go back.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use csv::{ByteRecord, ReaderBuilder, Terminator};
use tollgate_core::{Micros, bounds::MAX_KEY_BYTES};

use super::cells::{self, Op};
use crate::report::{Failure, RequestProblem};

/// One line of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) at: Micros,
    pub(crate) key: &'a str,
    pub(crate) cost: u64,
    pub(crate) max_wait: Micros,
    pub(crate) op: Op,
    /// Counted from 1, the header aside.
    pub(crate) number: u64,
}

/// A requests file, being read.
pub(crate) struct Requests {
    name: String,
    reader: csv::Reader<Guarded>,
    record: ByteRecord,
    columns: Columns,
    usual_cost: u64,
    last_at: Micros,
    number: u64,
    size: Option<u64>,
}

/// Where each column stands.
#[derive(Clone, Copy, Debug, Default)]
struct Columns {
    at: usize,
    key: usize,
    cost: Option<usize>,
    max_wait: Option<usize>,
    op: Option<usize>,
    count: usize,
}

impl Requests {
    /// Opens a file, or standard input for `-`, and reads the header.
    pub(crate) fn open(path: &Path, usual_cost: u64) -> Result<Self, Failure> {
        if path == Path::new("-") {
            return Self::read("standard input".to_owned(), Box::new(io::stdin()), None, usual_cost);
        }
        let file = path.display().to_string();
        let unreadable = |cause| Failure::Unreadable { file: file.clone(), cause };
        let input = File::open(path).map_err(unreadable)?;
        let size = input.metadata().ok().filter(std::fs::Metadata::is_file).map(|metadata| metadata.len());
        Self::read(file, Box::new(input), size, usual_cost)
    }

    fn read(name: String, input: Box<dyn Read>, size: Option<u64>, usual_cost: u64) -> Result<Self, Failure> {
        let guarded = Guarded { input, given: 0, record_began: 0, ended: false, stopped: false };
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
            usual_cost,
            last_at: Micros::ZERO,
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
    pub(crate) fn next(&mut self) -> Result<Option<Request<'_>>, Failure> {
        if !self.advance()? {
            return Ok(None);
        }
        self.number += 1;
        match self.columns.request(&self.record, self.usual_cost) {
            Ok(request) if request.at < self.last_at => {
                let (at, before) = (cells::told_millis(request.at), cells::told_millis(self.last_at));
                Err(self.failure(RequestProblem::Backwards { at, before }))
            }
            Ok(request) => {
                self.last_at = request.at;
                Ok(Some(Request { number: self.number, ..request }))
            }
            Err(problem) => Err(self.failure(problem)),
        }
    }

    /// Whether a request can say anything but `take`.
    pub(crate) fn has_ops(&self) -> bool {
        self.columns.op.is_some()
    }

    /// Bytes read so far, and in all if that is known.
    pub(crate) fn progress(&self) -> (u64, Option<u64>) {
        (self.reader.position().byte(), self.size)
    }

    /// The line the current record begins in, as an editor counts.
    pub(crate) fn line(&self) -> u64 {
        // Every record has been followed by its line feed, the last one by that of the mark.
        self.line_after(1)
    }

    /// The same, where the reader has gone so many lines past the record.
    fn line_after(&self, past: u64) -> u64 {
        let inside = self.record.iter().flatten().filter(|&&byte| byte == b'\n').count() as u64;
        self.reader.position().line().saturating_sub(inside + past)
    }

    /// A complaint about the current record.
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
                Ok(true) if self.reader.get_ref().is_used_up(self.reader.position().byte()) => {
                    return if self.record.len() == 1 && self.record[0] == END[1..] {
                        Ok(false)
                    } else {
                        Err(self.failure_at(self.line_after(0), RequestProblem::OpenQuote))
                    };
                }
                Ok(true) if self.reader.position().byte() - began > MAX_RECORD_BYTES => {
                    return Err(self.failure_at(line, RequestProblem::TooLong));
                }
                Ok(true) if self.record.len() == 1 && self.record[0].trim_ascii().is_empty() => {}
                Ok(true) => return Ok(true),
                Err(_) if self.reader.get_ref().stopped => return Err(self.failure_at(line, RequestProblem::TooLong)),
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
            let place = match name.as_str() {
                "at_ms" => &mut at,
                "key" => &mut key,
                "cost" => &mut found.cost,
                "max_wait_ms" => &mut found.max_wait,
                "op" => &mut found.op,
                _ => return Err(RequestProblem::UnknownColumn(name)),
            };
            if place.replace(position).is_some() {
                return Err(RequestProblem::ColumnTwice(name));
            }
        }
        found.at = at.ok_or(RequestProblem::MissingColumn("at_ms"))?;
        found.key = key.ok_or(RequestProblem::MissingColumn("key"))?;
        Ok(found)
    }

    #[inline]
    fn request<'a>(&self, record: &'a ByteRecord, usual_cost: u64) -> Result<Request<'a>, RequestProblem> {
        if record.len() != self.count {
            return Err(RequestProblem::Cells { found: record.len(), expected: self.count });
        }
        let cell = |column: usize| record[column].trim_ascii();
        let optional = |column: Option<usize>| column.map(cell).filter(|cell| !cell.is_empty());
        let at = match cell(self.at) {
            b"" => return Err(RequestProblem::NoTime),
            text => cells::micros("at_ms", text)?,
        };
        let cost = optional(self.cost).map_or(Ok(usual_cost), cells::cost)?;
        let max_wait = optional(self.max_wait).map_or(Ok(Micros::ZERO), |text| cells::micros("max_wait_ms", text))?;
        let op = optional(self.op).map_or(Ok(Op::Take), cells::op)?;
        Ok(Request { at, key: self.key(record)?, cost, max_wait, op, number: 0 })
    }

    /// A key is taken as it stands, spaces and all.
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

/// Hands bytes to the CSV reader, and stops when one record has swallowed too many: an open quote would otherwise take in
/// the rest of the file. At the end it adds a mark, to be a line of its own; where it is not, a quote is still open.
struct Guarded {
    input: Box<dyn Read>,
    /// Bytes handed over in all. Whoever asks for more has used them up.
    given: u64,
    /// Where the record began that is being read.
    record_began: u64,
    /// Whether the mark has been handed over.
    ended: bool,
    stopped: bool,
}

impl Guarded {
    /// Whether the reader has come to the end, the mark included.
    fn is_used_up(&self, read: u64) -> bool {
        self.ended && read == self.given
    }
}

impl Read for Guarded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.given - self.record_began > MAX_RECORD_BYTES {
            self.stopped = true;
            return Err(io::Error::other("the record is too long"));
        }
        // What has come to its end once is not asked again: a file may still grow, a terminal would have to say it twice.
        if self.ended {
            return Ok(0);
        }
        let mut count = self.input.read(buffer)?;
        if count == 0 && buffer.len() >= END.len() {
            buffer[..END.len()].copy_from_slice(&END);
            self.ended = true;
            count = END.len();
        }
        self.given += count as u64;
        Ok(count)
    }
}

/// The mark behind the last line. The line feed ends a line that lacks its own, and is a blank line otherwise.
const END: [u8; 2] = *b"\n.";
/// The longest record, its line feed included. The longest key fits several times over.
pub(crate) const MAX_RECORD_BYTES: u64 = 64 * 1024;
/// How much is read at once.
const READ_BYTES: usize = 64 * 1024;
