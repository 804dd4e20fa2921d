//! Every definition of docs/metrics.md on a case that can be computed by hand.

use crate::by_list::{MS, Run, assert_close, expect, task_info};
use fairground_events::{CpuId, EventKind, GroupId, Outsider, Policy, QuotaUse, TaskId, TaskInfo};
use fairground_metrics::{
    Bucket, IdleBeside, IdleCpu, JobRecord, LapRecord, LongWait, MachineFacts, Options, Periods,
    RunMetrics, WindowRecord,
};

/// Two equal hogs on one CPU take turns of 10 ms for 40 ms.
fn two_hogs() -> RunMetrics {
    Run::on(1)
        .tasks(&[1024, 1024])
        .play("wake0 wake1 cpu0=0 @10 cpu0=1 @20 cpu0=0 @30 cpu0=1")
        .end(40)
}

#[test]
fn cpu_time_and_shares() {
    let result = two_hogs();
    expect(&result, "duration_ns 40ms");
    for task in &result.tasks {
        assert_eq!(task.cpu_time_ns, 20 * MS);
        assert_eq!(task.wait_ns, 20 * MS);
        let share = task.share.unwrap();
        assert_close(share.actual, 0.5);
        assert_close(share.ideal, 0.5);
    }
    expect(&result, "cpu_time.available_ns 40ms, cpu_time.busy_ns 40ms, cpu_time.idle_ns 0");
    expect(&result, "cpu_time.idle_while_runnable_ns 0, throughput.ratio 1.0");
    expect(&result, "fairness.jain_index 1.0, inconsistent_events 0");
}

#[test]
fn lag_has_its_extremes_where_tasks_start_and_stop() {
    // The ideal gives each hog half a millisecond per millisecond. After the first turn hog 0 is 5 ms ahead and hog 1 5 ms
    // behind; after the second both are level.
    let result = two_hogs();
    expect(&result, "tasks.0.lag.ahead_ns 5ms, tasks.0.lag.behind_ns 0, tasks.1.lag.ahead_ns 0");
    expect(&result, "tasks.1.lag.behind_ns 5ms, fairness.lag.ahead_ns 5ms");
    expect(&result, "fairness.lag.behind_ns 5ms");
}

#[test]
fn switches_are_counted_by_reason() {
    let result = two_hogs();
    expect(&result, "context_switches 4, preemptions 3, tasks.0.involuntary_switches 2");
    expect(&result, "tasks.0.voluntary_switches 0, wakeups 2, longest_wait_ns 10ms");
}

#[test]
fn wakeup_latency_is_from_runnable_to_running() {
    let result = two_hogs();
    expect(&result, "wakeup_latency.samples 2, wakeup_latency.p50_ns 0");
    expect(&result, "wakeup_latency.p99_ns 10ms, wakeup_latency.max_ns 10ms");
    expect(&result, "wakeup_latency.mean_ns 5ms, tasks.0.wakeup_latency.max_ns 0");
    expect(&result, "tasks.1.wakeup_latency.max_ns 10ms");
}

#[test]
fn what_a_task_is_due_while_it_waits_is_what_the_ideal_processor_gives_it() {
    // Two hogs on a CPU: the second waits 60 ms and is due half of it, runs, and then waits to the end.
    let result =
        Run::on(1).tasks(&[1024, 1024]).play("wake0 wake1 cpu0=0 @60 cpu0=1 @80 cpu0=0").end(280);
    let wait = |from_ns, length_ns, entitled_ns, ended| LongWait {
        from_ns: from_ns * MS,
        length_ns: length_ns * MS,
        entitled_ns: entitled_ns * MS,
        ended,
    };
    let [first, second] = &result.tasks[..] else { panic!("two tasks") };
    assert_eq!(second.longest_wait, Some(wait(80, 200, 100, false)));
    assert_eq!(second.worst_wait, second.longest_wait);
    assert_eq!(first.longest_wait, Some(wait(60, 20, 10, true)));
    assert_eq!(first.worst_wait, None, "it is a short one");
}

/// Task 0 runs on CPU 0, and task 1 waits from 10 ms on. CPU 1 is idle from the start, and runs task 2 from 20 to 25 ms.
fn beside_an_idle_cpu(policy: Policy, allowed: &[CpuId]) -> Option<IdleBeside> {
    let waiting = TaskInfo { policy, allowed: allowed.to_vec(), ..task_info("waiting", 1024) };
    let result = Run::on(2)
        .describe(0, &task_info("running", 1024))
        .describe(1, &waiting)
        .describe(2, &task_info("short", 1024))
        .play("wake0 cpu0=0 @10 wake1 @20 wake2 cpu1=2 @25 sleep2 cpu1=-")
        .end(40);
    result.tasks[1].idle_beside
}

