//! Accesses to pages of an arena that are not allocated. A kernel reports each and goes on as if zeros were there; here such a page is
//! reported once and then holds zeros, until something is written to it.

use std::cell::Cell;
use std::ops::Range;

use region::Protection;

use crate::kfunc::arena::{PAGE, protect};

/// After this many pages an access is a crash.
const MOST: usize = 64;

/// The arena of the simulation that a thread runs, and the pages of it that are there without being allocated.
struct Strays {
    window: Cell<(usize, usize)>,
    count: Cell<usize>,
    /// Address of each page, and of the instruction that touched it.
    found: [Cell<(usize, usize)>; MOST],
}

thread_local! {
    static STRAYS: Strays = const {
        Strays {
            window: Cell::new((0, 0)),
            count: Cell::new(0),
            found: [const { Cell::new((0, 0)) }; MOST],
        }
    };
}

/// Puts a page where code has touched one of this thread's arena that is not allocated, at `address`; `false` if the address is none of
/// an arena's. `instruction` is where the code was. For handlers of signals: it allocates nothing.
pub fn recover(address: usize, instruction: usize) -> bool {
    STRAYS.with(|strays| {
        let (start, end) = strays.window.get();
        let count = strays.count.get();
        if !(start..end).contains(&address) || count == MOST {
            return false;
        }
        let page = address / PAGE * PAGE;
        strays.found[count].set((page, instruction));
        strays.count.set(count + 1);
        protect(page as *const u8, PAGE, Protection::READ_WRITE);
        true
    })
}

/// Watches an arena of this thread from now on; an empty range for none.
pub fn watch(window: Range<usize>) {
    STRAYS.with(|strays| {
        strays.window.set((window.start, window.end));
        strays.count.set(0);
    });
}

/// The addresses that were found, and the instructions that touched them first.
pub fn found() -> Vec<(usize, usize)> {
    STRAYS.with(|strays| {
        let found = strays.found[..strays.count.get()].iter();
        found.map(Cell::get).collect()
    })
}
