/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * load_balance.h - the balancer of Linux 2.6.22 to 3.0: load history, placement of waking and new tasks, busiest group, busiest queue
 *
 * CPUs even out their loads domain by domain (sched_domains.h): at intervals, and when one has just run out of tasks. Which tasks move is the
 * scheduler's.
 *
 * The file that includes this has defined before, besides what sched_domains.h and runnable_load.h ask for,
 *
 *   SCHED_LOAD_SCALE     load of a task of nice 0, and power of a CPU
 *   tick_nsec, nr_cpus   length of a tick of the era, number of CPUs
 *   struct run_queue     with exists, curr, curr_weight
 *   sched_migration_cost for 3.0
 *   task_hot()           whether a task's data may still be in its CPU's cache
 *   move_tasks()         moves up to attempt->imbalance of load from the busiest CPU to this one, returns how many tasks that were, and
 *                        sets attempt->all_pinned if it came to none that may run here
 *   BALANCES             its counter of attempts
 */
#pragma once

/* After so many ticks even the slowest load average has settled to the last unit */
#define LOAD_SETTLED 64

/* Load by which 2.6.24 is generous when it decides whether to move a task */
#define BALANCE_FUZZ 1024

/* 3.0: what the threads of a core are worth together */
#define SMT_GAIN 1178ULL

/* Held while a domain with SD_SERIALIZE is balanced */
static u32 balancing;

/* ---- Load history ---------------------------------------------------------------------------------------------- */

/* One average after @ticks ticks under a constant @load: (old * (2^i - 1) + new) / 2^i, rounded up when it rises. */
__noinline u64 decay_load(u64 old_load, u64 load, u32 i, u64 ticks)
{
	u32 tick;

	if (old_load == load)
		return load;

	bpf_for(tick, 0, min(ticks, LOAD_SETTLED)) {
		u64 scale;

		/* Computed anew each time, for the stack is short */
		barrier_var(i);
		scale = 1ULL << i;
		old_load = (old_load * (scale - 1) + load + (load > old_load ? scale - 1 : 0)) >> i;
		if (old_load == load)
			break;
	}
	return old_load;
}

/* Ticks that have passed at @now and are not in the averages yet. */
static __always_inline u64 missed_load_ticks(const struct run_queue *rq, u64 now)
{
	if (time_before(now, rq->domains.next_load_tick))
		return 0;
	return (now - rq->domains.next_load_tick) / (tick_nsec ?: 1) + 1;
}

/* Brings the averages up to @now; called before the load changes, so between ticks it was constant. */
static __always_inline void update_cpu_load(struct run_queue *rq, u64 now)
{
	u64 ticks = missed_load_ticks(rq, now);
	u64 load = rq->load_weight;

	if (!ticks || nr_cpus == 1)
		return;

	rq->domains.cpu_load[0] = load;
	rq->domains.cpu_load[1] = decay_load(rq->domains.cpu_load[1], load, 1, ticks);
	rq->domains.cpu_load[2] = decay_load(rq->domains.cpu_load[2], load, 2, ticks);
	rq->domains.next_load_tick += ticks * tick_nsec;
}

/* The average of type 1 to 3 at @now. */
static __always_inline u64 load_history(const struct run_queue *rq, u32 type, u64 now)
{
	u64 ticks = missed_load_ticks(rq, now);
	u64 load = rq->load_weight;
	u64 history;

	if (type == 1)
		return ticks ? load : rq->domains.cpu_load[0];
	history = rq->domains.cpu_load[type == 2 ? 1 : 2];
	return ticks && history != load ? decay_load(history, load, type - 1, ticks) : history;
}

/* A low guess of the load, for a CPU that tasks would leave. */
static __always_inline u64 source_load(const struct run_queue *rq, u32 type, u64 now)
{
	return type ? min(load_history(rq, type, now), rq->load_weight) : rq->load_weight;
}

/* A high guess of the load, for a CPU that tasks would come to. */
static __always_inline u64 target_load(const struct run_queue *rq, u32 type, u64 now)
{
	return type ? max(load_history(rq, type, now), rq->load_weight) : rq->load_weight;
}

/* 3.0 has the last value for a CPU without tasks */
static __always_inline u64 cpu_avg_load_per_task(struct run_queue *rq)
{
	u32 nr_running = rq->nr_running;

	if (nr_running)
		rq->domains.avg_load_per_task = rq->load_weight / nr_running;
	else if (balance_rules != BALANCE_3_0)
		return SCHED_LOAD_SCALE;
	return rq->domains.avg_load_per_task;
}

/* ---- Domains --------------------------------------------------------------------------------------------------- */

