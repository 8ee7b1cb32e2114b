"""Runs of other programs that are timed: what they print, when, and the most memory that a GPU holds meanwhile."""
import os
import subprocess
import sys
import tempfile
import threading
import time


def _failed(command, status, told):
    sys.exit(f"exit code {status}: {' '.join(str(word) for word in command)}\n{told or ''}")


def output_of(command, stderr=None):
    """What it prints, on stdout and, where that is a pipe, on stderr; the program ends where it fails."""
    run = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=stderr, text=True, check=False)
    if run.returncode:
        _failed(command, run.returncode, run.stderr)
    return run.stdout, run.stderr


def lines_of(command):
    """The lines of its stdout, each with the second that it came in, and what it says on stderr."""
    with tempfile.TemporaryFile("w+") as told:
        with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=told, text=True) as run:
            lines = [(time.perf_counter(), line) for line in run.stdout]
        told.seek(0)
        said = told.read()
    if run.returncode:
        _failed(command, run.returncode, said)
    return lines, said


def with_memory(run):
    """What it gives, and the most MiB that the first GPU that it sees has held meanwhile, beside what it held before."""
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]

    def held():
        return int(output_of(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i", first])[0])

    before, most, ended = held(), [0], threading.Event()

    def watch():
        while not ended.wait(0.2):
            most[0] = max(most[0], held())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        result = run()
    finally:
        ended.set()
        watcher.join()
    return result | {"mib": most[0] - before}
