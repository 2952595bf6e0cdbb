//! Bearer tokens, and which domains each may ask about.
//!
//! A file with one token a line: a name for people, the token or its hash, and domains.
//!
//! ```text
//! # name      token                                    domains
//! edge        Vk3s9…                                   edge,api
//! ops         sha256:9f86d081884c7d659a2feaa0c55ad015… *
//! ```
//!
//! Tokens are kept as SHA-256 and compared in constant time, each with each, so that neither a guess that begins well nor
//! its place in the file can be told by the clock.

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

/// What is kept of a token.
#[derive(Clone, Copy, Debug)]
pub struct TokenDigest([u8; 32]);

impl TokenDigest {
    /// Of a token that somebody presents.
    pub fn of(presented: &[u8]) -> Self {
        Self(Sha256::digest(presented).into())
    }
}

/// What a token lets its bearer do.
#[derive(Debug, Eq, PartialEq)]
pub struct Pass {
    /// Whose it is, for logs.
    pub name: String,
    /// Domains it is good for; nothing: all.
    domains: Option<Vec<String>>,
}

/// Why a file of tokens cannot be used. Tokens themselves are never named.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// It could not be read.
    #[error("{file}: could not be read: {cause}")]
    Unreadable {
        /// Which file.
        file: String,
        /// Why.
        cause: io::Error,
    },
    /// A line is not understood.
    #[error("{file}:{line}: {problem}")]
    Line {
        /// Which file.
        file: String,
        /// Which line.
        line: usize,
        /// What is wrong with it, and what would do.
        problem: &'static str,
    },
}

impl Tokens {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let file = path.display().to_string();
        match fs::read_to_string(path) {
            Ok(text) => Self::parse(&file, &text),
            Err(cause) => Err(TokenError::Unreadable { file, cause }),
        }
    }

    /// Reads the text of a file; `file` is what mistakes are told with.
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
                return Err(wrong("a line is a name, a token and domains, with spaces in between"));
            };
            if tokens.len() >= MAX_TOKENS {
                return Err(wrong("too many tokens; 1000 is the most"));
            }
            let digest = match token.strip_prefix("sha256:") {
                Some(hex) => {
                    read_hex(hex).map(TokenDigest).ok_or_else(|| wrong("after sha256: come 64 hexadecimal digits"))?
                }
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
            let problem = "there is no token in the file; leave the option out to let everybody ask";
            return Err(TokenError::Line { file: file.to_owned(), line: 1, problem });
        }
        Ok(Self(tokens))
    }

    /// What this token is good for.
    pub fn pass(&self, presented: &[u8]) -> Option<Arc<Pass>> {
        self.pass_of(&TokenDigest::of(presented))
    }

    /// What the token with this digest is good for.
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
    /// Whether its bearer may ask about this domain.
    pub fn covers(&self, domain: &str) -> bool {
        self.domains.as_ref().is_none_or(|domains| domains.iter().any(|allowed| allowed == domain))
    }

    /// Whether its bearer may ask about anything, domains or not: throttles belong to none.
    pub fn covers_all(&self) -> bool {
        self.domains.is_none()
    }
}

/// Who may ask on the data ports. Clones share it, and see a file of tokens that was read anew.
#[derive(Clone, Debug, Default)]
pub struct Access(Option<Arc<Known>>);

#[derive(Debug)]
struct Known {
    tokens: ArcSwap<Tokens>,
    /// How often they were read anew.
    generation: AtomicU64,
}

impl Access {
    /// Everybody.
    pub fn open() -> Self {
        Self::default()
    }

    /// Whoever bears one of these tokens.
    pub fn by(tokens: Tokens) -> Self {
        Self(Some(Arc::new(Known { tokens: ArcSwap::from_pointee(tokens), generation: AtomicU64::new(0) })))
    }

    /// Whether nobody needs a token.
    pub fn is_open(&self) -> bool {
        self.0.is_none()
    }

    /// Puts tokens that were read anew into force.
    pub fn renew(&self, tokens: Tokens) {
        if let Some(known) = &self.0 {
            known.tokens.store(Arc::new(tokens));
            known.generation.fetch_add(1, Ordering::Release);
        }
    }

    /// What a token is good for. Where nobody needs one, anything is.
    pub fn pass(&self, presented: Option<&[u8]>) -> Option<Arc<Pass>> {
        match (&self.0, presented) {
            (None, _) => Some(Arc::new(Pass { name: "anybody".to_owned(), domains: None })),
            (Some(known), Some(presented)) => known.tokens.load().pass(presented),
            (Some(_), None) => None,
        }
    }

    /// What the token with this digest is good for; nothing where nobody needs one.
    pub fn pass_of(&self, digest: &TokenDigest) -> Option<Arc<Pass>> {
        self.0.as_ref()?.tokens.load().pass_of(digest)
    }

    /// Another number whenever the tokens were read anew: whoever has shown one before is to be looked at again.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.0.as_ref().map_or(0, |known| known.generation.load(Ordering::Acquire))
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

/// Tokens in one file; each of them is compared with what is presented.
const MAX_TOKENS: usize = 1_000;
/// What is shorter can be guessed.
const MIN_TOKEN_BYTES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# who\nedge  0123456789abcdef  edge,api\n\nops  \
                        sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 *\n";

    #[test]
    fn a_token_is_good_for_its_domains_and_no_other() {
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
