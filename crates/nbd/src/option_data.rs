//! Reading the data of the options that have any.

use crate::context::{Context, Contexts};
use crate::wire::{STRING_MAX, info};

/// Most queries of one metadata context option; there are two contexts to find.
pub(crate) const QUERIES_MAX: u32 = 1024;

/// Why an option is answered with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// The lengths in it do not add up.
    Malformed,
    /// A string longer than the protocol allows.
    LongString,
    /// A name that is not UTF-8.
    NotUtf8,
    /// More queries than we answer.
    ManyQueries,
}

/// Data of INFO and GO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InfoRequest<'a> {
    pub(crate) name: &'a str,
    pub(crate) wants_name: bool,
    pub(crate) wants_description: bool,
    pub(crate) wants_block_size: bool,
}

/// Data of SET_META_CONTEXT and LIST_META_CONTEXT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContextRequest<'a> {
    pub(crate) name: &'a str,
    pub(crate) queries: u32,
    /// Contexts that some query names.
    pub(crate) named: Contexts,
    /// Contexts in a namespace that some query is the wildcard of, such as `base:`.
    pub(crate) of_wildcards: Contexts,
}

impl<'a> InfoRequest<'a> {
    pub(crate) fn parse(data: &'a [u8]) -> Result<InfoRequest<'a>, Flaw> {
        let mut data = Fields(data);
        let name = data.name()?;
        let count = data.u16()?;
        let list = data.0;
        if list.len() != usize::from(count) * 2 {
            return Err(Flaw::Malformed);
        }
        let wants = |kind: u16| list.chunks_exact(2).any(|item| item == kind.to_be_bytes());
        Ok(InfoRequest {
            name,
            wants_name: wants(info::NAME),
            wants_description: wants(info::DESCRIPTION),
            wants_block_size: wants(info::BLOCK_SIZE),
        })
    }
}

impl<'a> ContextRequest<'a> {
    pub(crate) fn parse(data: &'a [u8]) -> Result<ContextRequest<'a>, Flaw> {
        let mut data = Fields(data);
        let name = data.name()?;
        let queries = data.u32()?;
        if queries > QUERIES_MAX {
            return Err(Flaw::ManyQueries);
        }
        let (mut named, mut of_wildcards) = (Contexts::NONE, Contexts::NONE);
        for _ in 0..queries {
            // Anything we do not know, UTF-8 or not, is to be ignored.
            let query = data.string()?;
            for context in Context::ALL {
                let name = context.name().as_bytes();
                if query == name {
                    named = named.with(context);
                } else if query.ends_with(b":") && name.starts_with(query) {
                    of_wildcards = of_wildcards.with(context);
                }
            }
        }
        if !data.0.is_empty() {
            return Err(Flaw::Malformed);
        }
        Ok(ContextRequest { name, queries, named, of_wildcards })
    }
}

/// The name that is all the data of EXPORT_NAME.
pub(crate) fn export_name(data: &[u8]) -> Result<&str, Flaw> {
    if data.len() > STRING_MAX {
        return Err(Flaw::LongString);
    }
    str::from_utf8(data).map_err(|_| Flaw::NotUtf8)
}

/// What is left of an option's data.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes(&mut self, len: usize) -> Result<&'a [u8], Flaw> {
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(Flaw::Malformed)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn u16(&mut self) -> Result<u16, Flaw> {
        let bytes = self.bytes(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn u32(&mut self) -> Result<u32, Flaw> {
        let bytes = self.bytes(4)?;
        Ok(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn string(&mut self) -> Result<&'a [u8], Flaw> {
        let len = self.u32()? as usize;
        if len > STRING_MAX {
            return Err(Flaw::LongString);
        }
        self.bytes(len)
    }

    fn name(&mut self) -> Result<&'a str, Flaw> {
        str::from_utf8(self.string()?).map_err(|_| Flaw::NotUtf8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(text: &[u8]) -> Vec<u8> {
        [&(text.len() as u32).to_be_bytes(), text].concat()
    }

    #[test]
    fn info_requests() {
        let ask = |name: &[u8], count: u16, kinds: &[u16]| {
            let kinds = kinds.iter().flat_map(|kind| kind.to_be_bytes());
            let mut data = string(name);
            data.extend(count.to_be_bytes().into_iter().chain(kinds));
            data
        };
        let all = ask(b"vm1", 4, &[0, 1, 2, 3]);
        let parsed = InfoRequest::parse(&all).unwrap();
        assert_eq!(parsed.name, "vm1");
        assert!(parsed.wants_name && parsed.wants_description && parsed.wants_block_size);
        let unknown = ask(b"", 2, &[700, 3]);
        let parsed = InfoRequest::parse(&unknown).unwrap();
        assert_eq!((parsed.name, parsed.wants_block_size, parsed.wants_name), ("", true, false));
        for (data, flaw) in [
            (ask(b"vm1", 1, &[]), Flaw::Malformed),
            (ask(b"vm1", 0, &[3]), Flaw::Malformed),
            (ask(&[0xff], 0, &[]), Flaw::NotUtf8),
            (ask(&[b'x'; 4097], 0, &[]), Flaw::LongString),
            (vec![0, 0, 0, 9, b'x'], Flaw::Malformed),
            (vec![], Flaw::Malformed),
        ] {
            assert_eq!(InfoRequest::parse(&data), Err(flaw));
        }
        assert!(InfoRequest::parse(&ask(&[b'x'; 4096], 0, &[])).is_ok());
    }

    #[test]
    fn context_requests() {
        let ask = |count: u32, queries: &[&[u8]]| {
            let mut data = string(b"vm1");
            data.extend(count.to_be_bytes());
            queries.iter().for_each(|query| data.extend(string(query)));
            data
        };
        let allocation = Contexts::NONE.with(Context::Allocation);
        let depth = Contexts::NONE.with(Context::AllocationDepth);
        let both = allocation.with(Context::AllocationDepth);
        let none = Contexts::NONE;
        for (queries, named, of_wildcards) in [
            (&[][..], none, none),
            (&[&b"base:allocation"[..]][..], allocation, none),
            (&[b"base:"], none, allocation),
            (&[b"base:", b"qemu:"], none, both),
            (&[b"qemu:allocation-depth", b"base:allocation"], both, none),
            (&[b"qemu:allocation-depth", b"qemu:", b"qemu:a"], depth, depth),
            (&[b"base:other", b"qemu:dirty-bitmap:x", b"nonsense", b"\xff", b":"], none, none),
            (&[b"x-weir:", b"base:allocation", b"base:allocation"], allocation, none),
        ] {
            let data = ask(queries.len() as u32, queries);
            let parsed = ContextRequest::parse(&data).unwrap();
            assert_eq!((parsed.named, parsed.of_wildcards), (named, of_wildcards));
            assert_eq!((parsed.name, parsed.queries as usize), ("vm1", queries.len()));
        }
        for (data, flaw) in [
            (ask(2, &[b"base:"]), Flaw::Malformed),
            (ask(0, &[b"base:"]), Flaw::Malformed),
            (ask(1, &[&[b'x'; 4097]]), Flaw::LongString),
            (ask(u32::MAX, &[]), Flaw::ManyQueries),
        ] {
            assert_eq!(ContextRequest::parse(&data), Err(flaw));
        }
    }
}
