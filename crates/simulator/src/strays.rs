//! Accesses to arena pages that are not allocated. A kernel reports each one and continues as if zeros were there; here such a page is reported
//! once and then holds zeros, until something is written to it.

use std::cell::Cell;
use std::ops::Range;

use region::Protection;

use crate::kfunc::arena::{PAGE, protect};

/// After this many pages, an access is a crash.
const MOST: usize = 64;

/// The arena of the simulation that a thread runs, and the pages of it that exist without being allocated.
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

/// Provides a page at `address`, where code has touched an unallocated one of this thread's arena; `false` if the address is not in an arena.
/// `instruction` is where the code was. For signal handlers: it allocates nothing.
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

/// The addresses found, and the instructions that first touched them.
pub fn found() -> Vec<(usize, usize)> {
    STRAYS.with(|strays| strays.found[..strays.count.get()].iter().map(Cell::get).collect())
}
