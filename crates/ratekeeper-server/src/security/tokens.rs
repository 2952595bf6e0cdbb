//! Bearer tokens of the data ports, with the domains that each token gives access to.
//!
//! The token file has one token per line: a name for logs, the token or its SHA-256, and the domains.
//!
//! ```text
//! # name      token                                    domains
//! edge        Vk3s9…                                   edge,api
//! ops         sha256:9f86d081884c7d659a2feaa0c55ad015… *
//! ```
//!
//! Tokens are kept as SHA-256 digests. A presented token is compared with all of them, each in constant time, so that
//! the duration reveals neither a matching prefix nor the position in the file.
//!
//! Bound: [`MAX_TOKENS`] tokens.

use std::{
    fs, io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use arc_swap::ArcSwap;
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

/// The tokens of a file.
#[derive(Debug, Default)]
pub struct Tokens(Vec<Token>);

#[derive(Debug)]
struct Token {
    pass: Arc<Pass>,
    digest: TokenDigest,
}

/// The SHA-256 digest of a token.
#[derive(Clone, Copy, Debug)]
pub struct TokenDigest([u8; 32]);

impl TokenDigest {
    /// The digest of a presented token.
    pub fn of(presented: &[u8]) -> Self {
        Self(Sha256::digest(presented).into())
    }
}

/// The access that a token gives.
#[derive(Debug, Eq, PartialEq)]
pub struct Pass {
    /// The token's name, for logs.
    pub name: String,
    /// Domains that it gives access to. `None`: all.
    domains: Option<Vec<String>>,
}

/// Why a token file cannot be used. Messages never contain a token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file could not be read.
    #[error("{file}: could not be read: {cause}")]
    Unreadable {
        /// The path of the file.
        file: String,
        /// The I/O error.
        cause: io::Error,
    },
    /// A line is not valid, or the file has no token.
    #[error("{file}:{line}: {problem}")]
    Line {
        /// The path of the file.
        file: String,
        /// The line number, from 1.
        line: usize,
        /// The error and its remedy.
        problem: &'static str,
    },
}

impl Tokens {
    /// Reads a token file.
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let file = path.display().to_string();
        match fs::read_to_string(path) {
            Ok(text) => Self::parse(&file, &text),
            Err(cause) => Err(TokenError::Unreadable { file, cause }),
        }
    }

    /// Parses the text of a token file. `file` is its name in errors.
    pub fn parse(file: &str, text: &str) -> Result<Self, TokenError> {
        let mut tokens = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |problem| TokenError::Line { file: file.to_owned(), line: index + 1, problem };
            let words: Vec<&str> = line.split_whitespace().collect();
            let [name, token, domains] = words[..] else {
                return Err(wrong("a line is a name, a token and domains, separated by spaces"));
            };
            if tokens.len() >= MAX_TOKENS {
                return Err(wrong("too many tokens; 1000 is the most"));
            }
            let digest = match token.strip_prefix("sha256:") {
                Some(hex) => read_hex(hex)
                    .map(TokenDigest)
                    .ok_or_else(|| wrong("sha256: must be followed by 64 hexadecimal digits"))?,
                None if token.len() < MIN_TOKEN_BYTES => return Err(wrong("the token is short; use 16 bytes or more")),
                None => TokenDigest::of(token.as_bytes()),
            };
            let domains = match domains {
                "*" => None,
                list => Some(list.split(',').map(str::to_owned).collect()),
            };
            tokens.push(Token { pass: Arc::new(Pass { name: name.to_owned(), domains }), digest });
        }
        if tokens.is_empty() {
            let problem = "there is no token in the file; remove the option to require no token";
            return Err(TokenError::Line { file: file.to_owned(), line: 1, problem });
        }
        Ok(Self(tokens))
    }

    /// The access that this token gives, `None` if it is unknown.
    pub fn pass(&self, presented: &[u8]) -> Option<Arc<Pass>> {
        self.pass_of(&TokenDigest::of(presented))
    }

    /// The access that the token with this digest gives, `None` if it is unknown.
    pub fn pass_of(&self, digest: &TokenDigest) -> Option<Arc<Pass>> {
        let mut found = None;
        for token in &self.0 {
            let same: Choice = token.digest.0.ct_eq(&digest.0);
            if bool::from(same) {
                found = Some(Arc::clone(&token.pass));
            }
        }
        found
    }
}

