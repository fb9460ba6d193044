//! Azure in this process, reached without a socket, so that virtual time goes on.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bindery_azure::{AzureSilence, AzureWire};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::Full;

use super::{Asked, AzureFate, AzureState};
use crate::nameserver::{Fate, Operation};
use crate::weather::{Random, Weather};

/// Azure behind the weather. Clones are the same.
#[derive(Clone)]
pub struct AzureInside {
    state: Arc<Mutex<AzureState>>,
    weather: Arc<Weather>,
    random: Arc<Mutex<Random>>,
}

impl AzureInside {
    /// Where it says that it is.
    pub const BASE: &'static str = "http://azure.example";

    /// An Azure without anything in it. What goes wrong there itself is drawn from `seed`.
    #[must_use]
    pub fn new(weather: Arc<Weather>, seed: u64) -> Self {
        let state = AzureState {
            base: Self::BASE.to_owned(),
            ..AzureState::default()
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            weather,
            random: Arc::new(Mutex::new(Random::new(seed ^ 0xa2_07e0))),
        }
    }

    /// What it has.
    pub fn lock(&self) -> MutexGuard<'_, AzureState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What goes wrong at Azure itself, while the weather is bad.
    fn trouble(&self, is_change: bool) -> Option<AzureFate> {
        if !self.weather.is_stormy() {
            return None;
        }
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        let number = random.below(100);
        let millis = 100 + random.next_u64() % 20_000;
        match (number, is_change) {
            (0..=3, _) => Some(AzureFate::Throttled(millis)),
            (4, _) => Some(AzureFate::Refused(500, "InternalServerError".to_owned())),
            (5, _) => Some(AzureFate::Delayed(Duration::from_millis(millis))),
            (6 | 7, true) => Some(AzureFate::DoneAndFailed(504)),
            (8, true) => Some(AzureFate::DoneAndSilent),
            (9, true) => Some(AzureFate::Silent),
            (10, true) => Some(AzureFate::OperationFails("InternalServerError".to_owned())),
            (11, true) => Some(AzureFate::Refused(
                409,
                "AnotherOperationInProgress".to_owned(),
            )),
            _ => None,
        }
    }

    async fn answer(&self, request: Request<Full<Bytes>>) -> Result<Response<Bytes>, AzureSilence> {
        let cut = || AzureSilence::CutOff("connection reset".to_owned());
        let asked = Asked::read(request).await.ok_or_else(cut)?;
        let line = asked.line();
        let is_change = asked.method != "GET" && !asked.path.ends_with("/token");
        let operation = if is_change {
            Operation::Write
        } else {
            Operation::Read
        };
        let (fate, delay) = self.weather.decide(operation, &format!("azure {line}"));
        tokio::time::sleep(delay).await;
        match fate {
            Fate::Unreachable => {
                let why = "connection refused".to_owned();
                return Err(AzureSilence::NotSent(why));
            }
            Fate::LostRequest => return Err(cut()),
            Fate::Silence => return std::future::pending().await,
            Fate::Pass | Fate::LostAnswer | Fate::Crash => {}
        }
        if is_change && self.weather.keeps_words() {
            self.weather.explain(&String::from_utf8_lossy(&asked.body));
        }
        let (told, trouble) = {
            let trouble = self.trouble(is_change);
            let mut state = self.lock();
            if let Some(trouble) = &trouble {
                self.weather.note(&format!("azure {trouble:?}"));
                state
                    .faults
                    .push_front(super::AzureFault::new("", trouble.clone()));
            }
            state.take(&asked)
        };
        match fate {
            Fate::LostAnswer => return Err(cut()),
            Fate::Crash => {
                self.weather.crash();
                return std::future::pending().await;
            }
            Fate::Pass | Fate::Unreachable | Fate::LostRequest | Fate::Silence => {}
        }
        match trouble {
            Some(AzureFate::Delayed(time)) => tokio::time::sleep(time).await,
            Some(AzureFate::DoneAndSilent | AzureFate::Silent) => {
                return std::future::pending().await;
            }
            Some(AzureFate::DoneAndCut) => return Err(cut()),
            _ => {}
        }
        told.whole().ok_or_else(cut)
    }
}

impl AzureWire for AzureInside {
    fn exchange(
        &self,
        request: Request<Full<Bytes>>,
    ) -> BoxFuture<'_, Result<Response<Bytes>, AzureSilence>> {
        Box::pin(self.answer(request))
    }
}