#[test]
fn the_longest_wait_beside_an_idle_cpu_is_known() {
    let beside = |from_ns, length_ns| IdleBeside {
        cpu: 1,
        from_ns: from_ns * MS,
        length_ns: length_ns * MS,
        wait_from_ns: 10 * MS,
    };
    // 10 ms until task 2 comes, and 15 ms after it has gone: a time that ends with the run counts as well.
    assert_eq!(beside_an_idle_cpu(Policy::Normal, &[]), Some(beside(25, 15)));
    let both = [CpuId(0), CpuId(1)];
    assert_eq!(beside_an_idle_cpu(Policy::Normal, &both), Some(beside(25, 15)));
    assert_eq!(beside_an_idle_cpu(Policy::Normal, &[CpuId(0)]), None);
    assert_eq!(beside_an_idle_cpu(Policy::Fifo, &[]), None, "not the scheduler's task");
}

#[test]
fn a_cpu_is_idle_beside_tasks_that_wait_in_turn() {
    // Two tasks take turns of 5 ms on CPU 0, so that one always waits, and CPU 1 is idle all the time.
    let result =
        Run::on(2).tasks(&[1024; 2]).play("wake0 wake1 cpu0=0 @5 cpu0=1 @10 cpu0=0").end(15);
    assert_eq!(result.idle_beside, Some(IdleCpu { cpu: 1, from_ns: 0, length_ns: 15 * MS }));
    expect(&result, "tasks.0.idle_beside.from_ns 5ms, tasks.0.idle_beside.length_ns 5ms");
    assert_eq!(two_hogs().idle_beside, None);
}

#[test]
fn a_cpu_that_goes_away_was_idle_beside_a_task_until_then() {
    let result = Run::on(2)
        .tasks(&[1024; 2])
        .play("wake0 wake1 cpu0=0 @7")
        .event(EventKind::CpuOnline { cpu: CpuId(1), online: false })
        .end(30);
    expect(&result, "tasks.1.idle_beside.from_ns 0, tasks.1.idle_beside.length_ns 7ms");
}

#[test]
fn a_task_that_may_use_an_idle_cpu_later_waits_beside_it_from_then_on() {
    let moved = |allowed: &[u32]| TaskInfo {
        allowed: allowed.iter().map(|&cpu| CpuId(cpu)).collect(),
        ..task_info("moved", 1024)
    };
    let result = Run::on(2)
        .describe(0, &task_info("running", 1024))
        .describe(1, &moved(&[0]))
        .play("wake0 wake1 cpu0=0 @5")
        .describe(1, &moved(&[1]))
        .play("@8 cpu1=1")
        .end(10);
    expect(&result, "tasks.1.idle_beside.from_ns 5ms, tasks.1.idle_beside.length_ns 3ms");
    expect(&result, "tasks.1.idle_beside.wait_from_ns 0");
}

#[test]
fn shares_are_compared_with_the_ideal_only_for_tasks_that_want_more() {
    // In the first window of 10 ms both hogs run and the first gets 7 of 10 ms; in the second it sleeps for a moment.
    let result =
        Run::with(MachineFacts::equal(1), Options { window: 10 * MS, ..Options::default() })
            .tasks(&[1024; 2])
            .play("wake0 wake1 cpu0=0 @7 cpu0=1 @12 sleep1 cpu0=0 @13 wake1 @17 cpu0=1")
            .end(20);
    let worst = result.tasks[0].worst_share.unwrap();
    assert_eq!(worst.start_ns, 0);
    assert_close(worst.actual, 0.7);
    assert_close(worst.ideal, 0.5);
    assert_close(worst.error(), 0.4);
    let other = result.tasks[1].worst_share.unwrap();
    assert_eq!(other.start_ns, 0, "it slept in the second window");
    assert_close(other.error(), 0.4);
}

#[test]
fn what_has_no_samples_is_absent() {
    let result = Run::on(2).tasks(&[1024]).end(10);
    expect(&result, "throughput none, fairness none, wakeup_latency none, response_time none");
    expect(&result, "periods none, overhead none, longest_wait_ns none, makespan_ns none");
    expect(&result, "tasks.0.share none, tasks.0.lag none, tasks.0.windows none");
    expect(&result, "cpu_time.idle_ns 20ms");
}

#[test]
fn weights_divide_one_cpu() {
    // Weights 3 to 1, but the light task has the CPU all the time: service over ideal is 0 and 4, so Jain's index is 1/2.
    let result = Run::on(1).tasks(&[3072, 1024]).play("wake0 wake1 cpu0=1").end(40);
    expect(&result, "tasks.0.share.ideal 0.75, tasks.1.share.ideal 0.25, fairness.jain_index 0.5");
    expect(&result, "tasks.0.lag.behind_ns 30ms, tasks.1.lag.ahead_ns 30ms");
    expect(&result, "tasks.0.longest_wait_ns 40ms");
    // It has waited that long, regardless of events after the end.
    expect(&result, "tasks.0.wakeup_latency.samples 1, tasks.0.wakeup_latency.max_ns 40ms");
}

