//! Who may ask: whoever has the token, or a service account that the API server vouches for.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{HeaderMap, StatusCode, header};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use zeroize::Zeroizing;

use super::failure::NotDone;
use super::review::{ReviewPolicy, Reviewer};

/// How long the content of a token file counts before it is read again.
const REREAD: Duration = Duration::from_secs(1);

/// What callers have to show.
pub enum Entry {
    /// Nothing.
    Open,
    /// One of the tokens of a file, one in each line; it is read again and again, so that tokens can be
    /// exchanged while both count.
    TokenFile(PathBuf),
    /// This token.
    Token(Zeroizing<String>),
    /// A token that the API server knows.
    Review {
        /// Who is asked.
        client: kube::Client,
        /// Whose tokens count.
        policy: ReviewPolicy,
    },
}

impl Entry {
    /// Whether anybody may ask.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self, Self::Open)
    }
}

/// The digest of a token: two of them are compared, so that how long that takes tells nothing of either.
pub(super) type TokenDigest = [u8; 32];

/// Lets in who may ask.
pub(super) enum Doorkeeper {
    Open,
    File(TokenFile),
    Fixed(TokenDigest),
    Review(Box<Reviewer>),
}

/// The tokens of a file, as of when.
pub(super) struct TokenFile {
    path: PathBuf,
    read: Mutex<Option<(Instant, Arc<[TokenDigest]>)>>,
}

impl Doorkeeper {
    pub(super) fn new(entry: Entry) -> Self {
        match entry {
            Entry::Open => Self::Open,
            Entry::Token(token) => Self::Fixed(digest(token.trim())),
            Entry::TokenFile(path) => Self::File(TokenFile {
                path,
                read: Mutex::default(),
            }),
            Entry::Review { client, policy } => {
                Self::Review(Box::new(Reviewer::new(client, policy)))
            }
        }
    }

    /// Who asks, for the log.
    ///
    /// # Errors
    /// 401 for a token that nobody knows, 403 for one that does not count here, 503 where it cannot be
    /// found out.
    pub(super) async fn admit(&self, headers: &HeaderMap) -> Result<Arc<str>, NotDone> {
        if let Self::Open = self {
            return Ok("anybody".into());
        }
        let token = bearer(headers)?;
        let known = match self {
            Self::Open => true,
            Self::Fixed(known) => is_same(&digest(token), known),
            Self::File(file) => {
                let given = digest(token);
                // All are compared, whichever it is.
                let known = file.fetch().await?;
                let same = known.iter().map(|one| is_same(&given, one));
                same.fold(false, |any, one| any | one)
            }
            Self::Review(reviewer) => return reviewer.admit(token).await,
        };
        if known {
            return Ok("token".into());
        }
        Err(unauthorized("the token is not known"))
    }
}

impl TokenFile {
    async fn fetch(&self) -> Result<Arc<[TokenDigest]>, NotDone> {
        let now = Instant::now();
        if let Some((since, tokens)) = &*self.read.lock().unwrap_or_else(PoisonError::into_inner)
            && now.duration_since(*since) < REREAD
        {
            return Ok(Arc::clone(tokens));
        }
        let text = tokio::fs::read_to_string(&self.path).await;
        let text = Zeroizing::new(text.map_err(|error| {
            let why = format!("{}: {error}", self.path.display());
            NotDone::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "the token file cannot be read",
            )
            .with_details(why)
        })?);
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let tokens: Arc<[TokenDigest]> = lines.map(digest).collect();
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        *read = Some((now, Arc::clone(&tokens)));
        Ok(tokens)
    }
}

pub(super) fn unauthorized(why: &str) -> NotDone {
    NotDone::new(StatusCode::UNAUTHORIZED, why)
}

pub(super) fn digest(token: &str) -> TokenDigest {
    Sha256::digest(token.as_bytes()).into()
}

/// The token of a request.
fn bearer(headers: &HeaderMap) -> Result<&str, NotDone> {
    let Some(value) = headers.get(header::AUTHORIZATION) else {
        return Err(unauthorized("the header Authorization is missing"));
    };
    let token = value.to_str().ok().and_then(|text| {
        let (scheme, token) = text.split_once(' ')?;
        let token = token.trim();
        (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
    });
    token.ok_or_else(|| unauthorized("the header Authorization has to be `Bearer TOKEN`"))
}

fn is_same(one: &TokenDigest, other: &TokenDigest) -> bool {
    let differences = one
        .iter()
        .zip(other)
        .fold(0, |sum, (one, other)| sum | (one ^ other));
    differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn code(keeper: &Doorkeeper, authorization: &str) -> u16 {
        let mut headers = HeaderMap::new();
        if !authorization.is_empty() {
            headers.insert(header::AUTHORIZATION, authorization.parse().unwrap());
        }
        match keeper.admit(&headers).await {
            Ok(_) => 200,
            Err(failure) => failure.code.as_u16(),
        }
    }

    #[tokio::test]
    async fn only_the_token_opens() {
        let keeper = Doorkeeper::new(Entry::Token(Zeroizing::new("secret".to_owned())));
        for (authorization, expected) in [
            ("Bearer secret", 200),
            ("bearer secret", 200),
            ("Bearer  secret ", 200),
            ("", 401),
            ("Bearer ", 401),
            ("Bearer secre", 401),
            ("Bearer secrets", 401),
            ("Basic secret", 401),
            ("secret", 401),
        ] {
            assert_eq!(
                code(&keeper, authorization).await,
                expected,
                "{authorization}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_of_a_file_are_exchanged_while_both_count() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let keeper = Doorkeeper::new(Entry::TokenFile(path.clone()));
        assert_eq!(code(&keeper, "Bearer one").await, 503, "never open");
        std::fs::write(&path, "one\n").unwrap();
        assert_eq!(code(&keeper, "Bearer one").await, 200);
        std::fs::write(&path, "one\ntwo\n").unwrap();
        tokio::time::advance(REREAD).await;
        assert_eq!(code(&keeper, "Bearer one").await, 200);
        assert_eq!(code(&keeper, "Bearer two").await, 200);
        std::fs::write(&path, "two\n").unwrap();
        tokio::time::advance(REREAD).await;
        assert_eq!(code(&keeper, "Bearer one").await, 401);
        std::fs::write(&path, "\n").unwrap();
        tokio::time::advance(REREAD).await;
        assert_eq!(
            code(&keeper, "Bearer ").await,
            401,
            "an empty file opens for nobody"
        );
    }
}
