//! The `redis` crate as a client: RESP 2 and 3, pipelines, concurrency, tokens.

use std::collections::HashMap;

use redis::{AsyncConnectionConfig, Client, Value, aio::MultiplexedConnection, cmd, pipe};

use crate::support::Server;

async fn connect(server: &Server, parameters: &str) -> MultiplexedConnection {
    let client = Client::open(format!("redis://{}{parameters}", server.address)).unwrap();
    client.get_multiplexed_async_connection_with_config(&AsyncConnectionConfig::new()).await.unwrap()
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(future)
}

#[test]
fn a_client_library_connects_and_asks_in_both_protocols() {
    let server = Server::start();
    block_on(async {
        for (index, parameters) in ["", "/?protocol=resp3"].into_iter().enumerate() {
            let mut connection = connect(&server, parameters).await;
            let key = format!("user:{index}");
            let reply: [i64; 5] =
                cmd("CL.THROTTLE").arg(&key).arg(2).arg(30).arg(60).query_async(&mut connection).await.unwrap();
            assert_eq!(reply, [0, 3, 2, -1, 2]);
            let reply: HashMap<String, Value> =
                cmd("RK.CHECK").arg("api").arg(&key).query_async(&mut connection).await.unwrap();
            assert_eq!((&reply["remaining"], &reply["limit"]), (&Value::Int(4), &Value::Int(5)));
            let wrong = cmd("CL.THROTTLE").arg(&key).query_async::<Value>(&mut connection).await.unwrap_err();
            assert!(wrong.to_string().contains("wrong number of arguments"), "{wrong}");
        }
    });
}

#[test]
fn a_pipeline_comes_back_in_order() {
    let server = Server::start();
    block_on(async {
        let mut connection = connect(&server, "").await;
        let mut pipeline = pipe();
        for _ in 0..100 {
            pipeline.cmd("CL.THROTTLE").arg("one").arg(99).arg(1).arg(60);
        }
        let reply: Vec<[i64; 5]> = pipeline.query_async(&mut connection).await.unwrap();
        let remaining: Vec<i64> = reply.iter().map(|reply| reply[2]).collect();
        assert_eq!(remaining, (0..100).rev().collect::<Vec<_>>());
    });
}

/// Concurrent requests over several connections are never allowed beyond the limit.
#[test]
fn many_clients_share_one_limit_exactly() {
    let server = Server::start();
    let admitted: usize = block_on(async {
        let mut tasks = Vec::new();
        for _ in 0..20 {
            let mut connection = connect(&server, "").await;
            tasks.push(tokio::spawn(async move {
                let mut admitted = 0;
                for _ in 0..50 {
                    let reply: [i64; 5] = cmd("CL.THROTTLE")
                        .arg("hot")
                        .arg(99)
                        .arg(1)
                        .arg(60)
                        .query_async(&mut connection)
                        .await
                        .unwrap();
                    admitted += usize::from(reply[0] == 0);
                }
                admitted
            }));
        }
        let mut sum = 0;
        for task in tasks {
            sum += task.await.unwrap();
        }
        sum
    });
    assert_eq!(admitted, 100);
}

#[test]
fn the_password_of_a_url_is_a_token() {
    let server = Server::with_tokens("app 0123456789abcdef *\n");
    block_on(async {
        let connected = |userinfo: &str| {
            let client = Client::open(format!("redis://{userinfo}{}/?protocol=resp3", server.address)).unwrap();
            async move { client.get_multiplexed_async_connection().await }
        };
        assert!(connected(":0123456789abcdef@").await.is_ok());
        assert!(connected("user:0123456789abcdef@").await.is_ok());
        assert!(connected(":wrong@").await.is_err());
    });
}
