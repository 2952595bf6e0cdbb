use super::*;

const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const SETTINGS: u8 = 4;
const RST_STREAM: u8 = 3;
const PRIORITY: u8 = 2;

fn frame(kind: u8, flags: u8, stream: u32, payload: usize) -> Vec<u8> {
    let [_, a, b, c] = u32::try_from(payload).unwrap().to_be_bytes();
    let head = [a, b, c, kind, flags];
    [&head[..], &stream.to_be_bytes(), &vec![0xff; payload]].concat()
}

/// Frames of one kind until the budget is used up.
fn frames_borne(kind: u8, payload: usize) -> usize {
    let mut frames = Frames::new();
    (0..10_000).take_while(|_| frames.scan(&frame(kind, 0, 1, payload)).is_none()).count()
}

#[tokio::test(start_paused = true)]
async fn frames_that_ask_for_nothing_have_an_end() {
    for (kind, payload) in [
        (WINDOW_UPDATE, 4),
        (PRIORITY, 5),
        (SETTINGS, 0),
        (SETTINGS, 6),
        (PING, 8),
        (RST_STREAM, 4),
        (DATA, 0),
        (DATA, 63),
        (CONTINUATION, 1),
        (77, 3),
    ] {
        assert_eq!(frames_borne(kind, payload), 2_000, "kind {kind}");
    }
    assert_eq!(frames_borne(DATA, 64), 10_000, "these carry something");
}

#[tokio::test(start_paused = true)]
async fn requests_answers_and_time_earn_more() {
    let mut frames = Frames::new();
    let borne = |frames: &mut Frames| (0..).take_while(|_| frames.bucket.take(FRAME)).count();
    assert_eq!(borne(&mut frames), 2_000);
    frames.bucket.tokens = 0;
    assert!(frames.scan(&frame(HEADERS, END_HEADERS, 1, 20)).is_none());
    assert_eq!(borne(&mut frames), 8, "a request");
    frames.bucket.tokens = 0;
    assert!(frames.scan(&frame(HEADERS, END_HEADERS, 3, 20)).is_none());
    assert!(frames.scan(&frame(HEADERS, END_HEADERS, 3, 20)).is_none());
    assert_eq!(borne(&mut frames), 7, "a request and its trailers");
    frames.bucket.tokens = 0;
    frames.sent(10 * 512);
    assert_eq!(borne(&mut frames), 10, "answers");
    frames.bucket.tokens = 0;
    tokio::time::advance(Duration::from_millis(500)).await;
    assert_eq!(borne(&mut frames), 50, "half a second");
    frames.bucket.tokens = 0;
    tokio::time::advance(Duration::from_secs(1_000_000_000)).await;
    frames.sent(usize::MAX);
    let refilled = borne(&mut frames) - 2_000;
    assert!((2_000..=2_001).contains(&refilled), "never more than at the beginning: {refilled}");
}

/// A client that works: up to five frames for each request, for ever.
#[tokio::test(start_paused = true)]
async fn clients_that_ask_never_use_it_up() {
    let mut frames = Frames::new();
    for stream in (1..200_001).step_by(2) {
        let exchange = [
            frame(HEADERS, END_HEADERS, stream, 40),
            frame(DATA, 0, stream, 5),
            frame(DATA, END_STREAM, stream, 30),
            frame(WINDOW_UPDATE, 0, stream, 4),
            frame(WINDOW_UPDATE, 0, 0, 4),
            frame(PING, 0, 0, 8),
            frame(SETTINGS, 0, 0, 6),
            frame(RST_STREAM, 0, stream, 4),
        ];
        assert_eq!(frames.scan(&exchange.concat()), None, "stream {stream}");
    }
}

/// Wherever the bytes are cut, the same frames are counted, and the end is that of a frame.
#[tokio::test(start_paused = true)]
async fn frames_are_found_however_they_are_cut() {
    let some: Vec<u8> = [(HEADERS, 1, 300), (WINDOW_UPDATE, 1, 4), (DATA, 1, 70), (SETTINGS, 0, 0), (PING, 0, 8)]
        .into_iter()
        .flat_map(|(kind, stream, payload)| frame(kind, END_HEADERS, stream, payload))
        .collect();
    let many = some.repeat(1_000);
    let mut whole = Frames::new();
    let end = whole.scan(&many).expect("three of them ask for nothing, and a request comes once");
    for cut in [1, 2, 3, 7, 8, 9, 10, 64, 1_000, 16_384] {
        let (mut frames, mut passed, mut found) = (Frames::new(), 0, None);
        for piece in many.chunks(cut) {
            if let Some(more) = frames.scan(piece) {
                found = Some(passed + more);
                break;
            }
            passed += piece.len();
        }
        assert_eq!(found, Some(end), "pieces of {cut}");
        assert!(frames.is_between_frames());
    }
}

#[tokio::test(start_paused = true)]
async fn goodbye_stays_within_a_header_block_that_is_open() {
    let mut frames = Frames::new();
    assert_eq!(frames.goodbye()[3], HEADERS);
    assert_eq!(frames.goodbye().len(), 9 * (1 + GOODBYE_FRAMES));
    assert!(frames.scan(&frame(HEADERS, 0, 7, 10)).is_none());
    let goodbye = frames.goodbye();
    assert!(goodbye.chunks(9).all(|frame| frame == [0, 0, 0, CONTINUATION, 0, 0, 0, 0, 7]));
    assert!(frames.scan(&frame(CONTINUATION, END_HEADERS, 7, 10)).is_none());
    assert_eq!(frames.goodbye()[3], HEADERS);
}