#[test]
fn a_task_has_at_most_one_cpu_in_the_ideal_too() {
    let result = Run::on(2)
        .tasks(&[10 * 1024, 1024, 1024])
        .play("wake0 wake1 wake2 cpu0=0 cpu1=1 @50 cpu1=2")
        .end(100);
    expect(&result, "tasks.0.share.ideal 0.5, tasks.1.share.ideal 0.25, tasks.2.share.ideal 0.25");
    expect(&result, "fairness.jain_index 1.0");
}

#[test]
fn the_ideal_gives_no_task_more_than_it_demands() {
    // A task that wants 2 ms every 10 ms, served at once, and a hog: the ideal is 20 % and 80 %, not half and half.
    let mut run = Run::on(1);
    run.tasks(&[1024, 1024]).play("wake1 cpu0=1");
    for period in 0..10 {
        run.at(10 * period).play("wake0 cpu0=0");
        run.at(10 * period + 2).play("sleep0 cpu0=1");
    }
    let result = run.end(100);
    expect(&result, "tasks.0.share.ideal 0.2, tasks.1.share.ideal 0.8, fairness.jain_index 1.0");
    // After its 2 ms the ideal has given it 1 ms; the hog is as much behind.
    expect(&result, "tasks.0.lag.ahead_ns 1ms, tasks.0.lag.behind_ns 0, tasks.1.lag.behind_ns 1ms");
    expect(&result, "tasks.1.lag.ahead_ns 0, throughput.ratio 1.0");
}

#[test]
fn what_a_late_task_turns_out_not_to_need_goes_back() {
    // The hog runs on for 10 ms while a task waits that wants 2 ms only.
    let result = Run::on(1)
        .tasks(&[1024, 1024])
        .play("wake0 wake1 cpu0=1 @10 cpu0=0 @12 sleep0 cpu0=1")
        .end(20);
    expect(&result, "tasks.0.share.ideal 0.1, tasks.1.share.ideal 0.9");
    // At 10 ms the ideal could have given the waiting task 5 ms, but it wanted 2.
    expect(&result, "tasks.0.lag.behind_ns 2ms, fairness.jain_index 1.0, throughput.ratio 1.0");
}

#[test]
fn a_task_that_takes_turns_of_sleep_does_not_get_more_in_the_ideal() {
    // It runs 9 ms and sleeps 1 ms, again and again; the hog gets the rest. The ideal gives both half.
    let mut run = Run::on(1);
    run.tasks(&[1024, 1024]).play("wake0 wake1 cpu0=0");
    for period in 0..10 {
        run.at(10 * period + 9).play("sleep0 cpu0=1");
        run.at(10 * period + 10).play("wake0 cpu0=0");
    }
    let result = run.end(100);
    expect(&result, "tasks.0.share.actual 0.9, tasks.0.share.ideal 0.5, tasks.1.share.ideal 0.5");
    // x = 1.8 and 0.2: (2)^2 / (2 * 3.28).
    assert_close(result.fairness.unwrap().jain_index, 4.0 / 6.56);
    // Farthest ahead after the last turn: 90 ms received at 99 ms.
    assert_eq!(result.tasks[0].lag.unwrap().ahead_ns, 90 * MS - 99 * MS / 2);
}

#[test]
fn ended_tasks_free_their_share() {
    let result = Run::on(1)
        .tasks(&[1024, 1024])
        .play("wake0 wake1 cpu0=0 @10 cpu0=1 @20 exit1 cpu0=0 @30 exit0 cpu0=-")
        .end(40);
    expect(&result, "tasks.0.cpu_time_ns 20ms, tasks.0.share.ideal 0.5, makespan_ns 30ms");
    expect(&result, "tasks.1.ended_ns 20ms, tasks.0.voluntary_switches 1, cpu_time.idle_ns 10ms");
}

#[test]
fn makespan_is_absent_while_a_task_lives() {
    let result = Run::on(1).tasks(&[1024, 1024]).play("wake0 cpu0=0 @5 exit0 cpu0=-").end(10);
    expect(&result, "makespan_ns none");
}

#[test]
fn overhead_is_nobodys_cpu_time() {
    let mut run = Run::on(1);
    run.tasks(&[1024, 1024]).play("wake0 wake1");
    run.play("cpu0=0 scheduling0+1");
    run.play("@10 cpu0=1 switch0+1");
    let result = run.end(20);
    expect(&result, "tasks.0.cpu_time_ns 9ms, tasks.1.cpu_time_ns 9ms, cpu_time.busy_ns 18ms");
    expect(&result, "cpu_time.overhead_ns 2ms, overhead.scheduling_ns 1ms, overhead.switch_ns 1ms");
    expect(&result, "overhead.total_ns 2ms, overhead.percent 10.0, throughput.ratio 0.9");
    // The ideal of fairness divides the 18 ms that were left.
    expect(&result, "tasks.0.share.ideal 0.45, tasks.0.lag.ahead_ns 4.5ms");
    expect(&result, "tasks.1.lag.behind_ns 4.5ms, fairness.jain_index 1.0");
}

