/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * load_balance.h - the balancer of Linux 2.6.22 to 3.0: load history, placement of waking and new
 * tasks, busiest group, busiest queue
 *
 * CPUs balance their loads domain by domain (sched_domains.h): at intervals, and when one has just
 * run out of tasks. The scheduler decides which tasks move.
 *
 * The scheduler's struct run_queue has curr_weight, BALANCE_STATE and a `struct sched_domains
 * domains`; its tunable sched_mc says whether CPUs that share a cache are a level
 * (CONFIG_SCHED_MC). STAT_BALANCES counts attempts, STAT_AFFINE_WAKEUPS and STAT_IDLE_WAKEUPS the
 * wake-ups on the waker's CPU and on an idle one.
 */
#pragma once

#include "sched_domains.h"
#include "runnable_load.h"
#include "domain_balance.h"

/* Load of a nice 0 task, and power of a CPU */
#ifndef SCHED_LOAD_SCALE
#error "Define SCHED_LOAD_SCALE before including load_balance.h"
#endif

/* Ticks after which even the slowest load average has settled to the last unit */
#define LOAD_SETTLED 64

/* Slack of 2.6.24 when it decides whether to move a task, load */
#define BALANCE_FUZZ 1024

/* 3.0: the capacity of a core's threads together */
#define SMT_GAIN 1178ULL

/* ---- Load history ---------------------------------------------------------------------------- */

/* An average after @ticks ticks of @load: (old * (2^i - 1) + new) / 2^i, a rise rounded up. */
__noinline u64 decay_load(u64 old_load, u64 load, u32 i, u64 ticks)
{
	u32 tick;

	if (old_load == load)
		return load;

	bpf_for(tick, 0, min(ticks, LOAD_SETTLED)) {
		u64 scale;

		/* Computed each time, because the stack is small */
		barrier_var(i);
		scale = 1ULL << i;
		old_load = (old_load * (scale - 1) + load + (load > old_load ? scale - 1 : 0)) >> i;
		if (old_load == load)
			break;
	}
	return old_load;
}

/* Ticks up to @now that are not in the averages yet. */
static __always_inline u64 missed_load_ticks(const struct run_queue *rq, u64 now)
{
	if (time_before(now, rq->domains.next_load_tick))
		return 0;
	return (now - rq->domains.next_load_tick) / (tick_nsec ?: 1) + 1;
}

/* Updates the averages to @now; called before the load changes: so far it was constant. */
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

/*
 * The average of type 1 to 3 at @now. A CPU that runs a task updates it at its own ticks; others
 * may have ticked already.
 */
static __always_inline u64 load_history(const struct run_queue *rq, u32 type, u64 now)
{
	u64 ticks = rq->curr ? 0 : missed_load_ticks(rq, now);
	u64 load = rq->load_weight;
	u64 history;

	if (type == 1)
		return ticks ? load : rq->domains.cpu_load[0];
	history = rq->domains.cpu_load[type == 2 ? 1 : 2];
	return ticks && history != load ? decay_load(history, load, type - 1, ticks) : history;
}

/* A low estimate of the load, for a CPU that tasks would leave. */
static __always_inline u64 source_load(const struct run_queue *rq, u32 type, u64 now)
{
	return type ? min(load_history(rq, type, now), rq->load_weight) : rq->load_weight;
}

/* A high estimate of the load, for a CPU that tasks would come to. */
static __always_inline u64 target_load(const struct run_queue *rq, u32 type, u64 now)
{
	return type ? max(load_history(rq, type, now), rq->load_weight) : rq->load_weight;
}

static __always_inline void before_load_changes(struct run_queue *rq, u64 now)
{
	update_cpu_load(rq, now);
}

/* 3.0 keeps the last value for a CPU without tasks */
static __always_inline u64 cpu_avg_load_per_task(struct run_queue *rq)
{
	u32 nr_running = rq->nr_running;

	if (nr_running)
		rq->domains.avg_load_per_task = rq->load_weight / nr_running;
	else if (balance_rules() != BALANCE_3_0)
		return SCHED_LOAD_SCALE;
	return rq->domains.avg_load_per_task;
}

/* ---- Domains --------------------------------------------------------------------------------- */

__noinline s32 load_balance(struct run_queue *this_rq __arg_nonnull,
			    struct sched_domain *sd __arg_nonnull, u32 level, u32 idle);

static __always_inline s32 balance_domain(struct run_queue *rq, struct sched_domain *sd, u32 level,
					  u32 idle)
{
	return load_balance(rq, sd, level, idle);
}

static __always_inline bool sched_idle_rq(const struct run_queue *rq)
{
	return false;
}

static __always_inline bool load_is_left_alone(void)
{
	return false;
}

/* Prepares the run queue of a CPU. */
static __always_inline void init_domains(struct run_queue *rq, s32 cpu)
{
	u32 level;

	init_spans(rq->span, cpu, sched_mc, LEVEL_SMT);
	init_balancing(rq, cpu);
	for (level = LEVEL_SMT; level < NR_LEVELS; level++) {
		rq->sd[level] = *initial_domain(level);
		rq->sd[level].balance_interval = 1;
		rq->sd[level].last_balance = rq->next_balance;
	}
	rq->domains.next_load_tick = (rq->next_balance + 1) * tick_nsec;
}

/* Did the task run so recently that its data may still be in the CPU's cache? */
static bool task_hot(const struct task_ctx *t, u32 level, u64 now);

/* The clock of a CPU as others see it, at @now */
static u64 most_recent_timestamp(const struct run_queue *rq, u64 now);

/* ---- Balancing ------------------------------------------------------------------------------- */

/*
 * Moves up to attempt->imbalance of load from the busiest CPU to this one, returns how many tasks
 * moved, and sets attempt->all_pinned if it met none that may run here.
 */
__noinline s32 move_tasks(struct run_queue *this_rq __arg_nonnull,
			  struct run_queue *busiest __arg_nonnull,
			  const struct sched_domain *sd __arg_nonnull);

/*
 * Power of the group of a CPU. 2.6.24: each last-level cache counts as one CPU at the level above,
 * and so does each of its parts. 3.0: every CPU counts, and the threads of a core for 1.15 CPUs
 * together.
 */
static __always_inline u64 group_power(const struct run_queue *group_rq, u32 level)
{
	const volatile struct cpu_topology *first, *last;

	if (balance_rules() == BALANCE_3_0) {
		u32 threads = group_rq->span[LEVEL_SMT].count;
		u64 power = threads > 1 ? SMT_GAIN / threads : SCHED_LOAD_SCALE;

		return is_within(level, LEVEL_SMT, NR_LEVELS) ?
		       group_rq->span[level - 1].count * power : power;
	}
	if (level != LEVEL_NODE)
		return SCHED_LOAD_SCALE;

	first = topology_of(cpu_at(group_rq->span[LEVEL_CPU].first));
	last = topology_of(cpu_at(group_rq->span[LEVEL_CPU].first +
				  group_rq->span[LEVEL_CPU].count - 1));
	if (!first || !last || last->llc < first->llc)
		return SCHED_LOAD_SCALE;
	return SCHED_LOAD_SCALE * (last->llc - first->llc + 1);
}

/* How many tasks a group has room for. */
static __always_inline u64 group_capacity(u64 power)
{
	if (balance_rules() != BALANCE_3_0)
		return power / SCHED_LOAD_SCALE;
	return (power + SCHED_LOAD_SCALE / 2) / SCHED_LOAD_SCALE ?: 1;
}

/* Adds up @count CPUs from position @first into attempt->group; loads estimated high or low. */
__noinline int sum_group(struct balance_attempt *attempt __arg_nonnull, u32 load_idx, u32 first,
			 u32 count, bool guess_high)
{
	struct group_stats *group = &attempt->group;
	struct run_queue *rq;
	u32 position;
	u64 load;

	__builtin_memset(group, 0, sizeof(*group));
	group->first = first;
	group->count = count;
	group->first_cpu = -1;
	group->first_idle_cpu = -1;
	group->min_cpu_load = ~0ULL;

	for_each_rq_in_span(rq, position, first, count) {
		if (!rq->exists)
			continue;
		/* CPUs that are left out still add power */
		if (group->first_cpu < 0)
			group->first_cpu = rq->cpu;
		if (is_pinned(&attempt->pinned, rq->cpu))
			continue;
		if (rq->nr_running) {
			attempt->sd_idle = false;
		} else {
			group->idle_cpus++;
			if (group->first_idle_cpu < 0)
				group->first_idle_cpu = rq->cpu;
		}
		load = guess_high ? target_load(rq, load_idx, attempt->now) :
				    source_load(rq, load_idx, attempt->now);
		if (load > group->max_cpu_load) {
			group->max_cpu_load = load;
			group->max_nr_running = rq->nr_running;
		}
		group->min_cpu_load = min(group->min_cpu_load, load);
		group->avg_load += load;
		group->sum_nr_running += rq->nr_running;
		group->sum_weighted_load += rq->load_weight;
	}
	return 0;
}

/* Is the domain balanced, that is, has the busiest group nothing to spare for this one? */
static __always_inline bool is_balanced(const struct balance_attempt *attempt,
					const struct sched_domain *sd, u64 avg_load)
{
	const struct group_stats *local = &attempt->local, *busiest = &attempt->busiest;

	if (balance_rules() == BALANCE_3_0) {
		/* Affinities got in the way, or this CPU would idle beside a full group */
		if (busiest->imb || (attempt->idle == CPU_NEWLY_IDLE && local->has_capacity &&
				     !busiest->has_capacity))
			return false;
	}
	if (local->avg_load >= busiest->avg_load || local->avg_load >= avg_load)
		return true;
	if (balance_rules() == BALANCE_3_0 && attempt->idle == CPU_IDLE)
		return local->idle_cpus <= busiest->idle_cpus + 1 &&
		       busiest->sum_nr_running <= busiest->count;
	return 100 * busiest->avg_load <= sd->imbalance_pct * local->avg_load;
}

/*
 * The imbalance is less than @per_task, the mean load of a task of the busiest group: raises it to
 * that if the difference is worth it, or if the two groups would get more done, where a CPU's use
 * is at most its load.
 */
static __always_inline void fix_small_imbalance(struct balance_attempt *attempt,
						struct run_queue *this_rq, u64 per_task)
{
	const struct group_stats *local = &attempt->local;
	u64 power = attempt->busiest.power ?: 1, this_per_task = SCHED_LOAD_SCALE;
	u64 max_load = attempt->busiest.avg_load, this_load = local->avg_load;
	u64 scaled_per_task = per_task;
	u64 slack = balance_rules() == BALANCE_2_6_24 ? BALANCE_FUZZ : 0;
	u64 less, more, now, move;
	u32 imbn = 2;

	if (local->sum_nr_running) {
		this_per_task = local->sum_weighted_load / local->sum_nr_running;
		if (per_task > this_per_task)
			imbn = 1;
	} else if (balance_rules() == BALANCE_3_0) {
		this_per_task = cpu_avg_load_per_task(this_rq);
	}
	if (balance_rules() == BALANCE_3_0) {
		scaled_per_task = per_task * SCHED_LOAD_SCALE / power;
		slack = scaled_per_task;
	}
	if (max_load - this_load + slack >= scaled_per_task * imbn) {
		attempt->imbalance = per_task;
		return;
	}

	now = power * min(per_task, max_load) + local->power * min(this_per_task, this_load);
	less = per_task * SCHED_LOAD_SCALE / power;
	more = min(max_load * power, per_task * SCHED_LOAD_SCALE) / local->power;
	move = local->power * min(this_per_task, this_load + more);
	if (max_load > less)
		move += power * min(per_task, max_load - less);

	if (move / SCHED_LOAD_SCALE > now / SCHED_LOAD_SCALE)
		attempt->imbalance = per_task;
}

/* How much load to move from the busiest group here: attempt->imbalance, 0 if none is due. */
__noinline bool calculate_imbalance(struct run_queue *this_rq __arg_nonnull,
				    const struct sched_domain *sd __arg_nonnull)
{
	struct balance_attempt *attempt = &this_rq->domains.attempt;
	const struct group_stats *local = &attempt->local, *busiest = &attempt->busiest;
	u64 max_load = busiest->avg_load, power = busiest->power ?: 1, avg_load, max_pull, per_task;

	attempt->imbalance = 0;
	avg_load = SCHED_LOAD_SCALE * attempt->total_load / attempt->total_power;
	if (is_balanced(attempt, sd, avg_load))
		return false;

	/* Mean load of a task of the busiest group */
	per_task = busiest->sum_weighted_load / busiest->sum_nr_running;
	if (busiest->imb)
		per_task = min(per_task, avg_load);
	if (balance_rules() != BALANCE_3_0 && max_load <= per_task)
		return false;

	/*
	 * The document's L_imbal = min(min(L_busiest, L_avg), L_avg - L_k). The kernels use L_max -
	 * L_avg for the first; 2.6.24 leaves the busiest group one task's load, 3.0 takes no more
	 * than its tasks beyond its capacity, at 1024 each, unless affinities keep them there.
	 */
	if (max_load >= avg_load) {
		if (balance_rules() != BALANCE_3_0)
			max_pull = max_load - per_task;
		else if (busiest->imb)
			max_pull = ~0ULL;
		else
			max_pull = (busiest->sum_nr_running - busiest->capacity) *
				   SCHED_LOAD_SCALE * SCHED_LOAD_SCALE / power;
		max_pull = min(max_load - avg_load, max_pull);
		attempt->imbalance = min(max_pull * power,
					 (avg_load - local->avg_load) * local->power) /
				     SCHED_LOAD_SCALE;
		if (attempt->imbalance >= per_task)
			return true;
	}
	fix_small_imbalance(attempt, this_rq, per_task);
	/* Later releases take the tasks that there are; none counts as a failure */
	return balance_rules() != BALANCE_2_6_22 || attempt->imbalance >= per_task;
}

/*
 * From 2.6.24 on: do the CPUs of a group differ by more than weight 1024, or in 3.0 by a mean task
 * if a CPU has tasks to spare?
 */
static __always_inline bool group_is_imbalanced(const struct group_stats *group)
{
	u64 per_task = group->sum_nr_running ? group->sum_weighted_load / group->sum_nr_running : 0;

	if (balance_rules() == BALANCE_2_6_22)
		return false;
	if (balance_rules() == BALANCE_2_6_24)
		return group->max_cpu_load > group->min_cpu_load + SCHED_LOAD_SCALE;
	return group->max_cpu_load - group->min_cpu_load >= per_task && group->max_nr_running > 1;
}

/* 3.0: does the CPU's next lower domain prefer to spread tasks, one to each sibling group? */
static __always_inline bool prefers_siblings(const struct run_queue *rq, u32 level)
{
	u32 below;

	for (below = LEVEL_CPU; below >= LEVEL_SMT; below--)
		if (below < level && domain_exists(rq->span, below))
			return rq->sd[below].flags & SD_PREFER_SIBLING;
	return false;
}

/* Finds the domain's group with the highest load, and how much to take. True if there is one. */
__noinline bool find_busiest_group(struct run_queue *this_rq __arg_nonnull,
				   const struct sched_domain *sd __arg_nonnull)
{
	struct balance_attempt *attempt = &this_rq->domains.attempt;
	struct group_stats *group = &attempt->group;
	u32 level = attempt->level, load_idx, own, step;
	struct run_queue *group_rq;
	s32 balance_cpu;

	if (!is_within(level, LEVEL_SMT, NR_LEVELS))
		return false;
	load_idx = attempt->idle == CPU_NOT_IDLE ? sd->busy_idx :
		   attempt->idle == CPU_IDLE ? sd->idle_idx : sd->newidle_idx;
	attempt->total_load = 0;
	attempt->total_power = 0;
	attempt->busiest.avg_load = 0;
	attempt->busiest.sum_nr_running = 0;
	own = own_group(this_rq, level).first;

	for_each_group(group_rq, step, &attempt->walk, this_rq, level, own) {
		sum_group(attempt, load_idx, attempt->walk.first, attempt->walk.count, !step);

		/*
		 * The first idle CPU of a group, or else its first, balances for the group; newly
		 * idle CPUs always may
		 */
		balance_cpu = group->first_idle_cpu < 0 ? group->first_cpu : group->first_idle_cpu;
		if (!step && attempt->idle != CPU_NEWLY_IDLE && balance_cpu != this_rq->cpu) {
			attempt->balance = false;
			return false;
		}
		group->power = balance_cpu < 0 ? 0 : group_power(group_rq, level);
		attempt->total_load += group->avg_load;
		attempt->total_power += group->power;
		group->avg_load = group->avg_load * SCHED_LOAD_SCALE / (group->power ?: 1);
		group->capacity = group_capacity(group->power);
		group->has_capacity = group->capacity > group->sum_nr_running;
		if (!step) {
			attempt->local = *group;
			continue;
		}
		if (attempt->prefer_sibling && attempt->local.has_capacity)
			group->capacity = 1;
		group->imb = group_is_imbalanced(group);
		if (group->avg_load > attempt->busiest.avg_load &&
		    (group->sum_nr_running > group->capacity || group->imb))
			attempt->busiest = *group;
	}
	return attempt->busiest.sum_nr_running && calculate_imbalance(this_rq, sd);
}

/* The CPU with the highest load in the busiest group, -1 if there is none to take from. */
__noinline s32 find_busiest_queue(const struct balance_attempt *attempt __arg_nonnull)
{
	struct run_queue *rq;
	u64 max_load = 0;
	s32 busiest = -1;
	u32 position;

	for_each_rq_in_span(rq, position, attempt->busiest.first, attempt->busiest.count) {
		if (is_pinned(&attempt->pinned, rq->cpu) ||
		    (rq->nr_running == 1 && rq->load_weight > attempt->imbalance))
			continue;
		if (rq->load_weight > max_load) {
			max_load = rq->load_weight;
			busiest = rq->cpu;
		}
	}
	return busiest;
}

/*
 * Balances one domain of this CPU. Returns how many tasks came, or in 2.6.24 -1 if none did but a
 * CPU of this core is busy, so that the core does not count as idle. With CPU_NEWLY_IDLE the
 * failure count does not grow, nor in 2.6.24 the interval.
 */
__noinline s32 load_balance(struct run_queue *this_rq __arg_nonnull,
			    struct sched_domain *sd __arg_nonnull, u32 level, u32 idle)
{
	bool all_pinned = false, active_balance = false, found = false, failed = false, newidle;
	bool share_power = sd->flags & SD_SHARE_CPUPOWER;
	struct balance_attempt *attempt = &this_rq->domains.attempt;
	struct run_queue *busiest = NULL;
	s32 moved = 0;
	u32 round;

	attempt->now = scx_bpf_now();
	attempt->level = level;
	attempt->idle = idle;
	attempt->balance = true;
	attempt->prefer_sibling = balance_rules() == BALANCE_3_0 &&
				  prefers_siblings(this_rq, level);
	attempt->sd_idle = share_power && idle != CPU_NOT_IDLE && balance_rules() != BALANCE_3_0;
	attempt->pinned.number = 0;
	count(STAT_BALANCES);

	bpf_for(round, 0, MAX_PINNED_CPUS + 1) {
		attempt->all_pinned = false;
		if (!find_busiest_group(this_rq, sd))
			break;
		busiest = run_queue_of(find_busiest_queue(attempt));
		if (!busiest)
			break;

		/*
		 * Nothing to take from one task; the group stays unbalanced, which counts as a
		 * failure below
		 */
		if (busiest->nr_running > 1)
			moved = move_tasks(this_rq, busiest, sd);
		/* 2.6.22: a newly idle CPU without success takes the next one, pinned or not */
		newidle = balance_rules() == BALANCE_2_6_22 && idle == CPU_NEWLY_IDLE;
		if (newidle && busiest->nr_running > 1 ? moved : !attempt->all_pinned) {
			found = true;
			break;
		}
		all_pinned = true;
		if (round < MAX_PINNED_CPUS) {
			attempt->pinned.cpus[round] = busiest->cpu;
			attempt->pinned.number = round + 1;
		}
	}

	if (idle == CPU_NEWLY_IDLE && balance_rules() != BALANCE_3_0) {
		if (moved || (!found && (!share_power || attempt->sd_idle)))
			sd->nr_balance_failed = 0;
		goto out;
	}

	if (!found) {
		sd->nr_balance_failed = 0;
		failed = true;
	} else if (moved) {
		sd->nr_balance_failed = 0;
	} else if (idle != CPU_NEWLY_IDLE && ++sd->nr_balance_failed > sd->cache_nice_tries + 2) {
		all_pinned = busiest && curr_is_pinned(busiest->cpu, this_rq->cpu);
		if (all_pinned) {
			failed = true;
		} else {
			active_balance = busiest && ask_for_push(busiest, this_rq->cpu);
			sd->nr_balance_failed = sd->cache_nice_tries + 1;
		}
	}

	/* Balanced, or only force helps: look less often. Otherwise look again soon. */
	if (!failed && !active_balance)
		sd->balance_interval = sd->min_interval;
	else if (sd->balance_interval < sd->max_interval ||
		 (failed && all_pinned && sd->balance_interval < MAX_PINNED_INTERVAL))
		sd->balance_interval *= 2;
out:
	if (!attempt->balance)
		return BALANCE_ELSEWHERE;
	if (!moved && share_power && !attempt->sd_idle && balance_rules() != BALANCE_3_0)
		return -1;
	return moved;
}

/* The tick of an idle CPU when there is nothing to find. */
static __always_inline void balance_in_vain(struct run_queue *rq, u64 now)
{
	struct sched_domain *sd;
	u32 level;

	rq->next_balance = balance_ticks_at(now) + 1;
	for_each_domain(sd, level, rq) {
		if (rq->next_balance <= sd->last_balance + balance_interval(rq, sd, CPU_IDLE))
			continue;
		sd->nr_balance_failed = 0;
		if (sd->balance_interval < sd->max_interval)
			sd->balance_interval *= 2;
		sd->last_balance = rq->next_balance - 1;
	}
}

/* Balances when the CPU has just run out of tasks; stops at the first level that yields a task. */
static __always_inline void idle_balance(struct run_queue *rq, u64 now)
{
	u64 ticks = balance_ticks_at(now);
	u64 longest = (balance_rules() == BALANCE_2_6_22 ? 60 : 1) * NSEC_PER_SEC;
	u64 next_balance = ticks + balance_ticks_at(longest);
	s32 pulled_task = balance_rules() == BALANCE_2_6_22 ? 0 : -1;
	struct sched_domain *sd;
	bool reset;
	u32 level;

	/* 3.0: not worth it for a CPU that will have work again soon */
	if (balance_rules() == BALANCE_3_0) {
		rq->idle_stamp = now;
		if (rq->avg_idle < migration_cost())
			return;
	}

	for_each_domain(sd, level, rq) {
		if (sd->flags & SD_BALANCE_NEWIDLE) {
			/* Where nothing is to be found the search cannot end otherwise: skipped */
			if (level == LEVEL_SMT || worth_balancing()) {
				pulled_task = load_balance(rq, sd, level, CPU_NEWLY_IDLE);
			} else {
				sd->nr_balance_failed = 0;
				pulled_task = 0;
			}
			if (pulled_task > 0)
				rq->idle_stamp = 0;
		}
		next_balance = min(next_balance,
				   sd->last_balance + msecs_to_jiffies(sd->balance_interval));
		if (pulled_task)
			break;
	}

	/* It may have been set with the long interval of a busy CPU */
	if (balance_rules() == BALANCE_2_6_22)
		reset = !pulled_task;
	else
		reset = pulled_task || ticks > rq->next_balance;
	if (reset)
		rq->next_balance = next_balance;
}

/* ---- Placement of a waking or new task ------------------------------------------------------- */

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

/* The idlest CPU of the idlest group of @cpu's domain, if clearly idler than @cpu's; else -1. */
__noinline s32 find_idlest(struct task_struct *p __arg_trusted, s32 cpu, u32 level)
{
	struct run_queue *this_rq = this_run_queue(), *cpu_rq = run_queue_of(cpu), *group_rq, *rq;
	u32 step, position, own, idlest_first = 0, idlest_count = 0;
	u64 min_load = ~0ULL, this_load = 0, avg_load;
	struct balance_attempt *attempt;
	const struct sched_domain *sd;
	s32 idlest = -1;

	if (!this_rq || !cpu_rq || !domain_exists(cpu_rq->span, level))
		return -1;
	sd = &cpu_rq->sd[level];
	own = own_group(cpu_rq, level).first;
	attempt = &this_rq->domains.attempt;
	attempt->now = scx_bpf_now();
	attempt->pinned.number = 0;

	for_each_group(group_rq, step, &attempt->walk, cpu_rq, level, cpu_rq->span[level].first) {
		u32 first = attempt->walk.first, count = attempt->walk.count;

		if (!allowed_in(p, first, count))
			continue;
		sum_group(attempt, sd->forkexec_idx, first, count, first != own);
		avg_load = attempt->group.avg_load * SCHED_LOAD_SCALE /
			   group_power(group_rq, level);
		if (first == own) {
			this_load = avg_load;
		} else if (avg_load < min_load) {
			min_load = avg_load;
			idlest_first = first;
			idlest_count = count;
		}
	}
	if (!idlest_count || 100 * this_load < (100 + (sd->imbalance_pct - 100) / 2) * min_load)
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

/*
 * Fork balancing: the idlest CPU of the idlest group, in each domain that asks for it, from the
 * machine inwards.
 */
static __always_inline s32 sched_balance_fork(struct task_struct *p, s32 cpu)
{
	u32 step;

	bpf_for(step, LEVEL_SMT, NR_LEVELS) {
		u32 level = NR_LEVELS - step;
		s32 idlest;

		if (!(initial_domain(level)->flags & SD_BALANCE_FORK))
			continue;
		idlest = find_idlest(p, cpu, level);
		if (idlest >= 0)
			cpu = idlest;
	}
	return cpu;
}

/* Should a task that last ran on @prev_rq wake on its waker's CPU? */
static __always_inline bool wake_affine(struct run_queue *this_rq, struct run_queue *prev_rq,
					struct task_struct *p, struct task_ctx *t, bool sync,
					u64 now)
{
	u32 level = common_level(this_rq, prev_rq);
	u64 load, this_load, tl, imbalance, prev_target;
	const struct sched_domain *sd;
	bool balanced;

	if (!bpf_cpumask_test_cpu(this_rq->cpu, p->cpus_ptr) ||
	    !is_within(level, LEVEL_SMT, NR_LEVELS))
		return false;
	sd = &this_rq->sd[level];
	imbalance = 100 + (sd->imbalance_pct - 100) / 2;
	load = source_load(prev_rq, sd->wake_idx, now);
	this_load = target_load(this_rq, sd->wake_idx, now);
	prev_target = target_load(prev_rq, sd->wake_idx, now);

	/* The waker is about to sleep */
	tl = this_load;
	if (sync && this_rq->curr)
		tl -= min(tl, this_rq->curr_weight);
	balanced = 100 * (tl + t->weight) <= imbalance * load;

	if (balance_rules() == BALANCE_3_0)
		return balanced || !tl ||
		       (!sync && tl <= load && tl + prev_target <= cpu_avg_load_per_task(this_rq));
	if (sd->flags & SD_WAKE_AFFINE) {
		/* And the woken task's cache is cold anyway */
		if (balance_rules() == BALANCE_2_6_24 && sync &&
		    !task_hot(t, level, most_recent_timestamp(prev_rq, now)))
			return true;
		if (balanced || (tl <= load && tl + prev_target <= cpu_avg_load_per_task(this_rq)))
			return true;
	}
	return (sd->flags & SD_WAKE_BALANCE) && imbalance * this_load <= 100 * load;
}

/* An idle CPU near @cpu if that has one task; with more, its neighbours are assumed busy, too. */
static __always_inline s32 wake_idle(s32 cpu, struct task_struct *p)
{
	struct run_queue *rq = run_queue_of(cpu);
	const struct cpumask *idle_mask;
	struct sched_domain *sd;
	u32 level, first_idle;
	s32 found = cpu;

	if (!rq || rq->nr_running > 1)
		return cpu;

	idle_mask = scx_bpf_get_idle_cpumask();
	first_idle = bpf_cpumask_first_and(idle_mask, p->cpus_ptr);
	if (first_idle >= nr_cpus || bpf_cpumask_test_cpu(cpu, idle_mask))
		goto out;

	for_each_domain(sd, level, rq) {
		u32 first = rq->span[level].first, count = rq->span[level].count;

		if (!(sd->flags & SD_WAKE_IDLE))
			break;
		found = count == nr_cpus ? (s32)first_idle :
					   idle_cpu_in(first, count, idle_mask, p);
		if (found >= 0)
			break;
		found = cpu;
	}
out:
	scx_bpf_put_idle_cpumask(idle_mask);
	return found;
}

/*
 * 3.0: an idle CPU among those that share a cache with @target, up to a domain that has both the
 * waker's CPU and the task's last one.
 */
static __always_inline s32 select_idle_sibling(s32 target, s32 this_cpu, s32 prev_cpu,
					       struct task_struct *p)
{
	struct run_queue *this_rq = run_queue_of(this_cpu), *prev_rq = run_queue_of(prev_cpu),
			 *rq = run_queue_of(target);
	const struct cpumask *idle_mask;
	struct sched_domain *sd;
	u32 level, here, before;
	s32 idle;

	if (!this_rq || !prev_rq || !rq)
		return target;
	here = this_rq->span[LEVEL_SELF].first;
	before = prev_rq->span[LEVEL_SELF].first;

	idle_mask = scx_bpf_get_idle_cpumask();
	if ((target == this_cpu || target == prev_cpu) && bpf_cpumask_test_cpu(target, idle_mask))
		goto out;

	for_each_domain(sd, level, rq) {
		u32 first = rq->span[level].first, count = rq->span[level].count;

		if (!(sd->flags & SD_SHARE_PKG_RESOURCES))
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

/* The CPU for a waking or new task. */
static __always_inline s32 select_task_rq(struct task_struct *p, struct task_ctx *t, s32 prev_cpu,
					  u64 wake_flags)
{
	s32 this_cpu = bpf_get_smp_processor_id(), cpu = prev_cpu, new_cpu;
	struct run_queue *this_rq, *prev_rq;

	if (wake_flags & SCX_WAKE_FORK)
		return sched_balance_fork(p, prev_cpu);

	this_rq = run_queue_of(this_cpu);
	prev_rq = run_queue_of(prev_cpu);
	if (!this_rq || !prev_rq ||
	    (balance_rules() == BALANCE_3_0 && !bpf_cpumask_test_cpu(this_cpu, p->cpus_ptr)))
		return prev_cpu;
	if (this_cpu != prev_cpu &&
	    wake_affine(this_rq, prev_rq, p, t, wake_flags & SCX_WAKE_SYNC, scx_bpf_now())) {
		count(STAT_AFFINE_WAKEUPS);
		cpu = this_cpu;
	}
	new_cpu = balance_rules() == BALANCE_3_0 ? select_idle_sibling(cpu, this_cpu, prev_cpu, p) :
						   wake_idle(cpu, p);
	if (new_cpu != cpu)
		count(STAT_IDLE_WAKEUPS);
	return new_cpu;
}
