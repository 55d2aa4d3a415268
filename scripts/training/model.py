"""The network: an attention body with smolgen and heads for attention policy, WDL and moves left, as in lc0's files.

Activations are [batch][64 squares][channels]. Layers have the names of the file's fields, so that `lc0_file` reads and
writes them by name. The model differs from the file in two points: the embedding has columns only for the planes that a
record fills (`records.PLANES`), with plane 109 scaled; and the moves-left output is in units of `MOVES_LEFT_UNIT`
plies. `lc0_file` converts both.
"""

from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import nn

from attention import attend, can_attend
from policy_map import ATTENTION_LOGITS
from records import PLANES

#: Added to the variance in the encoders' LayerNorms, and in smolgen's.
ENCODER_EPSILON = 1e-6
SMOLGEN_EPSILON = 1e-3
#: Plies per unit of the moves-left output, chosen so that the output is of order 1.
MOVES_LEFT_UNIT = 20.0

ACTIVATIONS = {
    "relu": F.relu,
    "mish": F.mish,
    "swish": F.silu,
    "relu_2": lambda x: F.relu(x).square(),
}


@dataclass
class Shape:
    """Sizes and activations of a network."""

    width: int = 128
    layers: int = 6
    heads: int = 8
    ffn: int = 256
    #: Smolgen's channels per square, hidden size, and size generated per head; all 0 without smolgen.
    smolgen: tuple = (8, 64, 32)
    #: Width of the policy's embedding, and of its queries and keys.
    policy: int = 128
    #: Channels per square and hidden size of the scalar heads.
    value: tuple = (16, 128)
    moves_left: tuple = (4, 32)
    #: The activation of the embedding and the heads: relu or mish, because the file can name no other.
    default_activation: str = "mish"
    ffn_activation: str = "relu_2"
    smolgen_activation: str = "swish"

    def __post_init__(self):
        self.smolgen, self.value, self.moves_left = tuple(self.smolgen), tuple(self.value), tuple(self.moves_left)
        if self.width % self.heads:
            raise ValueError(f"{self.heads} heads do not divide a width of {self.width}")
        if self.default_activation not in ("relu", "mish"):
            raise ValueError(f"the default activation can be relu or mish, not {self.default_activation}")

    def as_dict(self):
        return asdict(self)


def product(x, layers, first_scale=1.0):
    """The outputs of dense layers that read the same x, side by side. The engine computes such layers with one product,
    and first multiplies the weights of the first layer by `first_scale`, which it then leaves out elsewhere. Here that
    changes nothing; `rounding.Rounding` needs it."""
    del first_scale
    if len(layers) == 1:
        return layers[0](x)
    return F.linear(x, torch.cat([layer.weight for layer in layers]), torch.cat([layer.bias for layer in layers]))


def positional_table():
    """The fixed table [64][64] of PE_MAP: -1 for the square itself, 1 for squares that a queen or a knight on it
    reaches on an empty board, and 0 for others."""
    table = torch.zeros(64, 64)
    for square in range(64):
        for other in range(64):
            ranks, files = abs(square // 8 - other // 8), abs(square % 8 - other % 8)
            if ranks == files == 0:
                table[square, other] = -1
            elif ranks == 0 or files == 0 or ranks == files or ranks * files == 2:
                table[square, other] = 1
    return table


class Smolgen(nn.Module):
    """Smolgen: biases of the attention logits, generated from the whole board."""

    def __init__(self, shape):
        super().__init__()
        channels, hidden, generated = shape.smolgen
        self.heads, self.generated = shape.heads, generated
        self.activation = ACTIVATIONS[shape.smolgen_activation]
        self.compress = nn.Linear(shape.width, channels, bias=False)
        self.dense1 = nn.Linear(64 * channels, hidden)
        self.ln1 = nn.LayerNorm(hidden, eps=SMOLGEN_EPSILON)
        self.dense2 = nn.Linear(hidden, shape.heads * generated)
        self.ln2 = nn.LayerNorm(shape.heads * generated, eps=SMOLGEN_EPSILON)

    def forward(self, x, smolgen_w, product):
        x = product(x, [self.compress]).flatten(1)
        x = self.ln1(self.activation(product(x, [self.dense1])))
        x = self.ln2(self.activation(product(x, [self.dense2])))
        return product(x.view(-1, self.heads, self.generated), [smolgen_w]).view(-1, self.heads, 64, 64)


class Encoder(nn.Module):
    """A post-LayerNorm encoder: y = LN(x + alpha * branch(x)), for attention and for the feed-forward network."""

    def __init__(self, shape):
        super().__init__()
        width = shape.width
        self.heads = shape.heads
        self.alpha = (2 * shape.layers) ** -0.25
        self.activation = ACTIVATIONS[shape.ffn_activation]
        self.q = nn.Linear(width, width)
        self.k = nn.Linear(width, width)
        self.v = nn.Linear(width, width)
        self.dense = nn.Linear(width, width)
        self.smolgen = Smolgen(shape) if shape.smolgen[0] else None
        #: Whether `attention.py` computes the attention where it can.
        self.uses_kernels = True
        self.ln1 = nn.LayerNorm(width, eps=ENCODER_EPSILON)
        self.ffn1 = nn.Linear(width, shape.ffn)
        self.ffn2 = nn.Linear(shape.ffn, width)
        self.ln2 = nn.LayerNorm(width, eps=ENCODER_EPSILON)

    def forward(self, x, smolgen_w, product):
        batch, _, width = x.shape
        depth = width // self.heads
        qkv = product(x, [self.q, self.k, self.v], depth**-0.5)
        bias = None if self.smolgen is None else self.smolgen(x, smolgen_w, product).to(qkv.dtype)
        if self.uses_kernels and bias is not None and can_attend(qkv, self.heads):
            mixed = attend(qkv, bias, self.heads)
        else:
            # [batch][heads][64][depth], scaled by 1/sqrt(depth); the bias is added after the scaling.
            q, k, v = qkv.view(batch, 64, 3, self.heads, depth).permute(2, 0, 3, 1, 4).unbind(0)
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=bias).transpose(1, 2).reshape(batch, 64, width)
        x = self.ln1(x + self.alpha * product(mixed, [self.dense]))
        return self.ln2(x + self.alpha * product(self.activation(product(x, [self.ffn1])), [self.ffn2]))


