//! The events of a phase: as they are while there are few, and packed if there are many, as in recorded programs.

use crate::model::Event;

/// More events than this are packed: fetching memory that does not fit into a cache takes longer than unpacking.
const FEW: usize = 1024;
/// Events per block; the position of each block is known.
const BLOCK: usize = 64;
const UNPACKS: &str = "what was packed can be unpacked";

/// Events in order.
#[derive(Clone, Debug)]
pub struct Events(Form);

#[derive(Clone, Debug)]
enum Form {
    Listed(Vec<Event>),
    Packed(Packed),
}

/// Events as bytes, a few for each.
#[derive(Clone, Debug, Default)]
struct Packed {
    bytes: Vec<u8>,
    /// Where each block begins.
    blocks: Vec<usize>,
    count: usize,
}

/// The position of a reader that goes through events in order; it belongs to the events with which it was last used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    /// The event that was read last, with its number, and where the next one begins.
    last: Option<(usize, Event, usize)>,
}

impl Events {
    /// Number of events.
    pub fn len(&self) -> usize {
        match &self.0 {
            Form::Listed(list) => list.len(),
            Form::Packed(packed) => packed.count,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The event with this number.
    pub fn get(&self, number: usize) -> Option<Event> {
        self.read(number, &mut Cursor::default())
    }

    /// The event with this number; fast for the cursor's last event and the one after it.
    #[inline]
    pub fn read(&self, number: usize, cursor: &mut Cursor) -> Option<Event> {
        match &self.0 {
            Form::Listed(list) => list.get(number).copied(),
            Form::Packed(packed) => packed.read(number, cursor),
        }
    }

    /// The events from this number on.
    pub fn after(&self, number: usize) -> impl Iterator<Item = Event> + Clone + use<'_> {
        let mut cursor = Cursor::default();
        (number..self.len()).map_while(move |number| self.read(number, &mut cursor))
    }

    /// All events.
    pub fn iter(&self) -> impl Iterator<Item = Event> + Clone + use<'_> {
        self.after(0)
    }

    /// Adds an event.
    pub fn push(&mut self, event: Event) {
        match &mut self.0 {
            Form::Listed(list) if list.len() < FEW => list.push(event),
            Form::Listed(list) => {
                let mut packed = Packed::default();
                list.iter().for_each(|event| packed.push(*event));
                packed.push(event);
                self.0 = Form::Packed(packed);
            }
            Form::Packed(packed) => packed.push(event),
        }
    }

    /// Changes events.
    pub fn change(&mut self, change: impl Fn(&mut Event)) {
        match &mut self.0 {
            Form::Listed(list) => list.iter_mut().for_each(change),
            Form::Packed(_) => {
                let changed = |mut event| {
                    change(&mut event);
                    event
                };
                *self = self.iter().map(changed).collect();
            }
        }
    }
}

impl Packed {
    fn push(&mut self, event: Event) {
        if self.count.is_multiple_of(BLOCK) {
            self.blocks.push(self.bytes.len());
        }
        self.count += 1;
        // An event has at most a kind and four numbers of at most ten bytes each.
        let mut room = [0; 48];
        let bytes = postcard::to_slice(&event, &mut room).expect("an event finds room");
        self.bytes.extend_from_slice(bytes);
    }

    fn read(&self, number: usize, cursor: &mut Cursor) -> Option<Event> {
        if number >= self.count {
            return None;
        }
        let (mut next, mut place) = match cursor.last {
            Some((last, event, _)) if last == number => return Some(event),
            Some((last, _, place)) if last + 1 == number => (number, place),
            _ => (number - number % BLOCK, self.blocks[number / BLOCK]),
        };
        loop {
            let (event, rest) = postcard::take_from_bytes(&self.bytes[place..]).expect(UNPACKS);
            place = self.bytes.len() - rest.len();
            if next == number {
                cursor.last = Some((number, event, place));
                return Some(event);
            }
            next += 1;
        }
    }
}

impl Default for Events {
    fn default() -> Self {
        Self(Form::Listed(Vec::new()))
    }
}

impl From<Vec<Event>> for Events {
    fn from(list: Vec<Event>) -> Self {
        Self(Form::Listed(list))
    }
}

impl FromIterator<Event> for Events {
    fn from_iter<T: IntoIterator<Item = Event>>(source: T) -> Self {
        let mut events = Self::default();
        source.into_iter().for_each(|event| events.push(event));
        events
    }
}

impl PartialEq for Events {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<const COUNT: usize> PartialEq<[Event; COUNT]> for Events {
    fn eq(&self, other: &[Event; COUNT]) -> bool {
        self.iter().eq(other.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Source, TimerMode};

    fn many() -> Vec<Event> {
        let kinds = |number: u64| {
            [
                Event::Run(number * number * number),
                Event::Timer {
                    timer: number as usize,
                    period: u64::MAX - number,
                    mode: TimerMode::Skip,
                },
                Event::Fault {
                    memory: usize::MAX,
                    source: Source::Drive {
                        drive: usize::MAX,
                        bytes: u64::MAX,
                    },
                    most: u64::MAX,
                },
                Event::Yield,
            ]
        };
        (0..FEW as u64).flat_map(kinds).collect()
    }

    #[test]
    fn packed_events_are_those_that_were_listed() {
        let list = many();
        let packed: Events = list.iter().copied().collect();
        assert!(matches!(packed.0, Form::Packed(_)));
        assert_eq!(packed.len(), list.len());
        assert_eq!(packed, Events::from(list.clone()));
        let mut cursor = Cursor::default();
        for number in [0, 0, 1, 2, 1, 4000, 4001, 63, 64, 65, 64, 4095, 4096, 3] {
            let event = list.get(number).copied();
            assert_eq!(packed.read(number, &mut cursor), event, "{number}");
            assert_eq!(packed.get(number), event, "{number}");
        }
        assert!(packed.after(4090).eq(list[4090..].iter().copied()));
        assert_eq!(packed.after(5000).next(), None);
    }

    #[test]
    fn packed_events_are_changed_like_listed_ones() {
        let longer = |event: &mut Event| {
            if let Event::Run(time) = event {
                *time += 1;
            }
        };
        let mut packed: Events = many().into_iter().collect();
        let mut listed = Events::from(many());
        packed.change(longer);
        listed.change(longer);
        assert_eq!(packed, listed);
        assert_eq!(packed.get(4), Some(Event::Run(2)));
    }
}
