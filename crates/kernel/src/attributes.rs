//! Attributes of live tasks that the kernel's policies cannot express.
//!
//! Schedulers that know such attributes keep them in a map of task storage, with a common layout (see [`fairground_contract::attributes`]).
//! The map belongs to the scheduler in the kernel and is found by its name.

use std::os::fd::AsRawFd as _;

use fairground_contract::attributes::{Attributes, MAP};
use libbpf_rs::{MapCore as _, MapFlags, MapHandle, MapType};
use nix::libc;

use crate::Error;
use crate::host::{no_thread, thread_descriptor};
use crate::in_charge::InCharge;

/// The attributes that the scheduler in the kernel keeps.
#[derive(Debug)]
pub struct AttributeMap {
    map: MapHandle,
}

impl AttributeMap {
    /// The scheduler's map; `None` if it has no such attributes.
    pub fn find(scheduler: &InCharge) -> Result<Option<Self>, Error> {
        let Some(found) = scheduler.map(MAP, MapType::TaskStorage) else { return Ok(None) };
        let map = MapHandle::from_map_id(found.id).map_err(|error| {
            failed("task attributes", format!("their map cannot be opened: {error}"))
        })?;
        Ok(Some(Self { map }))
    }

    /// Attributes of the thread `pid`; `None` if none have been set.
    pub fn get(&self, pid: u32) -> Result<Option<Attributes>, Error> {
        let task = thread_descriptor(pid)?;
        let bytes = self
            .map
            .lookup(&task.as_raw_fd().to_ne_bytes(), MapFlags::ANY)
            .map_err(|error| of_thread(pid, "read", &error))?;
        Ok(bytes.and_then(|bytes| Attributes::decode(&bytes)))
    }

    /// Sets all attributes of the thread `pid` at once. Shares adjust its nice value, as in the document: it is set first, because the
    /// scheduler takes a new nice value as new shares.
    pub fn set(&self, pid: u32, attributes: &Attributes) -> Result<(), Error> {
        let task = thread_descriptor(pid)?;
        if let Some(nice) = attributes.nice() {
            // SAFETY: the call takes numbers.
            let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, pid, nice) };
            if result != 0 {
                let error = std::io::Error::last_os_error();
                let problem = format!("the nice value cannot be set to {nice}: {error}");
                return Err(failed(&format!("task attributes of thread {pid}"), problem));
            }
        }
        self.map
            .update(&task.as_raw_fd().to_ne_bytes(), &attributes.encode(), MapFlags::ANY)
            .map_err(|error| of_thread(pid, "set", &error))
    }
}

/// The threads that an id denotes: all threads of a process for its first thread, otherwise the single thread.
pub fn threads(pid: u32) -> Result<Vec<u32>, Error> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
    let process = status.ok().and_then(|status| {
        let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
        line.trim().parse::<u32>().ok()
    });
    match process {
        None => Err(no_thread(pid, &std::io::Error::from_raw_os_error(libc::ESRCH))),
        Some(process) if process != pid => Ok(vec![pid]),
        Some(_) => {
            let folder = std::fs::read_dir(format!("/proc/{pid}/task"));
            let entries = folder.map_err(|error| no_thread(pid, &error))?;
            let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
            let mut threads: Vec<u32> = names.filter_map(|name| name.parse().ok()).collect();
            threads.sort_unstable();
            Ok(threads)
        }
    }
}

fn of_thread(pid: u32, action: &str, error: &libbpf_rs::Error) -> Error {
    let name = format!("task attributes of thread {pid}");
    failed(&name, format!("cannot be {action}: {error}"))
}

fn failed(name: &str, reason: String) -> Error {
    Error::Setup { name: name.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_found_or_not() {
        std::thread::spawn(|| {
            let own =
                u32::try_from(nix::unistd::gettid().as_raw()).expect("thread numbers are positive");
            assert!(thread_descriptor(own).is_ok());
            assert_eq!(threads(own).expect("it is there"), [own]);
            // A folder that is read while other threads end may lack some that are there.
            let has_all = || {
                let process = threads(std::process::id()).expect("it is there");
                process.contains(&own) && process.contains(&std::process::id())
            };
            assert!((0..1000).any(|_| has_all()));
        })
        .join()
        .expect("no assertion fails");
        let error = thread_descriptor(u32::MAX >> 1).expect_err("there are not so many threads");
        assert_eq!(error.exit_code(), 2);
        assert!(threads(u32::MAX >> 1).is_err());
    }
}
