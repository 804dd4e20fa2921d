# SPDX-License-Identifier: GPL-2.0-or-later
#
# Tests of one scheduler on this kernel: under loads that use every corner of the scheduling interface
# it stays in charge and runs every task, and the kernel reports no fault.
#
# Loads are a fixed amount of work, not a fixed time: their run time means nothing here.

# usage: test_scheduler SCHEDULER whole|brief [KERNEL]
test_scheduler() {
	local id=$1 extent=$2 name=$1${3:+ on $3}
	export rejected_before enabled_before loader
	rejected_before=$(cat $sched_ext/nr_rejected)
	start_fairground run "$id"
	check "$name: takes charge" takes_charge "$id"
	enabled_before=$(cat $sched_ext/enable_seq)
	check "$name: its programs are far below the verifier's limit" is_easy_to_verify
	if [ "$extent" = whole ]; then
		check "$name: sysbench cpu" runs "$id" sysbench cpu --threads=6 --cpu-max-prime=2000 --events=1000 --time=0 run
	fi
	# This one yields as well; in Debian 12, stress-ng's yielding tasks do not stop at their number of operations.
	check "$name: sysbench threads" runs "$id" sysbench threads --threads=8 --thread-yields=20 --thread-locks=2 --events=300 --time=0 run
	check "$name: stress-ng, sleeping and waking" runs "$id" \
		stress-ng --switch 2 --switch-ops 400 --futex 2 --futex-ops 200 --nanosleep 2 --nanosleep-ops 8 --pipe 2 --pipe-ops 400
	if [ "$extent" = whole ]; then
		# Not --pthread, which of Debian 12 ends before the last of its threads and may crash then, before it has noted its count. Nor
		# --exit-group, whose threads wait for one another so often that fbfs, which gives a waking thread a new slice and its old
		# deadline, lets them go first for minutes.
		check "$name: stress-ng, many short-lived tasks" runs "$id" \
			stress-ng --fork 2 --fork-ops 50 --exec 2 --exec-ops 10 --clone 2 --clone-ops 50 --zombie 1 --zombie-ops 20
		check "$name: every policy makes progress" runs "$id" runs_all_policies
		check "$name: tasks bound to one CPU each" runs "$id" runs_bound
		check "$name: rt-app" runs "$id" runs_rt_app
	fi
	check "$name: changes of policy, nice value and affinity" runs "$id" "$here/changes"
	check "$name: its counters grow" counters_grow
	check "$name: SysRq-S takes it out" gives_way
	[ "$id" != eevdf ] || check "$name: asks for frequencies and places by energy where CPUs have clocks" runs_with_clocks "$id"
	# A test that failed half-way must not affect the next scheduler.
	kill -KILL "$loader" 2> /dev/null
	wait "$loader" 2> /dev/null
	check "$name: leaves nothing behind" assert_unloaded
}

takes_charge() {
	wait_until in_charge_or_ended "$1"
	in_charge "$1" || {
		cat "$work/loader.errors"
		give_up "the loader has ended"
	}
	grep -qE 'ext.enabled +: +1' /proc/self/sched || give_up "the tests run under another scheduler"
	[ "$(cat $sched_ext/nr_rejected)" = "$rejected_before" ] || give_up "the kernel counts rejected tasks"
	counters > "$work/counters"
}

in_charge_or_ended() {
	in_charge "$1" || has_ended "$loader"
}

