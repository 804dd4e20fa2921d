//! Work queues (`struct bpf_wq`), and timer functions that are kernel functions. Work is a timer that expires at once: it runs when the worker
//! of its CPU does, which is never delayed here.

use super::{error, kernel_functions};
use crate::constants::*;

kernel_functions! { TABLE;
    fn bpf_wq_init(kernel, work, address, flags) {
        if flags as u32 != 0 {
            return error(EINVAL);
        }
        kernel.init_timer(work, address)
    }

    fn bpf_wq_set_callback(kernel, work, function, flags) {
        let Some(callback) = kernel.passed_function(function) else { return error(EINVAL) };
        let valid = flags as u32 == 0 && kernel.timers.set_callback(work, callback);
        if valid { 0 } else { error(EINVAL) }
    }

    fn bpf_wq_start(kernel, work, flags) {
        let now = kernel.local_time();
        if flags as u32 == 0 && kernel.start_bpf_timer(work, now) { 0 } else { error(EINVAL) }
    }

    fn bpf_timer_cancel_async(kernel, timer) {
        kernel.timers.cancel(timer).map_or(error(EINVAL), u64::from)
    }
}
