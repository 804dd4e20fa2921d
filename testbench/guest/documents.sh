# SPDX-License-Identifier: GPL-2.0-or-later
#
# What the documents promise about shares of the CPU, on this kernel: the same figures as in the simulator's tests, with
# room for a machine whose virtual CPUs have to wait for real ones. A capped task is free until its estimated usage has
# reached the cap, which is 0.4 s for a quarter of a CPU and a half life of 1 s.

test_documents() {
	case $1 in
	linux12)
		check "linux12: nice 10 gets a third of nice 0" shares linux12 16 '' \
			'"normal": { "cpus": [0], "run": 10000 }, "nice": { "cpus": [0], "priority": 10, "run": 10000 }' \
			normal=75:4 nice=25:4
		;;
	linux22)
		check "linux22: nice 10 gets about half of nice 0" shares linux22 16 '' \
			'"normal": { "cpus": [0], "run": 10000 }, "nice": { "cpus": [0], "priority": 10, "run": 10000 }' \
			normal=65.6:4 nice=34.4:4
		;;
	dwrr)
		check "dwrr: three hogs on two CPUs get two thirds of one each" shares dwrr 12 '' \
			'"hog": { "instance": 3, "cpus": [0, 1], "run": 10000 }' \
			hog=66.7:3
		;;
	bfs)
		check "bfs: nice 5 gets a quarter of nice 0" shares bfs 10 '' \
			'"normal": { "cpus": [0], "run": 10000 }, "nice": { "cpus": [0], "priority": 5, "run": 10000 }' \
			normal=80:4 nice=20:4
		;;
	ebs)
		check "ebs: a hard cap holds where nobody else wants the CPU" shares ebs 20 'half_life=1s' \
			'"capped": { "run": 10000, "fairground": { "hard_cap": "1/4" } }' \
			capped=26.5:2.5
		check "ebs: shares divide a CPU" shares ebs 30 'half_life=1s' \
			'"one": { "cpus": [0], "run": 10000, "fairground": { "shares": 20 } },
			 "two": { "cpus": [0], "run": 10000, "fairground": { "shares": 40 } },
			 "three": { "cpus": [0], "run": 10000, "fairground": { "shares": 60 } }' \
			one=16.7:4 two=33.3:4 three=50:5
		check "ebs: a background task gets what nobody wants" shares ebs 6 '' \
			'"hog": { "cpus": [0], "run": 10000 },
			 "background": { "cpus": [0], "run": 10000, "fairground": { "background": true } },
			 "alone": { "cpus": [1], "run": 10000, "fairground": { "background": true } }' \
			hog=95:5 background=1:1 alone=95:5
		check "ebs: fairground task caps a process" caps_a_process
		;;
	esac
}

# Plays tasks under a scheduler and compares what each gets, in percent of one CPU.
# usage: shares SCHEDULER SECONDS SETTING TASKS NAME=PERCENT:TOLERANCE...
shares() {
	local scheduler=$1 seconds=$2 settings=() tasks=$4
	[ -z "$3" ] || settings=(--set "$3")
	shift 4
	printf '{ "tasks": { %s }, "global": { "duration": %d, "calibration": 100 } }' "$tasks" "$seconds" > "$work/shares.json"
	fairground run "$scheduler" "${settings[@]}" -- "$fairground" play "$work/shares.json" --format json
	assert_status 0
	"$here/shares" "$work/output" "$@"
}

# A process that always runs, capped from outside while it runs.
caps_a_process() {
	cat > "$work/capped" << END
(while :; do :; done) &
hog=\$!
$fairground task \$hog --cap 1/4!
$fairground task \$hog
sleep 2
cat /proc/\$hog/schedstat /proc/uptime
sleep 8
cat /proc/\$hog/schedstat /proc/uptime
kill -KILL \$hog
END
	fairground run ebs --set half_life=1s -- sh "$work/capped"
	assert_status 0
	assert_says "$work/output" 'hard_cap 1/4'
	# CPU time in nanoseconds and uptime in seconds, before and after.
	sed 1d "$work/output" | awk '
		{ value[NR] = $1 }
		END {
			percent = (value[3] - value[1]) / (value[4] - value[2]) / 1e7
			printf "got %.1f %%, expected 25 +- 3\n", percent
			exit percent < 22 || percent > 28
		}'
	fairground run ebs -- "$fairground" task $$ --isochronous
	assert_status 2
	assert_says "$work/errors" 'does not know isochronous'
}
