//! The load balancers of this machine: which data plane forwards, and for which Services.

use std::sync::Arc;

use anyhow::{Result, bail};
use bindery_balancer::{
    DataPlane, LocalBalancer, Nftables, NftablesSettings, Proxy, ProxyLimits, ProxyTasks,
};
use bindery_core::balancers::BalancerTimes;
use bindery_engine::balancing::{BalancerEngine, LoadBalancer};
use bindery_engine::supervisor::Supervisor;
use bindery_kube::{BalancerControllers, BalancersHandle, PoolController, Replica};
use bindery_sources::balancers::BalancerClass;
use kube::Client;

use crate::cli::BalancerChoice;
use crate::control::TimeOfDay;

/// The class by which a Service asks for a load balancer of Bindery.
const CLASS: &str = "bindery.dev/lb";

/// What gives Services their addresses and forwards their traffic.
pub(crate) struct LocalBalancing {
    pub(crate) provider: Arc<LocalBalancer>,
    /// What forwards, for people.
    pub(crate) what: &'static str,
    /// What runs the proxy, where that forwards.
    pub(crate) tasks: Option<ProxyTasks>,
    /// Whether Services that name no class are ours.
    pub(crate) takes_unnamed: bool,
}

impl LocalBalancing {
    /// What was chosen; `None` where there is to be none.
    ///
    /// # Errors
    /// If nftables was asked for and cannot be used, why.
    pub(crate) async fn open(choice: BalancerChoice, takes_unnamed: bool) -> Result<Option<Self>> {
        let plane = match choice {
            BalancerChoice::Off => return Ok(None),
            BalancerChoice::Azure => bail!("--load-balancer azure is for bindery run"),
            BalancerChoice::Proxy => None,
            BalancerChoice::Nftables => Some(nftables().await?),
            // On one machine everybody may try it, with loopback addresses; in a cluster traffic is not to stop
            // with the process.
            BalancerChoice::Auto if takes_unnamed => None,
            BalancerChoice::Auto => nftables().await.ok(),
        };
        let (plane, what, tasks): (Arc<dyn DataPlane>, _, _) = if let Some(plane) = plane {
            (Arc::new(plane), "nftables", None)
        } else {
            let (proxy, tasks) = Proxy::new(ProxyLimits::of_this_process());
            (Arc::new(proxy), "proxy", Some(tasks))
        };
        Ok(Some(Self {
            provider: Arc::new(LocalBalancer::new(plane)),
            what,
            tasks,
            takes_unnamed,
        }))
    }

    /// Starts engine and controllers as tasks of `work`.
    pub(crate) fn start(
        self,
        client: &Client,
        replica: &Replica,
        work: &mut Supervisor,
    ) -> BalancersHandle {
        let stop = work.stop_token();
        tracing::info!(
            data_plane = self.what,
            "Services get load balancers of this machine"
        );
        if let Some(tasks) = self.tasks {
            work.spawn("proxy", tasks.run(stop.clone()));
        }
        let pools = PoolController {
            client: client.clone(),
            keeper: Arc::<LocalBalancer>::clone(&self.provider),
            clock: Arc::new(TimeOfDay),
            replica: replica.clone(),
        };
        let (name, task) = pools.start(&stop);
        work.spawn(name, task);
        start_controllers(self.provider, self.takes_unnamed, (client, replica), work)
    }
}

/// Starts an engine of a provider, and the controllers that declare to it.
pub(crate) fn start_controllers(
    provider: Arc<dyn LoadBalancer>,
    takes_unnamed: bool,
    (client, replica): (&Client, &Replica),
    work: &mut Supervisor,
) -> BalancersHandle {
    let stop = work.stop_token();
    let fence = replica.fence.clone();
    let times = BalancerTimes::default();
    let (engine, running) = BalancerEngine::start(Arc::clone(&provider), times, fence, &stop);
    work.spawn("balancer engine", running);
    let controllers = BalancerControllers {
        client: client.clone(),
        engine,
        provider,
        class: BalancerClass {
            name: CLASS.into(),
            takes_unnamed,
        },
        clock: Arc::new(TimeOfDay),
        replica: replica.clone(),
    };
    let (handle, tasks) = controllers.start(&stop);
    for (name, task) in tasks {
        work.spawn(name, task);
    }
    handle
}

/// The data plane of the kernel, if it can be used.
async fn nftables() -> Result<Nftables> {
    let Some(settings) = NftablesSettings::of_this_machine() else {
        bail!(
            "--load-balancer nftables needs the programs nft and ip (Debian: apt install nftables iproute2); \
             install them or use --load-balancer proxy"
        );
    };
    let plane = Nftables::new(settings);
    if let Err(fault) = plane.check().await {
        bail!(
            "--load-balancer nftables cannot be used: {fault}; run bindery as root or with CAP_NET_ADMIN, or use \
             --load-balancer proxy"
        );
    }
    Ok(plane)
}
