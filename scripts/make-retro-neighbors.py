#!/usr/bin/env python3
"""Writes testdata/retro/{train,valid}.hdf5: neighbours, at random, as Megatron-LM's query stage keeps them.

    python scripts/make-retro-neighbors.py testdata/retro     needs h5py and numpy

Of 160 chunks of training and 32 of validation three neighbours each, among the first hundred chunks of a database; some
chunks have fewer, and -1 behind the last.
"""
import pathlib
import sys

import h5py
import numpy

random = numpy.random.RandomState(1)
for name, chunks in (("train", 160), ("valid", 32)):
    neighbors = random.randint(0, 100, size=(chunks, 3)).astype("int64")
    neighbors[::7, 1:] = -1
    neighbors[5::31] = -1
    with h5py.File(pathlib.Path(sys.argv[1]) / f"{name}.hdf5", "w") as file:
        file.create_dataset("neighbors", data=neighbors, track_times=False)
