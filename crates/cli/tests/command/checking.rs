//! `fairground check`: mistakes in schedulers are found and named.

use std::collections::BTreeSet;
use std::fs;

use crate::support::{Ended, fairground, folder};

/// A mistake: a change to the sound scheduler, and the words of `check` about it.
struct Mistake {
    /// The replaced texts and their replacements.
    changes: &'static [(&'static str, &'static str)],
    /// The case that shows it.
    case: &'static str,
    /// Parts of the output.
    told: &'static [&'static str],
}

const KICK: &str = "	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
";

/// There is a second queue.
const SECOND_QUEUE: (&str, &str) = (
    "	return scx_bpf_create_dsq(QUEUE, -1);",
    "	s32 err = scx_bpf_create_dsq(QUEUE, -1);

	return err ?: scx_bpf_create_dsq(QUEUE + 1, -1);",
);

/// The second queue is served first.
const SECOND_QUEUE_FIRST: (&str, &str) = (
    "	scx_bpf_dsq_move_to_local(QUEUE, 0);",
    "	if (!scx_bpf_dsq_move_to_local(QUEUE + 1, 0))
		scx_bpf_dsq_move_to_local(QUEUE, 0);",
);

/// Each CPU has a queue with a virtual time of its own. The last change is a mistake: a task that moves keeps the time of the CPU that it comes from.
const QUEUE_FOR_EACH_CPU: &[(&str, &str)] = &[
    ("static u64 vtime_now;", "static u64 vtime_now[1024];\nstatic u32 queue_of[4096];"),
    (
        "	u64 vtime = p->scx.dsq_vtime, slice = slice_ns;\n	s32 cpu;\n",
        "	u32 to = scx_bpf_task_cpu(p), *from = &queue_of[(u32)p->pid % 4096];
	u64 vtime = p->scx.dsq_vtime, slice = slice_ns, now = vtime_now[to % 1024];
	s32 cpu;

	vtime += now - vtime_now[*from % 1024];
	*from = to;
",
    ),
    (
        "	if (time_before(vtime, vtime_now - slice_ns))\n		vtime = vtime_now - slice_ns;\n",
        "	if (time_before(vtime, now - slice_ns))\n		vtime = now - slice_ns;\n	p->scx.dsq_vtime = vtime;\n",
    ),
    ("(p, QUEUE, slice", "(p, QUEUE + to, slice"),
    ("(scx_dsq, p, QUEUE, 0)", "(scx_dsq, p, QUEUE + cpu, 0)"),
    (
        "	scx_bpf_dsq_move_to_local(QUEUE, 0);",
        "	s32 other;

	if (scx_bpf_dsq_move_to_local(QUEUE + cpu, 0))
		return;
	bpf_for(other, 0, scx_bpf_nr_cpu_ids())
		if (scx_bpf_dsq_move_to_local(QUEUE + other, 0))
			return;",
    ),
    (
        "	if (time_before(vtime_now, p->scx.dsq_vtime))\n		vtime_now = p->scx.dsq_vtime;",
        "	u32 cpu = scx_bpf_task_cpu(p), *from = &queue_of[(u32)p->pid % 4096];
	u64 *now = &vtime_now[cpu % 1024];

	p->scx.dsq_vtime += *now - vtime_now[*from % 1024];
	*from = cpu;
	if (time_before(*now, p->scx.dsq_vtime))
		*now = p->scx.dsq_vtime;",
    ),
    (
        "	p->scx.dsq_vtime = vtime_now;\n",
        "	u32 cpu = scx_bpf_task_cpu(p);

	queue_of[(u32)p->pid % 4096] = cpu;
	p->scx.dsq_vtime = vtime_now[cpu % 1024];
",
    ),
    (
        "	return scx_bpf_create_dsq(QUEUE, -1);",
        "	s32 err = 0, cpu;

	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids()) {
		err = scx_bpf_create_dsq(QUEUE + cpu, -1);
		if (err)
			break;
	}
	return err;",
    ),
    ("	vtime += now - vtime_now[*from % 1024];\n", ""),
];

