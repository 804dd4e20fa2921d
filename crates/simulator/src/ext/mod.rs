//! The sched_ext class: `kernel/sched/ext/ext.c` of Linux 7.3, function by function.

mod class;
mod dispatch;
mod enqueue;
mod hotplug;
mod queues;
mod slices;
mod tasks;
mod watchdog;
