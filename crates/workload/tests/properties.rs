//! Properties of reading, over random files and random damage to them.

use fairground_workload::{Event, Workload};
use proptest::prelude::*;

/// A random event as text, and the time in nanoseconds that it is read as.
fn event() -> impl Strategy<Value = (String, Option<u64>)> {
    prop_oneof![
        (1..2_000_000u64).prop_map(|us| (format!("\"run\" : {us}"), Some(us * 1000))),
        (1..2_000_000u64).prop_map(|us| (format!("\"sleep\" : {us}"), Some(us * 1000))),
        (1..2_000_000u64, any::<bool>()).prop_map(|(us, unique)| {
            let name = if unique { "unique" } else { "shared" };
            let text = format!("\"timer\" : {{ \"ref\" : \"{name}\", \"period\" : {us} }}");
            (text, Some(us * 1000))
        }),
        Just(("\"lock\" : \"m\", \"unlock\" : \"m\"".to_string(), None)),
        Just(("\"yield\" : \"\"".to_string(), None)),
        Just(("\"resume\" : \"t0\"".to_string(), None)),
    ]
}

#[derive(Clone, Debug)]
struct Definition {
    instances: u32,
    nice: i32,
    loops: i64,
    events: Vec<(String, Option<u64>)>,
}

fn definition() -> impl Strategy<Value = Definition> {
    (1..5u32, -20..20i32, prop_oneof![Just(-1i64), 1..50i64], prop::collection::vec(event(), 0..8))
        .prop_map(|(instances, nice, loops, mut events)| {
            // An endless loop needs time in it.
            events.push(("\"run\" : 7".into(), Some(7_000)));
            Definition { instances, nice, loops, events }
        })
}

fn file(definitions: &[Definition], newline: &str) -> String {
    let tasks: Vec<_> = definitions
        .iter()
        .enumerate()
        .map(|(index, definition)| {
            let events: Vec<_> = definition.events.iter().map(|(text, _)| text.as_str()).collect();
            format!(
                "\"t{index}\" : {{ \"instance\" : {}, \"priority\" : {}, \"phases\" : {{ \"p\" : {{{newline}\
                 \"loop\" : {}, {} }} }} }}",
                definition.instances,
                definition.nice,
                definition.loops,
                events.join(&format!(", {newline}"))
            )
        })
        .collect();
    format!("{{ \"tasks\" : {{{newline}{} }} }}", tasks.join(&format!(",{newline}")))
}

fn time(event: Event) -> Option<u64> {
    match event {
        Event::Run(time) | Event::Sleep(time) => Some(time),
        Event::Timer { period, .. } => Some(period),
        _ => None,
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(definitions in prop::collection::vec(definition(), 1..6)) {
        let workload = Workload::parse("random.json", &file(&definitions, "\n")).unwrap();
        prop_assert_eq!(workload.tasks.len(), definitions.len());
        for (task, definition) in workload.tasks.iter().zip(&definitions) {
            prop_assert_eq!(task.instances, definition.instances);
            prop_assert_eq!(task.policy, fairground_workload::Policy::Other { nice: definition.nice, slice: None });
            let loops = u64::try_from(definition.loops).ok();
            prop_assert_eq!(task.phases[0].loops, loops);
            let read: Vec<_> = task.phases[0].events.iter().filter_map(time).collect();
            let written: Vec<_> = definition.events.iter().filter_map(|(_, time)| *time).collect();
            prop_assert_eq!(read, written);
        }
    }

    #[test]
    fn white_space_does_not_matter(definitions in prop::collection::vec(definition(), 1..4)) {
        let mut lines = Workload::parse("random.json", &file(&definitions, "\n")).unwrap();
        let mut line = Workload::parse("random.json", &file(&definitions, " ")).unwrap();
        // Notes carry positions, which do differ.
        prop_assert_eq!(lines.notes.len(), line.notes.len());
        lines.notes.clear();
        line.notes.clear();
        prop_assert_eq!(lines, line);
    }

    #[test]
    fn damage_is_answered_with_a_place_and_never_with_a_panic(
        definitions in prop::collection::vec(definition(), 1..4),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), "[\\PC\"{}\\[\\],:\\\\]{0,3}"), 1..4),
    ) {
        let mut text: Vec<char> = file(&definitions, "\n").chars().collect();
        for (index, insert) in cuts {
            let at = index.index(text.len());
            text.splice(at..=at, insert.chars());
            if text.is_empty() {
                text.push(' ');
            }
        }
        let text: String = text.into_iter().collect();
        if let Err(error) = Workload::parse("random.json", &text) {
            prop_assert!(error.line >= 1 && error.column >= 1);
            prop_assert!(error.line as usize <= text.matches('\n').count() + 1);
            prop_assert!(!error.message.is_empty());
        }
    }

    #[test]
    fn any_text_at_all_is_answered(text in "\\PC*") {
        let _ = Workload::parse("random.json", &text);
    }
}
