//! Any bytes against a server's session and against the client, with everything checked that holds
//! for every input. Shared by `cargo test` and the fuzz targets.

#![allow(unreachable_pub, reason = "also a module of the fuzz targets")]

mod client;
mod client_script;
mod server;
mod server_script;

pub use client::client;
pub use server::server;

/// Cuts a stream into pieces, as a network would; decided by the fuzzed bytes.
struct Cuts<'a> {
    sizes: &'a [u8],
    next: usize,
}

impl<'a> Cuts<'a> {
    fn new(sizes: &'a [u8]) -> Cuts<'a> {
        Cuts { sizes, next: 0 }
    }

    /// The whole stream at once.
    const NONE: Cuts<'static> = Cuts { sizes: &[], next: 0 };

    /// The next piece of `rest`; never empty unless `rest` is.
    fn piece<'s>(&mut self, rest: &mut &'s [u8]) -> &'s [u8] {
        let len = match self.sizes {
            [] => rest.len(),
            sizes => {
                self.next = (self.next + 1) % sizes.len();
                // Small sizes cut heads apart, large ones leave many requests in one piece.
                match sizes[self.next] {
                    small @ 0..200 => usize::from(small) % 40 + 1,
                    large => usize::from(large) * 64,
                }
            }
        };
        let (piece, later) = rest.split_at(len.min(rest.len()));
        *rest = later;
        piece
    }
}

/// Fuzzed input: two bytes of settings, up to eight of cuts, and the stream.
fn split(data: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[settings, cuts], rest) = data.split_first_chunk()?;
    let (cuts, stream) = rest.split_at_checked(usize::from(cuts % 8) + 1)?;
    Some((settings, cuts, stream))
}

/// Fuzzed bytes, taken one after the other; zeroes when there are none left.
struct Data<'a>(&'a [u8]);

impl<'a> Data<'a> {
    fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    /// As many as are left, at most `len`.
    fn take(&mut self, len: usize) -> &'a [u8] {
        let (now, later) = self.0.split_at(len.min(self.0.len()));
        self.0 = later;
        now
    }
}
