//! Tokens of service accounts: the API server says whose they are (`TokenReview`), and is asked once in a
//! while.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::StatusCode;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use kube::Api;
use kube::api::PostParams;
use tokio::time::{Instant, timeout};

use super::entry::{TokenDigest, digest, unauthorized};
use super::failure::NotDone;

/// How long the API server may take.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a token that is known stays so; one that is withdrawn counts that much longer.
const KNOWN_FOR: Duration = Duration::from_secs(10);
/// How long one that is not is not asked for again.
const UNKNOWN_FOR: Duration = Duration::from_secs(1);
/// Tokens that are remembered at a time; each takes some hundred bytes.
const REMEMBERED_MAX: usize = 1_024;

/// Whose tokens count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReviewPolicy {
    /// For whom a token must be made; one of these.
    pub audiences: Vec<String>,
    /// Whose: `system:serviceaccount:NAMESPACE:NAME`, or `NAMESPACE/NAME`. Nobody's, where this and the
    /// namespaces are empty, unless anybody's count.
    pub accounts: Vec<String>,
    /// Or any of these namespaces.
    pub namespaces: Vec<String>,
    /// Whether every service account counts.
    pub any_account: bool,
}

/// Asks the API server whose a token is.
pub(super) struct Reviewer {
    reviews: Api<TokenReview>,
    policy: ReviewPolicy,
    remembered: Mutex<BTreeMap<TokenDigest, Remembered>>,
}

#[derive(Clone)]
struct Remembered {
    verdict: Result<Arc<str>, NotDone>,
    until: Instant,
}

impl ReviewPolicy {
    /// What is wrong with it: nobody could be let in.
    #[must_use]
    pub fn lets_nobody_in(&self) -> bool {
        !self.any_account && self.accounts.is_empty() && self.namespaces.is_empty()
    }

    fn admits(&self, user: &str) -> bool {
        let Some(account) = user.strip_prefix("system:serviceaccount:") else {
            return false;
        };
        let Some((namespace, name)) = account.split_once(':') else {
            return false;
        };
        let short = format!("{namespace}/{name}");
        let is_listed = |listed: &String| listed == user || *listed == short;
        self.any_account
            || self.accounts.iter().any(is_listed)
            || self.namespaces.iter().any(|listed| listed == namespace)
    }

    /// What comes of a review.
    fn verdict(&self, review: &TokenReview) -> Result<Arc<str>, NotDone> {
        let status = review.status.as_ref();
        let user = status.and_then(|status| {
            let user = status.user.as_ref()?.username.as_deref()?;
            status.authenticated.unwrap_or(false).then_some(user)
        });
        let Some(user) = user else {
            return Err(unauthorized("the token is not known to the API server"));
        };
        let given = status.and_then(|status| status.audiences.as_deref());
        let given = given.unwrap_or_default();
        let is_meant = |audience: &String| given.contains(audience);
        if !self.audiences.is_empty() && !self.audiences.iter().any(is_meant) {
            return Err(unauthorized("the token is made for another audience"));
        }
        if !self.admits(user) {
            let why = format!("{user} may not use this sidecar");
            return Err(NotDone::new(StatusCode::FORBIDDEN, why));
        }
        Ok(user.into())
    }
}

impl Reviewer {
    pub(super) fn new(client: kube::Client, policy: ReviewPolicy) -> Self {
        Self {
            reviews: Api::all(client),
            policy,
            remembered: Mutex::default(),
        }
    }

    /// Whose a token is.
    ///
    /// # Errors
    /// 503 where the API server does not say.
    pub(super) async fn admit(&self, token: &str) -> Result<Arc<str>, NotDone> {
        let (key, now) = (digest(token), Instant::now());
        if let Some(known) = self.remembered(&key, now) {
            return known;
        }
        let verdict = self.policy.verdict(&self.send(token).await?);
        let lasts = if verdict.is_ok() {
            KNOWN_FOR
        } else {
            UNKNOWN_FOR
        };
        let until = now + lasts;
        let mut remembered = self.lock();
        if remembered.len() >= REMEMBERED_MAX {
            remembered.retain(|_, one| one.until > now);
        }
        if remembered.len() < REMEMBERED_MAX {
            let verdict = verdict.clone();
            remembered.insert(key, Remembered { verdict, until });
        }
        verdict
    }