# The verifier gives up on a program after a million instructions over all paths. How many it takes depends on the kernel, so a program that
# is near the limit here exceeds it elsewhere; it also takes a minute to load on a slow machine.
# usage: is_easy_to_verify [LIMIT]
is_easy_to_verify() {
	local most limit=${1:-400000}
	# The loader opens and closes files meanwhile, so a listed one may be gone.
	most=$(sed -sn 's/^verified_insns:\t//p' /proc/"$loader"/fdinfo/* 2> /dev/null | sort -n | tail -n 1)
	[ "${most:-0}" -gt 0 ] || give_up "the kernel does not say how many instructions it has verified"
	[ "$most" -lt "$limit" ] || give_up "the verifier took $most instructions over one program"
}

# Runs a load and checks that the scheduler is still in charge, without having been reloaded.
# usage: runs SCHEDULER COMMAND...
runs() {
	local id=$1
	shift
	"$@"
	in_charge "$id" || {
		head -n 25 "$work/loader.errors"
		give_up "the scheduler was taken out"
	}
	[ "$(cat $sched_ext/enable_seq)" = "$enabled_before" ] || give_up "the scheduler was loaded again"
}

# One task of each policy, all at the same time, each with the same work. Idle and batch tasks finish last, but they do finish.
runs_all_policies() {
	local task tasks=()
	for task in 'chrt --other 0' 'chrt --batch 0' 'chrt --idle 0' 'nice -n 19' 'nice -n -20' 'chrt --fifo 10' 'chrt --rr 10'; do
		$task sh -c 'i=0; while [ $i -lt 1500 ]; do i=$((i + 1)); done' &
		tasks+=($!)
	done
	for task in "${tasks[@]}"; do
		wait "$task"
	done
}

# Twice as many tasks as CPUs, each bound to one; each then reports where it ran.
runs_bound() {
	local cpu task tasks=()
	for cpu in $(seq 0 $(($(nproc) - 1))) $(seq 0 $(($(nproc) - 1))); do
		taskset -c "$cpu" sh -c '
			i=0
			while [ $i -lt 1500 ]; do i=$((i + 1)); done
			read -r stat < /proc/self/stat
			set -- ${stat##*) }
			[ "${37}" = '"$cpu"' ]' &
		tasks+=($!)
	done
	for task in "${tasks[@]}"; do
		wait "$task"
	done
}

# Runs the scheduler as on a machine with two kinds of CPUs, their clocks and an energy model, as far as its loader can see: what this machine
# leaves out of the scheduler, for which it has no clocks, is then verified and runs.
runs_with_clocks() {
	local cpu kind map last=$(($(nproc) - 1)) tree=$work/machine
	mkdir -p "$tree/cpu" "$tree/debug/energy_model"
	echo "0-$last" | tee "$tree/cpu/possible" > "$tree/cpu/online"
	for cpu in $(seq 0 "$last"); do
		kind=$((2 * cpu > last))
		mkdir -p "$tree/cpu/cpu$cpu" "$tree/cpu/cpufreq/policy$cpu" "$tree/debug/energy_model/cpu$cpu"/ps:{500000,1000000}
		echo $((512 + 512 * kind)) > "$tree/cpu/cpu$cpu/cpu_capacity"
		(
			cd "$tree/cpu/cpufreq/policy$cpu"
			echo "$cpu" > affected_cpus
			echo '500000 1000000 ' > scaling_available_frequencies
			cd "$tree/debug/energy_model/cpu$cpu"
			echo 0x1 > flags
			echo "$cpu" > cpus
			echo $((50000 + 100000 * kind)) > ps:500000/power
			echo $((150000 + 300000 * kind)) > ps:1000000/power
		)
	done
	unshare --mount sh -c 'mount --bind "$1/cpu" /sys/devices/system/cpu && mount --bind "$1/debug" /sys/kernel/debug && shift && exec "$@"' - "$tree" \
		env --default-signal=INT,QUIT "$fairground" run "$1" > "$work/loader.output" 2> "$work/loader.errors" &
	loader=$!
	# A test that failed half-way must not affect the next one.
	trap 'kill -KILL "$loader" 2> /dev/null || :' EXIT
	takes_charge "$1"
	is_easy_to_verify 600000
	for map in $(bpftool map list | sed -n 's/^\([0-9]*\): array .*rodata.*/\1/p'); do
		bpftool -j map dump id "$map"
	done > "$work/constants"
	grep -oE '"topology_nr_clocks": ?[0-9]+' "$work/constants" | grep -q ":[ ]*$(nproc)\$" || {
		head -c 2000 "$work/constants"
		give_up "the loader found no clocks"
	}
	enabled_before=$(cat $sched_ext/enable_seq)
	runs "$1" stress-ng --switch 2 --switch-ops 400 --nanosleep 2 --nanosleep-ops 8 --pipe 2 --pipe-ops 400
	kill -INT "$loader"
	wait_until has_ended "$loader"
}

# Runs two periodic tasks and a hog in rt-app for a second, and checks in rt-app's log that the periodic ones ran.
runs_rt_app() {
	cat > "$work/workload.json" << 'END'
{
	"global": { "duration": 1, "default_policy": "SCHED_OTHER", "calibration": 100, "logdir": "/run/suite", "log_basename": "rt-app" },
	"tasks": {
		"periodic": { "instance": 2, "loop": -1, "run": 500, "timer": { "ref": "unique", "period": 20000 } },
		"hog": { "loop": -1, "run": 1000 }
	}
}
END
	rm -f "$work"/rt-app-*.log
	rt-app "$work/workload.json"
	local log
	for log in "$work"/rt-app-*.log; do
		[ "$(grep -vc '^#' "$log")" -ge 2 ] || give_up "$log: the task did not run"
	done
}

# The sums of the scheduler's own counters over all CPUs.
counters() {
	bpftool -j map dump name statistics | grep -o '"value":[0-9][0-9]*' | awk -F: '{ sum += $2 } END { print sum }'
}

# Checks that counters have grown since the scheduler took charge.
counters_grow() {
	local before after
	before=$(cat "$work/counters")
	after=$(counters)
	[ "$after" -gt "$before" ] || give_up "the counters stood at $before, and stand at $after"
}

gives_way() {
	echo S > /proc/sysrq-trigger
	wait_until state_is disabled
	wait_until grep -qF SCX_EXIT_SYSRQ "$work/loader.errors"
}
