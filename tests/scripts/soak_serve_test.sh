#!/usr/bin/env bash
# Some seconds of what scripts/nightly.sh does to a server for minutes.
set -euo pipefail
command -v python3 >/dev/null || exit 125
exec python3 "$1/scripts/soak-serve.py" --program "$2/cmd/mt-generate" --seconds 4 --streams 24 --half-open 100 --wrong 2
