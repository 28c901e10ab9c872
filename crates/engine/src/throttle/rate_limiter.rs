//! Rate limiter of one cgroup and direction, and the service it gave.

use alloc::boxed::Box;
use core::mem::offset_of;
use core::num::NonZeroU64;

use crate::throttle::fair_queue::Order;
use crate::throttle::leaky::Leaky;
use crate::throttle::limiter::{Arrival, Limiter, Rates, Verdict};
use crate::throttle::pace::Pace;
use crate::throttle::slice::Slice;
use crate::throttle::token::Token;
use crate::throttle::watermark::LimitTime;
use crate::types::{Cost, Instant, LimiterKind, Limits, Resource};

/// Limiter of one kind.
///
/// Of the usual kind with one limited resource, only the first line of cache is used.
#[repr(C, align(64))]
pub(crate) struct RateLimiter {
    /// Time of this limit that throttled requests took, in nanoseconds.
    pub(crate) served_ns: u64,
    inner: AnyLimiter,
}

// The tag is in a niche of the usual kind.
const _: () = assert!(size_of::<AnyLimiter>() == size_of::<Pace>());
const _: () = assert!(offset_of!(RateLimiter, inner) + Pace::HOT <= 64);

/// The usual limiter inline; others are larger and boxed.
enum AnyLimiter {
    Pace(Pace),
    Slice(Box<Slice>),
    Token(Box<Token>),
    Leaky(Box<Leaky>),
}

impl AnyLimiter {
    fn new(now: Instant, kind: LimiterKind, rates: Rates) -> AnyLimiter {
        match kind {
            LimiterKind::Pace => AnyLimiter::Pace(Pace::new(now, rates)),
            #[cfg(feature = "slice")]
            LimiterKind::Slice(profile) => {
                AnyLimiter::Slice(Box::new(Slice::new(now, profile, rates)))
            }
            LimiterKind::Token => AnyLimiter::Token(Box::new(Token::new(now, rates))),
            LimiterKind::Leaky => AnyLimiter::Leaky(Box::new(Leaky::new(now, rates))),
        }
    }

    fn as_dyn(&mut self) -> &mut dyn Limiter {
        match self {
            AnyLimiter::Pace(inner) => inner,
            AnyLimiter::Slice(inner) => &mut **inner,
            AnyLimiter::Token(inner) => &mut **inner,
            AnyLimiter::Leaky(inner) => &mut **inner,
        }
    }

    fn is(&self, kind: LimiterKind) -> bool {
        match (self, kind) {
            (AnyLimiter::Pace(_), LimiterKind::Pace)
            | (AnyLimiter::Token(_), LimiterKind::Token)
            | (AnyLimiter::Leaky(_), LimiterKind::Leaky) => true,
            #[cfg(feature = "slice")]
            (AnyLimiter::Slice(slice), LimiterKind::Slice(profile)) => slice.profile() == profile,
            _ => false,
        }
    }
}

impl RateLimiter {
    pub(crate) fn new(now: Instant, kind: LimiterKind, rates: Rates) -> RateLimiter {
        RateLimiter { served_ns: 0, inner: AnyLimiter::new(now, kind, rates) }
    }

    /// The limiter of slices, if it is that.
    #[inline]
    pub(super) fn as_slice(&self) -> Option<&Slice> {
        match &self.inner {
            AnyLimiter::Slice(slice) => Some(slice),
            _ => None,
        }
    }

    pub(super) fn as_slice_mut(&mut self) -> Option<&mut Slice> {
        match &mut self.inner {
            AnyLimiter::Slice(slice) => Some(slice),
            _ => None,
        }
    }

    /// Order of the sources that wait here.
    pub(crate) fn order(&self) -> Order {
        match &self.inner {
            AnyLimiter::Slice(_) => Order::Turns,
            _ => Order::Shares,
        }
    }

    /// Whether a limiter can tell when it would let a request go that has not arrived.
    pub(crate) fn has_forecast(&self) -> bool {
        !matches!(self.inner, AnyLimiter::Slice(_))
    }

    /// Whether metadata goes past this limit at once.
    pub(crate) fn lets_metadata_overtake(&self) -> bool {
        match &self.inner {
            AnyLimiter::Slice(slice) => slice.lets_metadata_overtake(),
            _ => true,
        }
    }

    pub(crate) fn check(&mut self, now: Instant, cost: Cost, arrival: Arrival) -> Verdict {
        match &mut self.inner {
            // Static dispatch: on the path of every request of a limited cgroup.
            AnyLimiter::Pace(pace) => pace.check(now, cost, arrival),
            other => other.as_dyn().check(now, cost, arrival),
        }
    }

    /// Instant at which any head that pays I/Os conforms, where that depends on one rate of I/Os only.
    #[inline]
    pub(crate) fn sole_ready_at(&self) -> Option<Instant> {
        match &self.inner {
            AnyLimiter::Pace(pace) => pace.sole_ready_at(),
            AnyLimiter::Slice(_) | AnyLimiter::Token(_) | AnyLimiter::Leaky(_) => None,
        }
    }

    /// Answer of [`RateLimiter::check`], if it is the same for every head that pays I/Os. Looking up a head is the
    /// largest cost with a million flows.
    pub(crate) fn check_any(&self, now: Instant) -> Option<Verdict> {
        match &self.inner {
            AnyLimiter::Pace(pace) => pace.check_any(now),
            AnyLimiter::Slice(_) | AnyLimiter::Token(_) | AnyLimiter::Leaky(_) => None,
        }
    }

