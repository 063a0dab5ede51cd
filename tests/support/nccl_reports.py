"""What NCCL reports about a run, and a server that does so as a process of the run would.

Written after `src/ras/client_support.cc` of NCCL 2.27.7, 2.28.9, 2.29.7 and 2.30.7: `jsonWriteHeader`,
`jsonStartCommunicator`, `jsonWriteRankData`, `jsonWriteMissingRank`, `jsonWriteFooter` and `rasClientEventLoop`.
"""

from __future__ import annotations

import contextlib
import socketserver
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

KINDS = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")
VERSIONS = ("2.28.7", "2.28.9", "2.29.7", "2.30.7")
"""Those with JSON."""
TEXT = """\
NCCL version 2.27.7 compiled with CUDA 12.9
CUDA runtime version 12090, driver version 12090

Job summary
===========

"""
"""How the report of a version without JSON begins."""


class Rank(NamedTuple):
    """A rank of the only communicator."""

    pid: int
    counts: tuple[int, ...] = ()
    """By kind; none if it does not answer."""


def reported(ranks: Sequence[Rank], version: str = VERSIONS[-1]) -> str:
    """Return the report of a version."""

    def known(number: int, each: Rank) -> str:
        counts = ",\n".join(f'            "{kind}": {count}' for kind, count in zip(KINDS, each.counts, strict=True))
        return f"""\
        {{
          "rank": {number},
          "host": "127.0.0.1",
          "pid": {each.pid},
          "cuda_dev": {number},
          "nvml_dev": {number},
          "status": {{
            "init_state": 0,
            "async_error": 0,
            "finalize_called": false,
            "destroy_flag": false,
            "abort_flag": false
          }},
          "collective_counts": {{
{counts}
          }}
        }}"""

    def missing(number: int, each: Rank) -> str:
        comma = "" if version.startswith("2.28.") else ","
        return f"""\
        {{
          "rank": {number},
          "host": "127.0.0.1",
          "pid": {each.pid},
          "cuda_dev": {number},
          "nvml_dev": {number}{comma}
          "status": {{
            "unresponsive": true,
            "considered_dead": false
          }}
        }}"""

    answered = [known(number, each) for number, each in enumerate(ranks) if each.counts]
    silent = [missing(number, each) for number, each in enumerate(ranks) if not each.counts]
    listed, lost = ",\n".join(answered), ",\n".join(silent)
    return f"""\
{{
  "nccl_version": "{version}",
  "cuda_runtime_version": 13000,
  "cuda_driver_version": 13000,
  "timestamp": "2026-02-03 10:00:00",
  "communicators_count": 1,
  "communicators": [
    {{
      "hash": "0xae94423cfbb2ef4a",
      "secondary_hash": "0xb7e7187447156001:0xb8242ed28a71381e",
      "size": {len(ranks)},
      "ranks_count": {len(answered)},
      "missing_ranks_count": {len(silent)},
      "ranks": [
{listed}
      ],
      "missing_ranks": [
{lost}
      ]
    }}
  ],
  "ras": {{
    "collection_time_sec": 0.002,
    "timeouts_count": 0
  }}
}}
"""


@contextlib.contextmanager
def reporting(report: Callable[[], str]) -> Iterator[str]:
    """Answer as NCCL does, and yield the address. `report`: returns the next report; "" for a silent process."""

    class Answer(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            said = report()
            for line in self.rfile if said else ():
                word = line.decode().strip().lower()
                if word == "status":
                    self.wfile.write(said.encode())
                    return
                is_known = word.startswith("timeout ") or (word == "set format json" and said.startswith("{"))
                self.wfile.write(b"OK\n" if is_known else b"ERROR: Unknown command " + line.strip() + b"\n")
            silent.wait()

    silent = threading.Event()
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            silent.set()
            server.shutdown()
            thread.join()
