# SPDX-License-Identifier: GPL-2.0-or-later
#
# Tests of `fairground run` itself: whatever ends it, the machine is given back.

test_loader() {
	check 'loader: takes charge of ordinary tasks' loads
	check 'loader: passes the exit status of the command on' passes_status
	check 'loader: tells which signal killed the command' passes_signal
	local signal
	for signal in INT TERM HUP; do
		check "loader: SIG$signal ends it cleanly" ends_on_signal "$signal"
	done
	check 'loader: SIGKILL leaves nothing behind' leaves_nothing_when_killed
	check 'loader: tells about a lost task' tells_lost_task
	check 'loader: tells an error of the scheduler, and sets tunables' tells_own_error
	check 'loader: SysRq-S takes the scheduler out' tells_sysrq
	check 'loader: loads the scheduler again after a change of CPUs' survives_hotplug
	check 'reproduce: SIGKILL leaves nothing behind' reproduces_nothing_when_killed
	check 'reproduce: SIGINT ends it cleanly' reproduces_until_signal
	check 'reproduce: tells which scheduler the kernel took out' reproduces_to_the_fault
	check 'loader: refuses while another scheduler is loaded' refuses_second
	check 'loader: refuses a user who is not root' refuses_user
	check 'loader: shows what the verifier did not accept' shows_rejection
	check 'loader: refuses an unknown tunable' refuses_unknown_tunable
	check 'loader: refuses a value that a tunable cannot have' refuses_bad_value
	check 'loader: refuses a scheduler that is not there' refuses_missing_scheduler
}

loads() {
	fairground run "$objects/faulty.o" -- sh -c "cat $sched_ext/state $sched_ext/root/ops; grep ext.enabled /proc/self/sched"
	assert_status 0
	assert_says "$work/output" enabled
	assert_says "$work/output" faulty
	grep -qE 'ext.enabled +: +1' "$work/output"
	assert_unloaded
}

passes_status() {
	fairground run "$objects/faulty.o" -- sh -c 'exit 7'
	assert_status 7
	assert_unloaded
}

passes_signal() {
	fairground run "$objects/faulty.o" -- sh -c 'kill -TERM $$'
	assert_status 143
	assert_unloaded
}

ends_on_signal() {
	start_fairground run "$objects/faulty.o"
	wait_until in_charge faulty
	kill "-$1" "$loader"
	await_loader
	assert_status 0
	assert_unloaded
}

leaves_nothing_when_killed() {
	start_fairground run "$objects/faulty.o"
	wait_until in_charge faulty
	kill -KILL "$loader"
	assert_unloaded
}

tells_lost_task() {
	make_victim
	fairground run "$objects/faulty.o" --set lose_victims=true --dump "$work/dump" -- "$work/victim" 100
	assert_status 1
	assert_says "$work/errors" SCX_EXIT_ERROR_STALL
	assert_says "$work/errors" victim
	assert_says "$work/dump" victim
	assert_unloaded
}

tells_own_error() {
	make_victim
	fairground run "$objects/faulty.o" --set report_error=42 -- "$work/victim" 100
	assert_status 1
	assert_says "$work/errors" 'told to report 42'
	assert_unloaded
}

tells_sysrq() {
	start_fairground run "$objects/faulty.o"
	wait_until in_charge faulty
	echo S > /proc/sysrq-trigger
	await_loader
	assert_status 1
	assert_says "$work/errors" SCX_EXIT_SYSRQ
	assert_unloaded
}

survives_hotplug() {
	start_fairground run "$objects/faulty.o"
	wait_until in_charge faulty
	local before
	before=$(cat $sched_ext/enable_seq)
	echo 0 > /sys/devices/system/cpu/cpu1/online
	wait_until loaded_since "$before"
	before=$(cat $sched_ext/enable_seq)
	echo 1 > /sys/devices/system/cpu/cpu1/online
	wait_until loaded_since "$before"
	kill -TERM "$loader"
	await_loader
	assert_status 0
	assert_unloaded
}

# An experiment that takes far longer than this test.
start_experiment() {
	start_fairground reproduce --on kernel elc_fairness_5on4
	wait_until in_charge cfs
}

reproduces_nothing_when_killed() {
	start_experiment
	kill -KILL "$loader"
	assert_unloaded
}

reproduces_until_signal() {
	start_experiment
	kill -INT "$loader"
	await_loader
	assert_status 1
	assert_says "$work/errors" 'stopped by SIGINT'
	assert_unloaded
}

reproduces_to_the_fault() {
	start_fairground reproduce --on kernel elc_fairness_5on4 --seeds 1 -d 5s
	wait_until in_charge cfs
	echo S > /proc/sysrq-trigger
	await_loader
	assert_status 1
	assert_says "$work/errors" 'elc_fairness_5on4 under cfs failed in run 1: the kernel took cfs out'
	assert_says "$work/output" 'not measured'
	assert_unloaded
}

loaded_since() {
	in_charge faulty && [ "$(cat $sched_ext/enable_seq)" -gt "$1" ]
}

refuses_second() {
	start_fairground run "$objects/faulty.o"
	wait_until in_charge faulty
	fairground run "$objects/faulty.o" -- true
	assert_status 2
	assert_says "$work/errors" faulty
	assert_says "$work/errors" 'loaded already'
	in_charge faulty
	kill -TERM "$loader"
	await_loader
	assert_unloaded
}

refuses_user() {
	status=0
	setpriv --reuid=65534 --regid=65534 --clear-groups "$fairground" run "$objects/faulty.o" -- true > "$work/output" 2> "$work/errors" || status=$?
	assert_status 2
	assert_says "$work/errors" root
	assert_unloaded
}

shows_rejection() {
	fairground run "$objects/rejected.o" -- true
	assert_status 1
	assert_says "$work/errors" rejected_enqueue
	assert_says "$work/errors" '*turn += 1'
	assert_unloaded
}

refuses_unknown_tunable() {
	fairground run "$objects/faulty.o" --set slize=3 -- true
	assert_status 2
	assert_says "$work/errors" slize
	assert_says "$work/errors" 'slice'
	assert_unloaded
}

refuses_bad_value() {
	fairground run "$objects/faulty.o" --set slice=long -- true
	assert_status 2
	assert_says "$work/errors" slice
	assert_says "$work/errors" long
	assert_unloaded
}

refuses_missing_scheduler() {
	fairground run no-such-scheduler -- true
	assert_status 2
	assert_says "$work/errors" no-such-scheduler
	assert_unloaded
}
