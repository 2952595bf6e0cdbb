//! Requests: the key, cost and policy that every method of a limiter takes.

/// What is asked for: a key, a cost and a policy.
///
/// Every method of a [`Limiter`](crate::Limiter) takes `impl Into<Request>`, so a plain key and a key with a cost need no
/// builder:
///
/// ```
/// use ratekeeper::Request;
///
/// assert_eq!(Request::from("user:42"), Request::new("user:42").cost(1));
/// assert_eq!(Request::from(("user:42", 5)), Request::new("user:42").cost(5));
/// let pro = Request::new("user:42").policy("pro");
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use = "a request does nothing until a limiter decides it"]
pub struct Request<'a> {
    pub(crate) key: &'a str,
    pub(crate) cost: u64,
    /// `None`: the limiter's default policy.
    pub(crate) policy: Option<&'a str>,
}

impl<'a> Request<'a> {
    /// One permit for this key, under the limiter's default policy.
    #[inline]
    pub const fn new(key: &'a str) -> Self {
        Self { key, cost: 1, policy: None }
    }

    /// The number of permits. 0 charges nothing and is admitted even if no permit is left.
    #[inline]
    pub const fn cost(mut self, cost: u64) -> Self {
        self.cost = cost;
        self
    }

    /// The policy that decides, by name: a tier, for example. A name that the limiter does not have is an error
    /// ([`UnknownPolicy`](crate::UnknownPolicy)).
    #[inline]
    pub const fn policy(mut self, name: &'a str) -> Self {
        self.policy = Some(name);
        self
    }
}

/// A key with a cost of 1.
impl<'a, K: AsRef<str> + ?Sized> From<&'a K> for Request<'a> {
    #[inline]
    fn from(key: &'a K) -> Self {
        Self::new(key.as_ref())
    }
}

/// A key with a cost.
impl<'a, K: AsRef<str> + ?Sized> From<(&'a K, u64)> for Request<'a> {
    #[inline]
    fn from((key, cost): (&'a K, u64)) -> Self {
        Self::new(key.as_ref()).cost(cost)
    }
}