const MISTAKES: &[Mistake] = &[
    // Nobody is told that a task waits.
    Mistake {
        changes: &[(KICK, "	(void)cpu;\n")],
        case: "released",
        told: &["lies in a queue while a CPU that it may use is idle, and nobody kicks it"],
    },
    // The first CPU that a task may use is told, whether it is idle or not.
    Mistake {
        changes: &[(
            KICK,
            "	cpu = bpf_cpumask_first(p->cpus_ptr);\n	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);\n",
        )],
        case: "released",
        told: &["lies in a queue while a CPU that it may use is idle, and nobody kicks it"],
    },
    // Without others a task may run for ever, and nobody interrupts it later.
    Mistake {
        changes: &[(
            "slice = slice_ns;\n	s32 cpu;\n",
            "slice = slice_ns;\n	s32 cpu;\n\n	if (!scx_bpf_dsq_nr_queued(QUEUE))\n		slice = SCX_SLICE_INF;\n",
        )],
        case: "one-more-than-cpus",
        told: &["starved (", "runs a task whose slice never ends", " ran, whose slice never ends"],
    },
    // Slices of a second.
    Mistake {
        changes: &[("slice_ns = 5000000;", "slice_ns = 1000000000;")],
        case: "hogs-on-one-cpu",
        told: &["lies in a queue behind others, which run for long without being preempted"],
    },
    // Tasks are put where a real-time task may come first.
    Mistake {
        changes: &[(
            "	return scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);",
            "	prev_cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
	if (is_idle)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, 0);
	return prev_cpu;",
        )],
        case: "real-time-hog",
        told: &["lies in the local queue of a CPU that real-time tasks have"],
    },
    // Only four CPUs are served.
    Mistake {
        changes: &[(
            "	scx_bpf_dsq_move_to_local(QUEUE, 0);",
            "	if (cpu < 4)\n		scx_bpf_dsq_move_to_local(QUEUE, 0);",
        )],
        case: "pinned-everywhere",
        told: &["while a CPU that it may use is idle"],
    },
    // Tasks stay where they were, however many are there.
    Mistake {
        changes: &[(
            "	scx_bpf_dsq_insert_vtime(p, QUEUE, slice, vtime, enq_flags);\n",
            "	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | scx_bpf_task_cpu(p), slice, enq_flags);\n",
        )],
        case: "fork-storm",
        told: &[
            "lies in the local queue of a CPU that runs others, while a CPU that it may use is idle",
        ],
    },
    // Tasks of one policy are forgotten.
    Mistake {
        changes: &[(
            "	scx_bpf_dsq_insert_vtime(p, QUEUE, slice, vtime, enq_flags);\n",
            "	if (p->policy == SCHED_BATCH)\n		return;\n	scx_bpf_dsq_insert_vtime(p, QUEUE, slice, vtime, enq_flags);\n",
        )],
        case: "batch-policy",
        told: &["stays in the scheduler's own data and is never inserted into a dispatch queue"],
    },
    // The heavier a task, the more it is charged.
    Mistake {
        changes: &[("used * 100 / weight", "used * weight / 100")],
        case: "eight-nice-levels",
        told: &[
            "'share of n0 > 15 %' with",
            "lies in a queue from which others are always taken first",
        ],
    },
    // A queue for each four CPUs, and nobody takes from another one.
    Mistake {
        changes: &[
            (
                "	return scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);",
                "	return prev_cpu;",
            ),
            ("(p, QUEUE, slice", "(p, QUEUE + (u32)scx_bpf_task_cpu(p) / 4, slice"),
            ("(QUEUE, 0)", "(QUEUE + (u32)cpu / 4, 0)"),
            SECOND_QUEUE,
        ],
        case: "fork-storm",
        told: &["lies in a queue while a CPU that it may use is idle, and nobody kicks it"],
    },
    // Virtual time that ends after 4.3 s.
    Mistake {
        changes: &[(
            "	p->scx.dsq_vtime += cost(p);",
            "	p->scx.dsq_vtime = (u32)(p->scx.dsq_vtime + cost(p));",
        )],
        case: "weights-on-two-cpus",
        told: &["starved (", "lies in a queue from which others are always taken first"],
    },
    // Light tasks that wake up are forgotten.
    Mistake {
        changes: &[(
            "	scx_bpf_dsq_insert_vtime(p, QUEUE, slice, vtime, enq_flags);\n",
            "	if (p->scx.weight < 20 && (enq_flags & SCX_ENQ_WAKEUP))\n		return;\n	scx_bpf_dsq_insert_vtime(p, QUEUE, slice, vtime, enq_flags);\n",
        )],
        case: "sleepers-of-all-kinds",
        told: &["stays in the scheduler's own data and is never inserted into a dispatch queue"],
    },
    // Room for 512 tasks.
    Mistake {
        changes: &[(
            "	scx_bpf_dsq_insert_vtime(p, QUEUE, slice, vtime, enq_flags);\n",
            "	if (scx_bpf_dsq_nr_queued(QUEUE) >= 512)\n		return;\n	scx_bpf_dsq_insert_vtime(p, QUEUE, slice, vtime, enq_flags);\n",
        )],
        case: "crowd",
        told: &["stays in the scheduler's own data and is never inserted into a dispatch queue"],
    },
    // A task that wakes another keeps it on its own CPU.
    Mistake {
        changes: &[(
            "	return scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);",
            "	prev_cpu = bpf_get_smp_processor_id();
	if (!bpf_cpumask_test_cpu(prev_cpu, p->cpus_ptr))
		return scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | prev_cpu, slice_ns, 0);
	return prev_cpu;",
        )],
        case: "wakes-and-goes-on",
        told: &["'idle_wasted < 2 %' with", "lies in the local queue of a CPU"],
    },
    // A task that is put into the queue interrupts the CPU that it comes from, and does so again when it is interrupted itself.
    Mistake {
        changes: &[(
            KICK,
            "	cpu = scx_bpf_task_cpu(p);\n	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);\n",
        )],
        case: "weights-on-two-cpus",
        told: &[
            "unmet (share_error): a task lies in a queue from which others are always taken first",
        ],
    },
    // Bound tasks have a queue that comes first.
    Mistake {
        changes: &[
            (
                "	scx_bpf_dsq_insert_vtime(p, QUEUE, slice, vtime, enq_flags);\n",
                "	scx_bpf_dsq_insert_vtime(p, p->nr_cpus_allowed < scx_bpf_nr_cpu_ids() ? QUEUE + 1 : QUEUE, slice, vtime, enq_flags);\n",
            ),
            SECOND_QUEUE_FIRST,
            SECOND_QUEUE,
        ],
        case: "affinity-storm",
        told: &["hardly anything is taken: tasks from elsewhere are served first"],
    },
    // Sleep earns as much as it lasted.
    Mistake {
        changes: &[(
            "	if (time_before(vtime, vtime_now - slice_ns))\n		vtime = vtime_now - slice_ns;\n",
            "",
        )],
        case: "long-sleep-on-two-cpus",
        told: &[
            "'lag_ahead of z < 1.5s' with",
            "a task gets more CPU time than its weight is worth",
        ],
    },
    // New tasks begin behind all others.
    Mistake {
        changes: &[(
            "	p->scx.dsq_vtime = vtime_now;\n",
            "	p->scx.dsq_vtime = vtime_now + 1000 * slice_ns;\n",
        )],
        case: "forks-beside-old-hogs",
        told: &[
            "'jain_index > 0.9' with",
            "lies in a queue from which others are always taken first",
        ],
    },
    // A task that sleeps before the end of its slice is not charged.
    Mistake {
        changes: &[(
            "	p->scx.dsq_vtime += cost(p);\n",
            "	if (runnable)\n		p->scx.dsq_vtime += cost(p);\n",
        )],
        case: "short-sleeps",
        told: &["starved (", "lies in a queue from which others are always taken first"],
    },
    // Nice does not matter.
    Mistake {
        changes: &[("used * 100 / weight", "used")],
        case: "eight-nice-levels",
        told: &["'share of n0 > 15 %' with"],
    },
    // A task keeps the weight that it began with.
    Mistake {
        changes: &[
            (
                "	p->scx.dsq_vtime = vtime_now;\n",
                "	p->scx.dsq_vtime = vtime_now;\n	weights[(u32)p->pid % 4096] = p->scx.weight;\n",
            ),
            ("weight = p->scx.weight;", "weight = weights[(u32)p->pid % 4096];"),
            ("static u64 vtime_now;", "static u64 vtime_now, weights[4096];"),
        ],
        case: "renice",
        told: &["'share of a < 15 %' with", "a task gets more CPU time than its weight is worth"],
    },
    // Weights are cut to eight bits.
    Mistake {
        changes: &[(
            "u64 used = slice_ns - p->scx.slice, weight = p->scx.weight;",
            "u64 used = slice_ns - p->scx.slice;\n	u8 weight = p->scx.weight;",
        )],
        case: "eight-nice-levels",
        told: &["'share of n0 > 15 %' with"],
    },
    // SCHED_IDLE counts as much as others.
    Mistake {
        changes: &[("		weight = 5;", "		weight = 100;")],
        case: "idle-policy-among-many",
        told: &["'share of i < 5.5 %' with", "a task gets more CPU time than its weight is worth"],
    },
    // Threads of the kernel are forgotten.
    Mistake {
        changes: &[(
            "	scx_bpf_dsq_insert_vtime(p, QUEUE, slice, vtime, enq_flags);\n",
            "	if (p->flags & 0x200000)\n		return;\n	scx_bpf_dsq_insert_vtime(p, QUEUE, slice, vtime, enq_flags);\n",
        )],
        case: "kernel-threads",
        told: &["ejected (SCX_EXIT_ERROR_STALL)", "failed to run for"],
    },
    // Tasks that wake up come before all others.
    Mistake {
        changes: &[
            ("(p, QUEUE, slice", "(p, enq_flags & SCX_ENQ_WAKEUP ? QUEUE + 1 : QUEUE, slice"),
            SECOND_QUEUE_FIRST,
            SECOND_QUEUE,
        ],
        case: "short-sleeps",
        told: &["starved ("],
    },
    // Heavy tasks come before all others.
    Mistake {
        changes: &[
            ("(p, QUEUE, slice", "(p, p->scx.weight > 100 ? QUEUE + 1 : QUEUE, slice"),
            SECOND_QUEUE_FIRST,
            SECOND_QUEUE,
        ],
        case: "eight-nice-levels",
        told: &["starved (", "hardly anything is taken: tasks from elsewhere are served first"],
    },
    // SCHED_BATCH comes after all others.
    Mistake {
        changes: &[
            ("(p, QUEUE, slice", "(p, p->policy == SCHED_BATCH ? QUEUE + 1 : QUEUE, slice"),
            (
                "	scx_bpf_dsq_move_to_local(QUEUE, 0);",
                "	if (!scx_bpf_dsq_move_to_local(QUEUE, 0))\n		scx_bpf_dsq_move_to_local(QUEUE + 1, 0);",
            ),
            SECOND_QUEUE,
        ],
        case: "policy-changes",
        told: &["starved (", "hardly anything is taken: tasks from elsewhere are served first"],
    },
    // The slice is refilled at each tick.
    Mistake {
        changes: &[
            (
                "void BPF_STRUCT_OPS(sound_enable,",
                "void BPF_STRUCT_OPS(sound_tick, struct task_struct *p)\n{\n	p->scx.slice = slice_ns;\n}\n\nvoid BPF_STRUCT_OPS(sound_enable,",
            ),
            ("stopping, enable", "stopping, tick, enable"),
        ],
        case: "hogs-on-one-cpu",
        told: &[
            "starved (",
            "lies in a queue behind others, which run for long without being preempted",
        ],
    },
    // A task that can go on goes on.
    Mistake {
        changes: &[(
            "	scx_bpf_dsq_move_to_local(QUEUE, 0);",
            "	if (prev && (prev->scx.flags & SCX_TASK_QUEUED)) {\n		prev->scx.slice = slice_ns;\n		return;\n	}\n	scx_bpf_dsq_move_to_local(QUEUE, 0);",
        )],
        case: "hogs-on-one-cpu",
        told: &[
            "starved (",
            "lies in a queue behind others, which run for long without being preempted",
        ],
    },
    // Every fourth call of dispatch hands nothing out.
    Mistake {
        changes: &[(
            "	scx_bpf_dsq_move_to_local(QUEUE, 0);",
            "	static u64 calls;\n\n	if (calls++ % 4 == 3)\n		return;\n	scx_bpf_dsq_move_to_local(QUEUE, 0);",
        )],
        case: "pinned-everywhere",
        told: &[
            "starved (",
            "lies in a queue while a CPU that it may use is idle, and nobody kicks it",
        ],
    },
    // A task that is alone is not put back.
    Mistake {
        changes: &[
            (
                "SCX_TASK_QUEUED) && is_first(",
                "SCX_TASK_QUEUED) && scx_bpf_dsq_nr_queued(QUEUE) && is_first(",
            ),
            (".name = \"sound\"", ".flags = SCX_OPS_ENQ_LAST, .name = \"sound\""),
            (
                "	scx_bpf_dsq_insert_vtime(p, QUEUE, slice, vtime, enq_flags);\n",
                "	if (enq_flags & SCX_ENQ_LAST)\n		return;\n	scx_bpf_dsq_insert_vtime(p, QUEUE, slice, vtime, enq_flags);\n",
            ),
        ],
        case: "pinned-everywhere",
        told: &[
            "starved (",
            "stays in the scheduler's own data and is never inserted into a dispatch queue",
        ],
    },
    // Tasks that come back from a CPU that a real-time task took are dropped.
    Mistake {
        changes: &[
            (
                "	return scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);",
                "	prev_cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);\n	if (is_idle)\n		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, 0);\n	return prev_cpu;",
            ),
            (
                "	scx_bpf_dsq_insert_vtime(p, QUEUE, slice, vtime, enq_flags);\n",
                "	if (enq_flags & SCX_ENQ_REENQ)\n		return;\n	scx_bpf_dsq_insert_vtime(p, QUEUE, slice, vtime, enq_flags);\n",
            ),
        ],
        case: "real-time-theft",
        told: &[
            "starved (",
            "stays in the scheduler's own data and is never inserted into a dispatch queue",
        ],
    },
    // Heavy tasks get the kernel's slice, of which more is used than there was.
    Mistake {
        changes: &[(
            "u64 vtime = p->scx.dsq_vtime, slice = slice_ns;",
            "u64 vtime = p->scx.dsq_vtime, slice = p->scx.weight > 100 ? 0 : slice_ns;",
        )],
        case: "sleepers-of-all-kinds",
        told: &["starved (", "lies in a queue from which others are always taken first"],
    },
    // Heavy tasks are never interrupted.
    Mistake {
        changes: &[(
            "u64 vtime = p->scx.dsq_vtime, slice = slice_ns;",
            "u64 vtime = p->scx.dsq_vtime, slice = p->scx.weight > 100 ? SCX_SLICE_INF : slice_ns;",
        )],
        case: "nice-changes",
        told: &[
            "starved (",
            "lies in a queue behind others, which run for long without being preempted",
        ],
    },
    // Times before the first slice count as times far ahead.
    Mistake {
        changes: &[("time_before(vtime, vtime_now - slice_ns)", "vtime < vtime_now - slice_ns")],
        case: "long-sleep",
        told: &["starved (", "lies in a queue from which others are always taken first"],
    },
    // An idle CPU is claimed and not used.
    Mistake {
        changes: &[
            (
                "	return scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);",
                "	(void)is_idle;\n	scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);\n	return prev_cpu;",
            ),
            (KICK, "	(void)cpu;\n"),
        ],
        case: "one-more-than-cpus",
        told: &["lies in a queue while a CPU that it may use is idle, and nobody kicks it"],
    },
    // A CPU is kicked only if the queue was empty.
    Mistake {
        changes: &[(
            KICK,
            "	if (scx_bpf_dsq_nr_queued(QUEUE) > 1)\n		return;\n	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);\n	if (cpu >= 0)\n		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);\n",
        )],
        case: "released",
        told: &["lies in a queue while a CPU that it may use is idle, and nobody kicks it"],
    },
    // The whole slice is charged to a task that sleeps early.
    Mistake {
        changes: &[("u64 used = slice_ns - p->scx.slice, weight", "u64 used = slice_ns, weight")],
        case: "sleeper-among-hogs",
        told: &["'wakeup_p50 of s < 0.5x longest_wait of h' with"],
    },
    // Time is charged from one stop to the next, the wait in between included.
    Mistake {
        changes: &[
            ("static u64 vtime_now;", "static u64 vtime_now, since[4096];"),
            (
                "	p->scx.dsq_vtime += cost(p);\n",
                "	u64 now = bpf_ktime_get_ns();

	p->scx.dsq_vtime += (now - since[(u32)p->pid % 4096]) * 100 / p->scx.weight;
	since[(u32)p->pid % 4096] = now;
",
            ),
            (
                "	p->scx.dsq_vtime = vtime_now;\n",
                "	p->scx.dsq_vtime = vtime_now;\n	since[(u32)p->pid % 4096] = bpf_ktime_get_ns();\n",
            ),
        ],
        case: "eight-nice-levels",
        told: &[
            "starved (",
            "lies in a queue behind others, which run for long without being preempted",
        ],
    },
    // Virtual time is not carried from one CPU to another.
    Mistake {
        changes: QUEUE_FOR_EACH_CPU,
        case: "moves-between-loads",
        told: &["starved (", "lies in a queue from which others are always taken first"],
    },
    // All CPUs are told of each task.
    Mistake {
        changes: &[(
            KICK,
            "	bpf_for(cpu, 0, scx_bpf_nr_cpu_ids())\n		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);\n",
        )],
        case: "wakeups-on-many-cpus",
        told: &[
            "'overhead < 3x eevdf' with",
            "scheduling takes far more CPU time than the load needs",
        ],
    },
    // Any idle CPU is as good as that on which a task ran.
    Mistake {
        changes: &[(
            "	return scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);",
            "	s32 cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);\n\n	(void)is_idle;\n	return cpu >= 0 ? cpu : prev_cpu;",
        )],
        case: "sleepers-come-back",
        told: &[
            "'migrations of s < 0.5x wakeups of s' with",
            "tasks leave CPUs on which they could have stayed",
        ],
    },
    // The tasks of a CPU that a real-time task takes stay there.
    Mistake {
        changes: &[("enable, cpu_release, cpu_online,", "enable, cpu_online,")],
        case: "real-time-bursts",
        told: &["starved (", "lies in the local queue of a CPU that real-time tasks have"],
    },
    // The places of tasks that have ended are not used again.
    Mistake {
        changes: &[
            ("static u64 vtime_now;", "static u64 vtime_now, places;"),
            (
                "	p->scx.dsq_vtime = vtime_now;\n",
                "	p->scx.dsq_vtime = vtime_now;\n	__sync_fetch_and_add(&places, 1);\n",
            ),
            (
                "	scx_bpf_dsq_insert_vtime(p, QUEUE, slice, vtime, enq_flags);\n",
                "	if (places > 256)\n		return;\n	scx_bpf_dsq_insert_vtime(p, QUEUE, slice, vtime, enq_flags);\n",
            ),
        ],
        case: "fork-and-exit",
        told: &["stays in the scheduler's own data and is never inserted into a dispatch queue"],
    },
    // Heavy tasks are charged a tenth.
    Mistake {
        changes: &[(
            "	return used * 100 / weight;",
            "	if (weight > 100)\n		used /= 10;\n	return used * 100 / weight;",
        )],
        case: "heavy-among-normal",
        told: &["'share_error < 3 %' with"],
    },
    // Heavy tasks are charged 8 % too little.
    Mistake {
        changes: &[(
            "	return used * 100 / weight;",
            "	if (weight > 100)\n		used -= used * 8 / 100;\n	return used * 100 / weight;",
        )],
        case: "heavy-among-normal",
        told: &["'share_error < 3 %' with"],
    },
    // What a heavy task uses when it goes on is charged 8 % too low.
    Mistake {
        changes: &[("+= cost(prev);", "+= cost(prev) * 92 / 100;")],
        case: "heavy-among-normal",
        told: &["'share_error < 3 %' with"],
    },
    // Every second task is charged 8 % too little.
    Mistake {
        changes: &[(
            "	return used * 100 / weight;",
            "	if (p->pid & 1)\n		used -= used * 8 / 100;\n	return used * 100 / weight;",
        )],
        case: "heavy-among-normal",
        told: &["'share_error < 3 %' with"],
    },
    // Light tasks are charged 9 % too little.
    Mistake {
        changes: &[(
            "	return used * 100 / weight;",
            "	if (weight < 100)\n		used -= used * 9 / 100;\n	return used * 100 / weight;",
        )],
        case: "three-weights",
        told: &[
            "unmet (share_error): a task gets more CPU time than its weight is worth; in three-weights",
        ],
    },
    // SCHED_BATCH is charged 9 % too little.
    Mistake {
        changes: &[(
            "	return used * 100 / weight;",
            "	if (p->policy == SCHED_BATCH)\n		used -= used * 9 / 100;\n	return used * 100 / weight;",
        )],
        case: "equal-rights",
        told: &[
            "unmet (share_error): a task gets more CPU time than its weight is worth; in equal-rights",
        ],
    },
    // Tasks that may not run everywhere are charged 9 % too little.
    Mistake {
        changes: &[(
            "	return used * 100 / weight;",
            "	if (p->nr_cpus_allowed < scx_bpf_nr_cpu_ids())\n		used -= used * 9 / 100;\n	return used * 100 / weight;",
        )],
        case: "bound-and-free",
        told: &["'share_error < 5 %' with"],
    },
    // The slices of heavy tasks are longer and cost as much.
    Mistake {
        changes: &[
            (
                "slice = slice_ns;\n	s32 cpu;\n",
                "slice = p->scx.weight > 100 ? 4 * slice_ns : slice_ns;\n	s32 cpu;\n",
            ),
            (
                "	return used * 100 / weight;",
                "	if (p->scx.slice > slice_ns)\n		used = 0;\n	return used * 100 / weight;",
            ),
        ],
        case: "weights-on-two-cpus",
        told: &["'share_error < 10 %' with"],
    },
    // The next task is chosen before the one whose slice has ended is back in the queue.
    Mistake {
        changes: &[(
            "SCX_TASK_QUEUED) && is_first(prev, cpu)",
            "SCX_TASK_QUEUED) && !scx_bpf_dsq_nr_queued(QUEUE)",
        )],
        case: "heavy-beside-normal",
        told: &[
            "as scx_simple, scx_qmap, scx_bpfland: unmet (share_error): a task gets more CPU time than its weight is worth; in heavy-beside-normal",
        ],
    },
    // New tasks begin at the beginning of time.
    Mistake {
        changes: &[
            ("	p->scx.dsq_vtime = vtime_now;\n", "	p->scx.dsq_vtime = 0;\n"),
            (
                "	if (time_before(vtime, vtime_now - slice_ns))",
                "	if ((enq_flags & SCX_ENQ_WAKEUP) && time_before(vtime, vtime_now - slice_ns))",
            ),
        ],
        case: "new-beside-old",
        told: &["starved ("],
    },
    // Weights end at 1000.
    Mistake {
        changes: &[(
            "	return used * 100 / weight;",
            "	if (weight > 1000)\n		weight = 1000;\n	return used * 100 / weight;",
        )],
        case: "heavy-beside-normal",
        told: &["unmet (share_error): a task gets more CPU time than its weight is worth"],
    },
    // Weights begin at 15.
    Mistake {
        changes: &[("		weight = 5;", "		weight = 15;"), ("	if (weight < 5)", "	if (weight < 15)")],
        case: "three-weights",
        told: &["unmet (share_error): a task gets more CPU time than its weight is worth"],
    },
];