/* Balancing of a CPU is due from now on. */
static __always_inline void init_domains(struct run_queue *rq, s32 cpu)
{
	u64 ticks = balance_ticks_at(scx_bpf_now());
	u32 level;

	init_spans(rq->span, cpu, sched_mc, LEVEL_SMT);
	for (level = LEVEL_SMT; level < NR_LEVELS; level++) {
		rq->domains.sd[level].balance_interval = 1;
		rq->domains.sd[level].last_balance = ticks;
	}
	rq->domains.next_load_tick = (ticks + 1) * tick_nsec;
	rq->domains.next_balance = ticks;
	rq->domains.avg_idle = 2 * sched_migration_cost;
}

/* ---- Balancing ------------------------------------------------------------------------------------------------- */

__noinline s32 move_tasks(s32 this_cpu, s32 busiest_cpu);

/*
 * Power of the group of a CPU. 2.6.24: each last-level cache counts as one CPU at the level above, and so do its parts. 3.0: every
 * CPU counts, and the threads of a core for 1.15 CPUs together.
 */
static __always_inline u64 group_power(const struct run_queue *group_rq, u32 level)
{
	const volatile struct cpu_topology *first, *last;

	if (balance_rules == BALANCE_3_0) {
		u32 threads = group_rq->span[LEVEL_SMT].count;
		u64 power = threads > 1 ? SMT_GAIN / threads : SCHED_LOAD_SCALE;

		return is_within(level, LEVEL_SMT, NR_LEVELS) ? group_rq->span[level - 1].count * power : power;
	}
	if (level != LEVEL_NODE)
		return SCHED_LOAD_SCALE;

	first = topology_of(cpu_at(group_rq->span[LEVEL_CPU].first));
	last = topology_of(cpu_at(group_rq->span[LEVEL_CPU].first + group_rq->span[LEVEL_CPU].count - 1));
	if (!first || !last || last->llc < first->llc)
		return SCHED_LOAD_SCALE;
	return SCHED_LOAD_SCALE * (last->llc - first->llc + 1);
}

/* Tasks that a group has room for. */
static __always_inline u64 group_capacity(u64 power)
{
	if (balance_rules != BALANCE_3_0)
		return power / SCHED_LOAD_SCALE;
	return (power + SCHED_LOAD_SCALE / 2) / SCHED_LOAD_SCALE ?: 1;
}

/* Adds a CPU, its load guessed high or low, to the sums of its group. */
static __always_inline void sum_cpu(struct balance_attempt *attempt, const struct run_queue *rq, u32 load_idx, bool guess_high)
{
	u64 load;

	if (!rq->exists)
		return;
	/* The power of CPUs that are left out counts */
	if (attempt->first_cpu < 0)
		attempt->first_cpu = rq->cpu;
	if (is_pinned(&attempt->pinned, rq->cpu))
		return;
	if (rq->nr_running) {
		attempt->sd_idle = false;
	} else {
		attempt->idle_cpus++;
		if (attempt->first_idle_cpu < 0)
			attempt->first_idle_cpu = rq->cpu;
	}
	load = guess_high ? target_load(rq, load_idx, attempt->now) :
			    source_load(rq, load_idx, attempt->now);
	if (load > attempt->max_cpu_load) {
		attempt->max_cpu_load = load;
		attempt->max_nr_running = rq->nr_running;
	}
	attempt->min_cpu_load = min(attempt->min_cpu_load, load);
	attempt->avg_load += load;
	attempt->sum_nr_running += rq->nr_running;
	attempt->sum_weighted_load += rq->load_weight;
}

static __always_inline void reset_sums(struct balance_attempt *attempt)
{
	attempt->first_cpu = -1;
	attempt->first_idle_cpu = -1;
	attempt->avg_load = 0;
	attempt->max_cpu_load = 0;
	attempt->max_nr_running = 0;
	attempt->idle_cpus = 0;
	attempt->min_cpu_load = ~0ULL;
	attempt->sum_nr_running = 0;
	attempt->sum_weighted_load = 0;
}

/* Adds up the group at positions @first to @first + @count - 1 into the attempt of @this_cpu. */
__noinline bool sum_group(s32 this_cpu, u32 load_idx, u32 first, u32 count, bool guess_high)
{
	struct run_queue *this_rq = run_queue_of(this_cpu), *rq;
	struct balance_attempt *attempt;
	u32 position;

	if (!this_rq)
		return false;
	attempt = &this_rq->domains.attempt;
	reset_sums(attempt);

	for_each_rq_in_span(rq, position, first, count)
		sum_cpu(attempt, rq, load_idx, guess_high);
	return true;
}

