# SPDX-License-Identifier: GPL-2.0-or-later
#
# Tests of `fairground run` itself: however it ends, the machine returns to the kernel's own scheduler.

test_loader() {
	check 'loader: takes charge of ordinary tasks' loads
	check 'loader: passes the exit status of the command on' passes_status
	check 'loader: tells which signal killed the command' passes_signal
	local signal
	for signal in INT TERM HUP; do
		check "loader: SIG$signal ends it cleanly" ends_on_signal "$signal"
	done
	check 'loader: SIGKILL leaves nothing behind' leaves_nothing_when_killed
	check 'loader: SIGKILL at any time leaves neither scheduler nor command' leaves_no_command_when_killed
	check 'loader: processes that the command has left running end with it' ends_what_was_left
	check 'loader: the command is run by the user that was named, or who called sudo' runs_as_user
	check 'loader: looks a command up before it loads a scheduler' looks_command_up
	check 'loader: a signal while it loads keeps the command from starting' starts_no_command
	check 'loader: looks whether there can be a dump before it loads a scheduler' looks_for_dump
	check 'task: attributes go to the scheduler in charge' finds_scheduler_in_charge
	check 'loader: tells about a lost task' tells_lost_task
	check 'loader: tells an error of the scheduler, and sets tunables' tells_own_error
	check 'loader: every tunable reaches the kernel' sets_tunables
	check 'loader: SysRq-S takes the scheduler out' tells_sysrq
	check 'loader: loads the scheduler again after a change of CPUs' survives_hotplug
	check 'play: a run during which a CPU goes decides nothing' tells_change_of_cpus
	check 'record: a command under a scheduler, and which task woke which' records_command
	check 'record: control groups and sessions, with their settings and changes' records_groups
	check 'record: says that the kernel took the scheduler out meanwhile' records_to_the_fault
	check 'reproduce: SIGKILL leaves nothing behind' reproduces_nothing_when_killed
	check 'reproduce: SIGINT ends it cleanly' reproduces_until_signal
	check 'reproduce: tells which scheduler the kernel took out' reproduces_to_the_fault
	check 'loader: does what a companion says, on this machine' follows_companion
	check 'loader: a companion is changed by options, and left out' changes_companion
	check 'loader: says which step of a companion cannot be done' tells_failed_step
	check 'loader: a captured loader gives its scheduler what it gives it here' captures_loader
	check 'a stranger: has another scheduler on a desktop, and goes back' follows_desktop
	check 'service: nothing stays of a scheduler that cannot be loaded' enables_nothing_unusable
	check 'service: is removed, whatever systemctl says' disables_in_any_case
	check 'loader: refuses while another scheduler is loaded' refuses_second
	check 'loader: refuses a user who is not root' refuses_user
	check 'loader: shows what the verifier did not accept' shows_rejection
	check 'loader: asks the verifier without loading' verifies
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

# A systemctl that knows one service and starts it as systemd would.
stand_in_for_systemd() {
	mkdir -p "$work/bin" /etc/systemd/system /run/systemd/system
	rm -f "$work/bin/asked"
	cat > "$work/bin/systemctl" << 'END'
#!/bin/bash
service=/etc/systemd/system/fairground.service
here=$(dirname "$0")
# Nobody waits for the processes that this leaves, so those that have ended stay as zombies.
runs() { grep -q '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$(cat "$here/pid")/status" 2> /dev/null; }
stop() {
	[ -e "$here/pid" ] || return 0
	kill "$(cat "$here/pid")"
	while runs; do sleep 0.1; done
	rm "$here/pid"
}
echo "$*" >> "$here/asked"
case "$*" in
*is-active*) [ -e "$here/pid" ] ;;
*restart*)
	stop
	bash -c "exec $(sed -n 's/^ExecStart=//p' $service)" > "$here/log" 2>&1 < /dev/null &
	echo $! > "$here/pid"
	until [ "$(cat /sys/kernel/sched_ext/state)" = enabled ]; do
		runs || { rm "$here/pid"; echo 'Job failed.' >&2; exit 1; }
		sleep 0.1
	done
	;;
*disable*) stop ;;
*show*) printf 'ActiveState=active\nStateChangeTimestamp=today\nResult=success\n' ;;
esac
END
	chmod +x "$work/bin/systemctl"
	PATH=$work/bin:$PATH
}