#[test]
fn overhead_goes_on_across_a_switch() {
    // 3 ms from 4 ms on and 4 ms more from 5 ms on last until 11 ms: the task that comes at 8 ms has only the last of 12.
    let result = Run::on(1)
        .tasks(&[1024, 1024])
        .play("wake0 wake1 cpu0=0 @4 interrupt0+3 @5 scheduling0+4 @8 cpu0=1")
        .end(12);
    expect(&result, "tasks.0.cpu_time_ns 4ms, tasks.1.cpu_time_ns 1ms, cpu_time.overhead_ns 7ms");
    expect(&result, "cpu_time.idle_ns 0");
}

#[test]
fn overhead_that_outlasts_the_run_is_in_no_cpu_time() {
    let result = Run::on(1).tasks(&[1024]).play("wake0 cpu0=0 @9 switch0+5").end(10);
    expect(&result, "cpu_time.busy_ns 9ms, cpu_time.overhead_ns 1ms, overhead.total_ns 5ms");
}

#[test]
fn overhead_on_an_idle_cpu_takes_nothing_from_a_task() {
    let result = Run::on(2).tasks(&[1024]).play("wake0 cpu0=0 @5 interrupt1+1").end(10);
    expect(&result, "tasks.0.cpu_time_ns 10ms, overhead.interrupt_ns 1ms, cpu_time.idle_ns 9ms");
    expect(&result, "fairness.lag.ahead_ns 0, fairness.lag.behind_ns 0");
}

#[test]
fn a_cpu_that_the_loader_has_is_overhead_and_not_idle() {
    let cpu = CpuId(1);
    let result = Run::on(2)
        .tasks(&[1024; 2])
        .play("wake0 wake1 cpu0=0")
        .event(EventKind::Outside { cpu, who: Some(Outsider::Loader) })
        .at(4)
        .event(EventKind::Outside { cpu, who: None })
        .play("@10 cpu1=1")
        .end(20);
    expect(&result, "overhead.scheduling_ns 4ms, cpu_time.overhead_ns 4ms, cpu_time.idle_ns 6ms");
    expect(&result, "cpu_time.idle_while_runnable_ns 6ms, tasks.1.wait_ns 10ms");
}

#[test]
fn while_others_have_all_cpus_a_task_of_a_group_is_due_nothing() {
    let member = TaskInfo { group: Some(GroupId(0)), ..task_info("task", 1024) };
    let outsider = |who| EventKind::Outside { cpu: CpuId(0), who };
    let mut run = Run::on(1);
    run.limited_group(0, None, 1024, Some(50)).describe(0, &member);
    // Others have the CPU when it wakes, and for 5 ms; its group then has half of it.
    let result = run
        .event(outsider(Some(Outsider::Other)))
        .wake(0)
        .at(5)
        .event(outsider(None))
        .switch(0, None, 0)
        .end(25);
    expect(&result, "tasks.0.cpu_time_ns 20ms, tasks.0.share.ideal 0.4");
}

/// CPU 1 goes at 10 ms, and its task, which may run there only, is stopped 5 ms later, after a switch of 1 ms.
#[test]
fn a_cpu_that_goes_has_what_it_runs_until_that_stops() {
    let result = Run::on(2)
        .tasks(&[1024; 2])
        .play("wake0 wake1 cpu0=0 cpu1=1 @10")
        .event(EventKind::CpuOnline { cpu: CpuId(1), online: false })
        .play("@15 switch1+1 cpu1=- sleep1")
        .end(30);
    expect(&result, "cpu_time.available_ns 46ms, cpu_time.busy_ns 45ms, cpu_time.overhead_ns 1ms");
    expect(&result, "cpu_time.idle_ns 0, cpu_time.idle_while_runnable_ns 0");
}

/// Two tasks want the same CPU, of two, for 40 ms. Another program has it from 10 to 30 ms; the other CPU is idle all the time.
#[test]
fn time_that_others_used_is_neither_idle_nor_possible_nor_due() {
    let cpu = CpuId(0);
    let mut run = Run::on(2);
    for number in 0..2 {
        run.describe(number, &TaskInfo { allowed: vec![cpu], ..task_info("bound", 1024) });
        run.wake(number);
    }
    let result = run
        .play("cpu0=0 @10 cpu0=-")
        .event(EventKind::Outside { cpu, who: Some(Outsider::Other) })
        .at(30)
        .event(EventKind::Outside { cpu, who: None })
        .switch(0, None, 1)
        .end(40);
    expect(&result, "cpu_time.available_ns 80ms, cpu_time.busy_ns 20ms, cpu_time.others_ns 20ms");
    expect(&result, "cpu_time.idle_ns 40ms, cpu_time.idle_while_runnable_ns 0");
    expect(&result, "throughput.ratio 1.0, fairness.jain_index 1.0");
    // Each had its half of what was left, so a wait of 30 ms is worth 5 ms.
    expect(&result, "tasks.1.share.ideal 0.125, tasks.1.longest_wait.entitled_ns 5ms");
    expect(&result, "inconsistent_events 0");
}

