//! Server time of three keys of one rule each in one decision, compared with a script that does only `TIME`, three `GET` and
//! three `SET … PX`.

use ratekeeper::{Limiter, Quota, Request, Rule};
use ratekeeper_redis::RedisStore;

use crate::{Options, server::Server, time::in_flight};

/// A constructor of rules.
type Constructor = fn(&str, Quota) -> Rule;

const KEYS: usize = 1_000;

const FLOOR: &str = "#!lua
redis.call('TIME')
redis.call('GET', KEYS[1])
redis.call('GET', KEYS[2])
redis.call('GET', KEYS[3])
redis.call('SET', KEYS[1], ARGV[1], 'PX', 60000)
redis.call('SET', KEYS[2], ARGV[1], 'PX', 60000)
redis.call('SET', KEYS[3], ARGV[1], 'PX', 60000)
return 1";

pub(crate) async fn report(server: &Server, options: &Options) {
    println!("three keys of one rule each, server time per decision, µs\n");
    println!("| algorithm | time | × TIME + 3 GET + 3 SET PX |");
    println!("|---|---|---|");
    let quota = Quota::per_second(1_000_000);
    let algorithms: [(&str, Constructor); 3] = [
        ("token bucket", |name, quota| Rule::token_bucket(name, quota)),
        ("fixed window", |name, quota| Rule::fixed_window(name, quota)),
        ("sliding counter", |name, quota| Rule::sliding_counter(name, quota)),
    ];
    for (name, rule) in algorithms {
        let store = server.store().await;
        let limiter = ["keys-00", "keys-01", "keys-02"]
            .into_iter()
            .fold(Limiter::builder(), |builder, policy| builder.policy(policy, [rule("rule", quota)]))
            .store(store)
            .build()
            .expect("valid rules");
        let (mut ours, mut floor) = (f64::MAX, f64::MAX);
        for _ in 0..options.rounds {
            floor = floor.min(floor_time(server, options.calls).await);
            ours = ours.min(joint_time(server, &limiter, options.calls).await);
        }
        println!("| {name} | {ours:.2} (script {floor:.2}) | {:.2} |", ours / floor);
    }
    println!();
}

async fn joint_time(server: &Server, limiter: &Limiter<RedisStore>, calls: usize) -> f64 {
    let ask = |limiter: Limiter<RedisStore>, call: usize| async move {
        let key = format!("user:{}", call % KEYS);
        let keys = ["keys-00", "keys-01", "keys-02"].map(|policy| Request::new(&key).policy(policy));
        assert!(limiter.check_all(keys).await.expect("a reply").is_allowed());
    };
    let warm = limiter.clone();
    in_flight(KEYS, move |call| ask(warm.clone(), call)).await;
    server.reset_statistics();
    let limiter = limiter.clone();
    in_flight(calls, move |call| ask(limiter.clone(), call)).await;
    server.script_time().0
}

async fn floor_time(server: &Server, calls: usize) -> f64 {
    let connection = server.connection().await;
    let hash: String =
        redis::cmd("SCRIPT").arg("LOAD").arg(FLOOR).query_async(&mut connection.clone()).await.expect("a script");
    let value = [7_u8; 27];
    server.reset_statistics();
    in_flight(calls, move |call| {
        let (mut connection, hash) = (connection.clone(), hash.clone());
        async move {
            let mut command = redis::cmd("EVALSHA");
            command.arg(hash).arg(3);
            for policy in 0..3 {
                command.arg(format!("ratekeeper:1:/floor-{policy}:{{user:{}}}", call % KEYS));
            }
            command.arg(&value);
            let _: i64 = command.query_async(&mut connection).await.expect("a reply");
        }
    })
    .await;
    server.script_time().0
}
