//! The use of quotas (`cpu.max`), as the scheduler in charge counts it (see [`fairground_contract::quota`]).

use fairground_contract::quota::{CPU_STAT, CpuStat};
use libbpf_rs::{MapCore as _, MapFlags, MapHandle, MapType};

use crate::Error;
use crate::in_charge::InCharge;

/// The scheduler's records of the groups that have a quota; none under one that enforces no quotas. `None` if there is no scheduler, so that the
/// kernel enforces them.
pub fn told() -> Result<Option<Vec<CpuStat>>, Error> {
    let Some(scheduler) = InCharge::find("reading the use of quotas")? else { return Ok(None) };
    let Some(map) = scheduler.map(CPU_STAT, MapType::Array) else {
        return Ok(Some(Vec::new()));
    };
    let read = || -> libbpf_rs::Result<Vec<CpuStat>> {
        let map = MapHandle::from_map_id(map.id)?;
        let mut records = Vec::new();
        for key in map.keys() {
            let bytes = map.lookup(&key, MapFlags::ANY)?;
            records.extend(bytes.and_then(|bytes| record(&bytes)));
        }
        Ok(records)
    };
    let records = read().map_err(|error| Error::Setup {
        name: "quotas of the scheduler in charge".to_owned(),
        reason: format!("their use cannot be read: {error}"),
    })?;
    Ok(Some(records))
}

/// A record, as its bytes in the map.
fn record(bytes: &[u8]) -> Option<CpuStat> {
    let (numbers, _) = bytes.as_chunks();
    let numbers: Vec<u64> = numbers.iter().map(|one| u64::from_ne_bytes(*one)).collect();
    CpuStat::read(&numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_numbers_in_a_row() {
        let bytes = [28_u64, 100, 90, 7_000].map(u64::to_ne_bytes).concat();
        let stat = CpuStat { cgroup: 28, periods: 100, throttled_periods: 90, throttled: 7_000 };
        assert_eq!(record(&bytes), Some(stat));
        assert_eq!(record(&[0; 32]), None);
        assert_eq!(record(&bytes[8..]), None);
    }
}
