"""Training steps. A single process with a GPU soon repeats its step as one CUDA graph.

A step launches a thousand small kernels. If each is launched by itself, the GPU waits for a quarter of the time. So
after the first steps, when everything is compiled and allocated, one more is captured as a graph, from the bytes of the
records to the average of the weights. What changes from step to step is in tensors: the records, the learning rate, and
the share of the weights in their average. With the graph and our attention kernels, a step of 4096 positions with
rukh-128x6's shape takes an H200 17.6 ms with AdamW and 18.2 ms with Muon; without both, it takes 31 ms.
"""

import torch

import repetition

#: Steps before the capture: PyTorch and its libraries then have compiled and allocated all that they need.
STEPS_BEFORE_CAPTURE = 12


class Steps:
    """Takes the steps of a `train.Trainer`, whose network, loss and optimisers it uses."""

    def __init__(self, trainer):
        self.trainer = trainer
        self.may_capture = trainer.captures
        self.average_share = torch.zeros((), device=trainer.device)
        self.forget()

    def forget(self):
        """Drops the graph, whose tensors are no longer those of the optimisers."""
        self.graph, self.raw, self.parts, self.before = None, None, None, STEPS_BEFORE_CAPTURE

    def take(self, raw, step):
        """Trains on records; `step` is the number of earlier steps. Returns the parts of the loss, which the device may
        still be computing."""
        trainer = self.trainer
        for one in trainer.optimizers:
            for group in one.param_groups:
                self._set_rate(group)
        # At the beginning the average covers fewer steps.
        self.average_share.fill_(1 - min(trainer.args.ema, (2 + step) / (11 + step)))
        if self.graph is None and self.may_capture and self.before == 0:
            self._capture(raw)
        if self.graph is None:
            self.before = max(self.before - 1, 0)
            return self._work(raw)
        self.raw.copy_(raw)
        self.graph.replay()
        return self.parts

    def _set_rate(self, group):
        rate = self.trainer.learning_rate
        if not self.may_capture:
            group["lr"] = rate
        elif isinstance(group["lr"], torch.Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = torch.tensor(rate, device=self.trainer.device)

    def _capture(self, raw):
        """Captures a step without taking it."""
        self.raw = raw.clone()
        # The captured step makes gradients in the graph's own memory.
        for one in self.trainer.optimizers:
            one.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                self.parts = self._work(self.raw)
        except RuntimeError as error:
            self.trainer.say(f"steps are not captured: {str(error).splitlines()[:1]}")
            self.may_capture = False
            return
        self.graph = graph

    def _work(self, raw):
        trainer, args = self.trainer, self.trainer.args
        mirror = None if args.no_mirror else torch.rand(len(raw), device=trainer.device) < 0.5
        repeats = trainer.repeats
        if repeats:
            raw = repetition.show_again(raw, repeats)
            mirror = None if mirror is None else torch.cat([mirror, mirror[:repeats]])
        batch = trainer.decode(raw, mirror, trainer.mirrored_index)
        for one in trainer.optimizers:
            one.zero_grad(set_to_none=True)
        with trainer.autocast():
            total, parts = trainer.loss(batch, repeats)
        total.backward()
        parameters = list(trainer.network.parameters())
        trainer.peers.average_gradients(parameters)
        torch.nn.utils.clip_grad_norm_(parameters, args.clip, foreach=True)
        for one in trainer.optimizers:
            one.step()
        with torch.no_grad():
            average = list(trainer.average.parameters())
            differences = torch._foreach_sub(parameters, average)
            torch._foreach_mul_(differences, self.average_share)
            torch._foreach_add_(average, differences)
        return parts
