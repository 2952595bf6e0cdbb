//! Properties of the original request: header fields that a proxy sets before it asks `/v1/auth`.

use std::borrow::Cow;

use hyper::{HeaderMap, header::HeaderName};

use crate::lossy_text;

/// The value of a header field as text; empty if absent.
pub(super) fn field<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Cow<'a, str> {
    headers.get(name).map_or(Cow::Borrowed(""), |value| lossy_text::of_bytes(value.as_bytes()))
}

/// A property of the original request, from the header `configured` or else from the usual headers; empty if absent.
/// Proxies differ in the header they set, and a client may add another one. Values that differ are therefore an error.
pub(super) fn original<'a>(
    headers: &'a HeaderMap,
    configured: Option<&HeaderName>,
    usual: &[HeaderName],
) -> Result<Cow<'a, str>, String> {
    if let Some(name) = configured {
        return Ok(field(headers, name));
    }
    let mut found = usual.iter().map(|name| (name, field(headers, name))).filter(|(_, value)| !value.is_empty());
    let Some((name, value)) = found.next() else { return Ok(Cow::Borrowed("")) };
    match found.find(|(_, other)| *other != value) {
        None => Ok(value),
        Some((other, _)) => Err(format!(
            "{name} and {other} have different values; name the header that the proxy sets in the entry, as in path:{name}"
        )),
    }
}

/// The path of a URI, without query and fragment.
pub(super) fn without_query(uri: Cow<'_, str>) -> Cow<'_, str> {
    let end = |uri: &str| uri.find(['?', '#']).unwrap_or(uri.len());
    match uri {
        Cow::Borrowed(uri) => Cow::Borrowed(&uri[..end(uri)]),
        Cow::Owned(mut uri) => {
            uri.truncate(end(&uri));
            Cow::Owned(uri)
        }
    }
}

/// Headers with the URI of the original request, as different proxies name them.
pub(super) const ORIGINAL_URI: [HeaderName; 3] = [
    HeaderName::from_static("x-original-uri"),
    HeaderName::from_static("x-forwarded-uri"),
    HeaderName::from_static("x-original-url"),
];
/// Headers with its method.
pub(super) const ORIGINAL_METHOD: [HeaderName; 2] =
    [HeaderName::from_static("x-original-method"), HeaderName::from_static("x-forwarded-method")];
/// Headers with its host name.
pub(super) const ORIGINAL_HOST: [HeaderName; 2] =
    [HeaderName::from_static("x-original-host"), HeaderName::from_static("x-forwarded-host")];
