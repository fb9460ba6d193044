//! Real traffic through the rules of the kernel, in network namespaces that the tests make.
#![expect(
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot run says so on the terminal"
)]
#![expect(
    unreachable_pub,
    reason = "modules of a test binary have nobody outside"
)]

mod namespaces;
mod nftables;
