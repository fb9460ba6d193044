//! Ranges of addresses and sets of them; a set costs as much as it has gaps, however many addresses it has.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::balancers::Family;
use crate::problem::Shown;

/// Addresses of one version from a first to a last one, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressRange {
    family: Family,
    first: u128,
    last: u128,
}

/// A set of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressSet {
    /// First to last address of each run; runs neither touch nor overlap.
    runs: BTreeMap<(Family, u128), u128>,
}

impl AddressRange {
    /// The range of one address.
    #[must_use]
    pub fn one(address: IpAddr) -> Self {
        let (family, number) = (Family::of(address), number(address));
        Self {
            family,
            first: number,
            last: number,
        }
    }

    /// Reads a network (`192.0.2.0/24`), a range (`192.0.2.10-192.0.2.20`) or an address.
    ///
    /// A network gives its hosts: of IPv4 all but the first address (the network's) and the last one (the
    /// broadcast address), of IPv6 all but the first one (RFC 4291 section 2.6.1, the routers' anycast address).
    /// Networks of one or two addresses (RFC 3021, RFC 6164) and ranges give all that they name.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the text and what to write.
    pub fn parse(text: &str) -> Result<Self, String> {
        let range = match (text.split_once('/'), text.split_once('-')) {
            (Some((base, length)), _) => Self::network(text, base, length)?,
            (None, Some((first, last))) => {
                Self::between(address(first.trim())?, address(last.trim())?)?
            }
            (None, None) => Self::one(address(text)?),
        };
        range.usable()
    }

    /// The first address.
    #[must_use]
    pub fn first(&self) -> IpAddr {
        address_of(self.family, self.first)
    }

    /// The last address.
    #[must_use]
    pub fn last(&self) -> IpAddr {
        address_of(self.family, self.last)
    }

    /// The version of its addresses.
    #[must_use]
    pub const fn family(&self) -> Family {
        self.family
    }

    fn between(first: IpAddr, last: IpAddr) -> Result<Self, String> {
        if Family::of(first) != Family::of(last) {
            return Err(format!("{first} and {last} are of different IP versions"));
        }
        if last < first {
            return Err(format!(
                "the range ends before it begins: write {last}-{first}"
            ));
        }
        Ok(Self {
            family: Family::of(first),
            first: number(first),
            last: number(last),
        })
    }

    fn network(text: &str, base: &str, length: &str) -> Result<Self, String> {
        let base = address(base)?;
        let family = Family::of(base);
        let length: u8 = length
            .parse()
            .ok()
            .filter(|&one| one <= bits(family) && length.bytes().all(|byte| byte.is_ascii_digit()))
            .ok_or_else(|| {
                let most = bits(family);
                format!("{} needs a prefix length from 0 to {most}", Shown(text))
            })?;
        let hosts = highest(family).checked_shr(length.into()).unwrap_or(0);
        let first = number(base) & !hosts;
        if first != number(base) {
            let network = address_of(family, first);
            return Err(format!(
                "{base} is no network of that length: write {network}/{length}"
            ));
        }
        let (skip_first, skip_last) = match family {
            _ if hosts <= 1 => (0, 0),
            Family::V4 => (1, 1),
            Family::V6 => (1, 0),
        };
        Ok(Self {
            family,
            first: first + skip_first,
            last: first + hosts - skip_last,
        })
    }

    /// The range, if a Service can have each of its addresses as its own.
    fn usable(self) -> Result<Self, String> {
        let multicast = match self.family {
            Family::V4 => (0xe000_0000, u128::from(u32::MAX)),
            Family::V6 => (0xff << 120, u128::MAX),
        };
        let mapped = (0xffff_0000_0000, 0xffff_ffff_ffff);
        let meets = |(first, last): (u128, u128)| self.first <= last && first <= self.last;
        if self.first == 0 || (self.family == Family::V4 && self.first < 0x0100_0000) {
            return Err("an address that begins with 0 belongs to no machine".to_owned());
        }
        if meets(multicast) {
            return Err(
                "multicast, reserved and broadcast addresses belong to no Service".to_owned(),
            );
        }
        if self.family == Family::V6 && meets(mapped) {
            return Err("IPv4 addresses inside IPv6 are not used: write them as IPv4".to_owned());
        }
        Ok(self)
    }
}