/* Is the domain balanced, in that the busiest group has nothing to spare for this one? */
static __always_inline bool is_balanced(const struct balance_attempt *attempt, u64 avg_load)
{
	if (balance_rules == BALANCE_3_0) {
		/* Tasks that may not go everywhere; or this CPU would idle beside a group that is full */
		if (attempt->group_imb || (attempt->idle == CPU_NEWLY_IDLE && attempt->this_has_capacity &&
					   !attempt->busiest_has_capacity))
			return false;
	}
	if (attempt->this_load >= attempt->max_load || attempt->this_load >= avg_load)
		return true;
	if (balance_rules == BALANCE_3_0 && attempt->idle == CPU_IDLE)
		return attempt->this_idle_cpus <= attempt->busiest_idle_cpus + 1 &&
		       attempt->busiest_nr_running <= attempt->busiest_count;
	return 100 * attempt->max_load <= parameters_of(attempt->level)->imbalance_pct * attempt->this_load;
}

/*
 * Less than a task of @per_task, the mean of the busiest group: raises it to one if the difference is worth it, or if the two groups
 * would get more done, where a CPU's use is at most its load.
 */
static __always_inline void fix_small_imbalance(struct balance_attempt *attempt, struct run_queue *this_rq, u64 per_task)
{
	u64 power = attempt->busiest_power, this_per_task = SCHED_LOAD_SCALE;
	u64 max_load = attempt->max_load, this_load = attempt->this_load;
	u64 scaled_per_task = per_task, slack = balance_rules == BALANCE_2_6_24 ? BALANCE_FUZZ : 0, less, more, now, move;
	u32 imbn = 2;

	if (attempt->this_nr_running) {
		this_per_task = attempt->this_load_per_task / attempt->this_nr_running;
		if (per_task > this_per_task)
			imbn = 1;
	} else if (balance_rules == BALANCE_3_0) {
		this_per_task = cpu_avg_load_per_task(this_rq);
	}
	if (balance_rules == BALANCE_3_0) {
		scaled_per_task = per_task * SCHED_LOAD_SCALE / power;
		slack = scaled_per_task;
	}
	if (max_load - this_load + slack >= scaled_per_task * imbn) {
		attempt->imbalance = per_task;
		return;
	}

	now = power * min(per_task, max_load) + attempt->this_power * min(this_per_task, this_load);
	less = per_task * SCHED_LOAD_SCALE / power;
	more = min(max_load * power, per_task * SCHED_LOAD_SCALE) / attempt->this_power;
	move = attempt->this_power * min(this_per_task, this_load + more);
	if (max_load > less)
		move += power * min(per_task, max_load - less);

	if (move / SCHED_LOAD_SCALE > now / SCHED_LOAD_SCALE)
		attempt->imbalance = per_task;
}

/* Decides how much load to move from the busiest group to this one; 0 in attempt->imbalance if none is due. */
__noinline bool calculate_imbalance(s32 this_cpu)
{
	struct run_queue *this_rq = run_queue_of(this_cpu);
	u64 avg_load, max_load, max_pull, per_task, power;
	struct balance_attempt *attempt;

	if (!this_rq)
		return false;
	attempt = &this_rq->domains.attempt;
	attempt->imbalance = 0;
	power = attempt->busiest_power ?: 1;
	max_load = attempt->max_load;
	avg_load = SCHED_LOAD_SCALE * attempt->total_load / attempt->total_power;
	if (is_balanced(attempt, avg_load))
		return false;

	/* Mean load of a task of the busiest group */
	per_task = attempt->busiest_load_per_task / attempt->busiest_nr_running;
	if (attempt->group_imb)
		per_task = min(per_task, avg_load);
	if (balance_rules != BALANCE_3_0 && max_load <= per_task)
		return false;

	/*
	 * The document's L_imbal = min(min(L_busiest, L_avg), L_avg - L_k). The kernels take L_max - L_avg for the first, and
	 * 2.6.24 leaves the busiest group one task's load, 3.0 takes no more than its tasks beyond its capacity, at 1024 each,
	 * unless they are there because they may not go elsewhere.
	 */
	if (max_load >= avg_load) {
		if (balance_rules != BALANCE_3_0) {
			max_pull = max_load - per_task;
		} else {
			u64 excess = attempt->busiest_nr_running - attempt->busiest_capacity;

			max_pull = attempt->group_imb ? ~0ULL : excess * SCHED_LOAD_SCALE * SCHED_LOAD_SCALE / power;
		}
		max_pull = min(max_load - avg_load, max_pull);
		attempt->imbalance = min(max_pull * power, (avg_load - attempt->this_load) * attempt->this_power) /
				     SCHED_LOAD_SCALE;
		if (attempt->imbalance >= per_task)
			return true;
	}
	fix_small_imbalance(attempt, this_rq, per_task);
	/* Later releases take what there is, which may be nothing, and count it as a failure */
	return balance_rules != BALANCE_2_6_22 || attempt->imbalance >= per_task;
}

