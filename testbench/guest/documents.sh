# SPDX-License-Identifier: GPL-2.0-or-later
#
# The promises of the documents, on this kernel: experiments from them, shortened, and shares of the CPU as in the simulator's tests. Everything
# is measured in virtual time, which the load of the host does not affect.

# Schedulers with figures for one CPU, and with figures for two
with_figures_for_one_cpu=(linux12 linux22 o1 ebs bfs eevdf)
with_figures_for_two_cpus=(dwrr)

test_documents() {
	case $1 in
	advise)
		check "advise: --confirm runs a recorded command under the first two, also for the user that called sudo" confirms_advice
		;;
	linux12)
		check "linux12: nice 10 gets six ticks where nice 0 gets sixteen" shares linux12 16 '' "$(two_hogs 0 10)" first=72.7:2 second=27.3:2
		;;
	linux22)
		check "linux22: nice 10 gets about half of nice 0" shares linux22 16 '' "$(two_hogs 0 10)" first=65.6:2.5 second=34.4:2.5
		;;
	o1)
		check "o1: children that compute pi end less evenly than under cfs" reproduces o1cfs_fairness_pi 'A2 short'
		# A run may end anywhere in a round of 100 ms slices: over 8 s that alone exceeds the allowed 2 %.
		check "o1: a step of nice is worth 5 % or 50 %" reproduces elc_o1_nice_ratio A2 -d 16s
		;;
	bfs)
		# The simulator's figures at this kernel's 250 ticks per second. 0.318 checks deadlines at ticks, so shares come in steps:
		# nice 2 is at the edge of a step, where another thread of the kernel tips the balance, and is left to the simulator.
		check "bfs: nice 5 gets a third of nice 0" shares bfs 6 '' "$(two_hogs 0 5)" first=75:2 second=25:2
		check "bfs: nice 10 gets an eighth of nice 0" shares bfs 6 '' "$(two_hogs 0 10)" first=88.9:2 second=11.1:2
		;;
	ebs)
		check "ebs: a hard cap holds where nobody else wants the CPU" reproduces ebs_caps A1 -d 14s --point 'hard 1/2'
		# 20, 10 and 5 shares, as in the simulator: 100 ms slices may end anywhere.
		check "ebs: shares divide a CPU" shares ebs 16 '' \
			'"twenty": { "priority": 0, "run": 10000 }, "ten": { "priority": 10, "run": 10000 }, "five": { "priority": 15, "run": 10000 }' \
			twenty=57:3 ten=28:3 five=15:3
		# The first wake-ups, when no task has used anything yet, may wait, and are more than 1 % of those in ten seconds.
		check "ebs: a task that uses less than its shares allow is favoured" reproduces ebs_shares 'A4 slice' -d 10s --point '5 % and 8 hogs'
		check "ebs: a background task gets what nobody wants" shares ebs 6 '' \
			'"hog": { "run": 3000000, "loop": 1 },
			 "background": { "run": 10000, "fairground": { "background": true } }' \
			hog=50:1 background=49:2
		check "ebs: a hard cap that fairground task sets holds a process that is alone" caps_a_process
		;;
	eevdf)
		check "play: control groups divide a CPU, and are removed" divides_among_groups
		check "play: --require judges the threads" is_judged
		check "eevdf: control groups divide a CPU as under the kernel's own scheduler" divides_among_groups eevdf
		;;
	dwrr)
		check "dwrr: three hogs on two CPUs get two thirds of one each" shares dwrr 6 '' \
			'"a": { "run": 10000 }, "b": { "run": 10000 }, "c": { "run": 10000 }' a=66.7:3 b=66.7:3 c=66.7:3
		check "dwrr: weights reach over two CPUs, under cfs they do not" reproduces elc_weight_example 'A2 order,A3 ratio' -d 10s
		;;
	esac
}

# Linux 1.2 makes a sleeper wait for the end of an epoch, BFS for the end of a slice: a hundred milliseconds or more against ten.
confirms_advice() {
	printf '{ "tasks": { "hog": { "instance": 2, "run": 10000 }, "sleeper": { "run": 1000, "sleep": 9000 } },
		"global": { "duration": 2, "calibration": 100 } }' > "$work/sleeper.json"
	export SUDO_USER=nobody
	fairground record -o "$work/sleeper.recording" -- "$fairground" play "$work/sleeper.json"
	assert_status 0
	fairground advise "$work/sleeper.recording" -s linux12 --for latency:sleeper --repeat 5 --confirm
	cat "$work/output"
	assert_status 0
	assert_says "$work/output" 'Here, under linux12:'
	assert_says "$work/output" 'The prediction held: kernel is better than linux12 here.'
	assert_unloaded
	# A signal ends the run and its scheduler, too.
	start_fairground advise "$work/sleeper.recording" -s linux12 --repeat 2 --confirm
	wait_until in_charge linux12
	kill -TERM "$loader"
	await_loader
	assert_status 1
	assert_says "$work/errors" 'stopped by SIGTERM'
	assert_unloaded
}