#[test]
fn an_idle_cpu_with_overhead_is_not_idle_while_a_task_waits() {
    let result = Run::on(2)
        .tasks(&[1024; 2])
        .play("wake0 wake1 cpu0=0 interrupt1+4 @6 switch1+10 @10 cpu1=1")
        .end(20);
    expect(&result, "cpu_time.idle_ns 2ms, cpu_time.idle_while_runnable_ns 2ms");
}

#[test]
fn idle_while_runnable_counts_usable_idle_cpus() {
    // Two tasks wait from 0 to 10 ms while one of three CPUs is busy; then one more CPU takes a task.
    let result = Run::on(3).tasks(&[1024; 3]).play("wake0 wake1 wake2 cpu0=0 @10 cpu1=1").end(15);
    assert_eq!(result.cpu_time.idle_while_runnable_ns, 2 * 10 * MS + 5 * MS);
    // 25 of 45 ms of work that three CPUs could have done.
    expect(&result, "throughput.work_ns 20ms, throughput.ideal_work_ns 45ms");
}

#[test]
fn an_idle_cpu_is_not_wasted_on_tasks_that_may_not_use_it() {
    let mut pinned = task_info("pinned", 1024);
    pinned.allowed = vec![CpuId(0)];
    let result = Run::on(2)
        .describe(0, &pinned)
        .describe(1, &pinned)
        .play("wake0 wake1 cpu0=0 @10 cpu0=1")
        .end(20);
    expect(&result, "cpu_time.idle_while_runnable_ns 0, tasks.0.share.ideal 0.25");
    expect(&result, "tasks.1.share.ideal 0.25, throughput.ratio 1.0");
}

#[test]
fn responses_and_missed_periods() {
    // Period 10 ms. Jobs are complete after 3, 12 and 4 ms; the fourth is not.
    let mut run = Run::on(1);
    run.tasks(&[1024]);
    for (release, complete) in [(0, Some(3)), (10, Some(22)), (20, Some(24)), (30, None)] {
        run.at(release.max(if release == 20 { 22 } else { 0 })).event(EventKind::JobRelease {
            task: TaskId(0),
            due: release * MS,
            deadline: (release + 10) * MS,
        });
        if let Some(complete) = complete {
            run.at(complete)
                .event(EventKind::JobComplete { task: TaskId(0), deadline: (release + 10) * MS });
        }
    }
    let result = run.end(40);
    let expected = Periods { released: 4, completed: 3, missed: 1, skipped: 0 };
    assert_eq!(result.periods, Some(expected));
    assert_eq!(result.tasks[0].periods, Some(expected));
    expect(&result, "response_time.samples 3, response_time.p50_ns 4ms, response_time.max_ns 12ms");
}

#[test]
fn what_a_job_is_until_the_end_of_the_run() {
    let release = |due: u64| EventKind::JobRelease {
        task: TaskId(0),
        due: due * MS,
        deadline: (due + 10) * MS,
    };
    let after = |end: u64, due: u64| {
        let mut run = Run::on(1);
        run.tasks(&[1024]).event(release(due)).end(end).periods
    };
    let periods = |missed| Some(Periods { released: 1, completed: 0, missed, skipped: 0 });
    // Never run: in time as long as its period lasts, then missed; no job at all before its release.
    assert_eq!(after(10, 0), periods(0));
    assert_eq!(after(11, 0), Some(Periods { released: 2, completed: 0, missed: 1, skipped: 0 }));
    // The periods that it lets pass are missed, and the response takes at least as long.
    assert_eq!(after(35, 0), Some(Periods { released: 4, completed: 0, missed: 3, skipped: 0 }));
    assert_eq!(after(9, 9), None);
    let mut run = Run::on(1);
    run.tasks(&[1024]).event(release(0)).wake(0);
    expect(&run.end(35), "response_time.samples 1, response_time.max_ns 35ms");
}

#[test]
fn skipped_periods_are_missed() {
    let task = TaskId(0);
    let mut run = Run::on(1);
    run.tasks(&[1024]).event(EventKind::JobRelease { task, due: 0, deadline: 10 * MS });
    run.at(35)
        .event(EventKind::JobComplete { task, deadline: 10 * MS })
        .event(EventKind::JobSkip { task, due: 10 * MS, period: 10 * MS, count: 2 })
        .event(EventKind::JobRelease { task, due: 30 * MS, deadline: 40 * MS });
    let expected = Periods { released: 4, completed: 1, missed: 3, skipped: 2 };
    assert_eq!(run.end(38).periods, Some(expected));
}

