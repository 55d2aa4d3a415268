"""Data-parallel training: several processes train one network, each on its own device with its own random batches.

All processes begin with the same weights, average their gradients in each step and take the same step, so that their
weights stay equal. The first process keeps the clock, evaluates, and writes files.
"""

import os
import signal
import socket

import torch
from torch import distributed


class Peers:
    """The processes of a run; this process is number `rank` of `count`."""

    def __init__(self, rank=0, count=1):
        self.rank, self.count = rank, count

    @property
    def is_first(self):
        return self.rank == 0

    def average_gradients(self, parameters):
        """Replaces each gradient by its mean over all processes."""
        if self.count == 1:
            return
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        distributed.all_reduce(flat)
        flat /= self.count
        parts = flat.split([gradient.numel() for gradient in gradients])
        torch._foreach_copy_(gradients, [part.view_as(like) for part, like in zip(parts, gradients, strict=True)])

    def sum(self, tensor):
        """Replaces a tensor by its sum over all processes."""
        if self.count > 1:
            distributed.all_reduce(tensor)
        return tensor

    def broadcast_from_first(self, figures, device):
        """Returns the first process's figures in all processes."""
        if self.count == 1:
            return figures
        received = torch.tensor(figures, dtype=torch.float64, device=device)
        distributed.broadcast(received, src=0)
        return received.tolist()

    def share_tensors(self, tensors):
        """Replaces the tensors of all processes by those of the first."""
        if self.count > 1:
            for tensor in tensors:
                distributed.broadcast(tensor, src=0)


def _join(rank, count, port, device_type, work, arguments):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    if device_type == "cuda":
        torch.cuda.set_device(rank)
    distributed.init_process_group("nccl" if device_type == "cuda" else "gloo", rank=rank, world_size=count)
    try:
        work(Peers(rank, count), *arguments)
    finally:
        distributed.destroy_process_group()


def run(count, device_type, work, *arguments):
    """Calls `work(peers, *arguments)` in `count` processes, or in this process if `count` is 1."""
    if count == 1:
        return work(Peers(), *arguments)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    join_arguments = (count, port, device_type, work, arguments)
    processes = torch.multiprocessing.spawn(_join, args=join_arguments, nprocs=count, join=False)

    def end_all(*_):
        for process in processes.processes:
            process.terminate()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end_all)
    while not processes.join():
        pass
