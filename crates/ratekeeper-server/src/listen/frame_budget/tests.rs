use super::*;

const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const SETTINGS: u8 = 4;
const RST_STREAM: u8 = 3;
const PRIORITY: u8 = 2;

fn frame(kind: u8, flags: u8, stream: u32, payload: usize) -> Vec<u8> {
    let [_, a, b, c] = u32::try_from(payload).unwrap().to_be_bytes();
    let start = [a, b, c, kind, flags];
    [&start[..], &stream.to_be_bytes(), &vec![0xff; payload]].concat()
}

/// How many frames of one kind are accepted, at most 10 000.
fn frames_accepted(kind: u8, payload: usize) -> usize {
    let mut budget = FrameBudget::new();
    (0..10_000).take_while(|_| budget.scan(&frame(kind, 0, 1, payload)).is_none()).count()
}

#[tokio::test(start_paused = true)]
async fn frames_without_a_request_exhaust_the_budget() {
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
        assert_eq!(frames_accepted(kind, payload), 2_000, "kind {kind}");
    }
    assert_eq!(frames_accepted(DATA, 64), 10_000, "large DATA frames are free");
}

#[tokio::test(start_paused = true)]
async fn requests_responses_and_time_refill_the_budget() {
    let mut budget = FrameBudget::new();
    let accepted = |budget: &mut FrameBudget| (0..).take_while(|_| budget.bucket.take(FRAME)).count();
    assert_eq!(accepted(&mut budget), 2_000);
    budget.bucket.tokens = 0;
    assert!(budget.scan(&frame(HEADERS, END_HEADERS, 1, 20)).is_none());
    assert_eq!(accepted(&mut budget), 8, "a request");
    budget.bucket.tokens = 0;
    assert!(budget.scan(&frame(HEADERS, END_HEADERS, 3, 20)).is_none());
    assert!(budget.scan(&frame(HEADERS, END_HEADERS, 3, 20)).is_none());
    assert_eq!(accepted(&mut budget), 7, "a request and its trailers");
    budget.bucket.tokens = 0;
    budget.sent(10 * 512);
    assert_eq!(accepted(&mut budget), 10, "bytes sent");
    budget.bucket.tokens = 0;
    tokio::time::advance(Duration::from_millis(500)).await;
    assert_eq!(accepted(&mut budget), 50, "half a second");
    budget.bucket.tokens = 0;
    tokio::time::advance(Duration::from_secs(1_000_000_000)).await;
    budget.sent(usize::MAX);
    let refilled = accepted(&mut budget) - 2_000;
    assert!((2_000..=2_001).contains(&refilled), "at most the initial budget: {refilled}");
}

/// Five control frames per request, 100 000 requests.
#[tokio::test(start_paused = true)]
async fn working_clients_never_exhaust_the_budget() {
    let mut budget = FrameBudget::new();
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
        assert_eq!(budget.scan(&exchange.concat()), None, "stream {stream}");
    }
}

/// The budget is exhausted at the same frame end for reads of any size.
#[tokio::test(start_paused = true)]
async fn frames_are_counted_alike_in_reads_of_any_size() {
    let some: Vec<u8> = [(HEADERS, 1, 300), (WINDOW_UPDATE, 1, 4), (DATA, 1, 70), (SETTINGS, 0, 0), (PING, 0, 8)]
        .into_iter()
        .flat_map(|(kind, stream, payload)| frame(kind, END_HEADERS, stream, payload))
        .collect();
    let many = some.repeat(1_000);
    let mut whole = FrameBudget::new();
    let end = whole.scan(&many).expect("the stream is new only once");
    for cut in [1, 2, 3, 7, 8, 9, 10, 64, 1_000, 16_384] {
        let (mut budget, mut passed, mut found) = (FrameBudget::new(), 0, None);
        for piece in many.chunks(cut) {
            if let Some(more) = budget.scan(piece) {
                found = Some(passed + more);
                break;
            }
            passed += piece.len();
        }
        assert_eq!(found, Some(end), "pieces of {cut}");
        assert!(budget.is_between_frames());
    }
}

#[tokio::test(start_paused = true)]
async fn the_goaway_trigger_continues_an_open_header_block() {
    let mut budget = FrameBudget::new();
    assert_eq!(budget.goaway_trigger()[3], HEADERS);
    assert_eq!(budget.goaway_trigger().len(), 9 * (1 + TRIGGER_FRAMES));
    assert!(budget.scan(&frame(HEADERS, 0, 7, 10)).is_none());
    let trigger = budget.goaway_trigger();
    assert!(trigger.chunks(9).all(|frame| frame == [0, 0, 0, CONTINUATION, 0, 0, 0, 0, 7]));
    assert!(budget.scan(&frame(CONTINUATION, END_HEADERS, 7, 10)).is_none());
    assert_eq!(budget.goaway_trigger()[3], HEADERS);
}
