//! Number of a block device.

use std::fmt;
use std::str::FromStr;

/// Major and minor number of a block device, `8:16`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceNumber {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

/// A text that is no device's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a device's number: it is MAJ:MIN, such as 8:16")]
pub struct NotADeviceNumber;

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

impl FromStr for DeviceNumber {
    type Err = NotADeviceNumber;

    fn from_str(text: &str) -> Result<DeviceNumber, NotADeviceNumber> {
        let part = |word: &str| super::number(word).ok().and_then(|number| number.try_into().ok());
        let (major, minor) = text.split_once(':').ok_or(NotADeviceNumber)?;
        let (major, minor) = part(major).zip(part(minor)).ok_or(NotADeviceNumber)?;
        Ok(DeviceNumber { major, minor })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_two_plain_ones() {
        let number = |text: &str| text.parse::<DeviceNumber>().ok();
        assert_eq!(number("8:16"), Some(DeviceNumber { major: 8, minor: 16 }));
        assert_eq!(
            number("259:1048575").map(|number| number.to_string()),
            Some("259:1048575".into())
        );
        for text in
            ["", ":", "8", "8:", ":1", "8:+1", "-8:1", "8:1:2", "8: 1", "8:4294967296", "sda"]
        {
            assert_eq!(number(text), None, "{text:?}");
        }
    }
}
