//! Mutexes taken while others are held.
//!
//! Programs take mutexes in a fixed order, or they would deadlock one day. Where inferred holds contradict any such order, some of them did
//! not happen: a mutex that a task took, released unseen and took again looks as if it had been held all the time. The mutexes of such a
//! cycle are held one at a time.

use std::collections::BTreeSet;

use crate::steps::{Futex, Step};

/// Pairs of mutexes: a task took the second while it held the first.
#[derive(Default)]
pub(crate) struct Nestings(BTreeSet<(Futex, Futex)>);

impl Nestings {
    /// Adds the pairs in the steps of a task.
    pub fn add(&mut self, steps: impl Iterator<Item = Step>) {
        let mut held: BTreeSet<Futex> = BTreeSet::new();
        for step in steps {
            match step {
                Step::Lock(word) if !held.contains(&word) => {
                    self.0.extend(held.iter().map(|outer| (*outer, word)));
                    held.insert(word);
                }
                Step::Unlock(word) => {
                    held.remove(&word);
                }
                _ => {}
            }
        }
    }

    /// The mutexes in cycles, and in chains between cycles; empty if there is an order.
    pub fn circles(mut self) -> BTreeSet<Futex> {
        loop {
            let outer: BTreeSet<Futex> = self.0.iter().map(|(outer, _)| *outer).collect();
            let inner: BTreeSet<Futex> = self.0.iter().map(|(_, inner)| *inner).collect();
            let before = self.0.len();
            self.0.retain(|(first, second)| inner.contains(first) && outer.contains(second));
            if self.0.len() == before {
                return outer;
            }
        }
    }
}

/// Makes a task release a mutex in `apart` before it takes another one in it.
pub(crate) fn one_at_a_time<'a>(
    steps: impl Iterator<Item = Step> + 'a,
    apart: &'a BTreeSet<Futex>,
) -> impl Iterator<Item = Step> + 'a {
    let mut held = None;
    steps.flat_map(move |step| {
        let mut before = None;
        match step {
            Step::Lock(word) if apart.contains(&word) => {
                before = held.replace(word).filter(|other| *other != word);
            }
            Step::Unlock(word) if held == Some(word) => held = None,
            _ => {}
        }
        before.map(Step::Unlock).into_iter().chain([step])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Futex = (1, 1);
    const B: Futex = (1, 2);
    const C: Futex = (1, 3);
    const D: Futex = (1, 4);

    fn nestings(lists: &[&[Step]]) -> Nestings {
        let mut nestings = Nestings::default();
        for list in lists {
            nestings.add(list.iter().copied());
        }
        nestings
    }

    #[test]
    fn orders_have_no_circles() {
        let (one, other) = (
            [Step::Lock(A), Step::Lock(B), Step::Lock(C)],
            [Step::Lock(A), Step::Unlock(A), Step::Lock(C)],
        );
        assert!(nestings(&[&one, &other]).circles().is_empty());
    }

    #[test]
    fn circles_have_all_that_are_in_them() {
        let lists: [&[Step]; 4] = [
            &[Step::Lock(A), Step::Lock(B)],
            &[Step::Lock(B), Step::Lock(C)],
            &[Step::Lock(C), Step::Lock(A)],
            &[Step::Lock(A), Step::Lock(D)],
        ];
        assert_eq!(nestings(&lists).circles(), BTreeSet::from([A, B, C]));
    }

    #[test]
    fn those_apart_are_let_go_of_before_the_next() {
        let list = [
            Step::Lock(A),
            Step::Lock(C),
            Step::Lock(B),
            Step::Unlock(A),
            Step::Unlock(B),
            Step::Lock(A),
        ];
        let apart = BTreeSet::from([A, B]);
        let steps: Vec<Step> = one_at_a_time(list.into_iter(), &apart).collect();
        let mut expected = list.to_vec();
        expected.insert(2, Step::Unlock(A));
        assert_eq!(steps, expected);
    }
}
