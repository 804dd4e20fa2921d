# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads the Parquet files of several commands as one data set, with each of the usual libraries, and prints their findings as JSON."""

import json
import sys

import duckdb
import polars
import pyarrow.dataset


def with_pyarrow(files):
    table = pyarrow.dataset.dataset(files).to_table()
    maps = {name: [dict(row) for row in table[name].to_pylist()] for name in ("settings", "counters") if name in table.column_names}
    return summary(table.column_names, table.to_pydict(), maps)


def with_polars(files):
    frame = polars.read_parquet(files)
    maps = {name: frame[name].to_list() for name in ("settings", "counters") if name in frame.columns}
    return summary(frame.columns, frame.to_dict(as_series=False), maps)


def with_duckdb(files):
    relation = duckdb.read_parquet(files)
    rows = relation.fetchall()
    columns = {name: [row[place] for row in rows] for place, name in enumerate(relation.columns)}
    maps = {name: columns[name] for name in ("settings", "counters") if name in columns}
    return summary(relation.columns, columns, maps)


def summary(names, columns, maps):
    statuses = {}
    for status in columns["status"]:
        statuses[status] = statuses.get(status, 0) + 1
    return {
        "columns": list(names),
        "statuses": dict(sorted(statuses.items())),
        "workloads": sorted(set(columns["workload"])),
        "duration": sum(value for value in columns.get("duration_ns", []) if value is not None),
        "share": round(sum(value for value in columns.get("share", []) if value is not None), 9),
        "hashes": sorted({value for value in columns["workload_sha256"] if value is not None}),
        "settings": sorted({(key, value) for row in maps["settings"] for key, value in row.items()}),
        "counted": sum(value for row in maps.get("counters", []) for value in row.values()),
    }


files = sys.argv[1:]
found = {
    "pyarrow": with_pyarrow(files),
    "polars": with_polars(files),
    "duckdb": with_duckdb(files),
}
print(json.dumps(found))