    /// Largest instalment, where one I/O is `units_per_io`; `None` for limiters that follow a kernel.
    ///
    /// Under a watermark (`is_steered`) a request of usual size is one instalment: it goes first and is paid
    /// afterwards. Paying before would lose a client what its clock advances while the request is away, and what it
    /// has paid when the gate opens.
    pub(crate) fn instalment(&self, units_per_io: u64, is_steered: bool) -> Option<Cost> {
        let (per_second, bursts) = match &self.inner {
            AnyLimiter::Pace(pace) => (pace.per_second(), pace.bursts()),
            AnyLimiter::Token(token) => (token.per_second(), token.bursts()),
            AnyLimiter::Leaky(leaky) => (leaky.per_second(), [u64::MAX; 2]),
            AnyLimiter::Slice(_) => return None,
        };
        let most = |resource: Resource, place: usize| {
            per_second[place].map_or(u64::MAX, |per_second| {
                Limits::instalment(resource, per_second.get(), bursts[place], units_per_io)
            })
        };
        let (bytes, ios) = (most(Resource::Bytes, 0), most(Resource::Ios, 1));
        // A unit of I/Os is a byte, where they are counted in units.
        let least = if is_steered { Limits::INSTALMENT_BYTES_MAX } else { 0 };
        Some(Cost::whole(bytes.max(least), ios.max(if units_per_io == 1 { 0 } else { least })))
    }

    /// Burst left at `now` beyond one instalment: 0 without a burst or with a peak rate, unbounded without a limit.
    pub(crate) fn burst_beyond_one(&self, units_per_io: u64, now: Instant) -> Cost {
        let has_peak = match &self.inner {
            AnyLimiter::Pace(pace) => pace.has_peak(),
            AnyLimiter::Token(token) => token.has_peak(),
            AnyLimiter::Slice(_) | AnyLimiter::Leaky(_) => true,
        };
        let one = self.instalment(units_per_io, false).unwrap_or(Cost::whole(u64::MAX, u64::MAX));
        let left = |resource: Resource, one: u64| match has_peak {
            true => 0,
            false => {
                self.credit_left(now, resource).map_or(u64::MAX, |left| left.saturating_sub(one))
            }
        };
        Cost::whole(left(Resource::Bytes, one.bytes), left(Resource::Ios, one.ios))
    }

    /// Charges a request that goes at `time`, or an instalment of what it `owed`.
    #[inline]
    pub(crate) fn charge(&mut self, time: LimitTime, cost: Cost, owed: Option<Cost>) {
        match (&mut self.inner, owed) {
            _ if time.is_lifted => self.charge_lifted(time.at, cost),
            (AnyLimiter::Pace(pace), None) => pace.charge(time.at, cost),
            (other, None) => other.as_dyn().charge(time.at, cost),
            (other, Some(owed)) => other.as_dyn().charge_instalment(time.at, cost, owed),
        }
    }

    /// Charges a request as debt; see [`Limiter::charge_debt`].
    pub(crate) fn charge_debt(&mut self, now: Instant, cost: Cost, arrival: Arrival) {
        self.inner.as_dyn().charge_debt(now, cost, arrival);
    }

    /// Charges a request while limits do not bind.
    fn charge_lifted(&mut self, now: Instant, cost: Cost) {
        let inner = self.inner.as_dyn();
        inner.charge_debt(now, cost, Arrival::Queued);
        inner.forgive(now);
    }

    /// Reduces debt to a burst: limits ceased to bind at `now`.
    pub(crate) fn forgive(&mut self, now: Instant) {
        self.inner.as_dyn().forgive(now);
    }

    /// Rebases times: the new clock shows `after` when the old one shows `before`.
    pub(crate) fn shift(&mut self, before: Instant, after: Instant) {
        self.inner.as_dyn().shift(before, after);
    }

    pub(crate) fn set(&mut self, now: Instant, kind: LimiterKind, rates: Rates, queued: bool) {
        if self.inner.is(kind) {
            self.inner.as_dyn().set_rates(now, rates, queued);
        } else {
            self.inner = AnyLimiter::new(now, kind, rates);
        }
    }

    /// Burst left, for limiters that have one, in bytes or I/O units.
    pub(crate) fn credit_left(&self, now: Instant, resource: Resource) -> Option<u64> {
        match &self.inner {
            AnyLimiter::Pace(pace) => pace.credit(now, resource),
            AnyLimiter::Token(token) => token.credit(now, resource),
            AnyLimiter::Slice(_) | AnyLimiter::Leaky(_) => None,
        }
    }

    /// Time of `cost` at this limit, in nanoseconds, rounded up: the longer of bytes and I/Os.
    #[inline]
    pub(crate) fn time_of(&self, cost: Cost) -> u64 {
        match &self.inner {
            AnyLimiter::Pace(pace) => time_at(pace.per_second(), cost),
            AnyLimiter::Slice(slice) => time_at(slice.per_second(), cost),
            AnyLimiter::Token(token) => time_at(token.per_second(), cost),
            AnyLimiter::Leaky(leaky) => time_at(leaky.per_second(), cost),
        }
    }
}

/// Time of `cost` at rates of bytes and I/Os per second.
#[inline]
fn time_at([bytes, ios]: [Option<NonZeroU64>; 2], cost: Cost) -> u64 {
    let time = |amount: u64, per_second: Option<NonZeroU64>| {
        let Some(per_second) = per_second else { return 0 };
        match amount.checked_mul(1_000_000_000) {
            Some(scaled) => scaled.div_ceil(per_second.get()),
            None => time_of_many(amount, per_second),
        }
    };
    time(cost.bytes, bytes).max(time(cost.ios, ios))
}

#[cold]
fn time_of_many(amount: u64, per_second: NonZeroU64) -> u64 {
    let scaled = u128::from(amount) * 1_000_000_000;
    u64::try_from(scaled.div_ceil(per_second.get().into())).unwrap_or(u64::MAX)
}
