//! Response codes and what they mean to the person who has to act on them.

/// All went well.
pub const NOERROR: u8 = 0;
/// The server could not read the message.
pub const FORMERR: u8 = 1;
/// The server failed.
pub const SERVFAIL: u8 = 2;
/// The name does not exist.
pub const NXDOMAIN: u8 = 3;
/// The server does not do this.
pub const NOTIMP: u8 = 4;
/// The server does not want to.
pub const REFUSED: u8 = 5;
/// A name exists that should not.
pub const YXDOMAIN: u8 = 6;
/// A set exists that should not.
pub const YXRRSET: u8 = 7;
/// A set that should exist does not.
pub const NXRRSET: u8 = 8;
/// The server is not authoritative, or the signature is bad.
pub const NOTAUTH: u8 = 9;
/// A name lies outside the zone.
pub const NOTZONE: u8 = 10;
/// The EDNS version is unknown (extended: 16 = 1 in EDNS, 0 in the header).
pub const BADVERS: u16 = 16;

/// TSIG error: the signature is wrong.
pub const BADSIG: u16 = 16;
/// TSIG error: the server does not know the key.
pub const BADKEY: u16 = 17;
/// TSIG error: the clocks differ too much.
pub const BADTIME: u16 = 18;

/// The code as a word.
#[must_use]
pub fn name(rcode: u8) -> &'static str {
    match rcode {
        NOERROR => "NOERROR",
        FORMERR => "FORMERR",
        SERVFAIL => "SERVFAIL",
        NXDOMAIN => "NXDOMAIN",
        NOTIMP => "NOTIMP",
        REFUSED => "REFUSED",
        YXDOMAIN => "YXDOMAIN",
        YXRRSET => "YXRRSET",
        NXRRSET => "NXRRSET",
        NOTAUTH => "NOTAUTH",
        NOTZONE => "NOTZONE",
        _ => "an unknown code",
    }
}
