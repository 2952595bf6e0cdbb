//! `/v1/auth`: authorization requests of proxies (nginx `auth_request`, forwardAuth).
//!
//! The query selects the domain, the descriptor entries, the cost and the status of a denial. It is part of the
//! proxy's configuration, which a client cannot change.
//!
//! ```text
//! /v1/auth?domain=api&entry=user:header:x-api-key&entry=path:path&and&entry=ip:address&cost=2&deny_status=403
//! ```

mod original_request;
mod query;

use std::{borrow::Cow, net::SocketAddr};

use hyper::{
    HeaderMap, Method, StatusCode,
    header::{HOST, HeaderName, HeaderValue},
};

use ratekeeper_core::{Take, Verb};

use self::{
    original_request::{ORIGINAL_HOST, ORIGINAL_METHOD, ORIGINAL_URI, field, original, without_query},
    query::AuthQuery,
};
use super::{Http, HttpResponse, Problem, problem, render};
use crate::{
    config::{EntrySource, deny_status},
    request::{Descriptor, Request, Subject},
    security::Pass,
    telemetry::Wire,
};

impl Http {
    /// Decides a request that a proxy asks about.
    pub(super) async fn auth(
        &self,
        head: &http::request::Parts,
        peer: SocketAddr,
        pass: &Pass,
    ) -> Result<HttpResponse, Problem> {
        let query = AuthQuery::read(head.uri.query().unwrap_or_default())?;
        let config = &self.0.auth;
        let domain = self.auth_domain(query.domain.as_deref())?;
        if !pass.covers(&domain) {
            return Err(problem::forbidden("the token is not for this domain"));
        }
        let deny = query.deny_status.or_else(|| config.deny_status.and_then(deny_status));
        // A client can cause this, so it gets the status of a denial: proxies such as nginx treat any other status as
        // a failure, and may let failures pass.
        let contradiction = |detail: String| match deny {
            Some(status) => Problem::new(status, "The headers of the request contradict each other", detail),
            None => Problem::bad_request(detail),
        };
        let original = |configured: &Option<HeaderName>, usual: &[HeaderName]| {
            original(&head.headers, configured.as_ref(), usual).map_err(contradiction)
        };
        let address = || config.address.key(Some(peer.ip()), &head.headers).unwrap_or_default();
        let value = |source| -> Result<Cow<'_, str>, Problem> {
            Ok(match source {
                &EntrySource::Address => address().into(),
                EntrySource::Header(name) => field(&head.headers, name),
                EntrySource::Path(header) => without_query(original(header, &ORIGINAL_URI)?),
                EntrySource::Method(header) => original(header, &ORIGINAL_METHOD)?,
                EntrySource::Host(header) => match original(header, &ORIGINAL_HOST)? {
                    Cow::Borrowed("") if header.is_none() => field(&head.headers, &HOST),
                    found => found,
                },
                EntrySource::Value(value) => value.as_str().into(),
            })
        };
        let configured = [config.entries.as_slice()];
        let sources: Vec<&[(String, EntrySource)]> = match query.descriptors.as_slice() {
            [] => configured.into_iter().filter(|entries| !entries.is_empty()).collect(),
            descriptors => descriptors.iter().map(Vec::as_slice).collect(),
        };
        let mut values: Vec<Vec<(&str, Cow<'_, str>)>> = Vec::with_capacity(sources.len());
        for entries in &sources {
            let mut found = Vec::with_capacity(entries.len());
            for (name, source) in *entries {
                let value = value(source)?;
                // An absent or empty header adds no entry; the rules may have a policy for requests without it.
                if !value.is_empty() {
                    found.push((name.as_str(), value));
                }
            }
            values.push(found);
        }
        let key = if sources.is_empty() { address() } else { String::new() };
        // A descriptor without a value is left out, unless it is the only one.
        let entries: Vec<Vec<(&str, &str)>> = values
            .iter()
            .filter(|found| !found.is_empty())
            .map(|found| found.iter().map(|(name, value)| (*name, &**value)).collect())
            .collect();
        let subject = |descriptor| Subject { descriptor, cost: query.cost, ..Subject::key("") };
        let subjects: Vec<Subject<'_>> = match (sources.is_empty(), entries.as_slice()) {
            (true, _) => vec![subject(Descriptor::Key(&key))],
            (false, []) => vec![subject(Descriptor::Entries(&[(NO_VALUE, NO_VALUE)]))],
            (false, entries) => entries.iter().map(|entries| subject(Descriptor::Entries(entries))).collect(),
        };
        let request = Request { domain: &domain, subjects: &subjects, verb: Verb::Take(Take::now()) };
        let answer = self.0.engine.decide(&request).await?;
        Ok(render::allowed_or(deny, &answer, &self.0.fields))
    }

    /// Checks the secret of the proxy, if one is required. A refusal is counted.
    pub(super) fn admit_proxy(&self, headers: &HeaderMap) -> Result<(), Problem> {
        if self.0.auth.secret.admits(headers.get(AUTH_SECRET).map(HeaderValue::as_bytes)) {
            return Ok(());
        }
        self.0.engine.telemetry().refused_tokens.get_or_create(&Wire::Http.label()).inc();
        let detail =
            "/v1/auth needs the secret of --auth-secret-file in the header X-Ratekeeper-Secret; let the proxy set it";
        Err(Problem::new(StatusCode::FORBIDDEN, "The secret of the proxy is required", detail))
    }

    /// The domain: that of the query, else the configured one, else the only one of the rules.
    fn auth_domain(&self, asked: Option<&str>) -> Result<String, Problem> {
        if let Some(domain) = asked.or(self.0.auth.domain.as_deref()) {
            return Ok(domain.to_owned());
        }
        let book = self.0.engine.rulebook();
        match book.only_domain() {
            Some(domain) => Ok(domain.to_owned()),
            None => Err(Problem::bad_request("no domain is named, and the rules have several; add ?domain=…")),
        }
    }
}

/// Whether `/v1/auth` accepts a method: proxies send that of the original request, or GET.
pub(super) fn accepts_method(method: &Method) -> bool {
    !matches!(*method, Method::CONNECT | Method::TRACE)
}

/// The header with the secret of `/v1/auth`. A page cannot make a browser send it to another site.
pub const AUTH_SECRET: HeaderName = HeaderName::from_static("x-ratekeeper-secret");

/// Key and value of the entry for a request without values. No rule file matches it, so only a policy for all requests
/// applies.
const NO_VALUE: &str = "-";
