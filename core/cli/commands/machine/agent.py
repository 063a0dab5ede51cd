"""The command `agent`: answer the Trainyard of another machine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from core.language import tr

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

SSH_CONNECTION = "SSH_CONNECTION"
"""The variable in which sshd says who has connected: client address, client port, server address, server port."""


def add_options(parser: ArgumentParser) -> None:
    """Add the options of `agent`."""
    parser.add_argument(
        "--stdio", action="store_true", help=tr("talk over standard input and output; there is no other way yet")
    )


def agent(options: Namespace) -> int:
    """Answer the Trainyard of another machine, which starts this through ssh; see `hosts`."""
    if not options.stdio:
        raise ValueError(
            tr("The agent is started by the Trainyard of another machine (trainyard hosts add), as: agent --stdio")
        )
    from core.config.abilities import (
        PART_ABILITIES,
        START_ABILITIES,  # the other commands do without these
    )
    from core.hosts.agent.server import serve

    peer = os.environ.get(SSH_CONNECTION, "").partition(" ")[0]
    serve(options.runs, START_ABILITIES | PART_ABILITIES, peer)
    return 0
