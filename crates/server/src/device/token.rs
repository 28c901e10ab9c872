//! Token of a completion, packed into the 64 bits that the ring carries.

/// The owner of an operation in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Token {
    /// A connection waits for bytes.
    Receive(usize),
    /// A connection receives the rest of a write into its buffer.
    Fill(usize),
    /// A connection sends replies.
    Send(usize),
    /// A connection closes.
    Close(usize),
    /// The device works on a request.
    Disk(usize),
    /// The device is flushed before the end.
    LastFlush,
}

const SHIFT: u32 = 56;

impl Token {
    pub(super) fn pack(self) -> u64 {
        let (kind, key) = match self {
            Token::Receive(key) => (1, key),
            Token::Fill(key) => (2, key),
            Token::Send(key) => (3, key),
            Token::Close(key) => (4, key),
            Token::Disk(key) => (5, key),
            Token::LastFlush => (6, 0),
        };
        kind << SHIFT | key as u64
    }

    pub(super) fn unpack(token: u64) -> Token {
        let key = (token & ((1 << SHIFT) - 1)) as usize;
        match token >> SHIFT {
            1 => Token::Receive(key),
            2 => Token::Fill(key),
            3 => Token::Send(key),
            4 => Token::Close(key),
            5 => Token::Disk(key),
            6 => Token::LastFlush,
            other => unreachable!("token kind {other} was never packed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Token;

    #[test]
    fn tokens_come_back_as_they_were() {
        for token in [Token::Receive(7), Token::Disk(1 << 40), Token::LastFlush] {
            assert_eq!(Token::unpack(token.pack()), token);
        }
    }
}
