//! Layout of a limiter on the server, byte by byte.

use std::time::Duration;

use ratekeeper_compat::redisson::{AcquireOutcome, ClientId, RedissonClock, RedissonError, Taken};
use ratekeeper_core::Timestamp;

use crate::{Ground, client, config, free, grant, overall, per_client, takes};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_config_has_four_fields_of_decimal_text() {
    let ground = Ground::new().await;
    ground.limiter("api", per_client(100, 1_000).keep_alive(Duration::from_secs(5)).unwrap()).await;
    for (field, text) in [("rate", "100"), ("interval", "1000"), ("type", "1"), ("keepAliveTime", "5000")] {
        assert_eq!(ground.ask(&["HGET", "api", field]).text(), text);
    }
    assert_eq!(ground.ask(&["HLEN", "api"]).integer(), 4);
    ground.limiter("shared", overall(7, 50)).await;
    assert_eq!(ground.ask(&["HGET", "shared", "type"]).text(), "0");
    assert_eq!(ground.ask(&["HGET", "shared", "keepAliveTime"]).text(), "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_is_21_bytes_with_a_score_in_milliseconds() {
    let ground = Ground::new().await;
    let limiter = ground.limiter("api", overall(100, 1_000)).await;
    assert!(takes(&limiter, 3).await);
    assert_eq!(ground.keys(), ["api", "{api}:permits", "{api}:value"]);
    assert_eq!(ground.ask(&["GET", "{api}:value"]).text(), "97");
    let grants = ground.grants("{api}:permits");
    assert_eq!((grants.len(), grants[0].len(), grants[0][0]), (1, 21, 16));
    assert_eq!(grants[0][17..], 3_u32.to_ne_bytes());
    let scored = ground.ask(&["ZRANGE", "{api}:permits", "0", "0", "WITHSCORES"]);
    assert_eq!(scored.items()[1].text(), ground.now_ms().to_string());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_servers_time_is_the_usual_score() {
    let ground = Ground::in_real_time().await;
    let limiter = ground.limiter("api", overall(100, 1_000)).await;
    let millis = || {
        let time = ground.ask(&["TIME"]);
        time.items()[0].integer() * 1_000 + time.items()[1].integer() / 1_000
    };
    let before = millis();
    assert!(takes(&limiter, 1).await);
    let score = ground.ask(&["ZRANGE", "{api}:permits", "0", "0", "WITHSCORES"]).items()[1].integer();
    assert!((before..=millis()).contains(&score), "{before} {score}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn this_machines_time_can_be_chosen() {
    let ground = Ground::on_the_servers_clock().await;
    ground.server.clock().step_back(Duration::from_secs(86_400));
    let own = client(&ground.server.url(), config().clock(RedissonClock::Client)).await.rate_limiter("api");
    own.set_rate(&overall(1, 1_000), Taken::Forgotten).await.unwrap();
    assert!(takes(&own, 1).await);
    let score = ground.ask(&["ZRANGE", "{api}:permits", "0", "0", "WITHSCORES"]).items()[1].integer();
    let server = ground.ask(&["TIME"]).items()[0].integer() * 1_000;
    assert!(score - server > 86_000_000, "{score} by our clock, {server} by the server's");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_client_has_keys_of_its_own() {
    let ground = Ground::new().await;
    let limiter = ground.limiter("api", per_client(2, 1_000)).await;
    let other = ground.another().await.rate_limiter("api");
    assert!(takes(&limiter, 2).await && !takes(&limiter, 1).await);
    assert!(takes(&other, 2).await, "other clients have separate permits");
    let (own, others) = (limiter.client_id(), other.client_id());
    let mut expected = vec!["api".to_owned()];
    for kind in ["permits", "value"] {
        expected.extend([own, others].map(|id| format!("{{api}}:{kind}:{id}")));
    }
    expected.sort();
    assert_eq!(ground.keys(), expected);
    assert_eq!(own.to_string().len(), 36);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_can_be_given_its_name_and_limiters_another() {
    let ground = Ground::new().await;
    let named = config().client_id(ClientId::given("edge-7")).map_names(|name| format!("prod:{name}"));
    let limiter = client(&ground.server.url(), named).await.rate_limiter("api");
    assert_eq!(limiter.name(), "prod:api");
    assert!(limiter.try_set_rate(&per_client(2, 1_000)).await.unwrap());
    assert!(takes(&limiter, 1).await);
    assert_eq!(ground.keys(), ["prod:api", "{prod:api}:permits:edge-7", "{prod:api}:value:edge-7"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_with_a_brace_are_left_as_they_are() {
    let ground = Ground::new().await;
    for name in ["x{y}z", "a{b"] {
        let limiter = ground.limiter(name, overall(2, 1_000)).await;
        assert!(takes(&limiter, 1).await);
        assert_eq!(ground.keys(), [name.to_owned(), format!("{name}:permits"), format!("{name}:value")]);
        assert!(limiter.delete().await.unwrap());
    }
}

/// The example of the sliding log in `docs/algorithms.md`: Redisson's wait, and the exact one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worked_numbers() {
    let ground = Ground::new().await;
    let clock = ground.clock.clone().unwrap();
    let at = |ms: u64| clock.set(Timestamp::from_micros(ms * 1_000));
    let limiter = ground.limiter("api", overall(100, 1_000)).await;
    at(10_000);
    assert_eq!(limiter.try_acquire_n(5).await.unwrap(), AcquireOutcome::Granted { available: 95 });
    at(10_100);
    assert_eq!(limiter.try_acquire_n(30).await.unwrap(), AcquireOutcome::Granted { available: 65 });
    at(10_200);
    let AcquireOutcome::Refused(refusal) = limiter.try_acquire_n(100).await.unwrap() else { panic!("35 are missing") };
    assert_eq!(refusal.redisson_wait, Duration::from_millis(803));
    assert_eq!(refusal.retry_after, Duration::from_millis(900));
    at(11_099);
    assert!(!takes(&limiter, 100).await, "a millisecond less does not suffice");
    at(11_200);
    assert_eq!(limiter.try_acquire_n(50).await.unwrap(), AcquireOutcome::Granted { available: 50 });
    assert_eq!(ground.books("api"), (50, 50));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waits_are_exact_over_hundreds_of_grants() {
    let ground = Ground::new().await;
    let limiter = ground.limiter("api", overall(300, 10_000)).await;
    for _ in 0..300 {
        assert!(takes(&limiter, 1).await);
        ground.pass(10);
    }
    let AcquireOutcome::Refused(refusal) = limiter.try_acquire_n(250).await.unwrap() else { panic!("all are taken") };
    // The 250th was granted 10 * 249 ms after the first, which was 3000 ms ago.
    assert_eq!(refusal.retry_after, Duration::from_millis(10_000 + 2_490 - 3_000));
    ground.pass(9_489);
    assert!(!takes(&limiter, 250).await);
    ground.pass(1);
    assert!(takes(&limiter, 250).await);
    assert_eq!(ground.books("api"), (0, 300));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_takes_the_oldest_grants_and_the_last_in_part() {
    let ground = Ground::new().await;
    let limiter = ground.limiter("api", overall(10, 1_000)).await;
    for permits in [2, 4, 1] {
        assert!(takes(&limiter, permits).await);
        ground.pass(10);
    }
    let before = ground.grants("{api}:permits");
    limiter.release(5).await.unwrap();
    let after = ground.grants("{api}:permits");
    assert_eq!(after, [grant(&before[1][1..17], 1), before[2].clone()], "same random bytes, fewer permits");
    let scored = ground.ask(&["ZRANGE", "{api}:permits", "0", "0", "WITHSCORES"]);
    assert_eq!(scored.items()[1].text(), (ground.now_ms() - 20).to_string(), "same score");
    assert_eq!(ground.books("api"), (8, 2));
}

/// Grants of 3.17 to 3.20 have eight random bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grants_of_13_bytes_are_read() {
    let ground = Ground::new().await;
    let limiter = ground.limiter("api", overall(10, 1_000)).await;
    ground.plant("{api}:permits", ground.now_ms(), &grant(&[9; 8], 4));
    let _ = ground.ask(&["SET", "{api}:value", "6"]);
    assert!(!takes(&limiter, 7).await);
    assert!(takes(&limiter, 6).await);
    limiter.release(3).await.unwrap();
    assert_eq!(ground.grants("{api}:permits")[0].len(), 13);
    ground.pass(1_000);
    assert_eq!(free(&limiter).await, 10);
}

/// Grants of Redisson 3.13.3 to 3.16.8 count, lapse and are released like any other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grants_of_every_release_are_read() {
    let ground = Ground::new().await;
    let lc0i = [8_u64.to_ne_bytes().as_slice(), &[5; 8], &3_u32.to_ne_bytes()].concat();
    let fi = [1.5_f32.to_ne_bytes(), 3_u32.to_ne_bytes()].concat();
    for old in [fi, lc0i] {
        let limiter = ground.limiter("api", overall(10, 1_000)).await;
        ground.plant("{api}:permits", ground.now_ms(), &old);
        let _ = ground.ask(&["SET", "{api}:value", "7"]);
        assert_eq!(free(&limiter).await, 7);
        assert!(!takes(&limiter, 8).await);
        ground.pass(400);
        assert!(takes(&limiter, 5).await);
        limiter.release(2).await.unwrap();
        assert_eq!((ground.books("api"), ground.grants("{api}:permits")[0].len()), ((4, 6), old.len()));
        ground.pass(600);
        assert_eq!(free(&limiter).await, 5, "the old grant has lapsed, the new one has not");
        assert!(takes(&limiter, 5).await);
        assert_eq!(ground.books("api"), (0, 10));

        // Under a lower rate as well.
        ground.plant("{api}:permits", ground.now_ms(), &old);
        assert!(limiter.update_rate(&overall(4, 1_000), Taken::Kept).await.unwrap());
        assert_eq!(ground.books("api"), (0, 4));
        assert!(limiter.delete().await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_of_no_release_is_an_error_that_says_how_to_clear_it() {
    let ground = Ground::new().await;
    // Too short; a length that does not match the first byte; 20 bytes with another length in front.
    for strange in [vec![1; 7], vec![2; 21], vec![7; 20]] {
        let limiter = ground.limiter("api", overall(10, 1_000)).await;
        ground.plant("{api}:permits", ground.now_ms(), &strange);
        let _ = ground.ask(&["SET", "{api}:value", "7"]);
        let error = limiter.try_acquire_n(8).await.unwrap_err();
        let message = error.to_string();
        assert!(matches!(error, RedissonError::UnreadableGrant { .. }), "{message}");
        assert!(
            message.contains("no release") && message.contains("set_rate") && message.contains("{api}:permits"),
            "{message}"
        );
        assert_eq!(ground.grants("{api}:permits"), [strange], "nothing is changed");
        assert!(matches!(limiter.available_permits().await, Err(RedissonError::UnreadableGrant { .. })));
        assert!(matches!(limiter.release(1).await, Err(RedissonError::UnreadableGrant { .. })));

        limiter.set_rate(&overall(10, 1_000), Taken::Forgotten).await.unwrap();
        assert!(takes(&limiter, 8).await);
        assert!(limiter.delete().await.unwrap());
    }
}

/// After any sequence of steps, value and grants add up to the rate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_books_balance_after_every_step() {
    let ground = Ground::new().await;
    let limiter = ground.limiter("api", overall(20, 1_000)).await;
    let mut seed = 7_u64;
    for step in 0..500 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let chance = seed >> 33;
        match chance % 8 {
            0 => ground.pass(chance / 8 % 700),
            1 => limiter.release(chance / 8 % 6).await.unwrap(),
            2 => assert!(free(&limiter).await <= 20),
            _ => {
                let _ = takes(&limiter, 1 + chance / 8 % 5).await;
            }
        }
        if step > 20 {
            let (value, taken) = ground.books("api");
            assert_eq!(value + taken, 20, "after step {step}");
        }
    }
}
