//! B-WF2Q+ over a tree of groups, by looking at all entities each time (spec/bfq 2; `docs/bfq.md`, "The
//! arithmetic").
//!
//! A child is *eligible* once its parent's virtual time V has reached its start; of the eligible ones the one with the
//! least finish is next, of equals the one that was placed first. V goes on with service, divided by the weights of all
//! that count: those that wait, the one in service, and those at rest whose finish V has not passed. Where none is in
//! service and none eligible, V jumps to the least start.

/// Names a group or a leaf. The root is 0.
pub type NodeId = usize;

/// The node above all.
pub const ROOT: NodeId = 0;

/// Units of virtual time in a byte at weight 1.
const UNITS: i128 = 1 << 29;

/// Where a node stands with its parent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// It does not count.
    Off,
    /// It has a backlog, and waits for its turn.
    Active,
    /// It, or an entity below it, has the device.
    InService,
    /// It has no backlog, and counts until V has passed its finish.
    Resting,
}

#[derive(Clone, PartialEq, Debug)]
struct Node {
    parent: NodeId,
    /// The weight it will be placed with.
    weight: i128,
    state: State,
    start: i128,
    finish: i128,
    /// Service in this slot.
    service: i128,
    /// Budget; of a group, that of its next child.
    budget: i128,
    /// The weight it was placed with.
    placed_weight: i128,
    /// When it was placed, among all placings.
    placed: u64,
    /// Of its children, if it has any.
    vtime: i128,
}

/// A tree of weights, and the service that each entity has had.
#[derive(Clone, PartialEq, Debug)]
pub struct Wf2q {
    nodes: Vec<Node>,
    placings: u64,
}

impl Default for Wf2q {
    fn default() -> Wf2q {
        Wf2q::new()
    }
}

/// Operations on leaves and groups.
impl Wf2q {
    /// A root without entities below it.
    pub fn new() -> Wf2q {
        Wf2q { nodes: vec![Node::new(ROOT, 1)], placings: 0 }
    }

    /// A new child of `parent`, without a backlog.
    pub fn add(&mut self, parent: NodeId, weight: u64) -> NodeId {
        self.nodes.push(Node::new(parent, weight.into()));
        self.nodes.len() - 1
    }

    /// The weight that `node` has from now on. By how many bytes it is ahead of its share, or behind, it still is.
    ///
    /// # Panics
    /// It, or an entity below it, has the device.
    pub fn weigh(&mut self, node: NodeId, weight: u64) {
        let new = i128::from(weight);
        let old = core::mem::replace(&mut self.nodes[node].weight, new);
        let Node { state, parent, budget, .. } = self.nodes[node];
        assert_ne!(state, State::InService, "its slot is to end first");
        if state == State::Off || old == new {
            return;
        }
        let vtime = self.nodes[parent].vtime;
        let scaled = |at: i128| vtime + (at - vtime) * old / new;
        let changed = &mut self.nodes[node];
        (changed.start, changed.finish) = (scaled(changed.start), scaled(changed.finish));
        changed.placed_weight = new;
        match state {
            State::Resting => self.rest(node),
            _ => self.place(node, budget),
        }
        self.carry(parent, false);
    }

    /// A leaf has a backlog now, and may have `budget` bytes in its next slot. `in_time`: it was away so shortly that it
    /// goes on where it ended, also where V has passed that (spec/bfq 2.10).
    ///
    /// # Panics
    /// It had one already.
    pub fn activate(&mut self, leaf: NodeId, budget: u64, in_time: bool) {
        self.place_anew(leaf, budget.into(), in_time);
        self.carry(self.nodes[leaf].parent, in_time);
    }

    /// Changes the budget of a waiting leaf.
    ///
    /// # Panics
    /// It does not wait.
    pub fn reposition(&mut self, leaf: NodeId, budget: u64) {
        assert_eq!(self.nodes[leaf].state, State::Active);
        self.place(leaf, budget.into());
        self.carry(self.nodes[leaf].parent, false);
    }