/* From 2.6.24 on: do the CPUs of a group differ by more than a task of weight 1024, or in 3.0 by a mean one, where a CPU has tasks to give? */
static __always_inline bool group_is_imbalanced(const struct balance_attempt *attempt)
{
	u64 per_task = attempt->sum_nr_running ? attempt->sum_weighted_load / attempt->sum_nr_running : 0;

	if (balance_rules == BALANCE_2_6_22)
		return false;
	if (balance_rules == BALANCE_2_6_24)
		return attempt->max_cpu_load > attempt->min_cpu_load + SCHED_LOAD_SCALE;
	return attempt->max_cpu_load - attempt->min_cpu_load >= per_task && attempt->max_nr_running > 1;
}

/* 3.0: does the next lower domain of the CPU prefer that tasks go to groups beside it, so that each group has one? */
static __always_inline bool prefers_siblings(const struct run_queue *rq, u32 level)
{
	u32 below;

	for (below = LEVEL_CPU; below >= LEVEL_SMT; below--)
		if (below < level && domain_exists(rq->span, below))
			return parameters_of(below)->flags & SD_PREFER_SIBLING;
	return false;
}

/*
 * Finds the group of the domain with the highest load, and how much of it to take. The walk begins with the group
 * of this CPU and goes round. Returns whether there is such a group.
 */
__noinline bool find_busiest_group(s32 this_cpu)
{
	struct run_queue *this_rq = run_queue_of(this_cpu), *group_rq;
	u32 level, load_idx, first, count, group_first, group_count, step;
	const struct domain_parameters *sd;
	struct balance_attempt *attempt;
	bool local_group, imb, has_capacity;
	s32 balance_cpu;
	u64 power, capacity;

	if (!this_rq)
		return false;
	attempt = &this_rq->domains.attempt;
	level = attempt->level;
	if (!is_within(level, LEVEL_SMT, NR_LEVELS))
		return false;

	sd = parameters_of(level);
	load_idx = attempt->idle == CPU_NOT_IDLE ? sd->busy_idx :
		   attempt->idle == CPU_IDLE ? sd->idle_idx : sd->newidle_idx;
	attempt->total_load = 0;
	attempt->total_power = 0;
	attempt->this_has_capacity = false;
	attempt->max_load = 0;
	attempt->busiest_nr_running = 0;

	first = this_rq->span[level].first;
	count = this_rq->span[level].count;
	attempt->group_first = this_rq->span[level - 1].first;
	attempt->left = count;

	bpf_for(step, 0, count) {
		group_first = attempt->group_first;
		group_rq = run_queue_of(cpu_at(group_first));
		if (!attempt->left || !group_rq)
			break;
		group_count = group_rq->span[level - 1].count;
		local_group = !step;

		if (group_count == 1) {
			reset_sums(attempt);
			sum_cpu(attempt, group_rq, load_idx, local_group);
		} else {
			sum_group(this_cpu, load_idx, group_first, group_count, local_group);
		}

		/* The first idle CPU of a group, else its first, balances for the group; newly idle CPUs all may */
		balance_cpu = attempt->first_idle_cpu < 0 ? attempt->first_cpu : attempt->first_idle_cpu;
		if (local_group && attempt->idle != CPU_NEWLY_IDLE && balance_cpu != this_cpu) {
			attempt->balance = false;
			return false;
		}
		power = balance_cpu < 0 ? 0 : group_power(group_rq, level);
		attempt->total_load += attempt->avg_load;
		attempt->total_power += power;
		attempt->avg_load = attempt->avg_load * SCHED_LOAD_SCALE / (power ?: 1);
		capacity = group_capacity(power);
		has_capacity = capacity > attempt->sum_nr_running;
		if (attempt->prefer_sibling && !local_group && attempt->this_has_capacity)
			capacity = 1;

		if (local_group) {
			attempt->this_has_capacity = has_capacity;
			attempt->this_idle_cpus = attempt->idle_cpus;
			attempt->this_load = attempt->avg_load;
			attempt->this_power = power;
			attempt->this_nr_running = attempt->sum_nr_running;
			attempt->this_load_per_task = attempt->sum_weighted_load;
		} else {
			imb = group_is_imbalanced(attempt);
			if (attempt->avg_load > attempt->max_load && (attempt->sum_nr_running > capacity || imb)) {
				attempt->busiest_capacity = capacity;
				attempt->busiest_has_capacity = has_capacity;
				attempt->busiest_idle_cpus = attempt->idle_cpus;
				attempt->max_load = attempt->avg_load;
				attempt->busiest_power = power;
				attempt->busiest_first = group_first;
				attempt->busiest_count = group_count;
				attempt->busiest_nr_running = attempt->sum_nr_running;
				attempt->busiest_load_per_task = attempt->sum_weighted_load;
				attempt->group_imb = imb;
			}
		}

		attempt->left -= min(group_count, attempt->left);
		group_first += group_count;
		attempt->group_first = group_first < first + count ? group_first : first;
	}

	return attempt->busiest_nr_running && calculate_imbalance(this_cpu);
}

