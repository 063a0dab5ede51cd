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
    from core.config.part_abilities import PART_ABILITIES  # the other commands do without these
    from core.hosts.agent.abilities import ABILITIES
    from core.hosts.agent.server import serve
    from core.hosts.ray.reports import PEER

    abilities = {**ABILITIES, **PART_ABILITIES}
    if PEER in os.environ:  # on a node of Ray, where no whole run starts: our code there is removed when it is not used
        peer = os.environ.pop(PEER)
    else:
        from core.config.host_abilities import START_ABILITIES

        abilities |= START_ABILITIES
        peer = os.environ.get(SSH_CONNECTION, "").partition(" ")[0]
    serve(options.runs, abilities, peer)
    return 0
