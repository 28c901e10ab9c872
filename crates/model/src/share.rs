//! Bounds of budget fair queueing for children that always have a backlog, checked from what they were served.
//!
//! A child of weight w among weights that add up to W is owed w/W of what its parent is served. Its *lag* is what it is
//! owed less what it got. spec/bfq 2.11 bounds it, by budgets and not by time. With budgets of at most `b` for the
//! child and `B` for any, since the beginning:
//!
//! - it is behind by at most `b + w/W * (B - b)`, the worst-case fair index of WF2Q+ with budgets in place of packets;
//! - it is ahead by at most `b * (1 - w/W)`;
//! - between any two instants it falls behind by at most both together;
//!
//! each plus one request, for a slot may end that much early.

/// Service of the children of one parent, and the extremes of their lags.
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
    /// The most it grew from any instant to a later one.
    rise: i128,
}

impl Ledger {
    /// Children of these weights, with a backlog from now on.
    pub fn new(weights: &[u64]) -> Ledger {
        let child = |&weight: &u64| Child {
            weight: i128::from(weight),
            served: 0,
            least: 0,
            greatest: 0,
            rise: 0,
        };
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
            child.rise = child.rise.max(lag - child.least);
        }
    }

    /// Whether every lag was within its bounds at all times, with budgets of at most `budget_max` bytes and requests of
    /// at most `request_max`.
    ///
    /// # Errors
    /// The child, and its excess.
    pub fn check(&self, budget_max: u64, request_max: u64) -> Result<(), String> {
        self.check_each(&vec![budget_max; self.children.len()], request_max)
    }

    /// The same with budgets of at most `budgets[child]` bytes for each child.
    ///
    /// # Errors
    /// The child, and its excess.
    ///
    /// # Panics
    /// There are not as many budgets as children.
    pub fn check_each(&self, budgets: &[u64], request_max: u64) -> Result<(), String> {
        assert_eq!(budgets.len(), self.children.len(), "a budget for each child");
        let budget_max = i128::from(budgets.iter().copied().max().unwrap_or(0));
        let request = i128::from(request_max) * self.weights;
        for (index, (child, &budget)) in self.children.iter().zip(budgets).enumerate() {
            let budget = i128::from(budget);
            let behind = budget * self.weights + child.weight * (budget_max - budget);
            let ahead = budget * (self.weights - child.weight);
            for (what, found, bound) in [
                ("behind", child.greatest, behind),
                ("ahead", -child.least, ahead),
                ("further behind than before", child.rise, behind + ahead),
            ] {
                let bound = bound + request;
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
    fn the_checker_accepts_exact_shares_and_rejects_round_robin() {
        let (mut fair, mut turns) = (Ledger::new(&[1, 3]), Ledger::new(&[1, 3]));
        for turn in 0..400 {
            fair.serve(usize::from(turn % 4 != 0), 10);
            turns.serve(turn % 2, 10);
        }
        assert_eq!(fair.check(20, 10), Ok(()));
        let broken = "child 0 was 1002 bytes ahead, not 25".to_owned();
        assert_eq!(turns.check(20, 10), Err(broken));
    }

    #[test]
    fn the_lag_bound_is_by_the_childs_own_budget() {
        // Fifty bytes to the other before each of its own ten, although both have the same weight.
        let mut ledger = Ledger::new(&[1, 1]);
        (0..5).for_each(|_| ledger.serve(1, 10));
        ledger.serve(0, 10);
        assert_eq!(ledger.check(50, 1), Ok(()));
        // Of budgets of 10 and 20: 10 + (20 - 10) / 2, and a request.
        let broken = "child 0 was 25 bytes behind, not 16".to_owned();
        assert_eq!(ledger.check_each(&[10, 20], 1), Err(broken));
    }
}
