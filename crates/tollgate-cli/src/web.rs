//! Asks a tollgate server over HTTP, with TLS where the address says so: one request, one answer, no redirects.

mod place;
mod trouble;
mod trust;

use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Method, Request, StatusCode,
    body::Bytes,
    client::conn::http1,
    header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, HeaderValue},
};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    runtime::Runtime,
    time::timeout,
};
use tokio_rustls::{TlsConnector, rustls::pki_types::ServerName};
use tollgate_server::security::Secret;

pub(crate) use self::{place::Place, trouble::Trouble, trust::Trust};
use crate::report::Failure;

/// Somebody who asks one server, as often as need be.
pub(crate) struct Client {
    place: Place,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    authorization: Option<HeaderValue>,
    runtime: Option<Runtime>,
}

impl Client {
    pub(crate) fn new(place: &Place, trust: &Trust, token: Option<&Secret>) -> Result<Self, Failure> {
        let tls = if place.secure {
            let connector = trust.connector()?;
            let name = ServerName::try_from(place.host.clone());
            let name = name.map_err(|_| Failure::Option(format!("{place}: no certificate is for such a name")))?;
            Some((connector, name))
        } else {
            None
        };
        let authorization = token.map(|token| HeaderValue::from_str(&format!("Bearer {}", token.expose())));
        let mut authorization = authorization.transpose().map_err(|_| {
            Failure::Options("the token has characters in it that a header cannot carry; is it the right file?")
        })?;
        if let Some(value) = &mut authorization {
            value.set_sensitive(true);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { place: place.clone(), tls, authorization, runtime: Some(runtime) })
    }

    /// Asks: a `GET`, or a `POST` of JSON. What the server says instead of an answer is told in its own words.
    pub(crate) fn ask(&self, path: &str, body: Option<String>) -> Result<Bytes, Failure> {
        let server = || self.place.to_string();
        let no_answer = |trouble| Failure::NoAnswer { server: server(), trouble };
        let request = self.request(path, body).map_err(|error| no_answer(Trouble::new(&error, self.tls.is_some())))?;
        let Some(runtime) = &self.runtime else { return Err(no_answer(Trouble::Silent)) };
        let answer = runtime.block_on(async { timeout(PATIENCE, self.exchange(request)).await });
        let (status, body) = answer.map_err(|_| no_answer(Trouble::Silent))?.map_err(no_answer)?;
        if status == StatusCode::OK {
            return Ok(body);
        }
        let told: Value = serde_json::from_slice(&body).unwrap_or_default();
        let detail = told["detail"].as_str().unwrap_or("it does not say why").to_owned();
        Err(Failure::ServerSaid { server: server(), status: status.as_u16(), detail })
    }

    fn request(&self, path: &str, body: Option<String>) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
        let method = if body.is_some() { Method::POST } else { Method::GET };
        let mut request = Request::builder().method(method).uri(path);
        request = request.header(HOST, self.place.authority()).header(CONNECTION, "close");
        if let Some(value) = &self.authorization {
            request = request.header(AUTHORIZATION, value);
        }
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        request.body(Full::new(Bytes::from(body.unwrap_or_default())))
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), Trouble> {
        let stream =
            TcpStream::connect((self.place.host.as_str(), self.place.port)).await.map_err(Trouble::Unreachable)?;
        match &self.tls {
            None => converse(stream, request).await.map_err(|error| Trouble::new(&*error, false)),
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), stream).await;
                let stream = stream.map_err(|error| Trouble::new(&error, true))?;
                converse(stream, request).await.map_err(|error| Trouble::new(&*error, true))
            }
        }
    }
}

impl Drop for Client {
    /// Somebody may still be looking for the server's name. Nobody waits for that.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

type AnyError = Box<dyn std::error::Error + Send + Sync>;

async fn converse<S>(stream: S, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), AnyError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // What goes wrong with the connection is told to whoever waits for the answer.
    let connection = tokio::spawn(connection);
    let reply = sender.send_request(request).await?;
    let status = reply.status();
    let body = Limited::new(reply.into_body(), MAX_REPLY).collect().await?.to_bytes();
    connection.abort();
    Ok((status, body))
}

/// From the first knock to the last byte. A server answers within milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);
/// More than a server's state at its largest.
const MAX_REPLY: usize = 16 << 20;
