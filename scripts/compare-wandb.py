#!/usr/bin/env python3
"""Have Weights & Biases' own client read a run's files, and compare every value with the run's log.

    scripts/compare-wandb.py WANDB FOLDER RUN.JSONL

WANDB is the client, FOLDER the offline-run-* that a run of mt-pretrain with --wandb-project has made,
RUN.JSONL its run log, written with --log-params-norm and --log-num-zeros-in-grad.  `wandb sync` sends the
run to a server in this program that knows as much as the client asks for.  Prints how many values were
compared; exit code 1 where one differs or is missing, or an option of the run is.

Needs PyPI's wandb (tried with 0.31.0).
"""

import gzip
import http.server
import json
import os
import subprocess
import sys
import threading

history, configs = [], []


class Server(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, content):
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer({})

    def do_PUT(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.answer({})

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        if self.path.endswith("/file_stream"):
            rows = json.loads(body).get("files", {}).get("wandb-history.jsonl", {}).get("content", [])
            history.extend(json.loads(row) for row in rows)
        if self.path != "/graphql":
            return self.answer({})
        request = json.loads(body)
        given = request.get("variables") or {}
        if "upsertBucket" in request["query"]:
            configs.append(json.loads(given["config"]))
            entity = {"id": "e", "name": given.get("entity") or "me"}
            project = {"id": "p", "name": given["project"], "entity": entity}
            bucket = {"id": "r", "name": given["name"], "displayName": given.get("displayName"), "description": "",
                      "config": given["config"], "sweepName": None, "historyLineCount": 0, "project": project}
            data = {"upsertBucket": {"bucket": bucket, "inserted": True}}
        elif "viewer" in request["query"]:
            data = {"viewer": {"id": "v", "flags": "{}", "username": "me", "entity": "me", "teams": {"edges": []}}}
        elif "createRunFiles" in request["query"]:
            files = [{"name": name, "uploadUrl": f"http://127.0.0.1:{self.server.server_port}/{name}"}
                     for name in given.get("files", [])]
            data = {"createRunFiles": {"runID": "r", "uploadHeaders": [], "files": files}}
        else:
            data = {"serverInfo": {"features": [], "cliVersionInfo": {"max_cli_version": "99"},
                                   "latestLocalVersionInfo": None}}
        self.answer({"data": data})


def expected_points(path):
    """{(step, tag): value} and the options, as the run log has them."""
    points, options, before = {}, {}, 0
    for line in open(path, encoding="utf-8"):
        event = json.loads(line)
        step = event.get("iteration")
        if event["event"] == "start":
            options = event["options"]
        elif event["event"] == "step":
            consumed = event["consumed_samples"]
            points |= {(step, "samples vs steps"): consumed, (step, "lm loss"): event["loss"],
                       (step, "grad-norm"): event["grad_norm"], (step, "batch-size"): consumed - before,
                       (step, "params-norm"): event["params_norm"], (step, "num-zeros"): event["num_zeros"]}
            before = consumed
        elif event["event"] == "eval":
            points[step, "lm loss " + {"valid": "validation", "test": "test"}[event["split"]]] = event["loss"]
    return points, options


def main():
    client, folder, log = sys.argv[1:]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    where = f"http://127.0.0.1:{server.server_port}"
    subprocess.run([client, "sync", folder], check=True, timeout=300, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, env=os.environ | {"WANDB_BASE_URL": where, "WANDB_API_KEY": "a" * 40})
    found = {(row["_step"], tag): value for row in history for tag, value in row.items()}
    points, options = expected_points(log)
    wrong = [f"{tag} of step {step}: {found.get((step, tag))}, expected {value}"
             for (step, tag), value in points.items() if found.get((step, tag)) != value]
    config = {name: value for one in configs for name, value in one.items()}
    wrong += [f"option {name}: {config.get(name.replace('-', '_'))}, expected {option['value']}"
              for name, option in options.items()
              if config.get(name.replace("-", "_"), {}).get("value", "none") != option["value"]]
    for line in wrong:
        print(line)
    print(f"{len(points)} points and {len(options)} options compared, {len(wrong)} differ")
    return 1 if wrong or not points or not options else 0


sys.exit(main())