/* The CPU with the highest load in the busiest group, -1 if there is none to take from. */
__noinline s32 find_busiest_queue(s32 this_cpu)
{
	struct run_queue *this_rq = run_queue_of(this_cpu), *rq;
	struct balance_attempt *attempt;
	u32 position, first;
	s32 busiest = -1;
	u64 max_load = 0;

	if (!this_rq)
		return -1;
	attempt = &this_rq->domains.attempt;
	first = attempt->busiest_first;

	for_each_rq_in_span(rq, position, first, attempt->busiest_count) {
		if (is_pinned(&attempt->pinned, rq->cpu))
			continue;
		if (rq->nr_running == 1 && rq->load_weight > attempt->imbalance)
			continue;
		if (rq->load_weight > max_load) {
			max_load = rq->load_weight;
			busiest = rq->cpu;
		}
	}
	return busiest;
}

/* Asks the busiest CPU to hand this CPU one task, running or not, the next time it schedules; false if it is asked already. */
static __always_inline bool ask_for_push(struct run_queue *busiest, s32 this_cpu)
{
	if (busiest->domains.push_cpu)
		return false;
	busiest->domains.push_cpu = this_cpu + 1;
	scx_bpf_kick_cpu(busiest->cpu, SCX_KICK_PREEMPT);
	return true;
}

/*
 * Evens out one domain of this CPU. Returns how many tasks came, or in 2.6.24 -1 if none did but a CPU of this core is busy, so that
 * the core shall not count as idle. With CPU_NEWLY_IDLE the count of failures does not grow, nor in 2.6.24 the interval.
 */
__noinline s32 load_balance(s32 this_cpu, u32 level, u32 idle)
{
	bool all_pinned = false, active_balance = false, found = false, failed = false, share_power;
	struct run_queue *this_rq = run_queue_of(this_cpu), *busiest = NULL;
	const struct domain_parameters *parameters;
	struct balance_attempt *attempt;
	struct sched_domain *sd;
	s32 busiest_cpu, moved = 0;
	u32 round;

	if (!this_rq || !is_within(level, LEVEL_SMT, NR_LEVELS))
		return 0;
	sd = &this_rq->domains.sd[level];
	parameters = parameters_of(level);
	share_power = parameters->flags & SD_SHARE_CPUPOWER;

	attempt = &this_rq->domains.attempt;
	attempt->now = scx_bpf_now();
	attempt->level = level;
	attempt->idle = idle;
	attempt->balance = true;
	attempt->prefer_sibling = balance_rules == BALANCE_3_0 && prefers_siblings(this_rq, level);
	attempt->sd_idle = share_power && idle != CPU_NOT_IDLE && balance_rules != BALANCE_3_0;
	attempt->pinned.number = 0;
	count(BALANCES);

	bpf_for(round, 0, MAX_PINNED_CPUS + 1) {
		attempt->all_pinned = false;
		if (!find_busiest_group(this_cpu))
			break;
		busiest_cpu = find_busiest_queue(this_cpu);
		busiest = run_queue_of(busiest_cpu);
		if (busiest_cpu < 0 || !busiest)
			break;

		/* With one task there is nothing to take; the group stays unbalanced, which counts as failure below */
		if (busiest->nr_running > 1)
			moved = move_tasks(this_cpu, busiest_cpu);
		if (!attempt->all_pinned) {
			found = true;
			break;
		}
		all_pinned = true;
		if (round < MAX_PINNED_CPUS) {
			attempt->pinned.cpus[round] = busiest_cpu;
			attempt->pinned.number = round + 1;
		}
	}

	if (idle == CPU_NEWLY_IDLE && balance_rules != BALANCE_3_0) {
		if (moved || (!found && (!share_power || attempt->sd_idle)))
			sd->nr_balance_failed = 0;
		goto out;
	}

	if (!found) {
		sd->nr_balance_failed = 0;
		failed = true;
	} else if (moved) {
		sd->nr_balance_failed = 0;
	} else if (idle != CPU_NEWLY_IDLE && ++sd->nr_balance_failed > parameters->cache_nice_tries + 2) {
		all_pinned = busiest && curr_is_pinned(busiest->cpu, this_cpu);
		if (all_pinned) {
			failed = true;
		} else {
			active_balance = busiest && ask_for_push(busiest, this_cpu);
			sd->nr_balance_failed = parameters->cache_nice_tries + 1;
		}
	}

	/* Balanced, or nothing but force helps: look less often. Else look again soon. */
	if (failed) {
		if ((all_pinned && sd->balance_interval < MAX_PINNED_INTERVAL) ||
		    sd->balance_interval < parameters->max_interval)
			sd->balance_interval *= 2;
	} else if (!active_balance) {
		sd->balance_interval = parameters->min_interval;
	} else if (sd->balance_interval < parameters->max_interval) {
		sd->balance_interval *= 2;
	}
out:
	return !moved && share_power && !attempt->sd_idle && balance_rules != BALANCE_3_0 ? -1 : moved;
}