#[test]
fn records_are_kept_when_asked_for() {
    let options = Options { window: 10 * MS, records: true };
    let task = TaskId(0);
    let lap = |at: u64, begins| EventKind::Lap { task, at: at * MS, begins };
    let mut run = Run::with(MachineFacts::equal(1), options);
    run.tasks(&[1024, 1024]).event(EventKind::JobRelease { task, due: 2 * MS, deadline: 12 * MS });
    run.play("wake0 wake1 cpu0=1");
    run.play("@5 cpu0=0").event(lap(5, true));
    run.play("@8 cpu0=1");
    run.play("@9 cpu0=0");
    run.at(14).event(lap(15, false)).event(EventKind::JobComplete { task, deadline: 12 * MS });
    // Nothing begins it.
    run.event(lap(14, false));
    let result = run.end(25);
    let laps = result.tasks[0].laps.as_deref().unwrap();
    assert_eq!((laps.samples, laps.max_ns), (1, 10 * MS));
    let records = result.tasks[0].records.as_ref().unwrap();
    assert_eq!(records.laps, [LapRecord { begin_ns: 5 * MS, length_ns: 10 * MS }]);
    assert_eq!(
        records.jobs,
        [JobRecord {
            due_ns: 2 * MS,
            first_run_ns: Some(5 * MS),
            completed_ns: Some(14 * MS),
            deadline_ns: 12 * MS,
            skipped: false
        }]
    );
    let window = |start: u64, actual, ideal| WindowRecord { start_ns: start * MS, actual, ideal };
    assert_eq!(records.windows, [window(0, 0.4, 0.5), window(10, 1.0, 0.5)]);
    let stretches = records.stretches.unwrap();
    // 3 ms, and 16 ms to the end of the run.
    assert_eq!((stretches.samples, stretches.max_ns), (2, 16 * MS));
    let bucket = |milliseconds: u64| Bucket { up_to_ns: milliseconds * MS, samples: 1 };
    assert_eq!(records.wakeup_latency_histogram, [bucket(5)]);
    assert_eq!(records.response_time_histogram, [bucket(15)]);
    let without = Run::on(1).tasks(&[1024]).end(1);
    assert_eq!(without.tasks[0].records, None);
}

#[test]
fn the_worst_window_shows_uneven_shares() {
    // Five equal hogs on four CPUs for 6 s. In the first three seconds two of them share a CPU; in the rest all take turns
    // so that each has 4/5.
    let mut run = Run::on(4);
    run.tasks(&[1024; 5]);
    for task in 0..5 {
        run.wake(task);
    }
    for cpu in 0..4 {
        run.switch(cpu, None, cpu);
    }
    run.at(1500).switch(3, 3, 4);
    // At 3000: hogs 0, 1, 2 and 4 run. Each of the five waits 600 ms in turn.
    run.at(3600).switch(0, 0, 3);
    run.at(4200).switch(1, 1, 0);
    run.at(4800).switch(2, 2, 1);
    run.play("@5400 cpu3=2");
    let result = run.end(6000);
    expect(&result, "fairness.worst_window.start_ns 0, fairness.worst_window.window_ns 3000ms");
    expect(&result, "fairness.worst_window.spread 0.5, tasks.0.windows.windows 2");
    expect(&result, "tasks.0.windows.max 1.0, tasks.0.windows.min 0.8, tasks.0.windows.mean 0.9");
    expect(&result, "tasks.0.windows.standard_deviation 0.1, tasks.4.windows.min 0.5");
    expect(&result, "tasks.4.windows.max 0.8");
}

#[test]
fn a_window_has_the_length_that_was_asked_for() {
    let options = Options { window: 10 * MS, ..Options::default() };
    let result = Run::with(MachineFacts::equal(1), options)
        .tasks(&[1024, 1024])
        .play("wake0 wake1 cpu0=0 @25 cpu0=1")
        .end(45);
    // 1, 1, 1/2 and 0; the last 5 ms are no whole window.
    expect(&result, "tasks.0.windows.windows 4, tasks.0.windows.mean 0.625");
    expect(&result, "tasks.0.windows.min 0.0, fairness.worst_window.spread 1.0");
}

#[test]
fn capacity_turns_time_into_work() {
    // A big and a half-size CPU, two equal hogs that never move: 10 ms are 10 ms and 5 ms of work, ideal 7.5 each.
    let machine = MachineFacts { capacities: vec![1024, 512] };
    let result = Run::with(machine, Options::default())
        .tasks(&[1024, 1024])
        .play("wake0 wake1 cpu0=0 cpu1=1")
        .end(10);
    expect(&result, "tasks.1.cpu_time_ns 10ms, tasks.1.work_ns 5ms");
    expect(&result, "tasks.0.share.actual 0.6666666666666666, tasks.0.share.ideal 0.5");
    expect(&result, "tasks.1.lag.behind_ns 2.5ms, throughput.ratio 1.0");
}