impl AddressSet {
    /// Adds every address of a range.
    pub fn insert(&mut self, range: AddressRange) {
        let AddressRange {
            family,
            mut first,
            mut last,
        } = range;
        // What touches the range becomes one run with it.
        let touched: Vec<(u128, u128)> = self
            .runs
            .range(..=(family, last.saturating_add(1)))
            .rev()
            .take_while(|((of, _), end)| *of == family && end.saturating_add(1) >= first)
            .map(|((_, start), end)| (*start, *end))
            .collect();
        for (start, end) in touched {
            self.runs.remove(&(family, start));
            first = first.min(start);
            last = last.max(end);
        }
        self.runs.insert((family, first), last);
    }

    /// Takes every address of a range out.
    pub fn remove(&mut self, range: AddressRange) {
        let AddressRange {
            family,
            first,
            last,
        } = range;
        let hit: Vec<(u128, u128)> = self
            .runs
            .range(..=(family, last))
            .rev()
            .take_while(|((of, _), end)| *of == family && **end >= first)
            .map(|((_, start), end)| (*start, *end))
            .collect();
        for (start, end) in hit {
            self.runs.remove(&(family, start));
            if start < first {
                self.runs.insert((family, start), first - 1);
            }
            if end > last {
                self.runs.insert((family, last + 1), end);
            }
        }
    }

    /// Whether an address is in it.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.run_of(Family::of(address), number(address)).is_some()
    }

    /// The lowest address of a range that is not in the set.
    #[must_use]
    pub fn lowest_outside(&self, range: AddressRange) -> Option<IpAddr> {
        let next = match self.run_of(range.family, range.first) {
            // Runs do not touch, so what follows a run is outside.
            Some(last) => last.checked_add(1)?,
            None => range.first,
        };
        (next <= range.last).then(|| address_of(range.family, next))
    }

    /// Its runs, IPv4 first, from low to high.
    pub fn ranges(&self) -> impl Iterator<Item = AddressRange> {
        self.runs
            .iter()
            .map(|(&(family, first), &last)| AddressRange {
                family,
                first,
                last,
            })
    }

    /// The first run that a range has in common with it.
    #[must_use]
    pub fn common(&self, range: AddressRange) -> Option<AddressRange> {
        let hit = |first: u128, last: u128| AddressRange {
            family: range.family,
            first: first.max(range.first),
            last: last.min(range.last),
        };
        if let Some(last) = self.run_of(range.family, range.first) {
            return Some(hit(range.first, last));
        }
        let from = (range.family, range.first);
        let (&(_, first), &last) = self.runs.range(from..=(range.family, range.last)).next()?;
        Some(hit(first, last))
    }

    /// How many addresses it has; the whole of IPv6 counts as one less than it has.
    #[must_use]
    pub fn count(&self) -> u128 {
        self.ranges().fold(0, |sum: u128, range| {
            sum.saturating_add((range.last - range.first).saturating_add(1))
        })
    }

    /// Where the run ends that has an address.
    fn run_of(&self, family: Family, number: u128) -> Option<u128> {
        let ((of, _), last) = self.runs.range(..=(family, number)).next_back()?;
        (*of == family && *last >= number).then_some(*last)
    }
}

impl FromIterator<AddressRange> for AddressSet {
    fn from_iter<I: IntoIterator<Item = AddressRange>>(ranges: I) -> Self {
        let mut set = Self::default();
        ranges.into_iter().for_each(|range| set.insert(range));
        set
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            return write!(f, "{}", self.first());
        }
        write!(f, "{}-{}", self.first(), self.last())
    }
}

fn address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| {
        format!(
            "{} is no address: write a network such as 192.0.2.0/24, or a range such as \
             192.0.2.10-192.0.2.20",
            Shown(text)
        )
    })
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

const fn bits(family: Family) -> u8 {
    match family {
        Family::V4 => 32,
        Family::V6 => 128,
    }
}

const fn highest(family: Family) -> u128 {
    match family {
        Family::V4 => u32::MAX as u128,
        Family::V6 => u128::MAX,
    }
}

fn address_of(family: Family, number: u128) -> IpAddr {
    match family {
        Family::V4 => {
            let number = u32::try_from(number).expect("an IPv4 address has 32 bits");
            IpAddr::V4(Ipv4Addr::from_bits(number))
        }
        Family::V6 => IpAddr::V6(Ipv6Addr::from_bits(number)),
    }
}