    /// A leaf that waits has no backlog any more.
    ///
    /// # Panics
    /// It does not wait.
    pub fn deactivate(&mut self, leaf: NodeId) {
        assert_eq!(self.nodes[leaf].state, State::Active);
        self.rest_unserved(leaf);
        self.carry(self.nodes[leaf].parent, false);
    }

    /// Selects the next leaf, which has the device from now on. None without a backlog.
    ///
    /// # Panics
    /// A leaf has the device already.
    pub fn select(&mut self) -> Option<NodeId> {
        assert_eq!(self.in_service(), None);
        let mut at = ROOT;
        while let Some(child) = self.next(at) {
            self.nodes[child].state = State::InService;
            at = child;
        }
        (at != ROOT).then_some(at)
    }

    /// Charges the leaf that has the device, and every group above it.
    ///
    /// # Panics
    /// None has it.
    pub fn charge(&mut self, bytes: u64) {
        let mut at = self.in_service().expect("someone to charge");
        while at != ROOT {
            self.nodes[at].service += i128::from(bytes);
            let parent = self.nodes[at].parent;
            self.nodes[parent].vtime += i128::from(bytes) * UNITS / self.weights(parent);
            // One at most is forgotten with each charge.
            let vtime = self.nodes[parent].vtime;
            let resting = self.children(parent, State::Resting);
            let first = resting.min_by_key(|&child| self.order(child));
            if let Some(first) = first.filter(|&first| self.nodes[first].finish <= vtime) {
                self.nodes[first].state = State::Off;
            }
            at = parent;
        }
    }

    /// Ends the slot of the leaf that has the device: with a backlog it may have `budget` bytes in its next.
    ///
    /// # Panics
    /// None has it.
    pub fn settle(&mut self, budget: Option<u64>) {
        let mut at = self.in_service().expect("a slot");
        let mut budget = budget.map(i128::from);
        while at != ROOT {
            let node = &mut self.nodes[at];
            node.finish = node.start + node.service * UNITS / node.placed_weight;
            node.service = 0;
            match budget {
                Some(budget) => {
                    self.nodes[at].start = self.nodes[at].finish;
                    self.place(at, budget);
                }
                None => self.rest(at),
            }
            let parent = self.nodes[at].parent;
            self.advance(parent);
            budget = self.next(parent).map(|next| self.nodes[next].budget);
            at = parent;
        }
    }

    /// Moves a group to another parent, where it starts like a newcomer.
    ///
    /// # Panics
    /// An entity below it has the device.
    pub fn move_group(&mut self, group: NodeId, parent: NodeId) {
        assert_ne!(self.nodes[group].state, State::InService);
        let old = self.nodes[group].parent;
        self.nodes[group].state = State::Off;
        self.carry(old, false);
        self.nodes[group].parent = parent;
        self.carry(group, false);
    }

    /// The leaf that has the device.
    pub fn in_service(&self) -> Option<NodeId> {
        let mut at = ROOT;
        while let Some(child) = self.children(at, State::InService).next() {
            at = child;
        }
        (at != ROOT).then_some(at)
    }

    /// Whether `node` is `group`, or somewhere below it.
    pub fn is_below(&self, node: NodeId, group: NodeId) -> bool {
        let mut at = node;
        while at != group && at != ROOT {
            at = self.nodes[at].parent;
        }
        at == group
    }

    /// Start and finish of `node`, and its parent's virtual time; in bytes at weight 1, rounded down.
    pub fn tags(&self, node: NodeId) -> (i128, i128, i128) {
        let &Node { start, finish, parent, .. } = &self.nodes[node];
        (start / UNITS, finish / UNITS, self.nodes[parent].vtime / UNITS)
    }
}

/// The rules.
impl Wf2q {
    fn children(&self, parent: NodeId, state: State) -> impl Iterator<Item = NodeId> {
        // The root is its own parent, and no entity's child.
        let below = move |&(child, node): &(NodeId, &Node)| {
            child != ROOT && node.parent == parent && node.state == state
        };
        self.nodes.iter().enumerate().filter(below).map(|(child, _)| child)
    }

