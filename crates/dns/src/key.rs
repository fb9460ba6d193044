//! TSIG keys: what they are, and the key-file format that BIND's tools read and write.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use domain::tsig;
use ring::hmac;
use thiserror::Error;
use zeroize::{Zeroize, Zeroizing};

mod file;

/// The HMAC of a key. SHA-1 and MD5 are not offered: RFC 8945 section 6 deprecates both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// `hmac-sha256`, which every server must support.
    HmacSha256,
    /// `hmac-sha384`.
    HmacSha384,
    /// `hmac-sha512`.
    HmacSha512,
}

impl Algorithm {
    /// The name as key files and TSIG records spell it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::HmacSha256 => "hmac-sha256",
            Self::HmacSha384 => "hmac-sha384",
            Self::HmacSha512 => "hmac-sha512",
        }
    }

    const fn to_tsig(self) -> tsig::Algorithm {
        match self {
            Self::HmacSha256 => tsig::Algorithm::Sha256,
            Self::HmacSha384 => tsig::Algorithm::Sha384,
            Self::HmacSha512 => tsig::Algorithm::Sha512,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Algorithm {
    type Err = KeyProblem;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.to_ascii_lowercase().trim_end_matches('.') {
            "hmac-sha256" => Ok(Self::HmacSha256),
            "hmac-sha384" => Ok(Self::HmacSha384),
            "hmac-sha512" => Ok(Self::HmacSha512),
            weak @ ("hmac-md5" | "hmac-md5.sig-alg.reg.int" | "hmac-sha1" | "hmac-sha224") => {
                Err(KeyProblem::WeakAlgorithm {
                    algorithm: weak.to_owned(),
                })
            }
            other => Err(KeyProblem::UnknownAlgorithm {
                algorithm: other.to_owned(),
            }),
        }
    }
}

/// What is wrong with a key as it was given to us, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeyProblem {
    /// The algorithm is no longer safe.
    #[error(
        "algorithm {algorithm} is too weak; make a new key with \
         `tsig-keygen -a hmac-sha256 NAME` and give it to the server and to Bindery"
    )]
    WeakAlgorithm {
        /// The algorithm as it was given.
        algorithm: String,
    },
    /// The algorithm is not one we know.
    #[error("unknown algorithm {algorithm:?}; use hmac-sha256, hmac-sha384 or hmac-sha512")]
    UnknownAlgorithm {
        /// The algorithm as it was given.
        algorithm: String,
    },
    /// The key's name is not a domain name.
    #[error("key name {name:?} is not a domain name")]
    BadName {
        /// The name as it was given.
        name: String,
    },
    /// The secret is not base64.
    #[error("the secret of key {name:?} is not base64; copy it again, without line breaks")]
    BadSecret {
        /// The key's name.
        name: String,
    },
    /// The secret is empty, so it protects nothing.
    #[error("the secret of key {name:?} is empty; make a key with `tsig-keygen {name}`")]
    EmptySecret {
        /// The key's name.
        name: String,
    },
    /// The key file is not in BIND's key-file format.
    #[error(
        "line {line}: {problem}; a key file looks like \
         `key \"NAME\" {{ algorithm hmac-sha256; secret \"BASE64\"; }};`"
    )]
    Syntax {
        /// Counted from 1.
        line: usize,
        /// What was found there.
        problem: String,
    },
    /// The file has no key.
    #[error("no key in the file; `tsig-keygen NAME` prints one")]
    NoKey,
    /// The file has more than one key.
    #[error("{count} keys in the file; keep the one that Bindery shall use")]
    ManyKeys {
        /// How many there are.
        count: usize,
    },
}

/// The secret of a key. It cannot be printed, is compared in constant time and zeroed on drop.
struct Secret(Zeroizing<Vec<u8>>);

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        // The length is no secret; the bytes are folded without an early exit.
        self.0.len() == other.0.len()
            && self
                .0
                .iter()
                .zip(other.0.iter())
                .fold(0, |acc, (a, b)| acc | (a ^ b))
                == 0
    }
}

/// A TSIG key: a name both sides know it by, an algorithm and a shared secret.
///
/// It has no `Debug` and no `Display`; [`Key::to_key_file`] is the only way out for the secret.
#[derive(Clone)]
pub struct Key {
    inner: Arc<Inner>,
}

struct Inner {
    algorithm: Algorithm,
    secret: Secret,
    signing: Arc<tsig::Key>,
}

