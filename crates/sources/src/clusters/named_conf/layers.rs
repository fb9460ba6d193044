//! The configuration of an instance over that of its cluster.

use bindery_api::{Bind9Config, BindcarConfig, DnssecConfig, RateLimitConfig, SigningConfig};

/// What an instance says, and where it says nothing what its cluster says, field by field.
#[must_use]
pub fn merged(global: Option<&Bind9Config>, own: Option<&Bind9Config>) -> Bind9Config {
    match (global, own) {
        (Some(global), Some(own)) => config(global, own),
        (Some(one), None) | (None, Some(one)) => one.clone(),
        (None, None) => Bind9Config::default(),
    }
}

/// The fields of one struct: those of `$own` that are set, else those of `$global`; `with` names a function that
/// lays one over the other where both are set.
macro_rules! laid_over {
    ($type:ident, $global:expr, $own:expr; $($field:ident $(with $inner:path)?),* $(,)? $(; $done:ident)?) => {
        $type { $($field: laid_over!(@ $global.$field, $own.$field $(, $inner)?),)* $($done)? }
    };
    (@ $global:expr, $own:expr) => { $own.as_ref().or($global.as_ref()).cloned() };
    (@ $global:expr, $own:expr, $inner:path) => {
        match (&$global, &$own) {
            (Some(global), Some(own)) => Some($inner(global, own)),
            (one, None) | (None, one) => one.clone(),
        }
    };
}

fn config(global: &Bind9Config, own: &Bind9Config) -> Bind9Config {
    laid_over!(Bind9Config, global, own;
        recursion, allow_query, allow_transfer, dnssec with dnssec, forwarders, listen_on, listen_on_v6,
        rate_limit with rate_limit, rndc_secret_ref, bindcar_config with bindcar,
    )
}

fn dnssec(global: &DnssecConfig, own: &DnssecConfig) -> DnssecConfig {
    laid_over!(DnssecConfig, global, own; enabled, validation, signing with signing)
}

fn signing(global: &SigningConfig, own: &SigningConfig) -> SigningConfig {
    laid_over!(SigningConfig, global, own;
        enabled, policy, algorithm, ksk_lifetime, zsk_lifetime, nsec3, nsec3_salt, nsec3_iterations, keys_from,
        auto_generate, export_to_secret,
    )
}

fn rate_limit(global: &RateLimitConfig, own: &RateLimitConfig) -> RateLimitConfig {
    laid_over!(RateLimitConfig, global, own; responses_per_second, window, slip)
}

fn bindcar(global: &BindcarConfig, own: &BindcarConfig) -> BindcarConfig {
    let variables = Some(&own.env_vars).filter(|own| !own.is_empty());
    let env_vars = variables.unwrap_or(&global.env_vars).clone();
    laid_over!(BindcarConfig, global, own;
        image, image_pull_policy, resources, port, service_spec, log_level; env_vars
    )
}
