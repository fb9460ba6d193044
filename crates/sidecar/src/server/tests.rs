//! What is answered where no `named` is needed, over loopback.

use std::net::SocketAddr;
use std::time::Duration;

use bindery_dns::Key;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use zeroize::Zeroizing;

use super::*;
use crate::client::{ClientToken, SidecarClient, SidecarClientOptions};

/// A sidecar whose `named` does not run.
struct Scene {
    address: SocketAddr,
    folder: tempfile::TempDir,
}

fn setup(folder: &std::path::Path) -> ServerSetup {
    let key = Key::generate("control", [1; 32]).unwrap();
    ServerSetup {
        named: NamedOptions {
            signing_keys: None,
            makes_no_signing_keys: false,
            folder: folder.to_owned(),
            control: "127.0.0.1:1".parse().unwrap(),
            control_key: key.clone(),
            dns: "127.0.0.1:1".to_owned(),
            update_key: Some(key),
            keys: None,
            patience: Duration::from_millis(100),
            clock: Arc::new(|| 1_795_000_000),
            random: Arc::new(|| 7),
        },
        entry: Entry::Token(Zeroizing::new("secret".to_owned())),
        limits: None,
        expected: None,
        waits_for_expected: false,
        tls: None,
    }
}

impl Scene {
    async fn new(change: impl FnOnce(&mut ServerSetup)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut setup = setup(folder.path());
        change(&mut setup);
        let server = SidecarServer::new(setup).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(server.serve(listener, CancellationToken::new()));
        Self { address, folder }
    }

    /// Sends a head and a body; the whole answer.
    async fn raw(&self, head: &str, body: &str) -> String {
        let mut socket = TcpStream::connect(self.address).await.unwrap();
        let length = body.len();
        let request = format!(
            "{head}\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        answer
    }

    /// The code of an answer with a token.
    async fn code(&self, line: &str, more: &str, body: &str) -> u16 {
        let head = format!("{line} HTTP/1.1\r\nAuthorization: Bearer secret{more}");
        let answer = self.raw(&head, body).await;
        let (_, said) = answer.split_once("\r\n\r\n").unwrap();
        let said: serde_json::Value = serde_json::from_str(said).expect(&answer);
        assert!(said["error"].is_string(), "{answer}");
        answer[9..12].parse().unwrap()
    }
}

const JSON: &str = "\r\nContent-Type: application/json";

#[tokio::test]
async fn what_is_wrong_with_a_request_has_its_code_and_an_object() {
    let scene = Scene::new(|_| {}).await;
    let zones = "POST /api/v1/zones";
    assert_eq!(scene.code(zones, "", "{}").await, 415);
    assert_eq!(scene.code(zones, JSON, "{").await, 400);
    assert_eq!(scene.code(zones, JSON, "{}").await, 422);
    assert_eq!(
        scene.code("PATCH /api/v1/zones/a.test", JSON, "{}").await,
        400
    );
    assert_eq!(scene.code("GET /api/v1/zones/a%22b", "", "").await, 400);
    assert_eq!(
        scene.code("GET /api/v1/zones/..%2F..%2Fetc", "", "").await,
        400
    );
    assert_eq!(scene.code("GET /nothing", "", "").await, 404);
    assert_eq!(scene.code("PUT /api/v1/zones", JSON, "{}").await, 405);
    // The `named` beside it is away.
    assert_eq!(scene.code("GET /api/v1/zones/a.test", "", "").await, 503);
    assert_eq!(scene.code("DELETE /api/v1/zones/a.test", "", "").await, 503);
    assert_eq!(scene.code("GET /api/v1/server/status", "", "").await, 503);
}

#[tokio::test]
async fn a_named_that_hangs_is_told_before_the_caller_gives_up() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let control = silent.local_addr().unwrap();
    let scene = Scene::new(|setup| setup.named.control = control).await;
    assert_eq!(scene.code("GET /api/v1/zones/a.test", "", "").await, 504);
    let ready = scene.raw("GET /ready HTTP/1.1", "").await;
    assert!(ready.starts_with("HTTP/1.1 503"), "{ready}");
    assert!(ready.contains("no answer within"), "{ready}");
}