    /// Order of two entities.
    fn order(&self, node: NodeId) -> (i128, u64) {
        (self.nodes[node].finish, self.nodes[node].placed)
    }

    /// The weights of all children that count.
    fn weights(&self, parent: NodeId) -> i128 {
        let counted = [State::Active, State::InService, State::Resting];
        let counted = counted.into_iter().flat_map(|state| self.children(parent, state));
        counted.map(|child| self.nodes[child].placed_weight).sum()
    }

    fn next(&self, parent: NodeId) -> Option<NodeId> {
        let vtime = self.nodes[parent].vtime;
        let active = self.children(parent, State::Active);
        let eligible = active.filter(|&child| self.nodes[child].start <= vtime);
        eligible.min_by_key(|&child| self.order(child))
    }

    /// V jumps to the least start where none is eligible, for one is to be served.
    fn advance(&mut self, parent: NodeId) {
        let starts = self.children(parent, State::Active).map(|child| self.nodes[child].start);
        if let Some(least) = starts.min() {
            self.nodes[parent].vtime = self.nodes[parent].vtime.max(least);
        }
    }

    /// A change among the children of `group` may change the group's own place, and so on upwards, up to where an entity
    /// is in service: there nothing is decided before the slot ends.
    fn carry(&mut self, group: NodeId, in_time: bool) {
        let mut at = group;
        while self.children(at, State::InService).next().is_none() {
            self.advance(at);
            if at == ROOT {
                return;
            }
            let budget = self.next(at).map(|next| self.nodes[next].budget);
            match (budget, self.nodes[at].state == State::Active) {
                (None, false) => return,
                (None, true) => self.rest_unserved(at),
                (Some(budget), false) => self.place_anew(at, budget, in_time),
                (Some(budget), true) if budget == self.nodes[at].budget => return,
                (Some(budget), true) => self.place(at, budget),
            }
            at = self.nodes[at].parent;
        }
    }

    /// A node that had no backlog gets a start.
    fn place_anew(&mut self, id: NodeId, budget: i128, in_time: bool) {
        let vtime = self.nodes[self.nodes[id].parent].vtime;
        let node = &mut self.nodes[id];
        let goes_back = in_time && vtime > node.finish;
        let floor = if goes_back { node.finish } else { vtime };
        node.start = match node.state {
            State::Off => floor,
            State::Resting => floor.max(node.finish),
            state => panic!("node {id} is {state:?}"),
        };
        self.place(id, budget);
        let node = &mut self.nodes[id];
        if goes_back && vtime > node.finish {
            // It missed more than a budget, and catches up that much.
            node.start += vtime - node.finish;
            node.finish = vtime;
        }
    }

    /// A node with a start gets a finish, and waits.
    fn place(&mut self, id: NodeId, budget: i128) {
        self.placings += 1;
        let node = &mut self.nodes[id];
        node.state = State::Active;
        node.placed = self.placings;
        node.placed_weight = node.weight;
        node.budget = budget;
        node.finish = node.start + budget * UNITS / node.weight;
    }

    /// A node that waited, and was not served since it was placed, loses its backlog.
    fn rest_unserved(&mut self, id: NodeId) {
        self.nodes[id].finish = self.nodes[id].start;
        self.rest(id);
    }

    fn rest(&mut self, id: NodeId) {
        self.placings += 1;
        let vtime = self.nodes[self.nodes[id].parent].vtime;
        let node = &mut self.nodes[id];
        node.placed = self.placings;
        node.state = if node.finish <= vtime { State::Off } else { State::Resting };
    }
}

