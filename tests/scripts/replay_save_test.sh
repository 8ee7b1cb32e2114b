#!/usr/bin/env bash
# Some of the moments at which a save can be cut off; scripts/nightly.sh tries them all.
set -euo pipefail
command -v strace >/dev/null && command -v python3 >/dev/null || exit 125
exec python3 "$1/scripts/replay-save.py" --bin "$2/cmd" --every 97