# Follows what somebody does on a desktop, a line at a time.
follows_desktop() {
	stand_in_for_systemd
	local line
	grep -v -e '^#' -e '^$' "$here/../strangers/desktop" > "$work/lines"
	while IFS= read -r line; do
		printf '%s\n' "$line"
		PATH=$work:$PATH bash -o pipefail -c "$line" < /dev/null
	done < "$work/lines"
	assert_unloaded
}

enables_nothing_unusable() {
	stand_in_for_systemd
	fairground enable o1 --set hz=0
	assert_status 2
	fairground enable "$objects/rejected.o"
	assert_status 1
	assert_unloaded
	rmdir /run/systemd/system
	fairground enable o1
	assert_status 2
	assert_says "$work/errors" 'systemd does not run here (/run/systemd/system is missing)'
	assert_unloaded
	[ ! -e /etc/systemd/system/fairground.service ]
	[ ! -e "$work/bin/asked" ]
}

disables_in_any_case() {
	stand_in_for_systemd
	fairground enable o1
	assert_status 0
	"$work/bin/systemctl" disable
	printf '#!/bin/sh\necho there is no bus >&2\nexit 1\n' > "$work/bin/systemctl"
	fairground disable
	assert_status 1
	assert_says "$work/errors" 'disable --now fairground.service failed: there is no bus'
	[ ! -e /etc/systemd/system/fairground.service ]
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

# A tree of processes, one of them in its own session. No other process has their name.
tree='setsid sleep 31415 & sleep 31415 & exec sleep 31415'

tree_has_grown() {
	[ "$(pgrep -cx -f 'sleep 31415')" = 3 ]
}

tree_is_gone() {
	! pgrep -x -f 'sleep 31415' > /dev/null
}

leaves_no_command_when_killed() {
	local delay
	for delay in 0.01 0.1 0.2 0.4 0.8 1.6; do
		start_fairground run "$objects/faulty.o" -- sh -c "$tree"
		sleep "$delay"
		kill -KILL "$loader"
		assert_unloaded
		wait_until tree_is_gone
	done
	start_fairground run "$objects/faulty.o" -- sh -c "$tree"
	wait_until tree_has_grown
	kill -KILL "$loader"
	assert_unloaded
	wait_until tree_is_gone
	# While it is being unloaded.
	for delay in 0 0.01 0.03; do
		start_fairground run "$objects/faulty.o" -- sh -c "$tree"
		wait_until tree_has_grown
		kill -TERM "$loader"
		sleep "$delay"
		kill -KILL "$loader" || true
		assert_unloaded
		wait_until tree_is_gone
	done
}

ends_what_was_left() {
	fairground run "$objects/faulty.o" -- sh -c 'setsid sleep 31415 & sleep 31415 & exit 3'
	assert_status 3
	tree_is_gone || give_up 'some of it is left'
	assert_unloaded
}

runs_as_user() {
	fairground run "$objects/faulty.o" --user nobody -- sh -c 'id -un; id -Gn; echo $USER $LOGNAME'
	assert_status 0
	assert_says "$work/output" nobody
	assert_says "$work/output" 'nobody nobody'
	if grep -q root "$work/output"; then give_up 'the command has something of root'; fi
	SUDO_USER=nobody fairground run "$objects/faulty.o" -- id -un
	assert_status 0
	assert_says "$work/output" nobody
	fairground run "$objects/faulty.o" --user no-such-user -- true
	assert_status 2
	assert_says "$work/errors" 'no user no-such-user'
	assert_unloaded
}

looks_command_up() {
	local before
	before=$(cat $sched_ext/enable_seq)
	fairground run "$objects/faulty.o" -- no-such-program
	assert_status 2
	assert_says "$work/errors" 'no-such-program: cannot be run'
	[ "$(cat $sched_ext/enable_seq)" = "$before" ]
}

starts_no_command() {
	start_fairground run linux24 -- touch "$work/began"
	sleep 0.2
	kill -TERM "$loader"
	await_loader
	assert_status 143
	[ ! -e "$work/began" ] || give_up 'the command began'
	assert_unloaded
}

looks_for_dump() {
	local before
	before=$(cat $sched_ext/enable_seq)
	fairground run "$objects/faulty.o" --dump /sys/none/dump -- true
	assert_status 2
	assert_says "$work/errors" 'cannot write /sys/none/dump'
	[ "$(cat $sched_ext/enable_seq)" = "$before" ]
}

# The loader of an older scheduler with attributes still holds its map when another scheduler takes charge.
finds_scheduler_in_charge() {
	start_fairground run bfs
	wait_until in_charge bfs
	fairground task $$ --isochronous
	assert_status 0
	fairground task $$
	assert_says "$work/output" 'isochronous true'
	status=0
	"$fairground" task $$ > /dev/full 2> "$work/errors" || status=$?
	assert_status 1
	assert_says "$work/errors" 'cannot write to standard output: No space left'
	"$fairground" task $$ | true
	[ "${PIPESTATUS[*]}" = '0 0' ]
	kill -STOP "$loader"
	echo S > /proc/sysrq-trigger
	wait_until state_is disabled
	local older=$loader
	start_fairground run "$objects/faulty.o"
	wait_until in_charge faulty
	fairground task $$
	assert_status 2
	assert_says "$work/errors" 'faulty, reads no task attributes'
	kill -TERM "$loader"
	await_loader
	kill -CONT "$older"
	kill -TERM "$older" 2> /dev/null || true
	assert_unloaded
}

tells_lost_task() {
	make_victim
	fairground run "$objects/faulty.o" --set lose_victims=true --dump "$work/dump" -- "$work/victim" 100
	assert_status 1
	assert_says "$work/errors" SCX_EXIT_ERROR_STALL
	assert_says "$work/errors" victim
	assert_says "$work/dump" victim
	# A report for which there is no room is told.
	fairground run "$objects/faulty.o" --set lose_victims=true --dump /dev/full -- "$work/victim" 100
	assert_status 1
	assert_says "$work/errors" 'cannot write /dev/full: No space left'
	assert_says "$work/errors" "$(head -n 1 "$work/dump")"
	assert_unloaded
}

tells_own_error() {
	make_victim
	fairground run "$objects/faulty.o" --set report_error=42 -- "$work/victim" 100
	assert_status 1
	assert_says "$work/errors" 'told to report 42'
	# The error occurs when the victim wakes up, and ends the command.
	local time
	for time in 0.01 0.02 0.03 0.05 0.1; do
		fairground run "$objects/faulty.o" --set report_error=42 -- "$work/victim" "$time"
		assert_status 1
		assert_says "$work/errors" 'told to report 42'
		assert_unloaded
	done
}

# Sets every tunable of a scheduler that has all kinds of them to something other than its default; the kernel must then hold the values, and
# a run's result must report them.
sets_tunables() {
	local manifest=$here/../../schedulers/o1/scheduler.toml settings
	local read_and_play="$here/read-only-data \$1 && $fairground play $work/short.json --format json"
	echo '{ "tasks": { "short": { "loop": 1, "run": 1000 } } }' > "$work/short.json"
	fairground run o1 -- sh -c "$read_and_play" - "$work/defaults"
	assert_status 0
	"$here/tunables" named "$manifest" "$work/output"
	"$here/tunables" settings "$manifest" "$work/defaults" > "$work/settings"
	mapfile -t settings < "$work/settings"
	fairground run o1 "${settings[@]}" -- sh -c "$read_and_play" - "$work/changed"
	assert_status 0
	"$here/tunables" verify "$manifest" "$work/changed" "${settings[@]}"
	"$here/tunables" named "$manifest" "$work/output" "${settings[@]}"
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

tells_change_of_cpus() {
	printf '{ "tasks": { "hog": { "instance": 2, "run": 10000 } }, "global": { "duration": 4, "calibration": 100 } }' > "$work/hogs.json"
	start_fairground play "$work/hogs.json" --require 'idle_wasted < 0.0001%'
	sleep 2
	echo 0 > /sys/devices/system/cpu/cpu1/online
	await_loader
	echo 1 > /sys/devices/system/cpu/cpu1/online
	assert_status 0
	assert_says "$work/errors" "'idle_wasted < 0.0001%' is undecided: CPUs went offline or came online"
	assert_says "$work/errors" 'during the run (0-3 at its beginning, 0,2-3 at its end)'
}

records_command() {
	fairground run "$objects/faulty.o" -- "$fairground" record -o "$work/pipe.recording" -- sh -c 'seq 20000 | sort | tail -n 1; exit 7'
	assert_status 7
	assert_unloaded
	fairground show "$work/pipe.recording"
	assert_status 0
	assert_says "$work/output" 'under faulty'
	assert_says "$work/output" sort
	assert_says "$work/output" 'what they waited for'
	# After its share, wake-ups and latencies: how often another task woke it.
	grep -qE '^ *tail +[0-9.]+ % +[0-9]+ +[0-9.]+ [a-z]+ +[0-9.]+ [a-z]+ +[1-9]' "$work/output"
	fairground record -o "$work/user.recording" --user nobody -- sh -c 'sleep 1000 & echo $! > /tmp/left; id -un'
	assert_status 0
	assert_says "$work/output" nobody
	# Processes that the command left running must have ended with it.
	! kill -0 "$(cat /tmp/left)" 2> /dev/null || give_up 'a process of the command is left'
	fairground record -o "$work/user.recording" --user no-such-user -- true
	assert_status 2
	assert_says "$work/errors" 'no user no-such-user'
}

# A group of its own for the command, with a quota that is changed meanwhile, and a session that the kernel schedules like one.
records_groups() {
	local groups=/sys/fs/cgroup loop='i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done'
	echo +cpu > $groups/cgroup.subtree_control
	mkdir -p $groups/recorded/inner
	echo +cpu > $groups/recorded/cgroup.subtree_control
	echo 300 > $groups/recorded/cpu.weight
	echo '40000 100000' > $groups/recorded/inner/cpu.max
	cat > "$work/grouped" << END
echo \$\$ > $groups/recorded/inner/cgroup.procs
$loop &
$loop &
sleep 0.5
echo '60000 100000' > $groups/recorded/inner/cpu.max
wait
END
	sysctl -qw kernel.sched_autogroup_enabled=1
	fairground record -o "$work/grouped.recording" -- sh "$work/grouped"
	assert_status 0
	fairground show "$work/grouped.recording" --rt-app
	assert_status 0
	assert_says "$work/output" '"taskgroup" : "/recorded/inner"'
	grep -q '"/recorded":.*"cpu.weight":300' "$work/output" || give_up 'the weight of /recorded is not there'
	grep -q '"cpu.max":"40000 100000"' "$work/output" || give_up 'the quota of /recorded/inner is not there'
	grep -q '"changes":[[]{[^}]*"cpu.max":"60000 100000"' "$work/output" || give_up 'the change of the quota is not there'
	fairground record -o "$work/session.recording" -- setsid -w sh -c "$loop"
	assert_status 0
	fairground show "$work/session.recording" --rt-app
	assert_status 0
	grep -q '"taskgroup" : "/session-[0-9]*"' "$work/output" || give_up 'the session is not there'
	rmdir $groups/recorded/inner $groups/recorded
}

records_to_the_fault() {
	make_victim
	fairground run "$objects/faulty.o" --set report_error=42 -- \
		"$fairground" record -o "$work/ejected.recording" -- "$work/victim" 100
	assert_status 1
	assert_says "$work/errors" "the scheduler changed during the recording, from faulty to the kernel's own"
	assert_unloaded
}

# Starts an experiment that takes far longer than this test.
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
	start_fairground reproduce --on kernel elc_fairness_5on4 --seeds 1 -d 2s
	wait_until in_charge cfs
	echo S > /proc/sysrq-trigger
	await_loader
	assert_status 1
	assert_says "$work/errors" 'elc_fairness_5on4 under cfs failed in run 1: the kernel ejected cfs'
	assert_says "$work/output" 'not measured'
	assert_unloaded
}

# The scheduler's init callback checks the values that it was given; its exit message lists the programs that were run afterwards.
follows_companion() {
	fairground run "$objects/accompanied.o" -- sleep 100
	assert_status 1
	assert_says "$work/errors" 'three rounds on CPU 1'
	assert_unloaded
}

changes_companion() {
	fairground run "$objects/accompanied.o" --set slice_us=4000 -- true
	assert_status 1
	assert_says "$work/errors" 'not as told: slice_ns == 3000000'
	fairground run "$objects/accompanied.o" --with none -- true
	assert_status 1
	assert_says "$work/errors" 'not as told: slice_ns == 3000000'
	fairground run "$objects/accompanied.o" --set ops.timeout_ms=3000 --set accompanied.interval_ms=100000 -- \
		bpftool map dump name accompanied_ops
	assert_status 0
	assert_says "$work/output" '"timeout_ms": 3000'
	fairground run "$objects/accompanied.o" --set 'layout.first.node=7' -- true
	assert_status 1
	assert_says "$work/errors" 'not as told: layout.first.cpus == all && layout.first.node == 2'
	fairground run "$objects/faulty.o" --with "$objects/accompanied.companion.toml" -- true
	assert_status 2
	assert_says "$work/errors" 'it is for scheduler accompanied, and this one calls itself faulty'
	assert_unloaded
}

tells_failed_step() {
	fairground run "$objects/accompanied.o" --set map.domains.max_entries=1 -- true
	assert_status 1
	assert_says "$work/errors" 'accompanied.companion.toml:22: an entry of map domains cannot be written: Argument list too long'
	sed 's/^pass = .*//' "$objects/accompanied.companion.toml" > "$work/wrong.toml"
	fairground run "$objects/accompanied.o" --with "$work/wrong.toml" -- true
	assert_status 1
	assert_says "$work/errors" 'program take_token returned -22, with which its loader gives up'
	assert_unloaded
}

# The globals, map entries and settings of the scheduler `loaded`, as the kernel holds them.
dump_loaded() {
	local map
	for map in mine.rodata mine.bss loaded_ops; do
		printf '%s\n' "$map"
		# Values that the kernel fills in differ every time.
		bpftool map dump name "$map" | grep -vE 'hotplug_seq|counter|state|"(select_cpu|enqueue|dispatch|init|exit|init_task)":'
	done
	# A hash map has no order.
	bpftool -j map dump name domains | sed 's/,{"key"/\n{"key"/g' | tr -d '[]' | sort
}
export -f dump_loaded

captures_loader() {
	cp "$objects/loaded.o" "$work/mine.bpf.o"
	"$objects/loader" "$work/mine.bpf.o" 5000000 > "$work/loader.output" 2>&1 &
	loader=$!
	wait_until grep -q attached "$work/loader.output"
	in_charge loaded
	dump_loaded > "$work/real"
	kill -KILL "$loader"
	assert_unloaded
	fairground capture -m host -o "$work/captured" --object "$work/mine.bpf.o" -- "$objects/loader" "$work/mine.bpf.o" 5000000
	assert_status 0
	# The kernel names the sections after the file.
	mv "$work/captured/loaded.bpf.o" "$work/captured/mine.bpf.o"
	mv "$work/captured/loaded.companion.toml" "$work/captured/mine.companion.toml"
	fairground run "$work/captured/mine.bpf.o" -- bash -c dump_loaded
	assert_status 0
	assert_says "$work/real" '"slice_ns": 5000000'
	diff "$work/real" "$work/output" || give_up 'what the kernel was given differs'
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
	fairground calibrate
	assert_status 2
	assert_says "$work/errors" '`faulty` is loaded already'
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

verifies() {
	fairground run "$objects/rejected.o" --verify
	assert_status 1
	assert_says "$work/errors" '*turn += 1'
	fairground run "$objects/faulty.o" --verify
	assert_status 0
	assert_says "$work/output" 'accepts faulty: '
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