/// Checks a source in these cases.
fn check(source: &str, arguments: &[&str]) -> Ended {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.bpf.c");
    fs::write(&path, source).unwrap();
    let path = path.display().to_string();
    let mut all = vec!["check", &path];
    all.extend(arguments);
    fairground(&all)
}

fn sound() -> String {
    fs::read_to_string(folder().join("schedulers/sound.bpf.c")).unwrap()
}

/// The source with these texts replaced, one after the other.
fn changed(source: &str, changes: &[(&str, &str)]) -> String {
    changes.iter().fold(source.to_owned(), |source, (old, new)| {
        assert_eq!(source.matches(old).count(), 1, "{old}");
        source.replace(old, new)
    })
}

#[test]
fn each_mistake_is_found_and_named() {
    let sound = sound();
    for mistake in MISTAKES {
        let source = changed(&sound, mistake.changes);
        let ended = check(&source, &["--case", mistake.case]);
        let shown = format!("{} {}", ended.stdout, ended.stderr);
        assert_eq!(ended.code, Some(1), "{source}: {shown}");
        for told in mistake.told {
            assert!(ended.stdout.contains(told), "{source}: {told}: {shown}");
        }
    }
}

#[test]
fn sound_schedulers_pass_the_cases_that_find_mistakes() {
    let (_, without_mistake) = QUEUE_FOR_EACH_CPU.split_last().unwrap();
    // Queues of CPUs have to be balanced: tasks of other weights or that may not move are not divided evenly, and stay behind real-time ones.
    let unbalanced = ["weights-on-two-cpus", "bound-and-free", "real-time-hog", "real-time-bursts"];
    for changes in [&[], without_mistake] {
        let mut arguments = Vec::new();
        for mistake in MISTAKES {
            if changes.is_empty() || !unbalanced.contains(&mistake.case) {
                arguments.extend(["--case", mistake.case]);
            }
        }
        let ended = check(&changed(&sound(), changes), &arguments);
        let shown = format!("{} {}", ended.stdout, ended.stderr);
        assert!(ended.stdout.contains("mine: nothing wrong in "), "{shown}");
        assert_eq!(ended.code, Some(0), "{shown}");
    }
}