/// Of a group in a group, and of a task that leaves it.
#[test]
fn groups_divide_the_ideal_and_add_up_their_time() {
    let member =
        |group: Option<u32>| TaskInfo { group: group.map(GroupId), ..task_info("task", 1024) };
    let mut run = Run::on(1);
    run.group(0, None, 1024).group(1, Some(0), 3072);
    run.describe(0, &member(Some(1))).describe(1, &member(Some(0)));
    run.describe(2, &member(None));
    for task in 0..3 {
        run.wake(task);
    }
    // Half of the CPU is the outer group's, and three quarters of that the inner one's.
    let result = run.play("cpu0=0 @30 cpu0=1 @40 cpu0=2").end(80);
    expect(&result, "tasks.0.share.ideal 0.375, tasks.1.share.ideal 0.125");
    expect(&result, "tasks.2.share.ideal 0.5, fairness.jain_index 1.0");
    let times: Vec<u64> = result.groups.iter().map(|group| group.cpu_time_ns).collect();
    assert_eq!(times, [40 * MS, 30 * MS]);
    assert_eq!(result.groups[1].path, "/1");

    let mut run = Run::on(1);
    run.group(0, None, 1024).describe(0, &member(Some(0)));
    let result = run.play("wake0 cpu0=0 @10").describe(0, &member(None)).end(25);
    expect(&result, "groups.0.cpu_time_ns 10ms");
}

#[test]
fn real_time_tasks_come_first_and_are_left_out_of_fairness() {
    let mut real_time = task_info("real-time", 1024);
    real_time.policy = Policy::Fifo;
    real_time.rt_priority = 50;
    let result = Run::on(1)
        .describe(0, &real_time)
        .describe(1, &task_info("hog", 1024))
        .play("wake1 cpu0=1 @10 wake0 cpu0=0 @30 sleep0 cpu0=1")
        .end(40);
    expect(&result, "tasks.0.lag none, tasks.0.share.ideal 0.5, tasks.1.share.ideal 0.5");
    expect(&result, "fairness.lag.ahead_ns 0, fairness.lag.behind_ns 0, fairness.jain_index 1.0");
}

#[test]
fn a_change_of_weight_counts_from_its_time() {
    let result = Run::on(1)
        .tasks(&[1024, 1024])
        .play("wake0 wake1 cpu0=0 @20")
        .describe(1, &task_info("task-1", 3072))
        .end(40);
    // Half of 20 ms and a quarter of 20 ms.
    expect(&result, "tasks.0.share.ideal 0.375, tasks.1.share.ideal 0.625, tasks.1.weight 3072");
}

#[test]
fn an_offline_cpu_offers_no_time() {
    let result = Run::on(2)
        .tasks(&[1024, 1024])
        .play("wake0 wake1 cpu0=0 cpu1=1 @10 cpu1=-")
        .event(EventKind::CpuOnline { cpu: CpuId(1), online: false })
        .end(30);
    expect(&result, "cpu_time.available_ns 40ms, cpu_time.idle_ns 0");
    expect(&result, "cpu_time.idle_while_runnable_ns 0, tasks.1.share.ideal 0.5");
    expect(&result, "throughput.ratio 1.0");
}

#[test]
fn a_task_woken_before_it_left_its_cpu_keeps_it() {
    let result = Run::on(1).tasks(&[1024]).play("wake0 cpu0=0 @5 sleep0 wake0").end(10);
    expect(&result, "tasks.0.cpu_time_ns 10ms, tasks.0.wakeups 2, tasks.0.voluntary_switches 0");
    expect(&result, "inconsistent_events 0");
}

#[test]
fn migrations_are_counted_per_task_and_in_all() {
    let result = Run::on(2)
        .tasks(&[1024, 1024])
        .event(EventKind::Migrate { task: TaskId(1), from: CpuId(0), to: CpuId(1) })
        .end(1);
    expect(&result, "migrations 1, tasks.0.migrations 0, tasks.1.migrations 1");
}

#[test]
fn contradictions_are_counted_and_do_no_harm() {
    let result = Run::on(2)
        .tasks(&[1024, 1024])
        .switch(0, None, 0) // never woken
        .wake(0) // already running
        .switch(1, None, 0) // running elsewhere
        .sleep(1) // already asleep
        .wake(7) // unknown
        .switch(9, None, None) // no such CPU
        .at(5)
        .sleep(0)
        .switch(1, 1, None) // the other task was running
        .end(10);
    expect(&result, "inconsistent_events 7, tasks.0.cpu_time_ns 5ms, tasks.1.cpu_time_ns 0");
}

#[test]
fn the_run_does_not_wait_for_daemons() {
    let run = |daemon: bool| {
        let mut run = Run::on(1);
        let daemon = TaskInfo { daemon, ..task_info("daemon", 1024) };
        run.describe(0, &task_info("work", 1024)).describe(1, &daemon);
        run.wake(0).wake(1).switch(0, None, 0);
        run.at(3).exit(0).switch(0, 0, 1);
        let result = run.end(5);
        (result.makespan_ns, result.cpu_time.counted_ns)
    };
    // What a daemon does meanwhile is nobody's aim.
    assert_eq!(run(true), (Some(3 * MS), Some(3 * MS)));
    assert_eq!(run(false), (None, None));
}

