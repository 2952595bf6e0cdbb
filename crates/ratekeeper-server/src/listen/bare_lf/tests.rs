use super::*;

/// The result of a scan, which must not depend on how the bytes are split into reads.
#[track_caller]
fn scanned(bytes: &[u8]) -> Option<u64> {
    let whole = BareLfScanner::new().scan(bytes);
    for size in [1, 2, 3, 5, 7, 11, 100] {
        let mut scanner = BareLfScanner::new();
        let split = bytes.chunks(size).find_map(|piece| scanner.scan(piece));
        assert_eq!(split, whole, "{} in reads of {size}", bytes.escape_ascii());
    }
    whole
}

#[test]
fn a_bare_line_feed_anywhere_in_a_header_block_is_found() {
    let block = b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n";
    assert_eq!(scanned(block), None);
    for (at, byte) in block.iter().enumerate() {
        if *byte == b'\r' {
            let bare = [&block[..at], &block[at + 1..]].concat();
            assert_eq!(scanned(&bare), Some(0), "{}", bare.escape_ascii());
        }
    }
    assert_eq!(scanned(b"GET / HTTP/1.1\n\n"), Some(0));
    assert_eq!(scanned(b"\nGET / HTTP/1.1\r\nHost: x\r\n\r\n"), Some(0), "before the request line");
    assert_eq!(scanned(b"\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n"), None, "empty lines are allowed");
    assert_eq!(scanned(b"GET / HTTP/1.1\r\nHost: x\n"), None, "the header block has not ended");
}

#[test]
fn line_feeds_in_bodies_are_ignored() {
    let body = b"{\n\"key\":\n\n\"u\"\r\n\r\nGET / HTTP/1.1\nHost: y\n\n}";
    let block = format!("POST / HTTP/1.1\r\nhost: x\r\nCONTENT-LENGTH:   {} \r\n\r\n", body.len());
    let request = [block.as_bytes(), body].concat();
    assert_eq!(scanned(&request.repeat(3)), None);
    let bare = [&request.repeat(3)[..], b"GET / HTTP/1.1\nHost: y\n\n"].concat();
    assert_eq!(scanned(&bare), Some(3), "the fourth request");
}

#[test]
fn chunks_sizes_and_trailers_are_not_header_blocks() {
    let request = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip, Chunked\r\ncontent-length: 3\r\n\r\n\
        5;x=y\r\n\n\n\n\n\n\r\n1a\r\nabcdefghijklmnopqrstuvwxy\n\r\n0\r\nt: v\r\n\r\n";
    assert_eq!(scanned(&request.repeat(3)), None);
    assert_eq!(scanned(&[&request.repeat(2)[..], b"GET / HTTP/1.1\nhost: x\r\n\r\n"].concat()), Some(2));
}

/// hyper refuses these requests, so nothing after them is served.
#[test]
fn scanning_ends_at_malformed_framing() {
    let long = format!("content-length: {}5", "0".repeat(200));
    let fields = [
        "content-length: x",
        "content-length: -1",
        "content-length: 99999999999999999999",
        "transfer-encoding: gzip",
        &long,
    ];
    for field in fields {
        let bytes = format!("POST / HTTP/1.1\r\nhost: x\r\n{field}\r\n\r\n\n\nGET / HTTP/1.1\n\n");
        assert_eq!(scanned(bytes.as_bytes()), None, "{field}");
    }
    assert_eq!(scanned(b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n\nGET / HTTP/1.1\n\n"), None);
}

#[test]
fn random_bytes_do_not_panic() {
    let mut seed = 7_u64;
    for _ in 0..2_000 {
        let mut scanner = BareLfScanner::new();
        let alphabet = b"\r\n\r\n:0a1fF \tcontent-lengthtransfer-encodingchunked,;GET";
        let bytes: Vec<u8> = (0..400)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                alphabet[usize::try_from(seed >> 33).unwrap() % alphabet.len()]
            })
            .collect();
        scanner.scan(&bytes);
    }
}
