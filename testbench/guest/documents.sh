# SPDX-License-Identifier: GPL-2.0-or-later
#
# What the documents promise about shares of the CPU, on this kernel: the same figures as in the simulator's tests. Those for one
# CPU are measured in virtual time, where the load of the machine below does not reach them. It does reach those for several,
# where virtual CPUs may have to wait for real ones; of these the medians of three runs count.

# Schedulers with figures for one CPU, and with figures for several
with_figures_for_one_cpu=(linux12 linux22 ebs bfs)
with_figures_for_several_cpus=(dwrr)

test_documents_in_parallel() {
	case $1 in
	dwrr)
		check "dwrr: three hogs on two CPUs get two thirds of one each" median_shares dwrr 12 '' \
			'"hog": { "instance": 3, "cpus": [0, 1], "run": 10000 }' \
			hog=66.7:3
		;;
	esac
}

test_documents_in_virtual_time() {
	case $1 in
	linux12)
		check "linux12: nice 10 gets a third of nice 0" shares linux12 8 '' "$(two_hogs 0 10)" first=75:2 second=25:2
		;;
	linux22)
		check "linux22: nice 10 gets about half of nice 0" shares linux22 8 '' "$(two_hogs 0 10)" first=65.6:2.5 second=34.4:2.5
		;;
	bfs)
		# What the simulator says at this kernel's 250 ticks a second. 0.318 looks at deadlines at ticks, so that shares come in
		# steps: nice 2 is at the edge of one, where another thread of the kernel decides, and is left to the simulator.
		check "bfs: nice 5 gets a third of nice 0" shares bfs 6 '' "$(two_hogs 0 5)" first=75:2 second=25:2
		check "bfs: nice 10 gets an eighth of nice 0" shares bfs 6 '' "$(two_hogs 0 10)" first=88.9:2 second=11.1:2
		;;
	ebs)
		# Free for 0.4 s, until the estimate has reached the cap, and then at a quarter of the CPU.
		check "ebs: a hard cap holds where nobody else wants the CPU" shares ebs 12 'half_life=1s' \
			'"capped": { "run": 10000, "fairground": { "hard_cap": "1/4" } }' \
			capped=27.6:1
		check "ebs: shares divide a CPU" shares ebs 10 'half_life=1s' \
			'"one": { "run": 10000, "fairground": { "shares": 20 } },
			 "two": { "run": 10000, "fairground": { "shares": 40 } },
			 "three": { "run": 10000, "fairground": { "shares": 60 } }' \
			one=16.7:2 two=33.3:2 three=50:2
		check "ebs: a background task gets what nobody wants" shares ebs 6 '' \
			'"hog": { "run": 3000000, "loop": 1 },
			 "background": { "run": 10000, "fairground": { "background": true } }' \
			hog=50:1 background=49:2
		check "ebs: a hard cap that fairground task sets holds a process that is alone" caps_a_process
		;;
	esac
}

# Two tasks of these nice values that never sleep.
two_hogs() {
	printf '"first": { "priority": %d, "run": 10000 }, "second": { "priority": %d, "run": 10000 }' "$1" "$2"
}

# Plays tasks under a scheduler and compares what each gets, in percent of one CPU.
# usage: shares SCHEDULER SECONDS SETTING TASKS NAME=PERCENT:TOLERANCE...
shares() {
	play_shares "${@:1:4}"
	"$here/shares" "$work/output" "${@:5}"
}

# The same with the medians of three runs.
median_shares() {
	: > "$work/results"
	for _ in 1 2 3; do
		play_shares "${@:1:4}"
		cat "$work/output" >> "$work/results"
	done
	"$here/shares" "$work/results" "${@:5}"
}

# Plays tasks under a scheduler; the result is in the file `output`.
# usage: play_shares SCHEDULER SECONDS SETTING TASKS
play_shares() {
	local scheduler=$1 seconds=$2 settings=() tasks=$4
	[ -z "$3" ] || settings=(--set "$3")
	printf '{ "tasks": { %s }, "global": { "duration": %d, "calibration": 100 } }' "$tasks" "$seconds" > "$work/shares.json"
	fairground run "$scheduler" "${settings[@]}" -- "$fairground" play "$work/shares.json" --format json
	assert_status 0
}

# A process that always runs, capped from outside while it runs, at a quarter of a CPU. It is free until its estimated usage
# has reached the cap, 2 s with the default half life of 5 s, and then put off until that has decayed.
caps_a_process() {
	cat > "$work/capped" << END
(while :; do :; done) &
hog=\$!
$fairground task \$hog --cap 1/4!
$fairground task \$hog
sleep 10
cat /proc/\$hog/schedstat /proc/uptime
sleep 10
cat /proc/\$hog/schedstat /proc/uptime
kill -KILL \$hog
END
	fairground run ebs -- sh "$work/capped"
	assert_status 0
	assert_says "$work/output" 'hard_cap 1/4'
	# CPU time in nanoseconds and uptime in seconds, before and after.
	sed 1d "$work/output" | awk '
		{ value[NR] = $1 }
		END {
			percent = (value[3] - value[1]) / (value[4] - value[2]) / 1e7
			printf "got %.2f %%, expected 25 +- 1\n", percent
			exit percent < 24 || percent > 26
		}'
	fairground run ebs -- "$fairground" task $$ --isochronous
	assert_status 2
	assert_says "$work/errors" 'does not know isochronous'
}