/* Ticks between two balancings of a domain. */
static __always_inline u64 balance_interval(const struct sched_domain *sd, u32 level, u32 idle)
{
	u32 interval = sd->balance_interval;

	if (idle != CPU_IDLE)
		interval *= parameters_of(level)->busy_factor;
	/* At most a tenth of a second for every CPU of the machine */
	return min(msecs_to_jiffies(interval), max(NSEC_PER_SEC * nr_cpus / 10 / (tick_nsec ?: 1), 1));
}

/* Balances the domains that are due, innermost first, as the timer tick does. */
static __always_inline void rebalance_domains(struct run_queue *rq, u32 idle, u64 now)
{
	u64 ticks = balance_ticks_at(now);
	u64 next_balance = ticks + balance_ticks_at(60 * NSEC_PER_SEC);
	u32 level;

	rq->domains.attempt.balance = true;

	bpf_for(level, LEVEL_SMT, NR_LEVELS) {
		struct sched_domain *sd;
		u64 interval;
		bool serialize;

		if (!domain_exists(rq->span, level))
			continue;
		sd = &rq->domains.sd[level];
		interval = balance_interval(sd, level, idle);

		serialize = parameters_of(level)->flags & SD_SERIALIZE;
		if (!serialize || !__sync_val_compare_and_swap(&balancing, 0, 1)) {
			if (ticks >= sd->last_balance + interval) {
				/* Tasks have come, or the core is busy: no longer idle */
				if (load_balance(rq->cpu, level, idle))
					idle = CPU_NOT_IDLE;
				sd->last_balance = ticks;
			}
			if (serialize)
				balancing = 0;
		}
		next_balance = min(next_balance, sd->last_balance + interval);

		/* Another CPU of the group balances this level and those above */
		if (!rq->domains.attempt.balance)
			break;
	}
	rq->domains.next_balance = next_balance;
}

/* Balances when the CPU has just run out of tasks; stops at the first level that yields one. */
static __always_inline void idle_balance(struct run_queue *rq, u64 now)
{
	u64 ticks = balance_ticks_at(now);
	u64 next_balance = ticks + balance_ticks_at((balance_rules == BALANCE_2_6_22 ? 60 : 1) * NSEC_PER_SEC);
	s32 pulled_task = balance_rules == BALANCE_2_6_22 ? 0 : -1;
	bool reset;
	u32 level;

	/* 3.0: not worth it for a CPU that will have work again soon */
	if (balance_rules == BALANCE_3_0) {
		rq->domains.idle_stamp = now;
		if (rq->domains.avg_idle < sched_migration_cost)
			return;
	}

	bpf_for(level, LEVEL_SMT, NR_LEVELS) {
		struct sched_domain *sd;

		if (!domain_exists(rq->span, level))
			continue;
		sd = &rq->domains.sd[level];

		if (parameters_of(level)->flags & SD_BALANCE_NEWIDLE) {
			/* Without a CPU that has two tasks the search cannot end otherwise, so it is spared */
			if (nr_overloaded || level == LEVEL_SMT) {
				pulled_task = load_balance(rq->cpu, level, CPU_NEWLY_IDLE);
			} else {
				sd->nr_balance_failed = 0;
				pulled_task = 0;
			}
			if (pulled_task > 0)
				rq->domains.idle_stamp = 0;
		}
		next_balance = min(next_balance, sd->last_balance + msecs_to_jiffies(sd->balance_interval));
		if (pulled_task)
			break;
	}

	/* The time may have been set when the CPU was busy, with a long interval */
	if (balance_rules == BALANCE_2_6_22)
		reset = !pulled_task;
	else
		reset = pulled_task || ticks > rq->domains.next_balance;
	if (reset)
		rq->domains.next_balance = next_balance;
}