#[tokio::test]
async fn without_the_token_nothing_is_told_but_how_the_sidecar_is() {
    let scene = Scene::new(|_| {}).await;
    for path in [
        "/api/v1/zones",
        "/api/v1/server/status",
        "/api/v1/expected",
        "/nothing",
    ] {
        let answer = scene.raw(&format!("GET {path} HTTP/1.1"), "").await;
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
        assert!(answer.contains(r#"{"error":"#), "{answer}");
    }
    for path in ["/health", "/api/v1/health", "/metrics"] {
        let answer = scene.raw(&format!("GET {path} HTTP/1.1"), "").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    let answer = scene.raw("GET /api/v1/ready HTTP/1.1", "").await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.contains("rndc: error"), "{answer}");
    let page = scene.raw("GET /metrics HTTP/1.1", "").await;
    assert!(
        page.contains(
            r#"bindcar_http_requests_total{method="GET",path="/api/v1/zones",status="401"} 1"#
        ),
        "{page}"
    );
}

#[tokio::test]
async fn who_asks_too_often_is_told_when_to_come_back() {
    let limits = RequestLimits {
        per_second: 0.1,
        burst: 2.0,
        ..RequestLimits::default()
    };
    let scene = Scene::new(|setup| setup.limits = Some(limits)).await;
    for _ in 0..2 {
        let answer = scene.raw("GET /health HTTP/1.1", "").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    let answer = scene.raw("GET /health HTTP/1.1", "").await;
    assert!(answer.starts_with("HTTP/1.1 429"), "{answer}");
    assert!(answer.contains("retry-after: 10"), "{answer}");
}

#[tokio::test]
async fn a_body_is_read_only_of_who_may_ask_and_up_to_its_limit() {
    let limits = RequestLimits {
        body_len_max: 100,
        ..RequestLimits::default()
    };
    let scene = Scene::new(|setup| setup.limits = Some(limits)).await;
    let long = "x".repeat(101);
    assert_eq!(scene.code("POST /api/v1/zones", JSON, &long).await, 413);
    let answer = scene.raw("POST /api/v1/zones HTTP/1.1", &long).await;
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
}

#[tokio::test]
async fn the_list_of_expected_zones_is_taken_and_kept() {
    let scene = Scene::new(|setup| setup.waits_for_expected = true).await;
    let path = "/api/v1/expected";
    assert_eq!(scene.code(&format!("GET {path}"), "", "").await, 404);
    let list = r#"{"zones": [{"name": "a.test", "serial": 3}]}"#;
    let head = format!("PUT {path} HTTP/1.1\r\nAuthorization: Bearer secret{JSON}");
    let answer = scene.raw(&head, list).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let kept = scene.folder.path().join(crate::EXPECTED_FILE);
    assert!(std::fs::read_to_string(kept).unwrap().contains("a.test"));
    let wrong = r#"{"zones": [{"name": "a;b"}]}"#;
    assert_eq!(scene.code(&format!("PUT {path}"), JSON, wrong).await, 400);
    let ready = scene.raw("GET /ready HTTP/1.1", "").await;
    assert!(
        ready.contains("1 of 1 zones lack: a.test. is not loaded"),
        "{ready}"
    );
}

/// A certificate authority and what it signed, in files.
fn identity(folder: &std::path::Path) -> TlsFiles {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(params, key);
    let own = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let signed = params.signed_by(&own, &issuer).unwrap().pem();
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    write("ca.pem", &authority);
    TlsFiles {
        certificate: write("tls.pem", &signed),
        key: write("tls.key", &own.serialize_pem()),
        client_authority: None,
        reload: Duration::from_mins(1),
    }
}

#[tokio::test]
async fn with_a_certificate_it_speaks_tls_and_nothing_else() {
    let files = tempfile::tempdir().unwrap();
    let tls = identity(files.path());
    let scene = Scene::new(|setup| setup.tls = Some(tls.clone())).await;
    let plain = scene.raw("GET /health HTTP/1.1", "").await;
    assert!(plain.contains("HTTPS"), "{plain}");
    let address = format!("https://localhost:{}", scene.address.port());
    let token = ClientToken::Fixed(Arc::new(Zeroizing::new("secret".to_owned())));
    let mut options = SidecarClientOptions::new(&address, token.clone());
    options.authority = Some(std::fs::read(files.path().join("ca.pem")).unwrap());
    let client = SidecarClient::new(options).unwrap();
    assert_eq!(client.health().await.unwrap().status, "healthy");
    // Whom nobody vouches for is not spoken to.
    let client = SidecarClient::new(SidecarClientOptions::new(&address, token.clone())).unwrap();
    assert_eq!(client.health().await.unwrap_err().code(), None);
    // A client without a certificate is not let in where one is asked for.
    let mutual = TlsFiles {
        client_authority: Some(files.path().join("ca.pem")),
        ..tls
    };
    let scene = Scene::new(|setup| setup.tls = Some(mutual)).await;
    let address = format!("https://localhost:{}", scene.address.port());
    let mut options = SidecarClientOptions::new(address, token);
    options.authority = Some(std::fs::read(files.path().join("ca.pem")).unwrap());
    let client = SidecarClient::new(options).unwrap();
    assert_eq!(client.health().await.unwrap_err().code(), None);
}

#[tokio::test]
async fn the_client_tells_what_is_in_the_way() {
    use bindery_core::Reason;
    let scene = Scene::new(|_| {}).await;
    let client = |address: String, token: &str| {
        let token = ClientToken::Fixed(Arc::new(Zeroizing::new(token.to_owned())));
        let mut options = SidecarClientOptions::new(address, token);
        options.request_timeout = Duration::from_millis(200);
        SidecarClient::new(options).unwrap()
    };
    let address = format!("http://{}", scene.address);
    let fault = client(address.clone(), "wrong").zones().await.unwrap_err();
    assert_eq!(fault.reason(), Reason::BindcarAuthFailed);
    let fault = client(address.clone(), "secret")
        .zone("a.test")
        .await
        .unwrap_err();
    assert_eq!(fault.reason(), Reason::GatewayError);
    let ready = client(address, "secret").ready().await.unwrap();
    assert!(!ready.ready);
    // Nobody listens there.
    let fault = client("http://127.0.0.1:1".to_owned(), "")
        .health()
        .await
        .unwrap_err();
    assert_eq!(fault.reason(), Reason::BindcarUnreachable);
    assert!(
        fault
            .message("p-0")
            .starts_with("Pod p-0 cannot connect to Bindcar API")
    );
    // Somebody listens and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", silent.local_addr().unwrap());
    let fault = client(address, "").health().await.unwrap_err();
    assert!(
        matches!(fault, crate::SidecarFault::TimedOut { .. }),
        "{fault}"
    );
    assert_eq!(fault.reason(), Reason::BindcarUnreachable);
}
