//! TLS from files, which are read again when they change.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use thiserror::Error;
use tokio::time::Instant;

/// The files of an identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate and those between it and the authority.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The authority that clients must have their certificates from; without it they need none.
    pub client_authority: Option<PathBuf>,
    /// After how long the files are looked at again.
    pub reload: Duration,
}

/// Why there is no TLS.
#[derive(Debug, Error)]
pub enum SetupError {
    /// A file cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file does not hold what it should.
    #[error("{path} is no {what} in PEM form")]
    Pem {
        /// The file.
        path: PathBuf,
        /// What it should be.
        what: &'static str,
        /// Why not.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// Certificate and key do not fit each other, or the authority is none.
    #[error("cannot speak TLS with {path}")]
    SetUp {
        /// The certificate.
        path: PathBuf,
        /// Why not.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// An identity that follows its files.
pub(super) struct TlsIdentity {
    files: TlsFiles,
    current: Mutex<(Instant, Arc<ServerConfig>)>,
}

impl TlsIdentity {
    pub(super) fn new(files: TlsFiles) -> Result<Self, SetupError> {
        let config = Arc::new(config(&files)?);
        let current = Mutex::new((Instant::now(), config));
        Ok(Self { files, current })
    }

    /// What is served now. Files that cannot be used leave it as it was.
    pub(super) fn config(&self) -> Arc<ServerConfig> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.0.elapsed() >= self.files.reload {
            current.0 = Instant::now();
            match config(&self.files) {
                Ok(config) => current.1 = Arc::new(config),
                Err(error) => {
                    let error: &dyn std::error::Error = &error;
                    tracing::warn!(error, "the former certificate stays in use");
                }
            }
        }
        Arc::clone(&current.1)
    }
}

fn config(files: &TlsFiles) -> Result<ServerConfig, SetupError> {
    let chain = certificates(&files.certificate)?;
    let text = read(&files.key)?;
    let key = PrivateKeyDer::from_pem_slice(&text).map_err(|source| SetupError::Pem {
        path: files.key.clone(),
        what: "private key",
        source,
    })?;
    let set_up = |source: Box<dyn std::error::Error + Send + Sync>| SetupError::SetUp {
        path: files.certificate.clone(),
        source,
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| set_up(error.into()))?;
    let builder = match &files.client_authority {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                roots
                    .add(certificate)
                    .map_err(|error| set_up(error.into()))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = verifier.build().map_err(|error| set_up(error.into()))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder
        .with_single_cert(chain, key)
        .map_err(|error| set_up(error.into()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, SetupError> {
    let text = read(path)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    all.map_err(|source| SetupError::Pem {
        path: path.to_owned(),
        what: "certificate",
        source,
    })
}

fn read(path: &Path) -> Result<Vec<u8>, SetupError> {
    fs::read(path).map_err(|source| SetupError::Read {
        path: path.to_owned(),
        source,
    })
}