class ScalarHead(nn.Module):
    """The value or the moves-left head: a dense layer that is applied to each square, then two layers over the whole
    board."""

    def __init__(self, shape, sizes, outputs):
        super().__init__()
        channels, hidden = sizes
        self.activation = ACTIVATIONS[shape.default_activation]
        self.ip = nn.Linear(shape.width, channels)
        self.ip1 = nn.Linear(64 * channels, hidden)
        self.ip2 = nn.Linear(hidden, outputs)

    def forward(self, x):
        x = self.activation(self.ip(x)).flatten(1)
        return self.ip2(self.activation(self.ip1(x)))


class PolicyHead(nn.Module):
    """The attention policy: products of the squares' queries and keys, with offsets for promotions."""

    def __init__(self, shape):
        super().__init__()
        self.activation = ACTIVATIONS[shape.default_activation]
        self.ip_pol = nn.Linear(shape.width, shape.policy)
        self.ip2_pol = nn.Linear(shape.policy, shape.policy)
        self.ip3_pol = nn.Linear(shape.policy, shape.policy)
        # Offsets for queen, rook and bishop, and one that is added to all three.
        self.ip4_pol = nn.Linear(shape.policy, 4, bias=False)

    def forward(self, x, product):
        """Logits [batch][4288] in the order of policy_map."""
        batch = x.shape[0]
        x = self.activation(product(x, [self.ip_pol]))
        scale = self.ip2_pol.out_features**-0.5
        queries, keys = product(x, [self.ip2_pol, self.ip3_pol], scale).chunk(2, dim=2)
        scores = (queries @ keys.transpose(1, 2)) * scale
        # [batch][8 target files][4]
        offsets = self.ip4_pol(keys[:, 56:])
        offsets = offsets[:, :, :3] + offsets[:, :, 3:]
        promotions = scores[:, 48:56, 56:, None] + offsets[:, None]
        logits = torch.cat([scores.flatten(1), promotions.flatten(1)], dim=1)
        assert logits.shape == (batch, ATTENTION_LOGITS)
        return logits


class Network(nn.Module):
    """The whole network. `forward` takes `batches.Batch.planes` and returns 4288 policy logits, 3 logits of win,
    draw and loss, and the plies left in units of MOVES_LEFT_UNIT, before the ReLU that `plies_left` applies. `product`
    computes the dense layers that the engine can compute with 8-bit integers."""

    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.activation = ACTIVATIONS[shape.default_activation]
        self.ip_emb = nn.Linear(len(PLANES), shape.width)
        self.ip_emb_position = nn.Linear(64, shape.width, bias=False)
        self.ip_mult_gate = nn.Parameter(torch.ones(64, shape.width))
        self.ip_add_gate = nn.Parameter(torch.zeros(64, shape.width))
        self.smolgen_w = nn.Linear(shape.smolgen[2], 4096, bias=False) if shape.smolgen[0] else None
        self.encoder = nn.ModuleList(Encoder(shape) for _ in range(shape.layers))
        self.policy = PolicyHead(shape)
        self.value = ScalarHead(shape, shape.value, 3)
        self.moves_left = ScalarHead(shape, shape.moves_left, 1)
        self.register_buffer("positions", positional_table(), persistent=False)
        self.initialise()

    def initialise(self):
        """Draws the initial weights at Xavier's scale, and at a smaller scale in the encoders' branches, as in DeepNorm
        (Wang et al. 2022). The moves-left output begins at about 60 plies."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_normal_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        # Most entries of the planes and of the table are 0.
        nn.init.normal_(self.ip_emb.weight, std=0.5)
        nn.init.normal_(self.ip_emb_position.weight, std=0.1)
        branch_gain = (8 * self.shape.layers) ** -0.25
        for encoder in self.encoder:
            for layer in (encoder.v, encoder.dense, encoder.ffn1, encoder.ffn2):
                nn.init.xavier_normal_(layer.weight, gain=branch_gain)
        if self.smolgen_w is not None:
            nn.init.normal_(self.smolgen_w.weight, std=0.5 * self.shape.smolgen[2] ** -0.5)
        for head in (self.value, self.moves_left):
            nn.init.normal_(head.ip2.weight, std=0.1 * head.ip2.in_features**-0.5)
        nn.init.constant_(self.moves_left.ip2.bias, 60.0 / MOVES_LEFT_UNIT)

    def forward(self, planes, product=product):
        x = self.ip_emb(planes) + self.ip_emb_position(self.positions)
        x = self.activation(x) * self.ip_mult_gate + self.ip_add_gate
        for encoder in self.encoder:
            x = encoder(x, self.smolgen_w, product)
        return self.policy(x, product), self.value(x), self.moves_left(x)[:, 0]

    def parameter_count(self):
        return sum(parameter.numel() for parameter in self.parameters())


def plies_left(output):
    """Converts the moves-left output to plies."""
    return F.relu(output) * MOVES_LEFT_UNIT
