//! Clients that act as service accounts, one account for each controller (`--use-service-account-credentials`).
//!
//! As in kube-controller-manager (`staging/src/k8s.io/controller-manager/pkg/clientbuilder/client_builder_dynamic.go`):
//! the accounts are in `kube-system` and have the names of the clients. A token is requested with the program's own
//! credentials when the first request needs one, and again after 80 % of its lifetime. A missing account is created.

use std::sync::Arc;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderValue, Request, StatusCode};
use kube::Client;
use kube::client::Body;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Mutex;
use tower::BoxError;

use crate::runtime::clock::Clock;
use crate::runtime::error::ApiError;
use crate::runtime::url;

/// Namespace of the accounts.
const NAMESPACE: &str = "kube-system";

/// Requested lifetime of a token, as upstream. The server may shorten it.
const LIFETIME_SECONDS: u32 = 3600;

/// Pause after a token could not be renewed, while the old one is still valid.
const RENEWAL_PAUSE: Duration = Duration::from_secs(10);

/// Error of a request for which no token is available.
#[derive(Debug, thiserror::Error)]
#[error(
    "unable to get a token of service account {NAMESPACE}/{account}, check that this program's own account may create \
     serviceaccounts/token: {why}"
)]
struct TokenError {
    account: String,
    why: ApiError,
}

/// Creates a client that acts as the service account `account`. It requests tokens with `own` and sends everything else
/// with `anonymous`, a client without credentials.
pub(super) fn client(account: &str, own: Client, anonymous: Client, clock: Clock) -> Client {
    let namespace = anonymous.default_namespace().to_owned();
    let source = Arc::new(TokenSource { account: account.to_owned(), own, clock, cached: Mutex::default() });
    let service = tower::service_fn(move |mut request: Request<Body>| {
        let source = Arc::clone(&source);
        let anonymous = anonymous.clone();
        async move {
            let header = source.header().await?;
            request.headers_mut().insert(AUTHORIZATION, header.clone());
            let response = anonymous.send(request).await?;
            if response.status() == StatusCode::UNAUTHORIZED {
                source.discard(&header).await;
            }
            Ok::<_, BoxError>(response)
        }
    });
    Client::new(service, namespace)
}

/// The token of one account.
struct TokenSource {
    account: String,
    own: Client,
    clock: Clock,
    /// Locked while a token is requested, so that concurrent requests wait for the same one.
    cached: Mutex<Option<Token>>,
}

/// A token and its times on the monotonic clock.
struct Token {
    header: HeaderValue,
    renew_at: Duration,
    expires_at: Duration,
}

/// The part of a `TokenRequest` that is read. The server writes the lifetime that it grants into the spec.
#[derive(Deserialize)]
struct TokenRequest {
    spec: TokenRequestSpec,
    status: TokenRequestStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TokenRequestSpec {
    #[serde(default)]
    expiration_seconds: Option<u32>,
}

#[derive(Deserialize)]
struct TokenRequestStatus {
    token: String,
}

impl TokenSource {
    /// Returns the `Authorization` header of the next request.
    async fn header(&self) -> Result<HeaderValue, TokenError> {
        let mut cached = self.cached.lock().await;
        let now = self.clock.monotonic();
        if let Some(token) = cached.as_ref().filter(|token| now < token.renew_at) {
            return Ok(token.header.clone());
        }
        match (self.request(now).await, &mut *cached) {
            (Ok(token), cached) => Ok(cached.insert(token).header.clone()),
            (Err(error), Some(token)) if now < token.expires_at => {
                tracing::warn!(account = self.account, %error, "unable to renew the token, using the old one");
                token.renew_at = now.saturating_add(RENEWAL_PAUSE);
                Ok(token.header.clone())
            }
            (Err(why), _) => Err(TokenError { account: self.account.clone(), why }),
        }
    }

    /// Forgets the token that the server rejected, unless it was replaced in the meantime.
    async fn discard(&self, rejected: &HeaderValue) {
        let mut cached = self.cached.lock().await;
        if cached.as_ref().is_some_and(|token| token.header == rejected) {
            *cached = None;
        }
    }

