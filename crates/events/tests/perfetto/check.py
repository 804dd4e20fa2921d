# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks a trace against the schema that Perfetto publishes, and that it means something.

Usage: check.py TRACE. Prints one line of JSON with what was found; exits with an assertion where a check fails.
"""

import collections
import json
import sys
import warnings

warnings.filterwarnings("ignore")

from google.protobuf.unknown_fields import UnknownFieldSet  # noqa: E402
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema  # noqa: E402


def check_known(message, path):
    """Every field, down to the last message, is one that the schema has."""
    unknown = [field.field_number for field in UnknownFieldSet(message)]
    assert not unknown, f"{path}: fields {unknown} are not in Perfetto's schema"
    for descriptor, value in message.ListFields():
        if descriptor.type != descriptor.TYPE_MESSAGE:
            continue
        for part in [value] if hasattr(value, "ListFields") else value:
            check_known(part, f"{path}.{descriptor.name}")


def check_switches(cpu, events):
    """Times never decrease, and the task that leaves a CPU is the one that came before."""
    time, running = 0, None
    for event in events:
        assert event.timestamp >= time, f"CPU {cpu}: {event.timestamp} after {time}"
        time = event.timestamp
        if event.HasField("sched_switch"):
            switch = event.sched_switch
            assert running in (None, switch.prev_pid), f"CPU {cpu} at {time}: {running} ran"
            assert event.pid == switch.prev_pid
            running = switch.next_pid
    assert running in (None, 0), f"CPU {cpu} still runs {running} at the end"


def check_slices(track, events):
    """Slices of a track are closed and nested."""
    depth, time = 0, 0
    for timestamp, event in sorted(events, key=lambda entry: entry[0]):
        assert timestamp >= time
        time = timestamp
        if event.type == event.TYPE_SLICE_BEGIN:
            depth += 1
        elif event.type == event.TYPE_SLICE_END:
            depth -= 1
        assert depth >= 0, f"track {track}: a slice ends that did not begin"
    assert depth == 0, f"track {track}: a slice does not end"


def main():
    trace = schema.Trace()
    with open(sys.argv[1], "rb") as file:
        trace.ParseFromString(file.read())
    names = {0: None}
    processes = {}
    tracks = {}
    by_cpu = collections.defaultdict(list)
    by_track = collections.defaultdict(list)
    for number, packet in enumerate(trace.packet):
        check_known(packet, f"packet {number}")
        assert packet.WhichOneof("data"), f"packet {number} is empty"
        for process in packet.process_tree.processes:
            processes[process.pid] = process.cmdline[0]
        for thread in packet.process_tree.threads:
            assert thread.tgid in processes
            names[thread.tid] = thread.name
        if packet.HasField("ftrace_events"):
            by_cpu[packet.ftrace_events.cpu].extend(packet.ftrace_events.event)
        if packet.HasField("track_descriptor"):
            descriptor = packet.track_descriptor
            assert descriptor.parent_uuid in tracks or not descriptor.parent_uuid
            if descriptor.HasField("thread"):
                assert descriptor.thread.pid in processes
                tracks[descriptor.uuid] = names[descriptor.thread.tid]
            else:
                tracks[descriptor.uuid] = descriptor.name
        if packet.HasField("track_event"):
            by_track[packet.track_event.track_uuid].append((packet.timestamp, packet.track_event))

    kinds = collections.Counter()
    states = collections.Counter()
    for cpu, events in by_cpu.items():
        check_switches(cpu, events)
        for event in events:
            kind = event.WhichOneof("event")
            kinds[kind] += 1
            assert event.pid in names
            part = getattr(event, kind)
            if kind == "sched_switch":
                states[part.prev_state] += 1
                pairs = [(part.prev_pid, part.prev_comm), (part.next_pid, part.next_comm)]
            else:
                pairs = [(part.pid, part.comm)]
            for pid, comm in pairs:
                expected = names[pid] or f"swapper/{cpu}"
                assert comm == expected, f"thread {pid} is {comm} and {expected}"
    slices = collections.Counter()
    for track, events in by_track.items():
        assert track in tracks, f"track {track} has no descriptor"
        check_slices(track, events)
        for _, event in events:
            if event.type != event.TYPE_SLICE_END:
                slices[f"{tracks[track]}: {event.name}"] += 1
    print(
        json.dumps(
            {
                "processes": processes,
                "threads": sorted(name for name in names.values() if name),
                "kinds": kinds,
                "states": {str(state): count for state, count in states.items()},
                "slices": slices,
            },
            sort_keys=True,
        )
    )


main()
