//! Things that a task waits for.

use crate::Workload;

/// The thing that a task waits for; the numbers are indices into the workload's lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waiting {
    /// Nothing.
    #[default]
    Nothing,
    /// A point in time.
    Time,
    /// A disk.
    Disk,
    /// Earlier writes to reach a drive.
    Writeback,
    /// A mutex.
    Mutex(usize),
    /// A condition.
    Condition(usize),
    /// A barrier.
    Barrier(usize),
    /// A semaphore.
    Semaphore(usize),
    /// Data in a pipe.
    Data(usize),
    /// Room in a pipe.
    Room(usize),
    /// A request of one of several services.
    Request(usize),
    /// An answer of a service.
    Answer(usize),
}

impl Waiting {
    /// The awaited thing in words, if only another task can end the wait; for deadlock reports. `holder` names the task that holds a mutex,
    /// `arrived` says how many tasks are at a barrier.
    pub fn describe(
        self,
        workload: &Workload,
        holder: impl FnOnce(usize) -> Option<String>,
        arrived: impl FnOnce(usize) -> u64,
    ) -> Option<String> {
        let thing = match self {
            Self::Nothing | Self::Time | Self::Disk | Self::Writeback => return None,
            Self::Mutex(mutex) => {
                let held = holder(mutex).map(|holder| format!(", held by {holder}"));
                format!("mutex {}{}", workload.mutexes[mutex].name, held.unwrap_or_default())
            }
            Self::Condition(condition) => format!("condition {}", workload.conditions[condition]),
            Self::Barrier(barrier) => format!(
                "barrier {} ({} of {} have arrived)",
                workload.barriers[barrier].name,
                arrived(barrier),
                workload.barriers[barrier].parties
            ),
            Self::Semaphore(semaphore) => format!("semaphore {}", workload.semaphores[semaphore]),
            Self::Data(pipe) => format!("data in {}", workload.pipes[pipe]),
            Self::Room(pipe) => format!("room in {}", workload.pipes[pipe]),
            Self::Request(choice) => {
                let services = &workload.choices[choice];
                let mut arrivals = workload.arrivals.iter();
                if arrivals.any(|arrivals| services.contains(&arrivals.service)) {
                    return None;
                }
                let names = services.iter().map(|service| workload.services[*service].as_str());
                format!("a request of service {}", names.collect::<Vec<_>>().join(" or "))
            }
            Self::Answer(service) => format!("an answer of service {}", workload.services[service]),
        };
        Some(thing)
    }
}