#[test]
fn what_was_wrong_before_is_left_out_and_a_fault_is_shrunk_to_a_file() {
    let broken = sound().replace(KICK, "	(void)cpu;\n");
    let former = check(&broken, &["--case", "released", "--format", "json"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("before.json");
    fs::write(&path, &former.stdout).unwrap();
    let path = path.display().to_string();
    let again = check(&broken, &["--case", "released", "--baseline", &path]);
    assert_eq!((again.code, again.stderr.as_str()), (Some(0), ""));
    assert!(again.stdout.contains("One run is left out"), "{}", again.stdout);

    let small = folder.path().join("small").display().to_string();
    let ended = check(&broken, &["--case", "released", "--shrink", &small]);
    let files: Vec<_> = fs::read_dir(&small).unwrap().collect();
    assert_eq!(files.len(), 1, "{}", ended.stdout);
    let text = fs::read_to_string(files[0].as_ref().unwrap().path()).unwrap();
    let workload: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(workload["tasks"].as_object().unwrap().len(), 1, "{text}");
    assert!(ended.stdout.contains(&small), "{}", ended.stdout);
}

#[test]
fn what_the_kernels_own_threads_would_hide_is_told() {
    // Hogs have a queue that comes last, and nobody kicks a CPU for them.
    let queues = ("(p, QUEUE, slice", "(p, p->comm[0] == 'h' ? QUEUE + 1 : QUEUE, slice");
    let last = (
        "	scx_bpf_dsq_move_to_local(QUEUE, 0);",
        "	if (!scx_bpf_dsq_move_to_local(QUEUE, 0))\n		scx_bpf_dsq_move_to_local(QUEUE + 1, 0);",
    );
    let select = (
        "	return scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);",
        "	(void)is_idle;\n	return prev_cpu;",
    );
    let kick = (KICK, "	(void)cpu;\n");
    let source = changed(&sound(), &[queues, last, SECOND_QUEUE, select, kick]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.bpf.c");
    fs::write(&path, source).unwrap();
    let path = path.display().to_string();
    let ended = fairground(&["compare", "mix-two", "-s", &path, "-m", "4", "-d", "2s"]);
    let told = "(nothing else runs here: with --noise default no task starves): lay in the DSQ 8";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
}

#[test]
fn a_case_that_does_not_exist_is_refused_with_those_that_do() {
    let ended = fairground(&["check", "cfs", "--case", "nothing"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("there are check/hogs-on-one-cpu"), "{}", ended.stderr);
}

/// What is told of a scheduler: its id, a case, and the rule that it breaks there.
type Told = (String, String, String);

/// What the READMEs of the schedulers say that `check` finds.
fn told_by_readmes() -> BTreeSet<Told> {
    let mut told = BTreeSet::new();
    for folder in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../schedulers")).unwrap() {
        let folder = folder.unwrap().path();
        let Ok(text) = fs::read_to_string(folder.join("README.md")) else {
            continue;
        };
        let id = folder.file_name().unwrap().to_string_lossy().into_owned();
        for line in text.lines().filter(|line| line.starts_with("| `check/")) {
            let mut cells = line.trim_matches('|').split('|').map(str::trim);
            let (cases, rules) = (cells.next().unwrap(), cells.next().unwrap());
            for case in cases.split(", ") {
                for rule in rules.split(", ") {
                    let (case, rule) = (case.trim_matches('`'), rule.trim_matches('`'));
                    told.insert((id.clone(), case.to_owned(), rule.to_owned()));
                }
            }
        }
    }
    told
}

#[test]
fn readmes_have_what_is_found_in_their_schedulers() {
    let ended = fairground(&["check", "all", "--format", "json"]);
    let result: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let mut found = BTreeSet::new();
    for fault in result["faults"].as_array().unwrap() {
        let word = |key: &str| fault[key].as_str().unwrap().to_owned();
        let rule = match word("status").as_str() {
            "unmet" => word("kind"),
            status => status.to_owned(),
        };
        for case in fault["cases"].as_array().unwrap() {
            let case = format!("check/{}", case.as_str().unwrap());
            found.insert((word("scheduler"), case, rule.clone()));
        }
    }
    let told = told_by_readmes();
    let missing: Vec<&Told> = found.difference(&told).collect();
    let gone: Vec<&Told> = told.difference(&found).collect();
    assert!(missing.is_empty(), "READMEs lack {missing:#?}");
    assert!(gone.is_empty(), "READMEs have what is not found: {gone:#?}");
}
