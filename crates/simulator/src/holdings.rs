//! What running programs have taken and have to give back before they end: references, locks, sections. A kernel's verifier sees
//! it; here it is counted where the check at load time knows too little.

/// Something that was taken.
struct Taken {
    what: &'static str,
    address: u64,
}

/// What the programs hold that are under way, the last taken last.
#[derive(Default)]
pub struct Holdings {
    taken: Vec<Taken>,
}

/// Address that stands for the critical section of RCU.
pub const RCU: u64 = 1;
/// Address that stands for a section without preemption.
pub const NO_PREEMPTION: u64 = 2;
/// Address that stands for a section without interrupts.
pub const NO_INTERRUPTS: u64 = 3;

impl Holdings {
    /// How much is held.
    pub fn count(&self) -> usize {
        self.taken.len()
    }

    /// Remembers that `what` was taken, known by its address, and returns the address; NULL is nothing.
    pub fn take(&mut self, what: &'static str, address: u64) -> u64 {
        if address != 0 {
            self.taken.push(Taken { what, address });
        }
        address
    }

    /// Whether what has this address is held.
    pub fn holds(&self, address: u64) -> bool {
        self.taken.iter().any(|taken| taken.address == address)
    }

    /// Forgets what was taken last of what has this address; `false` if nothing was.
    pub fn give_back(&mut self, address: u64) -> bool {
        let found = self
            .taken
            .iter()
            .rposition(|taken| taken.address == address);
        if let Some(place) = found {
            self.taken.remove(place);
        }
        found.is_some()
    }

    /// What is left of a program that began when `before` things were held.
    pub fn leaked(&mut self, before: usize) -> Option<&'static str> {
        let first = self.taken.get(before).map(|taken| taken.what);
        self.taken.truncate(before);
        first
    }
}
