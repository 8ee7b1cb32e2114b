"""A `mt-generate serve` of a script's own, on any free port, and a tiny model for it."""
import contextlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

root = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = str(root / "build/release/cmd/mt-generate")


def make_model(folder, positions):
    """testdata's llama with room for longer texts."""
    shutil.copytree(root / "testdata/trl/llama", folder)
    path = pathlib.Path(folder) / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"max_position_embeddings": positions}))
    return folder


@contextlib.contextmanager
def serving(program, model, *arguments):
    """Its process and its URL; in the end it is told to stop, and must do so with exit code 0."""
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen([program, "serve", "--load", str(model), "--port", "0", *arguments], stderr=log)
        try:
            url = None
            while url is None and process.poll() is None:
                time.sleep(0.1)
                log.seek(0)
                found = re.search(r"^serving url=(\S+)", log.read(), re.M)
                url = found and found[1]
            if url is None:
                log.seek(0)
                sys.exit(f"no server: {log.read()}")
            yield process, url
        finally:
            process.terminate()
            code = process.wait(60)
        if code != 0:
            sys.exit(f"the server ended with {code}")
