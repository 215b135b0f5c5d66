"""Scores as a service
===================

A saved model answers requests over HTTP: rows in, scores and reasons out. The standard library is
enough. The page starts the service, sends rows to it and compares the answer with the scores in
this process.
"""

# %%
# A saved model
# -------------
# Machines of two kinds, whose power is twice their temperature plus noise. ``fdsm train`` writes
# the same folder.

import io
import json
import tempfile
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.request import Request, urlopen

import numpy as np

from fdsm import tables

rng = np.random.default_rng(0)
kind = rng.choice(["pump", "fan"], 500)
temperature = rng.normal(np.where(kind == "pump", 60, 40), 3)
power = 2 * temperature + rng.normal(size=500)
folder = tempfile.mkdtemp()
machines = {"kind": kind, "temperature": temperature.round(1), "power": power.round(1)}
tables.TableModel.fit(machines, iterations=200).save(folder)

# %%
# The service
# -----------
# ``score_arriving`` reads csv or JSON lines and writes the same format. A line that is not JSON
# has a problem in place of a score, and does not stop the others. What is not a table at all gets
# the status 400.

model = tables.load(folder)


class Scores(BaseHTTPRequestHandler):
    """Answers rows with their scores."""

    def do_POST(self) -> None:
        """Score the rows of a request."""
        rows = io.BytesIO(self.rfile.read(int(self.headers["Content-Length"])))
        status, answer = 200, io.BytesIO()
        try:
            tables.score_arriving(model, rows, answer, alpha=0.01)
        except tables.DataError as error:
            status, answer = 400, io.BytesIO(f"{error}\n".encode())
        self.send_response(status)
        self.end_headers()
        self.wfile.write(answer.getvalue())

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Print nothing."""


server = ThreadingHTTPServer(("127.0.0.1", 0), Scores)
Thread(target=server.serve_forever).start()

# %%
# Requests
# --------
# An ordinary pump, a pump as cool as a fan, a kind that never occurred in training, a row without
# its power, and a line that was cut off.

rows = [
    {"kind": "pump", "temperature": 61.0, "power": 122.5},
    {"kind": "pump", "temperature": 41.0, "power": 82.0},
    {"kind": "valve", "temperature": 58.5, "power": 117.0},
    {"kind": "fan", "temperature": 40.5},
]
lines = "".join(json.dumps(row) + "\n" for row in rows) + '{"kind": "pump", "temp'


def post(lines: str) -> list[dict[str, object]]:
    """Return the answer of the service."""
    address = f"http://127.0.0.1:{server.server_port}"
    with urlopen(Request(address, lines.encode()), timeout=60) as answer:
        return [json.loads(line) for line in answer]


scored = post(lines)
for row in scored:
    shown = f"{row['p_value']:.4f}" if row["p_value"] is not None else row["problem"]
    print(f"{row.get('kind', '-')}: {shown} {row['reasons']}")

# %%
# The same numbers
# ----------------
# The answer has the scores that the model gives in this process, digit for digit.

expected = model.score(rows, alpha=0.01).columns().to_pylist()
assert scored[:-1] == [row | new for row, new in zip(rows, expected, strict=True)]

started = time.perf_counter()
post(lines)
print(f"one request takes {1000 * (time.perf_counter() - started):.0f} ms")
server.shutdown()
server.server_close()
