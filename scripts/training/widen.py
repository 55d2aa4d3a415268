"""Makes a network wider that then gives the same outputs.

Every channel of the body gets copies, and so do heads, and the channels of the feed-forward layers. The weights of a sum
over all copies are divided by their number; a mean and a variance over all copies are those of one. Such a network can
cost as much as a large one, and is searched like a trained one. With random weights, searches find fewer leaves for a
batch, and so show less of what several cards can do.
"""

from dataclasses import replace

import torch
from torch import nn

from model import Network


def widen(network, factor):
    """A network `factor` times as wide, with the outputs of `network`."""
    shape = network.shape
    wide = Network(replace(shape, width=factor * shape.width, heads=factor * shape.heads, ffn=factor * shape.ffn))
    with torch.no_grad():
        for module, target in zip(network.modules(), wide.modules()):
            has_inputs = isinstance(module, nn.Linear)
            for (name, values), copies in zip(module.named_parameters(recurse=False), target.parameters(recurse=False)):
                counts = [new // old for new, old in zip(copies.shape, values.shape)]
                share = counts[1] if has_inputs and name == "weight" else 1
                copies.copy_(values.repeat(counts) / share)
    return wide
