//! HTTP client for a ratekeeper server: one request per connection, no redirects; TLS for https addresses.
//!
//! On hyper and rustls, which the server brings along; see decision 0016.

mod endpoint;
mod error;
mod tls;

use std::{path::Path, time::Duration};

use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Method, Request, StatusCode,
    body::Bytes,
    client::conn::http1,
    header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, HeaderValue},
};
use hyper_util::rt::TokioIo;
use ratekeeper_server::security::Secret;
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    runtime::Runtime,
    time::timeout,
};
use tokio_rustls::{TlsConnector, rustls::pki_types::ServerName};

use self::error::ClientError;
pub(crate) use self::{endpoint::Endpoint, tls::TlsArgs};
use crate::report::{Failure, escaped_lines};

/// Client of one server.
pub(crate) struct Client {
    endpoint: Endpoint,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    authorization: Option<HeaderValue>,
    runtime: Option<Runtime>,
}

impl Client {
    pub(crate) fn new(endpoint: &Endpoint, tls: &TlsArgs, token: Option<&Secret>) -> Result<Self, Failure> {
        let tls = if endpoint.secure {
            let connector = tls.connector()?;
            let name = ServerName::try_from(endpoint.host.clone());
            let name =
                name.map_err(|_| Failure::Option(format!("{endpoint}: the host cannot be the name of a certificate")))?;
            Some((connector, name))
        } else {
            None
        };
        let authorization = token.map(|token| HeaderValue::from_str(&format!("Bearer {}", token.expose())));
        let mut authorization = authorization.transpose().map_err(|_| {
            Failure::Options("the token has characters that a header field cannot contain; is it the right file?")
        })?;
        if let Some(value) = &mut authorization {
            value.set_sensitive(true);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { endpoint: endpoint.clone(), tls, authorization, runtime: Some(runtime) })
    }

    /// Sends a `GET`, or a `POST` of JSON. An error response is returned with the server's `detail`.
    pub(crate) fn ask(&self, path: &str, body: Option<String>) -> Result<Bytes, Failure> {
        let (status, body) = self.answer(path, body)?;
        if status == StatusCode::OK {
            return Ok(body);
        }
        let result: Value = serde_json::from_slice(&body).unwrap_or_default();
        let detail = escaped_lines(result["detail"].as_str().unwrap_or("no reason given"));
        Err(Failure::ErrorResponse { server: self.endpoint.to_string(), status: status.as_u16(), detail })
    }

    /// Sends a `GET` and returns the answer, whatever its status.
    pub(crate) fn get(&self, path: &str) -> Result<(u16, Bytes), Failure> {
        self.answer(path, None).map(|(status, body)| (status.as_u16(), body))
    }

    fn answer(&self, path: &str, body: Option<String>) -> Result<(StatusCode, Bytes), Failure> {
        let no_answer =
            |cause: ClientError| Failure::NoAnswer { server: self.endpoint.to_string(), cause: Box::new(cause) };
        let request =
            self.request(path, body).map_err(|error| no_answer(ClientError::new(&error, self.tls.is_some())))?;
        let Some(runtime) = &self.runtime else { return Err(no_answer(ClientError::TimedOut)) };
        let response = runtime.block_on(async { timeout(TIMEOUT, self.exchange(request)).await });
        response.map_err(|_| no_answer(ClientError::TimedOut))?.map_err(no_answer)
    }

    fn request(&self, path: &str, body: Option<String>) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
        let method = if body.is_some() { Method::POST } else { Method::GET };
        let mut request = Request::builder().method(method).uri(path);
        request = request.header(HOST, self.endpoint.authority()).header(CONNECTION, "close");
        if let Some(value) = &self.authorization {
            request = request.header(AUTHORIZATION, value);
        }
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        request.body(Full::new(Bytes::from(body.unwrap_or_default())))
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), ClientError> {
        let stream = TcpStream::connect((self.endpoint.host.as_str(), self.endpoint.port))
            .await
            .map_err(ClientError::Unreachable)?;
        match &self.tls {
            None => send(stream, request).await.map_err(|error| ClientError::new(&*error, false)),
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), stream).await;
                let stream = stream.map_err(|error| ClientError::new(&error, true))?;
                send(stream, request).await.map_err(|error| ClientError::new(&*error, true))
            }
        }
    }
}

impl Drop for Client {
    /// A name lookup may still be running on a blocking thread; do not wait for it.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A token from a file or a variable.
pub(crate) fn token(file: Option<&Path>, variable: &str) -> Result<Option<Secret>, Failure> {
    match file {
        Some(file) => {
            let unreadable = |cause| Failure::Unreadable { file: file.display().to_string(), cause };
            Secret::from_file(file).map(Some).map_err(unreadable)
        }
        None => Ok(std::env::var(variable).ok().filter(|token| !token.is_empty()).map(Secret::new)),
    }
}

type AnyError = Box<dyn std::error::Error + Send + Sync>;

async fn send<S>(stream: S, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), AnyError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // An error of the connection is also returned by `send_request`.
    let connection = tokio::spawn(connection);
    let response = sender.send_request(request).await?;
    let status = response.status();
    let body = Limited::new(response.into_body(), MAX_RESPONSE).collect().await?.to_bytes();
    connection.abort();
    Ok((status, body))
}

/// From the connection attempt to the last byte. A server answers within milliseconds.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Larger than any response of the admin port.
const MAX_RESPONSE: usize = 16 << 20;
