//! Explained waits as JSON and as text.

use expect_test::expect_file;
use fairground_metrics::{
    Action, Cause, CpuUse, Explanation, Moved, Place, Ran, Stay, Step, Taken,
};
use fairground_report::{waits_json, waits_text};
use fairground_results::Waits;
use serde_json::Value;

use crate::small_machine::comparison;
use crate::validator::faults;

/// A wait in `place` for a given cause, with a step of every kind.
pub fn wait(place: Place, cause: Cause) -> Explanation {
    let callback = |chosen_cpu| Action::Callback {
        callback: "select_cpu",
        cpu: 0,
        chosen_cpu,
        duration_ns: 120,
    };
    let inserted = |slice_ns, vtime| Action::Inserted { queue: place, slice_ns, vtime };
    let actions = [
        callback(Some(3)),
        callback(None),
        inserted(Some(20_000_000), Some(7)),
        Action::Removed { queue: place },
        inserted(None, None),
        Action::Woken { cpu: 0, by: None },
        Action::Woken { cpu: 0, by: Some("waker".to_owned()) },
        Action::Preempted { cpu: 1 },
        Action::Runs { cpu: 1 },
    ];
    let steps = (1_000..).zip(actions);
    Explanation {
        task: "late".to_owned(),
        from_ns: 1_000,
        to_ns: 5_001_000,
        ran: true,
        cause,
        places: vec![Stay {
            place,
            duration_ns: 5_000_000,
            taken: vec![Taken { cpu: 1, tasks: 2 }],
            moved: Vec::new(),
            dispatches: 4,
        }],
        cpus: vec![CpuUse {
            cpu: 1,
            ran: vec![Ran {
                task: "hog".to_owned(),
                real_time: true,
                endless: false,
                priority: Some(50),
                outside: false,
                duration_ns: 2_000_000,
                turns: 1,
            }],
            idle_ns: 3_000_000,
            overhead_ns: 0,
            offline_ns: 0,
        }],
        steps: steps.map(|(time_ns, action)| Step { time_ns, action }).collect(),
        steps_left_out: 0,
    }
}

const PLACES: [Place; 6] = [
    Place::Kernel,
    Place::Way,
    Place::Scheduler,
    Place::Local { cpu: 1 },
    Place::Global { node: 0 },
    Place::Queue { id: 1 << 40 },
];

/// Only a CPU that the task may not use took others from its queue.
fn in_vain() -> Explanation {
    let place = Place::Queue { id: 3 };
    let mut wait = wait(place, Cause::Lay { place });
    wait.places[0].taken = vec![Taken { cpu: 0, tasks: 9 }];
    wait
}

/// Others were moved on from its queue, while a CPU was offline and another one woke up.
fn moved_on() -> Explanation {
    let place = Place::Queue { id: 7 };
    let mut wait = wait(place, Cause::Lay { place });
    wait.places[0].taken.clear();
    wait.places[0].moved = vec![Moved { to: Place::Queue { id: 8 }, tasks: 38 }];
    let nothing = CpuUse { cpu: 2, ran: Vec::new(), idle_ns: 0, overhead_ns: 0, offline_ns: 0 };
    let offline = CpuUse { offline_ns: 5_000_000, ..nothing.clone() };
    let waking = CpuUse { cpu: 3, overhead_ns: 4_000_000, offline_ns: 1_000_000, ..nothing };
    wait.cpus.extend([offline, waking]);
    wait
}

/// It came late to the local queue.
fn late_to_local() -> Explanation {
    let place = Place::Local { cpu: 1 };
    let mut wait = wait(place, Cause::Lay { place });
    wait.places[0].duration_ns = 4_000_000;
    wait
}

fn waits() -> Vec<Waits> {
    let lay = |place| wait(place, Cause::Lay { place });
    let mut waits: Vec<Explanation> = PLACES.into_iter().map(lay).collect();
    for cpu in [None, Some(1)] {
        let duration_ns = 2_000_000;
        waits.push(wait(Place::Global { node: 1 }, Cause::RealTime { duration_ns, cpu }));
        waits.push(wait(Place::Kernel, Cause::Server { duration_ns, cpu }));
        waits.push(wait(Place::Global { node: 1 }, Cause::Others { duration_ns, cpu }));
    }
    waits.extend([in_vain(), moved_on(), late_to_local()]);
    vec![Waits {
        labels: comparison().runs[0].labels.clone(),
        waits,
        notes: vec!["a note".to_owned()],
    }]
}

#[test]
fn what_is_written_fits_the_schema() {
    const SCHEMA: &str = "explain-2.json";
    let document: Value = serde_json::from_str(&waits_json(&waits(), "0.1.0")).unwrap();
    assert_eq!(faults(SCHEMA, &document), Vec::<String>::new());
    let mut more = document;
    more["runs"][0]["waits"][0]["surprise"] = 1.into();
    assert!(!faults(SCHEMA, &more).is_empty());
}

#[test]
fn every_cause_is_one_plain_line() {
    expect_file!["printed/waits.txt"].assert_eq(&waits_text(&waits()));
}
