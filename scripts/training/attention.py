"""Attention over the 64 squares with a bias of each logit, as two Triton kernels for a GPU.

PyTorch's own kernels take a third of a training step's time on the GPU: they are made for long sequences, and the
gradient of the bias, of which smolgen makes 64 * 64 numbers for each head and position, is slow in them. Here a program
computes one head of one position in registers. It reads its queries, keys and values where the product wrote them, and
writes its output where the next product reads it. Of the tensors as large as the
logits, only the bias and its gradient are in memory: the backward pass computes the probabilities again.
"""

import torch

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

SQUARES = 64
#: The depths of a head that the kernels have: powers of two, and at least 16 for the hardware's products.
DEPTHS = (16, 32, 64)
#: The number of warps for one head of one position.
WARPS = 4


def can_attend(qkv, heads):
    """Whether `attend` computes the attention of these queries, keys and values."""
    depth = qkv.shape[2] // 3 // heads
    return triton is not None and qkv.is_cuda and qkv.dtype == torch.bfloat16 and depth in DEPTHS


if triton is not None:

    @triton.jit
    def _place(width: tl.constexpr, depth: tl.constexpr, heads: tl.constexpr):
        """The places of a head's queries in qkv, of its outputs, and of its logits."""
        position = (tl.program_id(0) // heads).to(tl.int64)
        head = tl.program_id(0) % heads
        row = tl.arange(0, 64)[:, None]
        column = head * depth + tl.arange(0, depth)[None, :]
        queries = (position * 64 + row) * (3 * width) + column
        outputs = (position * 64 + row) * width + column
        logits = (position * heads + head) * 4096 + row * 64 + tl.arange(0, 64)[None, :]
        return queries, outputs, logits

    @triton.jit
    def _probabilities(q, k, bias, scale):
        logits = tl.dot(q, tl.trans(k)) * scale + bias.to(tl.float32)
        powers = tl.exp(logits - tl.max(logits, 1)[:, None])
        return powers / tl.sum(powers, 1)[:, None]

    @triton.jit
    def _forward(qkv, bias, mixed, scale, width: tl.constexpr, depth: tl.constexpr, heads: tl.constexpr):
        queries, outputs, logits = _place(width, depth, heads)
        q = tl.load(qkv + queries)
        k = tl.load(qkv + queries + width)
        v = tl.load(qkv + queries + 2 * width)
        p = _probabilities(q, k, tl.load(bias + logits), scale)
        tl.store(mixed + outputs, tl.dot(p.to(v.dtype), v).to(mixed.dtype.element_ty))

    @triton.jit
    def _backward(
        qkv, bias, d_mixed, d_qkv, d_bias, scale, width: tl.constexpr, depth: tl.constexpr, heads: tl.constexpr
    ):
        queries, outputs, logits = _place(width, depth, heads)
        q = tl.load(qkv + queries)
        k = tl.load(qkv + queries + width)
        v = tl.load(qkv + queries + 2 * width)
        d_out = tl.load(d_mixed + outputs)
        p = _probabilities(q, k, tl.load(bias + logits), scale)
        d_p = tl.dot(d_out, tl.trans(v))
        d_logits = (p * (d_p - tl.sum(p * d_p, 1)[:, None])).to(d_bias.dtype.element_ty)
        tl.store(d_bias + logits, d_logits)
        tl.store(d_qkv + queries, (tl.dot(d_logits, k) * scale).to(q.dtype))
        tl.store(d_qkv + queries + width, (tl.dot(tl.trans(d_logits), q) * scale).to(q.dtype))
        tl.store(d_qkv + queries + 2 * width, tl.dot(tl.trans(p.to(q.dtype)), d_out).to(q.dtype))


def _launch(kernel, tensors, heads):
    """Runs a kernel for all heads of all positions; the first tensor is qkv."""
    positions, _, width = tensors[0].shape
    width //= 3
    depth = width // heads
    kernel[(positions * heads,)](*tensors, depth**-0.5, width, depth, heads, num_warps=WARPS)


@torch.library.custom_op("rukh::attend", mutates_args=())
def attend(qkv: torch.Tensor, bias: torch.Tensor, heads: int) -> torch.Tensor:
    """The mixed values [batch][64][width] of `qkv` [batch][64][3 width], which has queries, keys and values side by side.
    `bias` [batch][heads][64][64] is added to the logits after these are divided by the square root of a head's depth."""
    qkv, bias = qkv.contiguous(), bias.contiguous()
    mixed = qkv.new_empty((qkv.shape[0], SQUARES, qkv.shape[2] // 3))
    _launch(_forward, (qkv, bias, mixed), heads)
    return mixed


@attend.register_fake
def _(qkv, bias, heads):
    return qkv.new_empty((qkv.shape[0], SQUARES, qkv.shape[2] // 3))


@torch.library.custom_op("rukh::attend_backward", mutates_args=())
def attend_backward(
    qkv: torch.Tensor, bias: torch.Tensor, d_mixed: torch.Tensor, heads: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradients of `qkv` and `bias` for that of the mixed values."""
    qkv, bias, d_mixed = qkv.contiguous(), bias.contiguous(), d_mixed.contiguous()
    d_qkv, d_bias = torch.empty_like(qkv), torch.empty_like(bias)
    _launch(_backward, (qkv, bias, d_mixed, d_qkv, d_bias), heads)
    return d_qkv, d_bias


@attend_backward.register_fake
def _(qkv, bias, d_mixed, heads):
    return (
        torch.empty_like(qkv, memory_format=torch.contiguous_format),
        torch.empty_like(bias, memory_format=torch.contiguous_format),
    )


def _save(ctx, inputs, output):
    qkv, bias, ctx.heads = inputs
    ctx.save_for_backward(qkv, bias)


def _differentiate(ctx, d_mixed):
    qkv, bias = ctx.saved_tensors
    return *attend_backward(qkv, bias, d_mixed, ctx.heads), None


attend.register_autograd(_differentiate, setup_context=_save)
