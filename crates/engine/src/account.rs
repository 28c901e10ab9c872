//! Traffic counters of cgroups: one line of cache for each direction has what most requests touch. [`Counters`] are
//! made of them on request, on any thread.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use once_cell::race::OnceBox;
use weir_counters::{Counters as Shared, Histogram};

use crate::bfq::{BfqCgroupStats, CgroupCounts};
use crate::latencies::Latencies;
use crate::latency::Latency;
use crate::stats::{Counters, Moved};
use crate::throttle::WaitAccount;
use crate::types::{Direction, Op, Part, Request};

/// The counters of all cgroups, by index.
pub(crate) struct Accounts(Vec<CgroupAccount>);

/// Small, for most of 100,000 cgroups may be idle.
#[derive(Default)]
struct CgroupAccount {
    /// Traffic of its own requests, once there was one.
    own: Option<Arc<Account>>,
    /// Where others look for `own`, if they have asked for it.
    shared: Option<Arc<SharedAccount>>,
    /// Sums of removed children.
    folded: Option<Box<Folded>>,
}

/// Where the account of a cgroup will be, or is.
pub(crate) type SharedAccount = OnceBox<Arc<Account>>;

/// What removed children of a cgroup had counted.
#[derive(Default)]
pub(crate) struct Folded {
    pub(crate) counters: Counters,
    pub(crate) latencies: Latencies,
    pub(crate) bfq: BfqCgroupStats,
}

impl Accounts {
    /// Those of the root.
    pub(crate) fn new() -> Accounts {
        Accounts(alloc::vec![CgroupAccount::default()])
    }

    /// The cgroup in slot `index` is new.
    pub(crate) fn add_cgroup(&mut self, index: u32) {
        match self.0.get_mut(index as usize) {
            Some(slot) => *slot = CgroupAccount::default(),
            None => self.0.push(CgroupAccount::default()),
        }
    }

    /// Whether the first request of `cgroup` is still to come.
    #[inline]
    pub(crate) fn is_new(&self, cgroup: u32) -> bool {
        self.0[cgroup as usize].own.is_none()
    }

    /// The first request of `cgroup` has come, which counts its waits and what BFQ does for it in the accounts given.
    pub(crate) fn open(&mut self, cgroup: u32, waits: Arc<WaitAccount>, bfq: Arc<CgroupCounts>) {
        let slot = &mut self.0[cgroup as usize];
        let account = Arc::new(Account::new(waits, bfq));
        if let Some(shared) = &slot.shared {
            // Nothing else sets it.
            let _ = shared.set(Box::new(Arc::clone(&account)));
        }
        slot.own = Some(account);
    }

    /// The account of `cgroup`, which has been opened.
    #[inline]
    pub(crate) fn of(&self, cgroup: u32) -> &Account {
        self.0[cgroup as usize].own.as_deref().expect("opened by its first request")
    }

    /// Where other threads find the account of `cgroup`.
    pub(crate) fn shared(&mut self, cgroup: u32) -> Arc<SharedAccount> {
        let CgroupAccount { own, shared, .. } = &mut self.0[cgroup as usize];
        let shared = shared.get_or_insert_with(|| {
            let place = OnceBox::new();
            if let Some(own) = own {
                let _ = place.set(Box::new(Arc::clone(own)));
            }
            Arc::new(place)
        });
        Arc::clone(shared)
    }

    /// The account of `cgroup`, once it has one.
    pub(crate) fn own(&self, cgroup: u32) -> Option<&Account> {
        self.0[cgroup as usize].own.as_deref()
    }

    /// What children of `cgroup` had counted that were removed.
    pub(crate) fn folded(&self, cgroup: u32) -> Option<&Folded> {
        self.0[cgroup as usize].folded.as_deref()
    }

    /// The same, to add to it.
    pub(crate) fn folded_mut(&mut self, cgroup: u32) -> &mut Folded {
        self.0[cgroup as usize].folded.get_or_insert_default()
    }
}

/// Traffic of one cgroup. Apart: an idle cgroup touches none of it.
#[repr(C, align(64))]
pub(crate) struct Account {
    directions: [PerDirection; 2],
    other: Shared<{ Both::COUNT }>,
    latencies: [Latency; 2],
    waits: Arc<WaitAccount>,
    bfq: Arc<CgroupCounts>,
}

/// One direction: the places of [`Traffic`].
#[derive(Default)]
#[repr(align(64))]
struct PerDirection(Shared<{ Traffic::COUNT }>);

const _: () = assert!(size_of::<PerDirection>() == 64);

/// Counters of one direction.
enum Traffic {
    Bytes,
    Ios,
    Completed,
    DeviceNs,
    LiftedNs,
}

impl Traffic {
    const COUNT: usize = 5;
}

/// Counters of both.
enum Both {
    DiscardBytes,
    DiscardIos,
    OtherIos,
    Failed,
    WindowNs,
    /// Prices of what went to the device, by its model; only where it has one.
    ModelledNs,
}

impl Both {
    const COUNT: usize = 6;
}

