"""AdamW, and Muon (Jordan et al. 2024) for the matrices of the encoders.

Muon's step is the orthogonal matrix nearest to the momentum, computed by five Newton-Schulz iterations in bf16 with
Jordan's coefficients. Its length is scaled to that of AdamW's steps (Liu et al. 2025), so that one learning rate fits
both. Matrices of one shape are orthogonalised together, because a stack of two dozen small products takes as
long as one product.
"""

import torch

#: Root mean square of a step, about that of AdamW.
MUON_STEP = 0.2
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
NEWTON_SCHULZ_STEPS = 5


def orthogonalise(matrices):
    """Approximately U V^T for each matrix U S V^T of a stack [n][rows][columns]."""
    a, b, c = NEWTON_SCHULZ
    x = matrices.bfloat16()
    tall = x.shape[1] > x.shape[2]
    if tall:
        x = x.transpose(1, 2)
    x = x / (x.float().norm(dim=(1, 2), keepdim=True) + 1e-7).bfloat16()
    for _ in range(NEWTON_SCHULZ_STEPS):
        gram = x @ x.transpose(1, 2)
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.transpose(1, 2) if tall else x


class Muon(torch.optim.Optimizer):
    """Muon. Each parameter group holds matrices of one shape."""

    def __init__(self, groups, lr, momentum=0.95, weight_decay=0.0):
        super().__init__(groups, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            parameters, momentum = group["params"], group["momentum"]
            gradients = torch.stack([parameter.grad for parameter in parameters])
            state = self.state[parameters[0]]
            if "momentum" not in state:
                state["momentum"] = torch.zeros_like(gradients)
            average = state["momentum"]
            average.lerp_(gradients, 1 - momentum)
            step = orthogonalise(gradients.lerp(average, momentum)).to(gradients.dtype)
            scale = MUON_STEP * max(gradients.shape[1:]) ** 0.5
            torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
            torch._foreach_sub_(parameters, list((step * (group["lr"] * scale)).unbind(0)))


def build(network, kind, lr, weight_decay, capturable=False):
    """The optimisers of a network; `kind` is adamw or muon. Gains, biases and gates have no weight decay. Steps of
    optimisers that are `capturable` can be captured as a CUDA graph."""
    decayed, plain, muon = [], [], {}
    for name, parameter in network.named_parameters():
        in_encoder = name.startswith("encoder.") and parameter.ndim == 2
        if kind == "muon" and in_encoder:
            muon.setdefault(tuple(parameter.shape), []).append(parameter)
        elif parameter.ndim == 2 and "gate" not in name:
            decayed.append(parameter)
        else:
            plain.append(parameter)
    fused = next(network.parameters()).is_cuda
    groups = [{"params": decayed, "weight_decay": weight_decay}, {"params": plain, "weight_decay": 0.0}]
    optimizers = [torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.98), eps=1e-8, fused=fused, capturable=capturable)]
    if muon:
        stacks = [{"params": stack} for stack in muon.values()]
        optimizers.append(Muon(stacks, lr=lr, weight_decay=weight_decay))
    return optimizers
