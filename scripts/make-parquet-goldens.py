#!/usr/bin/env python3
"""Make testdata/parquet: small Parquet files by pyarrow, and the lines of JSON that their rows are.

NAME.parquet is read beside NAME.jsonl, or beside rows.jsonl, whose rows several have in other encodings.

Run:  scripts/make-parquet-goldens.py     with pyarrow, and numpy for numbers of 16 bits
"""
import datetime
import decimal
import json
import pathlib
import random

import numpy
import pyarrow as pa
import pyarrow.parquet as pq

FOLDER = pathlib.Path(__file__).parent.parent / "testdata" / "parquet"
ROWS = 40
SCHEMA = pa.schema([("text", pa.string()), ("id", pa.int64()), ("score", pa.float64()), ("ok", pa.bool_()),
                    ("messages", pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))),
                    ("nested", pa.list_(pa.list_(pa.int32()))),
                    ("meta", pa.struct([("a", pa.struct([("b", pa.int16())])), ("t", pa.list_(pa.string()))]))])
# Everything that may be null is, somewhere; pages are of a few rows, which lists go on over.
WAYS = {"plain": dict(compression="none", use_dictionary=False, write_page_checksum=True),
        "snappy": dict(compression="snappy", data_page_size=256),
        "gzip": dict(compression="gzip", data_page_version="2.0", data_page_size=256),
        "zstd": dict(compression="zstd", data_page_version="2.0", use_dictionary=False, write_page_checksum=True),
        "differences": dict(compression="none", use_dictionary=False, data_page_size=256,
                            column_encoding={"text": "DELTA_BYTE_ARRAY", "id": "DELTA_BINARY_PACKED", "score": "BYTE_STREAM_SPLIT",
                                             "messages.list.element.content": "DELTA_LENGTH_BYTE_ARRAY"})}


def some_text(draw: random.Random) -> str:
    return "".join(draw.choice("abc äö \"\\\n漢😀") for _ in range(draw.randrange(30)))


def rows() -> list[dict]:
    draw = random.Random(1)
    made = []
    for i in range(ROWS):
        messages = [{"role": draw.choice(["user", "assistant"]), "content": None if draw.random() < .1 else some_text(draw)}
                    for _ in range(draw.randrange(5))]
        nested = [[draw.randrange(9) for _ in range(draw.randrange(3))] if draw.random() > .2 else None for _ in range(draw.randrange(3))]
        made.append({"text": None if i % 7 == 3 else some_text(draw), "id": i * 3 - 7, "score": i / 8 + .0625 if i % 5 else None,
                     "ok": None if i % 11 == 0 else bool(i % 3), "messages": None if i % 13 == 0 else messages, "nested": nested,
                     "meta": None if i % 9 == 4 else {"a": {"b": i % 7}, "t": ["q"] * (i % 3)}})
    return made


def put_lines(name: str, lines: list[dict]) -> None:
    text = "".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines)
    (FOLDER / f"{name}.jsonl").write_text(text)


# Columns of every type, and what the four rows of each are; None in its place: the column is left out.
def put_types() -> None:
    date, moment, time, exact = datetime.date, datetime.datetime, datetime.time, decimal.Decimal
    moments = [moment(2026, 12, 1, 3, 4, 5, 678000), moment(1960, 1, 1), None, moment(1, 1, 1)]
    columns = {
        "date": (pa.array([date(1969, 12, 31), date(2024, 2, 29), None, date(1, 1, 1)]), ["1969-12-31", "2024-02-29", None, "0001-01-01"]),
        "utc": (pa.array(moments, pa.timestamp("us", "UTC")),
                ["2026-12-01T03:04:05.678000Z", "1960-01-01T00:00:00.000000Z", None, "0001-01-01T00:00:00.000000Z"]),
        "local": (pa.array(moments, pa.timestamp("ms")), ["2026-12-01T03:04:05.678", "1960-01-01T00:00:00.000", None, "0001-01-01T00:00:00.000"]),
        "time": (pa.array([time(1, 2, 3, 4), None, time(23, 59, 59), time(0)], pa.time64("us")),
                 ["01:02:03.000004", None, "23:59:59.000000", "00:00:00.000000"]),
        "exact": (pa.array([exact("-12.34"), exact("0.05"), None, exact("99999.99")], pa.decimal128(7, 2)), [-12.34, .05, None, 99999.99]),
        "cents": (pa.array([exact("-12.25"), exact("0.75"), None, exact("-0.25")], pa.decimal128(38, 2)), [-12.25, .75, None, -.25]),
        "u8": (pa.array([255, 0, None, 3], pa.uint8()), [255, 0, None, 3]),
        "u32": (pa.array([2**32 - 1, 0, None, 3], pa.uint32()), [2**32 - 1, 0, None, 3]),
        "u64": (pa.array([2**64 - 1, 0, None, 3], pa.uint64()), [2**64 - 1, 0, None, 3]),
        "i8": (pa.array([-128, 0, None, 3], pa.int8()), [-128, 0, None, 3]),
        "half": (pa.array([numpy.float16(1.5), None, numpy.float16("nan"), numpy.float16(-.25)], pa.float16()), [1.5, None, None, -.25]),
        "real": (pa.array([.1, float("inf"), None, -2.5], pa.float32()), [.1, None, None, -2.5]),
        "bytes": (pa.array([b"\xff", b"", None, b"a"]), None),
        "images": (pa.array([[b"x"], [], None, [b"y"]]), None),
        "long": (pa.array(["a", "", None, "b"], pa.large_string()), ["a", "", None, "b"]),
        "kind": (pa.array(["x", "y", None, "x"]).dictionary_encode(), ["x", "y", None, "x"]),
        "map": (pa.array([[("k", 1), ("l", None)], [], None, [("z\"", 3)]], pa.map_(pa.string(), pa.int32())),
                [{"k": 1, "l": None}, {}, None, {"z\"": 3}]),
        "numbers": (pa.array([[(1, "a")], [], None, [(3, None)]], pa.map_(pa.int64(), pa.string())), [{"1": "a"}, {}, None, {"3": None}]),
        "none": (pa.nulls(4), [None] * 4),
        "image": (pa.array([{"bytes": b"q", "path": "w"}, None, {"bytes": None, "path": None}, {"bytes": b"", "path": ""}]),
                  [{"path": "w"}, None, {"path": None}, {"path": ""}])}
    pq.write_table(pa.table({name: column for name, (column, _) in columns.items()}), FOLDER / "types.parquet")
    put_lines("types", [{name: values[i] for name, (_, values) in columns.items() if values is not None} for i in range(4)])


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    table = pa.Table.from_pylist(rows(), schema=SCHEMA)
    put_lines("rows", rows())
    for name, way in WAYS.items():
        pq.write_table(table, FOLDER / f"{name}.parquet", row_group_size=17, **way)
    pq.write_table(table.slice(0, 0), FOLDER / "empty.parquet")
    put_lines("empty", [])
    put_types()
    pq.write_table(pa.table({"at": pa.array([datetime.datetime(2026, 1, 2, 3, 4, 5)])}), FOLDER / "old.parquet",
                   use_deprecated_int96_timestamps=True)
    put_lines("old", [{"at": "2026-01-02T03:04:05.000000000"}])
    pq.write_table(pa.table({"text": ["a"]}), FOLDER / "brotli.parquet", compression="brotli")


if __name__ == "__main__":
    main()
