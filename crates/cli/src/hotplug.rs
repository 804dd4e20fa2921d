//! CPUs that go offline or come online during a run, as options name them.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use fairground_lab::Hotplug;
use fairground_results::CpuChange;

use crate::quantity::nanoseconds;

/// A CPU that goes offline or comes online, as `--hotplug` takes it.
#[derive(Clone, Copy, Debug)]
pub struct Change(pub Hotplug);

impl Display for Change {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Hotplug { at, cpu, online } = self.0;
        let change = CpuChange { at_ns: at, cpu: u32::try_from(cpu).unwrap_or(u32::MAX), online };
        change.fmt(formatter)
    }
}

impl FromStr for Change {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "not CPU:on@TIME or CPU:off@TIME, such as 2:off@3s".to_owned();
        let (cpu, rest) = text.split_once(':').ok_or_else(wrong)?;
        let (state, time) = rest.split_once('@').ok_or_else(wrong)?;
        Ok(Self(Hotplug {
            cpu: cpu.parse().map_err(|_| wrong())?,
            online: match state {
                "on" => true,
                "off" => false,
                _ => return Err(wrong()),
            },
            at: nanoseconds(time)?,
        }))
    }
}