impl Node {
    fn new(parent: NodeId, weight: i128) -> Node {
        Node {
            parent,
            weight,
            state: State::Off,
            start: 0,
            finish: 0,
            service: 0,
            budget: 0,
            placed_weight: weight,
            placed: 0,
            vtime: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECTOR: u64 = 512;

    /// Children of the root with these weights, and budgets in sectors, all with a backlog.
    fn flat(children: &[(u64, u64)]) -> (Wf2q, Vec<NodeId>) {
        let mut tree = Wf2q::new();
        let activate = |&(weight, budget)| {
            let leaf = tree.add(ROOT, weight);
            tree.activate(leaf, budget * SECTOR, false);
            leaf
        };
        let leaves = children.iter().map(activate).collect();
        (tree, leaves)
    }

    /// Serves whole budgets; the leaves served, as letters.
    fn slots(tree: &mut Wf2q, leaves: &[NodeId], budgets: &[u64], slots: usize) -> String {
        let serve = |_| {
            let leaf = tree.select().expect("a backlog");
            let which = leaves.iter().position(|&other| other == leaf).expect("one of them");
            tree.charge(budgets[which] * SECTOR);
            tree.settle(Some(budgets[which] * SECTOR));
            char::from(b'A' + which as u8)
        };
        (0..slots).map(serve).collect()
    }

    #[test]
    fn ex_5_two_to_one() {
        let (mut tree, leaves) = flat(&[(40, 1200), (80, 1200)]);
        assert_eq!(slots(&mut tree, &leaves, &[1200, 1200], 8), "BABBABBA");
    }

    #[test]
    fn ex_6_larger_budgets_buy_no_larger_share() {
        let (mut tree, leaves) = flat(&[(10, 512), (20, 1024), (70, 4096)]);
        let order = slots(&mut tree, &leaves, &[512, 1024, 4096], 60);
        assert_eq!(order[..26], *"ABCABCABCABCABCABCABCABABC");
        let service = |letter, budget| order.matches(letter).count() * budget;
        assert_eq!(
            [service('A', 512), service('B', 1024), service('C', 4096)],
            [10752, 21504, 73728]
        );
    }

    #[test]
    fn ex_7_a_short_absence_costs_nothing() {
        for (in_time, start, finish) in [(true, 8, 20), (false, 12, 24)] {
            let (mut tree, leaves) = flat(&[(40, 800), (40, 800)]);
            assert_eq!(tree.select(), Some(leaves[0]));
            tree.charge(320 * SECTOR);
            tree.settle(None);
            assert_eq!(tree.select(), Some(leaves[1]));
            tree.charge(320 * SECTOR);
            assert_eq!(tree.weights(ROOT), 40, "A is forgotten");
            tree.charge(160 * SECTOR);
            tree.activate(leaves[0], 480 * SECTOR, in_time);
            let sectors = i128::from(SECTOR);
            assert_eq!(tree.tags(leaves[0]), (start * sectors, finish * sectors, 12 * sectors));
        }
    }

    #[test]
    fn ex_7_b_a_long_one_is_caught_up_by_a_budget() {
        let (mut tree, leaves) = flat(&[(40, 800), (40, 800)]);
        assert_eq!(tree.select(), Some(leaves[0]));
        tree.charge(320 * SECTOR);
        tree.settle(None);
        assert_eq!(tree.select(), Some(leaves[1]));
        tree.charge(320 * SECTOR);
        tree.charge(22 * 40 * SECTOR);
        tree.activate(leaves[0], 480 * SECTOR, true);
        let sectors = i128::from(SECTOR);
        assert_eq!(tree.tags(leaves[0]), (18 * sectors, 30 * sectors, 30 * sectors));
    }

    #[test]
    fn a_group_has_the_weight_of_itself_and_not_of_its_children() {
        let mut tree = Wf2q::new();
        let alone = tree.add(ROOT, 100);
        let group = tree.add(ROOT, 100);
        let below = [tree.add(group, 1000), tree.add(group, 1000)];
        for leaf in [alone, below[0], below[1]] {
            tree.activate(leaf, 64, false);
        }
        let mut served = [0; 5];
        for _ in 0..400 {
            served[tree.select().expect("a backlog")] += 1;
            tree.charge(64);
            tree.settle(Some(64));
        }
        assert_eq!(served, [0, 200, 0, 100, 100]);
    }
}
