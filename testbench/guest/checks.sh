# SPDX-License-Identifier: GPL-2.0-or-later
#
# Helpers for the tests in the guest. A test is a function that runs in its own shell, ends at its
# first failing command and passes if there is none.

sched_ext=/sys/kernel/sched_ext

# Far longer than any test takes, in seconds. The guest's clock counts instructions, and when all of its CPUs are idle it jumps to the next
# timer: while the guest waits for a file from the host, which may be busy, minutes pass for it.
test_limit=1800

# Runs a test and prints its line; the test's output is shown if it fails.
# usage: check NAME FUNCTION [ARGUMENT...]
check() {
	local name=$1 status
	shift
	SECONDS=0
	timeout --kill-after=10 "$test_limit" "$here/test" "$@" > "$work/log" 2>&1 < /dev/null
	status=$?
	if [ "$status" = 0 ]; then
		printf 'ok %s (%d s)\n' "$name" "$SECONDS"
	else
		printf 'not ok %s (%d s)\n' "$name" "$SECONDS"
		{
			tail -n 60 "$work/log"
			printf 'exit status %d\n' "$status"
			[ "$SECONDS" -lt "$test_limit" ] || describe_machine
		} | sed 's/^/    /'
	fi
}

# Describes the machine after a test that did not end.
describe_machine() {
	printf 'the test came to no end; the scheduler in charge: %s\n' "$(cat $sched_ext/root/ops 2>&1)"
	local folder
	for folder in /proc/[0-9]*; do
		sed -n 's/^State:[[:space:]]*\([RD]\).*/\1/p' "$folder/status" 2> /dev/null | grep -q . || continue
		printf '%s runs or waits for a device: %s\n' "${folder#/proc/}" "$(tr '\0' ' ' < "$folder/cmdline")"
		# Policy, CPU and CPU time, a second apart.
		chrt -p "${folder#/proc/}"
		cut -d ' ' -f 14,15,39,41 "$folder/stat"
		sleep 1
		cut -d ' ' -f 14,15,39,41 "$folder/stat"
	done
}

# Ends a test with an error message.
give_up() {
	printf '%s\n' "$*"
	exit 1
}

# Waits until a command succeeds. Loading the largest scheduler takes some seconds because of the verifier; this waits minutes.
wait_until() {
	local tries
	for tries in $(seq 2400); do
		"$@" > /dev/null 2>&1 && return
		sleep 0.1
	done
	give_up "waited in vain: $*"
}

state_is() {
	[ "$(cat $sched_ext/state)" = "$1" ]
}

# Whether the named scheduler is in charge.
in_charge() {
	state_is enabled && [ "$(cat $sched_ext/root/ops)" = "$1" ]
}

# Whether the kernel holds no scheduler. A scheduler's table of callbacks is a map; listing the maps is much cheaper than dumping the tables.
# The kernel frees a map some time after its last user has gone.
has_no_scheduler() {
	! bpftool map list | grep ': struct_ops '
}

# Checks that nothing of a scheduler is left in the kernel.
assert_unloaded() {
	wait_until state_is disabled
	wait_until has_no_scheduler
}

# Checks the exit status of the last fairground.
assert_status() {
	[ "$status" = "$1" ] || {
		cat "$work/errors"
		give_up "exit status $status, expected $1"
	}
}

# Checks that the named file contains the text.
assert_says() {
	grep -qF -- "$2" "$1" || {
		printf 'does not say "%s":\n' "$2"
		cat "$1"
		exit 1
	}
}

# Runs fairground to its end. Its exit status goes into `status`, its output into the files `output`
# and `errors` in the work folder.
fairground() {
	status=0
	timeout -k 5 1500 "$fairground" "$@" > "$work/output" 2> "$work/errors" || status=$?
}

# Starts fairground in the background, with its process id in `loader`. A shell's background jobs
# ignore SIGINT unless told otherwise.
start_fairground() {
	env --default-signal=INT,QUIT "$fairground" "$@" > "$work/loader.output" 2> "$work/loader.errors" &
	loader=$!
}

# Whether a process has ended, even if it has not been waited for yet.
has_ended() {
	! grep -q '^State:[[:space:]]*[^XZ]' "/proc/$1/status"
}

# Waits for the fairground in the background to end; `status`, `output` and `errors` as above.
await_loader() {
	(wait_until has_ended "$loader") || {
		kill -KILL "$loader"
		exit 1
	}
	status=0
	wait "$loader" || status=$?
	mv "$work/loader.output" "$work/output"
	mv "$work/loader.errors" "$work/errors"
}

# A task that the scheduler `faulty` picks on.
make_victim() {
	[ -x "$work/victim" ] || cp /bin/sleep "$work/victim"
}
