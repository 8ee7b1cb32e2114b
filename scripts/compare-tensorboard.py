#!/usr/bin/env python3
"""Read the event files of a training run with TensorBoard and compare every value with the run's log.

    scripts/compare-tensorboard.py DIR RUN.JSONL

DIR is what --tensorboard-dir was, RUN.JSONL the run log of the same run, written with --log-throughput,
--log-params-norm, --log-num-zeros-in-grad and --log-validation-ppl-to-tensorboard, on a single job.
TensorBoard's own reader checks the framing, its checksums and the protobufs.  Values are compared as f32.
Prints how many were compared; exit code 1 where one differs or is missing.

Needs PyPI's tensorboard and numpy.
"""

import json
import math
import sys

import numpy as np
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def expected_curves(path):
    """{tag: [(step, value)]} as the run log has it."""
    curves = {}

    def add(tag, step, value, samples=None):
        curves.setdefault(tag, []).append((step, value))
        if samples is not None:
            curves.setdefault(tag + " vs samples", []).append((samples, value))

    consumed = before = 0
    for line in open(path, encoding="utf-8"):
        event = json.loads(line)
        step = event.get("iteration")
        if event["event"] == "step":
            consumed = event["consumed_samples"]
            add("lm loss", step, event["loss"], consumed)
            add("grad-norm", step, event["grad_norm"], consumed)
            add("batch-size", step, consumed - before, consumed)
            before = consumed
            for key, tag in (("num_zeros", "num-zeros"), ("params_norm", "params-norm")):
                if key in event:
                    add(tag, step, event[key], consumed)
            if "skipped_samples" in event:
                add("skipped-train-samples", step, event["skipped_samples"])
        elif event["event"] == "eval":
            tag = "lm loss " + {"valid": "validation", "test": "test"}[event["split"]]
            add(tag, step, event["loss"], consumed)
            add(tag + " ppl", step, math.exp(min(20, event["loss"])), consumed)
    return curves


def main():
    folder, log = sys.argv[1:]
    events = EventAccumulator(folder, size_guidance={"scalars": 0})
    events.Reload()
    found = {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    expected = expected_curves(log)
    compared = different = 0
    for tag, points in sorted(expected.items()):
        got = found.pop(tag, [])
        if len(got) != len(points):
            print(f"{tag}: {len(got)} points, expected {len(points)}")
            different += 1
            continue
        for (step, value), (wanted_step, wanted) in zip(got, points):
            compared += 1
            if step != wanted_step or np.float32(value) != np.float32(wanted):
                print(f"{tag}: ({step}, {value}), expected ({wanted_step}, {wanted})")
                different += 1
    # What the log does not have: only that there is a sensible point at each step.
    steps = [step for step, _ in expected["lm loss"]]
    for tag, points in sorted(found.items()):
        good = all(math.isfinite(v) and v >= 0 for _, v in points)
        if not good or not points:
            print(f"{tag}: {points}")
            different += 1
        elif tag in ("learning-rate", "loss-scale", "world-size") and [s for s, _ in points] != steps:
            print(f"{tag}: steps {[s for s, _ in points]}, expected {steps}")
            different += 1
    print(f"{compared} values compared, {different} differences; only checked: {', '.join(sorted(found))}")
    return 1 if different or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
