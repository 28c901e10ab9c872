//! Ranges of addresses, as `10.0.0.0/8`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Addresses of one family that begin with the same bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    address: IpAddr,
    /// Bits that count; 0 to 32, or to 128.
    bits: u8,
}

/// The text is no address, with or without a length that it can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NetworkError;

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Network, NetworkError> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NetworkError)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => most,
            Some(bits) if bits.bytes().all(|byte| byte.is_ascii_digit()) => {
                bits.parse().map_err(|_| NetworkError)?
            }
            Some(_) => return Err(NetworkError),
        };
        if bits > most { Err(NetworkError) } else { Ok(Network { address, bits }) }
    }
}

impl Network {
    /// Whether `address` is in it. An IPv4 address in IPv6's form is the IPv4 address.
    pub fn contains(self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.address.is_ipv4() == address.is_ipv4()
            && Network { address, bits: self.bits }.base().address == self.base().address
    }

    /// Whether bits are set that do not count.
    pub(crate) fn has_host_bits(self) -> bool {
        self.base() != self
    }

    /// The same range by its first address.
    pub(crate) fn base(self) -> Network {
        let address = match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                Ipv4Addr::from_bits(address.to_bits() & mask).into()
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                Ipv6Addr::from_bits(address.to_bits() & mask).into()
            }
        };
        Network { address, bits: self.bits }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.address, self.bits) {
            (IpAddr::V4(address), 32) => write!(f, "{address}"),
            (IpAddr::V6(address), 128) => write!(f, "{address}"),
            (address, bits) => write!(f, "{address}/{bits}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_a_range_whose_bits_it_begins_with() {
        for (network, address, is_in) in [
            ("10.0.0.0/8", "10.255.3.4", true),
            ("10.0.0.0/8", "11.0.0.0", false),
            ("10.0.0.0/8", "::ffff:10.1.1.1", true),
            ("192.0.2.7", "192.0.2.7", true),
            ("192.0.2.7", "192.0.2.6", false),
            ("0.0.0.0/0", "255.255.255.255", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "::1", true),
            ("2001:db8::/32", "2001:db8:1::", true),
            ("2001:db8::/127", "2001:db8::1", true),
            ("2001:db8::/127", "2001:db8::2", false),
        ] {
            let range: Network = network.parse().unwrap();
            assert_eq!(range.contains(address.parse().unwrap()), is_in, "{address} in {network}");
            assert_eq!(range.to_string(), network);
            assert!(!range.has_host_bits());
        }
        for text in [
            "",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "10.0.0/8",
            "host",
            "1.2.3.4/300",
        ] {
            assert_eq!(text.parse::<Network>(), Err(NetworkError), "{text}");
        }
        assert_eq!("10.1.2.3/8".parse::<Network>().unwrap().base().to_string(), "10.0.0.0/8");
    }
}
