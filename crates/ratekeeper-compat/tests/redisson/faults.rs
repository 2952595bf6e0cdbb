//! Lost replies: the server has charged, and the client does not know. The attempt is sent again and charged once.

use std::time::Duration;

use ratekeeper_testkit::servers::{FaultProxy, wait_until};

use crate::{Ground, client, config, overall, takes};

const TIMEOUT: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_whose_answer_is_lost_is_sent_again_and_charged_once() {
    let ground = Ground::in_real_time().await;
    let proxy = FaultProxy::to(ground.server.address());
    let limiter = client(&proxy.url(), config()).await.rate_limiter("api");
    assert!(limiter.try_set_rate(&overall(100, 60_000)).await.unwrap());
    assert!(takes(&limiter, 1).await, "the server knows the script");
    let mut taken = 1;
    for permits in [3, 1, 5] {
        let lost = proxy.replies_swallowed();
        proxy.swallow_next_replies(1);
        let attempt = tokio::spawn({
            let limiter = limiter.clone();
            async move { takes(&limiter, permits).await }
        });
        taken += i64::try_from(permits).unwrap();
        wait_until("an answer to get lost", TIMEOUT, || {
            proxy.replies_swallowed() > lost && ground.books("api").1 == taken
        });
        // This connection gets no more replies. The network closes it at some point; a new one answers.
        proxy.pass();
        proxy.cut();
        assert!(attempt.await.unwrap(), "the resent attempt is granted");
        assert_eq!(ground.books("api"), (100 - taken, taken));
    }
}

/// The last permit: a resend must not be refused because of the permit that the first call took.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_permit_is_not_refused_to_its_owner() {
    let ground = Ground::in_real_time().await;
    let proxy = FaultProxy::to(ground.server.address());
    let limiter = client(&proxy.url(), config()).await.rate_limiter("api");
    assert!(limiter.try_set_rate(&overall(2, 60_000)).await.unwrap());
    assert!(takes(&limiter, 1).await);
    proxy.swallow_next_replies(1);
    let attempt = tokio::spawn(async move { takes(&limiter, 1).await });
    wait_until("an answer to get lost", TIMEOUT, || ground.books("api") == (0, 2) && proxy.replies_swallowed() > 0);
    proxy.pass();
    proxy.cut();
    assert!(attempt.await.unwrap());
    assert_eq!(ground.books("api"), (0, 2));
}

/// The server stops answering: the attempt is an error, and its permits are returned when the server answers again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_that_fails_is_undone_later() {
    let ground = Ground::in_real_time().await;
    let proxy = FaultProxy::to(ground.server.address());
    let config = config().deadline(Duration::from_millis(300)).tries(1);
    let limiter = client(&proxy.url(), config).await.rate_limiter("api");
    assert!(limiter.try_set_rate(&overall(10, 60_000)).await.unwrap());
    assert!(takes(&limiter, 1).await);
    proxy.swallow_replies();
    assert!(limiter.try_acquire_n(4).await.is_err());
    proxy.pass();
    proxy.cut();
    wait_until("the permits to be back", TIMEOUT, || ground.books("api") == (9, 1));
}
