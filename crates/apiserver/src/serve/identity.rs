//! Who the API is over TLS: a certificate authority of its own, and a certificate by it for whatever
//! address of this machine a client has called.
//!
//! Only the authority's key is kept. Its certificate follows from the key, so that a client which trusts
//! it goes on doing so after a restart, on other addresses too.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType, date_time_ymd,
};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use thiserror::Error;
use zeroize::Zeroizing;

/// Addresses whose certificates are remembered; a machine has a handful.
const KNOWN_MAX: usize = 64;

/// Why there is no certificate.
#[derive(Debug, Error)]
pub enum IdentityError {
    /// The key cannot be used.
    #[error("the key is no private key in PEM form (PKCS#8, P-256)")]
    ReadKey(#[source] rcgen::Error),
    /// A certificate cannot be made.
    #[error("cannot make a certificate for {subject}")]
    Sign {
        /// For what.
        subject: String,
        /// Why not.
        #[source]
        source: rcgen::Error,
    },
    /// TLS cannot be set up with it.
    #[error("cannot set up TLS for {address}")]
    SetUp {
        /// For which address.
        address: IpAddr,
        /// Why not.
        #[source]
        source: rustls::Error,
    },
}

/// The API's own certificate authority.
pub struct Identity {
    issuer: Issuer<'static, KeyPair>,
    authority: String,
    key: KeyPair,
    names: Vec<String>,
    known: Mutex<BTreeMap<IpAddr, Arc<ServerConfig>>>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Identity")
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

impl Identity {
    /// A new key in PEM form, to be kept where nobody else can read it.
    ///
    /// # Errors
    /// If the machine has no randomness.
    pub fn generate_key() -> Result<Zeroizing<String>, IdentityError> {
        let key = KeyPair::generate().map_err(|source| IdentityError::Sign {
            subject: "the API".to_owned(),
            source,
        })?;
        Ok(Zeroizing::new(key.serialize_pem()))
    }

    /// The authority with this key, which vouches for these names besides addresses of this machine.
    ///
    /// # Errors
    /// If the key is none.
    pub fn new(key: &str, names: &[String]) -> Result<Self, IdentityError> {
        let key = KeyPair::from_pem(key).map_err(IdentityError::ReadKey)?;
        let sign = |source| IdentityError::Sign {
            subject: "the API's authority".to_owned(),
            source,
        };
        let mut params = lasting("Bindery API authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let authority = params.self_signed(&key).map_err(sign)?.pem();
        Ok(Self {
            issuer: Issuer::new(params, key),
            authority,
            key: KeyPair::generate().map_err(sign)?,
            names: names.to_vec(),
            known: Mutex::default(),
        })
    }

    /// The certificate that clients must trust, in PEM form.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// TLS as it is served to clients that have called `address`.
    pub(super) fn config(&self, address: IpAddr) -> Result<Arc<ServerConfig>, IdentityError> {
        let address = address.to_canonical();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(config) = known.get(&address) {
            return Ok(Arc::clone(config));
        }
        let config = Arc::new(self.make_config(address)?);
        if known.len() < KNOWN_MAX {
            known.insert(address, Arc::clone(&config));
        }
        Ok(config)
    }

    fn make_config(&self, address: IpAddr) -> Result<ServerConfig, IdentityError> {
        let mut params = lasting("Bindery API");
        params.is_ca = IsCa::ExplicitNoCa;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let addresses = [
            Ipv4Addr::LOCALHOST.into(),
            Ipv6Addr::LOCALHOST.into(),
            address,
        ];
        let names = std::iter::once("localhost").chain(self.names.iter().map(String::as_str));
        // A machine may have a name that DNS could not have; it is called by its address then.
        let names = names.filter_map(|name| name.try_into().ok());
        params.subject_alt_names = names
            .map(SanType::DnsName)
            .chain(addresses.map(SanType::IpAddress))
            .collect();
        let certificate = params
            .signed_by(&self.key, &self.issuer)
            .map_err(|source| IdentityError::Sign {
                subject: address.to_string(),
                source,
            })?;
        let set_up = |source| IdentityError::SetUp { address, source };
        let key = PrivateKeyDer::Pkcs8(self.key.serialize_der().into());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(set_up)?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .map_err(set_up)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

/// The name that this machine gives itself.
#[must_use]
pub fn host_name() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().to_lowercase()
}

/// What a certificate of this name always has.
fn lasting(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    // It is trusted as long as its key is kept, whatever the clocks of two machines say.
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(9999, 12, 31);
    params
}