/* Can balancing find anything? A CPU with two tasks can give one away, and a core with two busy threads. */
static __always_inline bool worth_balancing(void)
{
	u32 position, core = ~0U;
	struct run_queue *rq;

	if (nr_overloaded)
		return true;
	if (topology_nr_cores >= topology_nr_cpus)
		return false;

	for_each_rq_in_span(rq, position, 0, nr_cpus) {
		if (!rq->nr_running)
			continue;
		if (rq->span[LEVEL_SMT].first == core)
			return true;
		core = rq->span[LEVEL_SMT].first;
	}
	return false;
}

/* ---- Placement of a waking or new task ------------------------------------------------------------------------- */

/* May the task run somewhere in this span? */
static __always_inline bool allowed_in(const struct task_struct *p, u32 first, u32 count)
{
	u32 position;
	s32 cpu;

	for_each_cpu_in_span(cpu, position, first, count)
		if (bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			return true;
	return false;
}

/* The idlest CPU of the idlest group of @cpu's domain, where that is clearly idler than @cpu's own; -1 if there is none. */
__noinline s32 find_idlest(struct task_struct *p __arg_trusted, s32 cpu, u32 level)
{
	struct run_queue *this_rq = this_run_queue(), *cpu_rq = run_queue_of(cpu), *group_rq, *rq;
	u32 step, position, group_first, group_count, idlest_first = 0, idlest_count = 0;
	u64 min_load = ~0ULL, this_load = 0, avg_load;
	const struct domain_parameters *sd = parameters_of(level);
	u32 imbalance = 100 + (sd->imbalance_pct - 100) / 2;
	struct balance_attempt *attempt;
	bool local_group;
	s32 idlest = -1;

	if (!this_rq || !cpu_rq || !domain_exists(cpu_rq->span, level))
		return -1;
	attempt = &this_rq->domains.attempt;
	attempt->now = scx_bpf_now();
	attempt->pinned.number = 0;
	attempt->group_first = cpu_rq->span[level].first;

	bpf_for(step, 0, cpu_rq->span[level].count) {
		group_first = attempt->group_first;
		group_rq = run_queue_of(cpu_at(group_first));
		if (!group_rq || group_first >= cpu_rq->span[level].first + cpu_rq->span[level].count)
			break;
		group_count = group_rq->span[level - 1].count;
		attempt->group_first += group_count;
		if (!allowed_in(p, group_first, group_count))
			continue;

		local_group = group_first == cpu_rq->span[level - 1].first;
		sum_group(this_rq->cpu, sd->forkexec_idx, group_first, group_count, !local_group);
		avg_load = attempt->avg_load * SCHED_LOAD_SCALE / group_power(group_rq, level);
		if (local_group) {
			this_load = avg_load;
		} else if (avg_load < min_load) {
			min_load = avg_load;
			idlest_first = group_first;
			idlest_count = group_count;
		}
	}
	if (!idlest_count || 100 * this_load < imbalance * min_load)
		return -1;

	min_load = ~0ULL;
	for_each_rq_in_span(rq, position, idlest_first, idlest_count) {
		if (!rq->exists || !bpf_cpumask_test_cpu(rq->cpu, p->cpus_ptr))
			continue;
		if (rq->load_weight < min_load) {
			min_load = rq->load_weight;
			idlest = rq->cpu;
		}
	}
	return idlest;
}

/* Fork balancing: in the domains that ask for it, from the machine inwards, to the idlest CPU of the idlest group. */
static __always_inline s32 sched_balance_fork(struct task_struct *p, s32 cpu)
{
	u32 step;

	bpf_for(step, LEVEL_SMT, NR_LEVELS) {
		u32 level = NR_LEVELS - step;
		s32 idlest;

		if (!(parameters_of(level)->flags & SD_BALANCE_FORK))
			continue;
		idlest = find_idlest(p, cpu, level);
		if (idlest >= 0)
			cpu = idlest;
	}
	return cpu;
}

/* Shall a task that last ran on @prev_rq wake on the CPU of its waker? */
static __always_inline bool wake_affine(struct run_queue *this_rq, struct run_queue *prev_rq, struct task_struct *p,
					struct task_ctx *t, bool sync, u64 now)
{
	u32 level, prev_position = prev_rq->span[LEVEL_SELF].first;
	const struct domain_parameters *sd = NULL;
	u64 load, this_load, tl, imbalance;

	if (!bpf_cpumask_test_cpu(this_rq->cpu, p->cpus_ptr))
		return false;

	/* The lowest domain that spans both CPUs */
	for (level = LEVEL_SMT; level < NR_LEVELS; level++) {
		const struct topology_span *span = &this_rq->span[level];

		if (prev_position >= span->first && prev_position < span->first + span->count) {
			sd = parameters_of(level);
			break;
		}
	}
	if (!sd)
		return false;

	imbalance = 100 + (sd->imbalance_pct - 100) / 2;
	load = source_load(prev_rq, sd->wake_idx, now);
	this_load = target_load(this_rq, sd->wake_idx, now);

	if (balance_rules == BALANCE_3_0) {
		bool balanced;

		if (sync && this_rq->curr)
			this_load -= min(this_load, this_rq->curr_weight);
		balanced = !this_load || 100 * (this_load + t->weight) <= imbalance * load;
		return balanced || (!sync && this_load <= load &&
				    this_load + target_load(prev_rq, sd->wake_idx, now) <= cpu_avg_load_per_task(this_rq));
	}

	if (sd->flags & SD_WAKE_AFFINE) {
		/* The waker is about to sleep, and the woken task's cache is cold anyway */
		if (balance_rules == BALANCE_2_6_24 && sync && !task_hot(t, level, now))
			return true;

		tl = this_load;
		if (sync)
			tl -= min(tl, this_rq->curr ? this_rq->curr_weight : 0);

		if (tl <= load && tl + target_load(prev_rq, sd->wake_idx, now) <= cpu_avg_load_per_task(this_rq))
			return true;
		if (100 * (tl + t->weight) <= imbalance * load)
			return true;
	}
	return (sd->flags & SD_WAKE_BALANCE) && imbalance * this_load <= 100 * load;
}

/* An idle CPU close to @cpu if that is busy with one task; with more tasks its neighbours are thought busy too. */
static __always_inline s32 wake_idle(s32 cpu, struct task_struct *p)
{
	struct run_queue *rq = run_queue_of(cpu);
	const struct cpumask *idle_mask;
	u32 level, first_idle;
	s32 found = cpu;

	if (!rq || rq->nr_running > 1)
		return cpu;

	idle_mask = scx_bpf_get_idle_cpumask();
	first_idle = bpf_cpumask_first_and(idle_mask, p->cpus_ptr);
	if (first_idle >= nr_cpus || bpf_cpumask_test_cpu(cpu, idle_mask))
		goto out;

	bpf_for(level, LEVEL_SMT, NR_LEVELS) {
		u32 first = rq->span[level].first, count = rq->span[level].count;

		if (!domain_exists(rq->span, level))
			continue;
		if (!(parameters_of(level)->flags & SD_WAKE_IDLE))
			break;
		found = count == nr_cpus ? (s32)first_idle : idle_cpu_in(first, count, idle_mask, p);
		if (found >= 0)
			break;
		found = cpu;
	}
out:
	scx_bpf_put_idle_cpumask(idle_mask);
	return found;
}

/* 3.0: an idle CPU among those that share a cache with @target, up to a domain that has both the waker's CPU and the task's last one. */
static __always_inline s32 select_idle_sibling(s32 target, s32 this_cpu, s32 prev_cpu, struct task_struct *p)
{
	struct run_queue *this_rq = run_queue_of(this_cpu), *prev_rq = run_queue_of(prev_cpu), *rq = run_queue_of(target);
	const struct cpumask *idle_mask;
	u32 level, here, before;
	s32 idle;

	if (!this_rq || !prev_rq || !rq)
		return target;
	here = this_rq->span[LEVEL_SELF].first;
	before = prev_rq->span[LEVEL_SELF].first;

	idle_mask = scx_bpf_get_idle_cpumask();
	if ((target == this_cpu || target == prev_cpu) && bpf_cpumask_test_cpu(target, idle_mask))
		goto out;

	bpf_for(level, LEVEL_SMT, NR_LEVELS) {
		u32 first = rq->span[level].first, count = rq->span[level].count;

		if (!domain_exists(rq->span, level))
			continue;
		if (!(parameters_of(level)->flags & SD_SHARE_PKG_RESOURCES))
			break;
		idle = idle_cpu_in(first, count, idle_mask, p);
		if (idle >= 0)
			target = idle;
		if (here - first < count && before - first < count)
			break;
	}
out:
	scx_bpf_put_idle_cpumask(idle_mask);
	return target;
}