impl Account {
    fn new(waits: Arc<WaitAccount>, bfq: Arc<CgroupCounts>) -> Account {
        Account {
            directions: Default::default(),
            other: Shared::default(),
            latencies: Default::default(),
            waits,
            bfq,
        }
    }

    fn dir(&self, direction: Direction) -> &Shared<{ Traffic::COUNT }> {
        &self.directions[direction.index()].0
    }

    fn latency(&self, direction: Direction) -> &Latency {
        &self.latencies[direction.index()]
    }

    /// A request has waited for room at the device.
    pub(crate) fn waited_for_room(&self, direction: Direction, wait_ns: u64) {
        self.other.add(Both::WindowNs as usize, wait_ns);
        self.latency(direction).waited_for_room(wait_ns);
    }

    /// Adds the modelled device time of a dispatched request.
    pub(crate) fn took_of_device(&self, price_ns: u64) {
        self.other.update(|other| {
            let modelled_ns = &mut other[Both::ModelledNs as usize];
            *modelled_ns = modelled_ns.saturating_add(price_ns);
        });
    }

    /// Counts a request that is past its limits; `lifted_ns` it waited for limits that no longer exist.
    #[inline]
    pub(crate) fn passed(&self, request: &Request, lifted_ns: u64) {
        let direction = request.op.direction();
        let bytes = match request.part {
            Part::Whole => u64::from(request.extent.len),
            Part::Remainder => 0,
        };
        if lifted_ns > 0 {
            self.dir(direction).add(Traffic::LiftedNs as usize, lifted_ns);
            self.latency(direction).waited_for_lifted(lifted_ns);
        }
        match request.op {
            Op::Read | Op::Write | Op::WriteZeroes => self
                .dir(direction)
                .add_each([(Traffic::Bytes as usize, bytes), (Traffic::Ios as usize, 1)]),
            Op::Discard => self
                .other
                .add_each([(Both::DiscardBytes as usize, bytes), (Both::DiscardIos as usize, 1)]),
            Op::Flush | Op::Cache | Op::Status => self.other.add(Both::OtherIos as usize, 1),
        }
    }

    /// Counts a completed request, which had waited before the device for all but `device_ns` of `whole_ns`.
    #[inline]
    pub(crate) fn completed(&self, direction: Direction, device_ns: u64, whole_ns: Option<u64>) {
        let sums = [(Traffic::DeviceNs as usize, device_ns), (Traffic::Completed as usize, 1)];
        self.dir(direction).add_each(sums);
        self.latency(direction).completed(device_ns, whole_ns);
    }

    /// Counts the device time of a piece that is not the last.
    pub(crate) fn piece_completed(&self, direction: Direction, device_ns: u64) {
        self.dir(direction).add(Traffic::DeviceNs as usize, device_ns);
        self.latency(direction).piece_completed(device_ns);
    }

    /// Counts a failed request.
    pub(crate) fn failed(&self) {
        self.other.add(Both::Failed as usize, 1);
    }

    /// Adds its traffic to `counters`, without waits for limits.
    pub(crate) fn add_traffic_to(&self, counters: &mut Counters) {
        let other = self.other.read();
        let of = |what: Both| other[what as usize];
        counters.discard.add(Moved { bytes: of(Both::DiscardBytes), ios: of(Both::DiscardIos) });
        counters.other_ios += of(Both::OtherIos);
        counters.failed += of(Both::Failed);
        counters.modelled_ns = counters.modelled_ns.saturating_add(of(Both::ModelledNs));
        counters.blame.window_ns += of(Both::WindowNs);
        for (direction, moved) in
            [(Direction::Read, &mut counters.read), (Direction::Write, &mut counters.write)]
        {
            let traffic = self.dir(direction).read();
            let of = |what: Traffic| traffic[what as usize];
            moved.add(Moved { bytes: of(Traffic::Bytes), ios: of(Traffic::Ios) });
            counters.completed += of(Traffic::Completed);
            counters.blame.device_ns += of(Traffic::DeviceNs);
            counters.blame.lifted_ns += of(Traffic::LiftedNs);
        }
    }

    /// Adds the times of its requests to `latencies`.
    pub(crate) fn add_latencies_to(&self, latencies: &mut Latencies) {
        for direction in Direction::BOTH {
            let sums = &mut latencies.directions[direction.index()];
            self.latency(direction).add_to(sums);
            self.waits.add_latency_to(direction, sums);
        }
    }

    /// Adds the whole times of its requests, of reads and of all others.
    pub(crate) fn add_whole_times_to(&self, times: &mut [Histogram; 2]) {
        for direction in Direction::BOTH {
            self.latency(direction).add_whole_to(&mut times[direction.index()]);
        }
    }

    /// What its requests have waited for at limits.
    pub(crate) fn waits(&self) -> &WaitAccount {
        &self.waits
    }

    /// What BFQ has counted of it.
    pub(crate) fn bfq(&self) -> &CgroupCounts {
        &self.bfq
    }
}