impl Key {
    /// A key from its parts, the secret as raw bytes.
    ///
    /// # Errors
    /// If `name` is not a domain name or the secret is empty.
    pub fn new(name: &str, algorithm: Algorithm, secret: Vec<u8>) -> Result<Self, KeyProblem> {
        let secret = Secret(Zeroizing::new(secret));
        if secret.0.is_empty() {
            return Err(KeyProblem::EmptySecret {
                name: name.to_owned(),
            });
        }
        let bad_name = || KeyProblem::BadName {
            name: name.to_owned(),
        };
        let key_name =
            tsig::KeyName::from_str(&name.to_ascii_lowercase()).map_err(|_| bad_name())?;
        if key_name.is_root() {
            return Err(bad_name());
        }
        let signing = tsig::Key::new(algorithm.to_tsig(), &secret.0, key_name, None, None)
            .map_err(|_| bad_name())?;
        Ok(Self {
            inner: Arc::new(Inner {
                algorithm,
                secret,
                signing: Arc::new(signing),
            }),
        })
    }

    /// A key from its parts, the secret as base64, as BIND's tools write it.
    ///
    /// # Errors
    /// If `name` is not a domain name or the secret is not base64 or empty.
    pub fn from_base64(name: &str, algorithm: Algorithm, secret: &str) -> Result<Self, KeyProblem> {
        let compact = Zeroizing::new(
            secret
                .chars()
                .filter(|c| !c.is_ascii_whitespace())
                .collect::<String>(),
        );
        let bytes = BASE64
            .decode(compact.as_bytes())
            .map_err(|_| KeyProblem::BadSecret {
                name: name.to_owned(),
            })?;
        Self::new(name, algorithm, bytes)
    }

    /// A new hmac-sha256 key whose secret is `random`, which must come from a secure source.
    ///
    /// # Errors
    /// If `name` is not a domain name.
    pub fn generate(name: &str, mut random: [u8; 32]) -> Result<Self, KeyProblem> {
        let key = Self::new(name, Algorithm::HmacSha256, random.to_vec());
        random.zeroize();
        key
    }

    /// Reads the one key of a file in BIND's key-file format.
    ///
    /// # Errors
    /// If the text is not in that format, holds no key or several, or the key itself is bad.
    pub fn from_key_file(text: &str) -> Result<Self, KeyProblem> {
        file::parse(text)
    }

    /// The key in BIND's key-file format, to be kept in a file of mode 0600.
    #[must_use]
    pub fn to_key_file(&self) -> Zeroizing<String> {
        let secret = Zeroizing::new(BASE64.encode(&*self.inner.secret.0));
        Zeroizing::new(format!(
            "key \"{}\" {{\n\talgorithm {};\n\tsecret \"{}\";\n}};\n",
            self.name(),
            self.algorithm(),
            &*secret,
        ))
    }

    /// The same secret under another name.
    ///
    /// # Errors
    /// If `name` is not a domain name.
    pub fn renamed(&self, name: &str) -> Result<Self, KeyProblem> {
        Self::new(name, self.inner.algorithm, self.inner.secret.0.to_vec())
    }

    /// The key's name, without the trailing dot.
    #[must_use]
    pub fn name(&self) -> String {
        self.inner.signing.name().to_string()
    }

    /// The key's algorithm.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.inner.algorithm
    }

    /// The bytes that a signature with this key takes in a message.
    #[must_use]
    pub fn tsig_len(&self) -> usize {
        usize::from(self.inner.signing.compose_len())
    }

    /// The HMAC of `message` with this key, for protocols other than DNS.
    #[must_use]
    pub fn hmac(&self, message: &[u8]) -> Vec<u8> {
        hmac::sign(&self.hmac_key(), message).as_ref().to_vec()
    }

    /// Whether `mac` is the HMAC of `message` with this key, compared in constant time.
    #[must_use]
    pub fn verifies(&self, message: &[u8], mac: &[u8]) -> bool {
        hmac::verify(&self.hmac_key(), message, mac).is_ok()
    }

    /// By which it is recognised and from which nobody learns it.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        use fmt::Write as _;
        let mac = self.hmac(format!("bindery fingerprint of {}", self.name()).as_bytes());
        mac.iter().take(8).fold(String::new(), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
    }

    fn hmac_key(&self) -> hmac::Key {
        let algorithm = match self.inner.algorithm {
            Algorithm::HmacSha256 => hmac::HMAC_SHA256,
            Algorithm::HmacSha384 => hmac::HMAC_SHA384,
            Algorithm::HmacSha512 => hmac::HMAC_SHA512,
        };
        hmac::Key::new(algorithm, &self.inner.secret.0)
    }

    /// The key as the signing code wants it.
    #[must_use]
    pub fn signing(&self) -> Arc<tsig::Key> {
        Arc::clone(&self.inner.signing)
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.inner.secret == other.inner.secret
            && self.inner.algorithm == other.inner.algorithm
            && self.inner.signing.name() == other.inner.signing.name()
    }
}

impl Eq for Key {}

#[cfg(test)]
mod tests;