impl Pass {
    /// Whether the token gives access to this domain.
    pub fn covers(&self, domain: &str) -> bool {
        self.domains.as_ref().is_none_or(|domains| domains.iter().any(|allowed| allowed == domain))
    }

    /// Whether the token gives access to all domains. Required for the throttle commands of the RESP port, whose limits
    /// belong to no domain.
    pub fn covers_all(&self) -> bool {
        self.domains.is_none()
    }
}

/// Access control of the data ports. Clones share it and see reloaded tokens.
#[derive(Clone, Debug, Default)]
pub struct Access(Option<Arc<TokenStore>>);

#[derive(Debug)]
struct TokenStore {
    tokens: ArcSwap<Tokens>,
    /// Number of reloads.
    generation: AtomicU64,
}

impl Access {
    /// Access without a token.
    pub fn open() -> Self {
        Self::default()
    }

    /// Access with one of these tokens.
    pub fn by(tokens: Tokens) -> Self {
        Self(Some(Arc::new(TokenStore { tokens: ArcSwap::from_pointee(tokens), generation: AtomicU64::new(0) })))
    }

    /// Whether no token is required.
    pub fn is_open(&self) -> bool {
        self.0.is_none()
    }

    /// Replaces the tokens and increments the generation. Has no effect if no token is required.
    pub fn renew(&self, tokens: Tokens) {
        if let Some(store) = &self.0 {
            store.tokens.store(Arc::new(tokens));
            store.generation.fetch_add(1, Ordering::Release);
        }
    }

    /// The access that a token gives, `None` if it is missing or unknown. If no token is required, access to
    /// everything.
    pub fn pass(&self, presented: Option<&[u8]>) -> Option<Arc<Pass>> {
        match (&self.0, presented) {
            (None, _) => Some(Arc::new(Pass { name: "anonymous".to_owned(), domains: None })),
            (Some(store), Some(presented)) => store.tokens.load().pass(presented),
            (Some(_), None) => None,
        }
    }

    /// The access that the token with this digest gives. `None` if it is unknown, or if no token is required.
    pub fn pass_of(&self, digest: &TokenDigest) -> Option<Arc<Pass>> {
        self.0.as_ref()?.tokens.load().pass_of(digest)
    }

    /// Changes with each reload of the tokens. A connection that keeps a [`Pass`] has to check its token again.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.0.as_ref().map_or(0, |store| store.generation.load(Ordering::Acquire))
    }
}

fn read_hex(hex: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    if hex.len() != 64 || !hex.is_ascii() {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(hex.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(digest)
}

/// Tokens in one file. A presented token is compared with all of them.
const MAX_TOKENS: usize = 1_000;
/// Shorter tokens could be guessed.
const MIN_TOKEN_BYTES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# name\nedge  0123456789abcdef  edge,api\n\nops  \
                        sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 *\n";

    #[test]
    fn a_token_covers_its_domains_only() {
        let tokens = Tokens::parse("tokens", FILE).unwrap();
        let edge = tokens.pass(b"0123456789abcdef").unwrap();
        assert!(edge.covers("edge") && edge.covers("api") && !edge.covers("other") && !edge.covers_all());
        assert!(tokens.pass(b"test").unwrap().covers_all(), "the hash of \"test\"");
        for wrong in [&b"0123456789abcdeF"[..], b"", b"0123456789abcdef ", &[0xff; 300]] {
            assert_eq!(tokens.pass(wrong), None);
        }
    }

    #[test]
    fn mistakes_name_the_line_and_never_the_token() {
        for (text, part) in [
            ("a b\n", "tokens:1: a line is"),
            ("\na canary123 *\n", "tokens:2: the token is short"),
            ("a sha256:12 *\n", "64 hexadecimal digits"),
            ("# none\n", "no token in the file"),
        ] {
            let message = Tokens::parse("tokens", text).unwrap_err().to_string();
            assert!(message.contains(part) && !message.contains("canary"), "{message}");
        }
    }
}
