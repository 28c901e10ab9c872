//! What budget fair queueing promises to children that always have a backlog, checked from what they were served.
//!
//! A child of weight w among weights that add up to W is owed w/W of what its parent is served. Its *lag* is what it is
//! owed less what it got. Specification 2.11 bounds it, by budgets and not by time: with a largest budget `B` for all,
//! the lag is at most `B` (worst-case fair index of WF2Q+, budgets in place of packets) and the child is at most
//! `B * (1 - w/W)` ahead, each plus one request, for a slot may end that much early. Over an interval in between it
//! is therefore never further from its share than by both together.

/// What the children of one parent were served, and the extremes of their lags.
///
/// Lags are kept in `1/W` of a byte, so that nothing is rounded.
#[derive(Clone, Debug)]
pub struct Ledger {
    children: Vec<Child>,
    weights: i128,
    served: i128,
}

#[derive(Clone, Copy, Debug)]
struct Child {
    weight: i128,
    served: i128,
    /// Least and greatest so far, from 0 at the start.
    least: i128,
    greatest: i128,
}

impl Ledger {
    /// Children of these weights, with a backlog from now on.
    pub fn new(weights: &[u64]) -> Ledger {
        let child =
            |&weight: &u64| Child { weight: i128::from(weight), served: 0, least: 0, greatest: 0 };
        Ledger {
            children: weights.iter().map(child).collect(),
            weights: weights.iter().map(|&weight| i128::from(weight)).sum(),
            served: 0,
        }
    }

    /// `child` was served `bytes`. O(children).
    ///
    /// # Panics
    /// There is no such child.
    pub fn serve(&mut self, child: usize, bytes: u64) {
        self.served += i128::from(bytes);
        self.children[child].served += i128::from(bytes);
        for child in &mut self.children {
            let lag = child.weight * self.served - self.weights * child.served;
            child.least = child.least.min(lag);
            child.greatest = child.greatest.max(lag);
        }
    }

    /// Whether every lag was within its bounds at all times, with budgets of at most `budget_max` bytes and requests of
    /// at most `request_max`.
    ///
    /// # Errors
    /// Which child's was not, and by how much.
    pub fn check(&self, budget_max: u64, request_max: u64) -> Result<(), String> {
        let (budget, request) = (i128::from(budget_max), i128::from(request_max));
        for (index, child) in self.children.iter().enumerate() {
            let behind = (budget + request) * self.weights;
            let ahead = budget * (self.weights - child.weight) + request * self.weights;
            for (what, found, bound) in
                [("behind", child.greatest, behind), ("ahead", -child.least, ahead)]
            {
                if found > bound {
                    let (found, bound) = (found / self.weights, bound / self.weights);
                    return Err(format!("child {index} was {found} bytes {what}, not {bound}"));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_shares_pass_and_turns_do_not() {
        let (mut fair, mut turns) = (Ledger::new(&[1, 3]), Ledger::new(&[1, 3]));
        for turn in 0..400 {
            fair.serve(usize::from(turn % 4 != 0), 10);
            turns.serve(turn % 2, 10);
        }
        assert_eq!(fair.check(20, 10), Ok(()));
        let broken = "child 0 was 1002 bytes ahead, not 25".to_owned();
        assert_eq!(turns.check(20, 10), Err(broken));
    }
}