    async fn send(&self, token: &str) -> Result<TokenReview, NotDone> {
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: token.to_owned(),
                audiences: Some(self.policy.audiences.clone()),
            },
            ..TokenReview::default()
        };
        let options = PostParams::default();
        let asked = timeout(REVIEW_TIMEOUT, self.reviews.create(&options, &review)).await;
        let why = match asked {
            Ok(Ok(review)) => return Ok(review),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {REVIEW_TIMEOUT:?}"),
        };
        let error = "the API server does not say whose the token is";
        let failure = NotDone::new(StatusCode::SERVICE_UNAVAILABLE, error);
        Err(failure.with_details(why).after(Duration::from_secs(1)))
    }

    fn remembered(&self, key: &TokenDigest, now: Instant) -> Option<Result<Arc<str>, NotDone>> {
        let remembered = self.lock();
        let known = remembered.get(key).filter(|known| known.until > now)?;
        Some(known.verdict.clone())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<TokenDigest, Remembered>> {
        self.remembered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::{Request, Response};
    use kube::client::Body;

    use super::*;

    /// A client of an API server that gives this answer and counts.
    fn client(code: u16, body: &'static str, count: Arc<AtomicUsize>) -> kube::Client {
        let service = tower::service_fn(move |_request: Request<Body>| {
            count.fetch_add(1, Ordering::Relaxed);
            let answer = Response::builder().status(code);
            let answer = answer.header("content-type", "application/json");
            let answer = answer.body(Body::from(body.as_bytes().to_vec()));
            async move { Ok::<_, Infallible>(answer.expect("it is an answer")) }
        });
        kube::Client::new(service, "default")
    }

    const KNOWN: &str = r#"{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {},
        "status": {"authenticated": true, "audiences": ["bindcar"],
                   "user": {"username": "system:serviceaccount:dns:bindery"}}}"#;

    fn policy(accounts: &[&str]) -> ReviewPolicy {
        ReviewPolicy {
            audiences: vec!["bindcar".to_owned()],
            accounts: accounts.iter().map(|&one| one.to_owned()).collect(),
            ..ReviewPolicy::default()
        }
    }

    async fn code(reviewer: &Reviewer) -> u16 {
        match reviewer.admit("token").await {
            Ok(_) => 200,
            Err(failure) => failure.code.as_u16(),
        }
    }

    #[tokio::test]
    async fn whom_the_api_server_knows_and_we_list_may_ask() {
        let count = Arc::new(AtomicUsize::new(0));
        let reviewer = |body, policy| Reviewer::new(client(201, body, Arc::clone(&count)), policy);
        let full = "system:serviceaccount:dns:bindery";
        assert_eq!(code(&reviewer(KNOWN, policy(&[full]))).await, 200);
        assert_eq!(code(&reviewer(KNOWN, policy(&["dns/bindery"]))).await, 200);
        assert_eq!(code(&reviewer(KNOWN, policy(&["dns/other"]))).await, 403);
        assert_eq!(code(&reviewer(KNOWN, policy(&[]))).await, 403);
        let mut other = policy(&[full]);
        other.audiences = vec!["api".to_owned()];
        assert_eq!(code(&reviewer(KNOWN, other)).await, 401);
        let unknown = r#"{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {},
            "status": {"authenticated": false, "user": {"username": "system:serviceaccount:dns:bindery"}}}"#;
        assert_eq!(code(&reviewer(unknown, policy(&[full]))).await, 401);
    }

    #[tokio::test(start_paused = true)]
    async fn the_api_server_is_asked_once_in_a_while() {
        let count = Arc::new(AtomicUsize::new(0));
        let reviewer = Reviewer::new(
            client(201, KNOWN, Arc::clone(&count)),
            policy(&["dns/bindery"]),
        );
        for _ in 0..5 {
            assert_eq!(code(&reviewer).await, 200);
        }
        assert_eq!(count.load(Ordering::Relaxed), 1);
        tokio::time::advance(KNOWN_FOR).await;
        assert_eq!(code(&reviewer).await, 200);
        assert_eq!(count.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn an_api_server_that_is_away_lets_nobody_in() {
        let body = r#"{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "x", "message": "away", "code": 500}"#;
        let count = Arc::new(AtomicUsize::new(0));
        let reviewer = Reviewer::new(client(500, body, count), policy(&["dns/bindery"]));
        assert_eq!(code(&reviewer).await, 503);
        assert_eq!(code(&reviewer).await, 503);
    }
}