# Two tasks with these nice values that never sleep.
two_hogs() {
	printf '"first": { "priority": %d, "run": 10000 }, "second": { "priority": %d, "run": 10000 }' "$1" "$2"
}

# Runs an experiment twice on this kernel, the fewest runs that have an interval, and checks that acceptance lines hold or are not shown.
# usage: reproduces EXPERIMENT LINE[,LINE...] OPTION...
reproduces() {
	fairground reproduce --on kernel "$1" --allow-failing --seeds 2 --format json "${@:3}"
	assert_status 0
	"$here/verdicts" "$work/output" "$2"
	assert_unloaded
}

# Plays tasks under a scheduler and compares the share of each, in percent of one CPU.
# usage: shares SCHEDULER SECONDS SETTING TASKS NAME=PERCENT:TOLERANCE...
shares() {
	local scheduler=$1 seconds=$2 settings=() tasks=$4
	[ -z "$3" ] || settings=(--set "$3")
	printf '{ "tasks": { %s }, "global": { "duration": %d, "calibration": 100 } }' "$tasks" "$seconds" > "$work/shares.json"
	fairground run "$scheduler" "${settings[@]}" -- "$fairground" play "$work/shares.json" --format json
	assert_status 0
	"$here/shares" "$work/output" "${@:5}"
}

# Plays hogs in control groups, under a scheduler or the kernel's own, and compares the share of each with its share under Linux 7.3.4.
# usage: divides_among_groups [SCHEDULER]
divides_among_groups() {
	local run=()
	[ $# = 0 ] || run=(run "$1" -- "$fairground")
	cat > "$work/groups.json" << 'END'
{ "tasks": {
    "x": { "taskgroup": "/a/x", "run": 10000 },
    "y": { "instance": 3, "taskgroup": "/a/y", "run": 10000 },
    "b": { "taskgroup": "/b", "run": 10000 } },
  "fairground": { "groups": { "/a/x": { "cpu.weight": 300 } } },
  "global": { "duration": 6, "calibration": 100 } }
END
	fairground "${run[@]}" play "$work/groups.json" --format json
	assert_status 0
	"$here/shares" "$work/output" x=37.5:2 y=4.2:1 b=50:2
	wait_until has_no_groups
}

# Two threads share a CPU: each has to wait for the other, for more than a microsecond and less than a second.
is_judged() {
	printf '{ "tasks": { "hog": { "instance": 2, "cpus": [0], "run": 10000 } }, "global": { "duration": 2, "calibration": 100 } }' \
		> "$work/judged.json"
	fairground play "$work/judged.json" --require 'longest_wait of hog < 1s'
	assert_status 0
	fairground play "$work/judged.json" --require 'longest_wait of hog < 1us'
	assert_status 1
	assert_says "$work/errors" "did not meet 'longest_wait of hog < 1us' with"
	assert_says "$work/errors" ': hog-'
}

# Whether nothing is left of groups that a run made.
has_no_groups() {
	! ls -d /sys/fs/cgroup/fairground-*
}

# A process that always runs is capped from outside, while it runs, at a quarter of a CPU. It runs freely until its estimated usage has
# reached the cap, 2 s with the default half life of 5 s, and is then held back until the estimate has decayed.
caps_a_process() {
	cat > "$work/capped" << END
(while :; do :; done) &
hog=\$!
$fairground task \$hog --cap 1/4!
$fairground task \$hog
sleep 10
cat /proc/\$hog/schedstat /proc/uptime
$fairground task \$hog
sleep 10
cat /proc/\$hog/schedstat /proc/uptime
kill -KILL \$hog
END
	fairground run ebs -- sh "$work/capped"
	assert_status 0
	assert_says "$work/output" 'hard_cap 1/4'
	# The scheduler's statistics of the task, with their units.
	assert_says "$work/output" 'cap 0.250000'
	assert_says "$work/output" 'run_time '
	# CPU time in nanoseconds and uptime in seconds, before and after, are the lines that begin with a number.
	grep '^[0-9]' "$work/output" | awk '
		{ value[NR] = $1 }
		END {
			percent = (value[3] - value[1]) / (value[4] - value[2]) / 1e7
			printf "got %.2f %%, expected 25 +- 1\n", percent
			exit percent < 24 || percent > 26
		}'
	fairground run ebs -- "$fairground" task $$ --isochronous
	assert_status 2
	assert_says "$work/errors" 'does not read isochronous'
}
