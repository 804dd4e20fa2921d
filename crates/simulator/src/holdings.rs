//! The things that running programs have acquired and must release before they end: references, locks, sections. A kernel's verifier sees this; here it is
//! counted where the check at load time knows too little.

/// Something that was acquired.
struct Taken {
    what: &'static str,
    address: u64,
}

/// The things that the running programs hold, the most recent last.
#[derive(Default)]
pub struct Holdings {
    taken: Vec<Taken>,
}

/// Address that stands for an RCU critical section.
pub const RCU: u64 = 1;
/// Address that stands for a section with preemption disabled.
pub const NO_PREEMPTION: u64 = 2;
/// Address that stands for a section with interrupts disabled.
pub const NO_INTERRUPTS: u64 = 3;

impl Holdings {
    /// Number of things held.
    pub fn count(&self) -> usize {
        self.taken.len()
    }

    /// Records that `what` at `address` was acquired, and returns the address; NULL is nothing.
    pub fn take(&mut self, what: &'static str, address: u64) -> u64 {
        if address != 0 {
            self.taken.push(Taken { what, address });
        }
        address
    }

    /// Whether the thing with this address is held.
    pub fn holds(&self, address: u64) -> bool {
        self.taken.iter().any(|taken| taken.address == address)
    }

    /// Forgets the most recently acquired thing with this address; `false` if there is none.
    pub fn give_back(&mut self, address: u64) -> bool {
        // Mostly the last one, for which nothing has to move.
        if self.taken.last().is_some_and(|last| last.address == address) {
            return self.taken.pop().is_some();
        }
        let found = self.taken.iter().rposition(|taken| taken.address == address);
        if let Some(place) = found {
            self.taken.remove(place);
        }
        found.is_some()
    }

    /// Drops the things that are left of a program that began when `before` things were held; returns the first.
    pub fn leaked(&mut self, before: usize) -> Option<&'static str> {
        let first = self.taken.get(before).map(|taken| taken.what);
        self.taken.truncate(before);
        first
    }
}