#[test]
fn of_runs_without_an_end_the_work_of_those_with_laps_counts() {
    let mut run = Run::on(1);
    run.tasks(&[1024, 1024]).play("wake0 wake1 cpu0=0");
    run.event(EventKind::Lap { task: TaskId(0), at: 0, begins: true });
    run.at(2).event(EventKind::Lap { task: TaskId(0), at: 2 * MS, begins: false });
    run.play("cpu0=1");
    expect(&run.end(5), "cpu_time.busy_ns 5ms, cpu_time.counted_ns 2ms");
}

#[test]
fn the_slowest_hundredth_of_the_laps_is_averaged() {
    let slowest = |lengths: &[u64]| {
        let mut run = Run::on(1);
        run.tasks(&[1024, 1024]);
        for (number, length) in lengths.iter().enumerate() {
            let task = TaskId(number as u32 % 2);
            for (at, begins) in [(0, true), (length * MS, false)] {
                run.event(EventKind::Lap { task, at, begins });
            }
        }
        run.end(1).slowest_laps_ns
    };
    assert_eq!(slowest(&[]), None);
    assert_eq!(slowest(&[2, 7, 1]), Some(7.0 * MS as f64));
    // Of 250 laps three are the slowest hundredth; beyond 128 per task, values are known to within 1 %.
    let mut many = vec![1; 250];
    (many[10], many[201]) = (9, 5);
    let mean = slowest(&many).unwrap() / MS as f64;
    assert!((mean - 5.0).abs() < 0.05, "{mean}");
    many.resize(600, 2);
    let mean = slowest(&many).unwrap() / MS as f64;
    assert!((mean - (9.0 + 5.0 + 4.0 * 2.0) / 6.0).abs() < 0.05, "{mean}");
}

#[test]
fn a_task_held_back_by_a_quota_is_throttled_and_waits_for_no_cpu() {
    let member = TaskInfo { group: Some(GroupId(0)), ..task_info("task", 1024) };
    let throttle = |begins| EventKind::Throttle { task: TaskId(0), begins };
    let mut run = Run::on(2);
    run.limited_group(0, None, 1024, Some(20))
        .describe(0, &member)
        .describe(1, &task_info("other", 1024));
    // It has a CPU for 20 ms, is held back as it leaves that, waits for 5 ms when the next period has begun, and runs again.
    let result = run
        .wake(0)
        .wake(1)
        .switch(0, None, 0)
        .switch(1, None, 1)
        .at(20)
        .event(throttle(true))
        .switch(0, 0, None)
        .at(95)
        .event(throttle(false))
        .at(100)
        .switch(0, None, 0)
        .end(120);
    expect(&result, "tasks.0.throttled_ns 75ms, tasks.0.wait_ns 5ms, tasks.0.longest_wait_ns 5ms");
    expect(&result, "tasks.0.idle_beside.length_ns 5ms, cpu_time.idle_while_runnable_ns 5ms");
    // A fifth of a CPU, and the other task's whole one, of two.
    expect(&result, "tasks.0.share.ideal 0.1, tasks.1.share.ideal 0.5");
    assert_eq!(result.groups[0].nr_periods, None);

    // A waking task that is held back at once has a latency, but no wait; the simulator tells of the one first, a kernel of the other.
    for is_told_first in [false, true] {
        let mut run = Run::on(1);
        run.limited_group(0, None, 1024, Some(20)).describe(0, &member);
        match is_told_first {
            false => run.wake(0).event(throttle(true)),
            true => run.event(throttle(true)).wake(0),
        };
        let used = QuotaUse { periods: 3, throttled_periods: 2, throttled: 40 * MS };
        let result = run
            .at(40)
            .event(throttle(false))
            .switch(0, None, 0)
            .event(EventKind::QuotaUse { group: GroupId(0), used })
            .end(50);
        expect(&result, "wakeup_latency.max_ns 40ms, tasks.0.wait_ns 0");
        expect(&result, "tasks.0.throttled_ns 40ms, cpu_time.idle_while_runnable_ns 0");
        let group = &result.groups[0];
        let told = (group.nr_periods, group.nr_throttled, group.throttled_ns);
        assert_eq!(told, (Some(3), Some(2), Some(40 * MS)));
    }
}

#[test]
fn energy_is_that_of_all_cpus_if_it_is_known() {
    let run = |energies: &[u64]| {
        let mut run = Run::on(2);
        run.describe(0, &task_info("task", 1024)).wake(0).at(10);
        for (cpu, nanojoules) in (0..).zip(energies) {
            run.event(EventKind::Energy { cpu: CpuId(cpu), nanojoules: *nanojoules });
        }
        run.end(10).energy
    };
    assert_eq!(run(&[]), None);
    let energy = run(&[1_500_000_000, 250_000_000]).unwrap();
    assert_eq!((energy.joules, energy.cpus), (1.75, vec![1.5, 0.25]));
}