    async fn request(&self, now: Duration) -> Result<Token, ApiError> {
        let answer = match self.request_token().await {
            Err(ApiError::NotFound(_)) => {
                self.create_account().await?;
                self.request_token().await?
            }
            answer => answer?,
        };
        let lifetime = Duration::from_secs(answer.spec.expiration_seconds.unwrap_or(LIFETIME_SECONDS).into());
        let mut header = HeaderValue::try_from(format!("Bearer {}", answer.status.token))
            .map_err(|error| ApiError::Transport(format!("the server issued an unusable token: {error}")))?;
        header.set_sensitive(true);
        let expires_at = now.saturating_add(lifetime);
        Ok(Token { header, renew_at: now.saturating_add(lifetime * 4 / 5), expires_at })
    }

    async fn request_token(&self) -> Result<TokenRequest, ApiError> {
        let path = url::path(&["api", "v1", "namespaces", NAMESPACE, "serviceaccounts", &self.account, "token"]);
        let body = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": { "expirationSeconds": LIFETIME_SECONDS } });
        self.post(&path, &body).await
    }

    async fn create_account(&self) -> Result<(), ApiError> {
        let path = url::path(&["api", "v1", "namespaces", NAMESPACE, "serviceaccounts"]);
        let body = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": self.account } });
        match self.post::<serde::de::IgnoredAny>(&path, &body).await {
            Ok(_) => {
                tracing::info!(account = self.account, namespace = NAMESPACE, "created the service account");
                Ok(())
            }
            // Another replica, or kube-controller-manager, created it.
            Err(ApiError::Conflict(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn post<T: serde::de::DeserializeOwned>(&self, path: &str, body: &serde_json::Value) -> Result<T, ApiError> {
        let request = Request::post(path).header(http::header::CONTENT_TYPE, "application/json");
        let request = request.body(body.to_string().into_bytes()).map_err(kube::Error::HttpError)?;
        Ok(self.own.request(request).await?)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use rstest::rstest;
    use serde_json::Value;

    use super::*;
    use crate::runtime::testing::{MockResponse, ReceivedRequest, RequestLog, failure, script, serve};

    const TOKEN: &str = "POST /api/v1/namespaces/kube-system/serviceaccounts/ttl-controller/token";
    const ACCOUNTS: &str = "POST /api/v1/namespaces/kube-system/serviceaccounts";

    /// Grants a token named `name` for `seconds`.
    fn grant(name: &str, seconds: u32) -> MockResponse {
        MockResponse::Json(201, json!({ "spec": { "expirationSeconds": seconds }, "status": { "token": name } }))
    }

    /// A client of the account `ttl-controller`, the log of the program's own requests and that of the account's.
    fn start(
        own: impl Fn(&ReceivedRequest) -> MockResponse + Send + Sync + 'static,
        acting: impl Fn(&ReceivedRequest) -> MockResponse + Send + Sync + 'static,
    ) -> (Client, Clock, RequestLog, RequestLog) {
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
        let ((own, requested), (anonymous, sent)) = (serve(&clock, own), serve(&clock, acting));
        (client("ttl-controller", own, anonymous, clock.clone()), clock, requested, sent)
    }

    fn fine(_: &ReceivedRequest) -> MockResponse {
        MockResponse::Json(200, json!({}))
    }

    async fn ask(client: &Client) -> Result<Value, ApiError> {
        Ok(client.request(Request::get("/x").body(Vec::new()).unwrap()).await?)
    }

    fn lines(log: &RequestLog) -> Vec<String> {
        log.lock().iter().map(|seen| seen.line.clone()).collect()
    }

    /// The `Authorization` of the latest request.
    fn shown(log: &RequestLog) -> String {
        log.lock().last().unwrap().authorization.clone()
    }

    #[tokio::test(start_paused = true)]
    async fn requests_that_begin_together_share_one_token() {
        let (client, _, requested, sent) = start(|_| grant("t1", 3600), fine);
        futures::future::join_all((0..5).map(|_| ask(&client)))
            .await
            .into_iter()
            .for_each(|answer| drop(answer.unwrap()));
        assert_eq!(lines(&requested), [TOKEN]);
        let body = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": { "expirationSeconds": 3600 } });
        assert_eq!(requested.lock()[0].body, body);
        assert_eq!(requested.lock()[0].authorization, "", "the transport of the own client adds its own");
        let sent: Vec<String> = sent.lock().iter().map(|seen| seen.authorization.clone()).collect();
        assert_eq!(sent, ["Bearer t1"; 5]);
    }

    #[rstest]
    #[case::an_hour(3600, 2880)]
    #[case::shortened_by_the_server(600, 480)]
    #[tokio::test(start_paused = true)]
    async fn a_token_is_renewed_after_four_fifths_of_its_lifetime(#[case] granted: u32, #[case] renewed: u64) {
        let number = AtomicU32::new(0);
        let next = move |_: &ReceivedRequest| grant(&format!("t{}", number.fetch_add(1, Ordering::Relaxed)), granted);
        let (client, clock, _, sent) = start(next, fine);
        ask(&client).await.unwrap();
        clock.sleep(Duration::from_secs(renewed - 1)).await;
        ask(&client).await.unwrap();
        assert_eq!(shown(&sent), "Bearer t0");
        clock.sleep(Duration::from_secs(1)).await;
        ask(&client).await.unwrap();
        assert_eq!(shown(&sent), "Bearer t1");
    }

    #[rstest]
    #[case::created(MockResponse::Json(201, json!({})))]
    #[case::created_by_another(failure(409, "AlreadyExists"))]
    #[tokio::test(start_paused = true)]
    async fn a_missing_account_is_created(#[case] answer: MockResponse) {
        let own = script(vec![failure(404, "NotFound"), answer, grant("t1", 3600)]);
        let (client, _, requested, sent) = start(own, fine);
        ask(&client).await.unwrap();
        assert_eq!(lines(&requested), [TOKEN, ACCOUNTS, TOKEN]);
        let body = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "ttl-controller" } });
        assert_eq!(requested.lock()[1].body, body);
        assert_eq!(shown(&sent), "Bearer t1");
    }

    #[tokio::test(start_paused = true)]
    async fn an_account_that_may_not_be_created_is_an_error() {
        let own = script(vec![failure(404, "NotFound"), failure(403, "Forbidden")]);
        let (client, _, requested, sent) = start(own, fine);
        let error = ask(&client).await.unwrap_err().to_string();
        assert!(error.contains("service account kube-system/ttl-controller") && error.contains("Forbidden"), "{error}");
        assert_eq!(lines(&requested), [TOKEN, ACCOUNTS]);
        assert_eq!(lines(&sent), [] as [&str; 0], "nothing is sent without an identity");
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_that_cannot_be_renewed_is_used_until_it_expires() {
        let number = AtomicU32::new(0);
        let once = move |_: &ReceivedRequest| match number.fetch_add(1, Ordering::Relaxed) {
            0 => grant("t0", 3600),
            _ => failure(503, "ServiceUnavailable"),
        };
        let (client, clock, requested, sent) = start(once, fine);
        ask(&client).await.unwrap();
        clock.sleep(Duration::from_mins(48)).await;
        for (pause, tries) in [(0, 2), (9, 2), (1, 3)] {
            clock.sleep(Duration::from_secs(pause)).await;
            ask(&client).await.unwrap();
            assert_eq!((shown(&sent).as_str(), lines(&requested).len()), ("Bearer t0", tries));
        }
        clock.sleep(Duration::from_secs(710)).await;
        let error = ask(&client).await.unwrap_err().to_string();
        assert!(error.contains("may create serviceaccounts/token: ServiceUnavailable"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_rejected_token_is_replaced() {
        let number = AtomicU32::new(0);
        let next = move |_: &ReceivedRequest| grant(&format!("t{}", number.fetch_add(1, Ordering::Relaxed)), 3600);
        let acting = |seen: &ReceivedRequest| match seen.authorization.as_str() {
            "Bearer t0" => failure(401, "Unauthorized"),
            _ => MockResponse::Json(200, json!({})),
        };
        let (client, _, requested, _) = start(next, acting);
        assert!(ask(&client).await.is_err());
        ask(&client).await.unwrap();
        ask(&client).await.unwrap();
        assert_eq!(lines(&requested), [TOKEN, TOKEN]);
    }
}
