"""Writes a `model.Network` as lc0's .pb.gz file, and reads one back.

The file is a protobuf message. This module encodes the few wire types that it needs; the field numbers are those of
lc0's schema. Layers are LINEAR16: a smallest value, a largest value, and a 16-bit code for each value, which
interpolates between these two. The same network gives the same bytes.
"""

import gzip
import io
import struct

import numpy as np
import torch

from model import MOVES_LEFT_UNIT, Network, Shape
from records import PLANES, RULE50_SCALE

MAGIC = 0x1C0
INPUT_PLANES = 112
LICENCE = "GPL-3.0-or-later"

# Field numbers of the messages.
NET = {"magic": 1, "license": 2, "min_version": 3, "format": 4, "training_params": 5, "weights": 10}
ENGINE_VERSION = {"major": 1, "minor": 2, "patch": 3}
FORMAT = {"weights_encoding": 1, "network_format": 2}
NETWORK_FORMAT = {
    "input": 1, "output": 2, "network": 3, "policy": 4, "value": 5, "moves_left": 6,
    "default_activation": 7, "smolgen_activation": 8, "ffn_activation": 9, "input_embedding": 10,
}  # fmt: skip
TRAINING_PARAMS = {"training_steps": 1, "learning_rate": 2, "mse_loss": 3, "policy_loss": 4, "accuracy": 5,
                   "lc0_params": 6}  # fmt: skip
LAYER = {"min_val": 1, "max_val": 2, "params": 3}
WEIGHTS = {
    "ip_pol_w": 4, "ip_pol_b": 5, "ip1_val_w": 7, "ip1_val_b": 8, "ip2_val_w": 9, "ip2_val_b": 10,
    "ip1_mov_w": 13, "ip1_mov_b": 14, "ip2_mov_w": 15, "ip2_mov_b": 16, "ip2_pol_w": 17, "ip2_pol_b": 18,
    "ip3_pol_w": 19, "ip3_pol_b": 20, "ip4_pol_w": 22, "ip_emb_w": 25, "ip_emb_b": 26, "encoder": 27,
    "headcount": 28, "ip_val_w": 29, "ip_val_b": 30, "ip_mov_w": 31, "ip_mov_b": 32, "ip_mult_gate": 33,
    "ip_add_gate": 34, "smolgen_w": 35,
}  # fmt: skip
ENCODER = {"mha": 1, "ln1_gammas": 2, "ln1_betas": 3, "ffn": 4, "ln2_gammas": 5, "ln2_betas": 6}
MHA = {"q_w": 1, "q_b": 2, "k_w": 3, "k_b": 4, "v_w": 5, "v_b": 6, "dense_w": 7, "dense_b": 8, "smolgen": 9}
SMOLGEN = {"compress": 1, "dense1_w": 2, "dense1_b": 3, "ln1_gammas": 4, "ln1_betas": 5, "dense2_w": 6, "dense2_b": 7,
           "ln2_gammas": 8, "ln2_betas": 9}  # fmt: skip
FFN = {"dense1_w": 1, "dense1_b": 2, "dense2_w": 3, "dense2_b": 4}

# Numbers of the enumerations.
LINEAR16 = 1
INPUT_112_WITH_CASTLING_PLANE = 2
OUTPUT_WDL = 2
NETWORK_ATTENTIONBODY_WITH_HEADFORMAT = 6
POLICY_ATTENTION = 3
VALUE_WDL = 2
MOVES_LEFT_V1 = 1
INPUT_EMBEDDING_PE_MAP = 1
DEFAULT_ACTIVATIONS = {"relu": 0, "mish": 1}
ACTIVATIONS = {"mish": 1, "relu": 2, "swish": 7, "relu_2": 8}


# Encoding


def _varint(number):
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _number(field, number):
    return _varint(field << 3) + _varint(number)


def _bytes(field, data):
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _float(field, number):
    return _varint(field << 3 | 5) + struct.pack("<f", number)


def _message(fields, values):
    """Encodes a message {name: value}; a value is an int, a float, bytes, or a list of bytes."""
    encoded = []
    for name, field in sorted(fields.items(), key=lambda item: item[1]):
        value = values.get(name)
        if value is None:
            continue
        for one in value if isinstance(value, list) else [value]:
            encode = {int: _number, float: _float, bytes: _bytes}[type(one)]
            encoded.append(encode(field, one))
    return b"".join(encoded)


def linear16(values):
    """Encodes a layer. If all values are equal, every code is 0, which stands for the smallest value. If some are zero
    and the others have both signs, the range is widened until code 32768 is exactly zero, so that unused inputs have no
    influence at all."""
    values = np.ascontiguousarray(values, dtype=np.float32).ravel()
    if not np.isfinite(values).all():
        raise ValueError("a layer has values that are not finite")
    low, high = values.min(), values.max()
    if low == high:
        high = np.float32(low + 1)
    elif low < 0 < high and (values == 0).any():
        high = max(high, np.float32(-low * 32767 / 32768))
        low = np.float32(-high * 32768 / 32767)
    wide_low, wide_high = np.float64(low), np.float64(high)
    codes = np.rint((values.astype(np.float64) - wide_low) / (wide_high - wide_low) * 65535)
    params = np.clip(codes, 0, 65535).astype("<u2").tobytes()
    return _message(LAYER, {"min_val": float(low), "max_val": float(high), "params": params})


# Decoding


def _decode(data):
    """Decodes a message to {field number: [values]}: an int for a varint, bytes for other wire types."""
    fields, at = {}, 0

    def varint():
        nonlocal at
        number, shift = 0, 0
        while True:
            byte = data[at]
            at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    while at < len(data):
        key = varint()
        field, wire_type = key >> 3, key & 7
        if wire_type == 0:
            value = varint()
        else:
            size = {1: 8, 5: 4}.get(wire_type)
            size = varint() if size is None else size
            value = data[at : at + size]
            at += size
        fields.setdefault(field, []).append(value)
    return fields


class _Reader:
    """A decoded message with access to its fields by name."""

    def __init__(self, data, fields):
        self.decoded, self.fields = _decode(data), fields

    def all(self, name):
        return self.decoded.get(self.fields[name], [])

    def get(self, name, default=None):
        return next(iter(self.all(name)), default)

    def layer(self, name, *shape):
        message = _Reader(self.get(name), LAYER)
        (low,), (high,) = (struct.unpack("<f", message.get(bound)) for bound in ("min_val", "max_val"))
        share = np.frombuffer(message.get("params"), dtype="<u2").astype(np.float32) / np.float32(65535)
        values = np.float32(low) * (1 - share) + np.float32(high) * share
        return torch.from_numpy(values.reshape(shape))

    def size(self, name):
        """The number of values of a layer."""
        return len(_Reader(self.get(name), LAYER).get("params")) // 2


# The network


def _dense(prefix, layer, separator="_"):
    """{prefix_w: layer, prefix_b: layer}"""
    encoded = {f"{prefix}{separator}w": linear16(layer.weight.detach().float().cpu().numpy())}
    if layer.bias is not None:
        encoded[f"{prefix}{separator}b"] = linear16(layer.bias.detach().float().cpu().numpy())
    return encoded


def _norm(prefix, layer):
    return {
        f"{prefix}_gammas": linear16(layer.weight.detach().float().cpu().numpy()),
        f"{prefix}_betas": linear16(layer.bias.detach().float().cpu().numpy()),
    }


def _encoder(encoder):
    mha = {}
    for name in ("q", "k", "v", "dense"):
        mha |= _dense(name, getattr(encoder, name))
    if encoder.smolgen is not None:
        smolgen = encoder.smolgen
        mha["smolgen"] = _message(
            SMOLGEN,
            {"compress": linear16(smolgen.compress.weight.detach().float().cpu().numpy())}
            | _dense("dense1", smolgen.dense1)
            | _norm("ln1", smolgen.ln1)
            | _dense("dense2", smolgen.dense2)
            | _norm("ln2", smolgen.ln2),
        )
    ffn = _dense("dense1", encoder.ffn1) | _dense("dense2", encoder.ffn2)
    return _message(
        ENCODER,
        {"mha": _message(MHA, mha), "ffn": _message(FFN, ffn)} | _norm("ln1", encoder.ln1) | _norm("ln2", encoder.ln2),
    )


def _embedding(network):
    """The embedding's weights [width][112 + 64], with zeros for planes that records do not fill."""
    matrix = torch.zeros(network.shape.width, INPUT_PLANES + 64)
    matrix[:, PLANES] = network.ip_emb.weight.detach().float().cpu()
    matrix[:, 109] /= RULE50_SCALE
    matrix[:, INPUT_PLANES:] = network.ip_emb_position.weight.detach().float().cpu()
    return matrix.numpy()


def encode(network, training_steps=0, description="", figures=None):
    """The uncompressed file. `figures` may hold learning_rate, mse_loss, policy_loss and accuracy."""
    with torch.no_grad():
        weights = {"ip_emb_w": linear16(_embedding(network)), "headcount": network.shape.heads}
        weights["ip_emb_b"] = linear16(network.ip_emb.bias.float().cpu().numpy())
        for gate in ("ip_mult_gate", "ip_add_gate"):
            weights[gate] = linear16(getattr(network, gate).float().cpu().numpy().T)
        if network.smolgen_w is not None:
            weights["smolgen_w"] = linear16(network.smolgen_w.weight.float().cpu().numpy())
        weights["encoder"] = [_encoder(encoder) for encoder in network.encoder]
        for name in ("ip_pol", "ip2_pol", "ip3_pol", "ip4_pol"):
            weights |= _dense(name, getattr(network.policy, name))
        for suffix, head in (("val", network.value), ("mov", network.moves_left)):
            for name in ("ip", "ip1", "ip2"):
                weights |= _dense(f"{name}_{suffix}", getattr(head, name))
        unit = MOVES_LEFT_UNIT
        weights["ip2_mov_w"] = linear16(network.moves_left.ip2.weight.float().cpu().numpy() * unit)
        weights["ip2_mov_b"] = linear16(network.moves_left.ip2.bias.float().cpu().numpy() * unit)

    shape = network.shape
    network_format = {
        "input": INPUT_112_WITH_CASTLING_PLANE,
        "output": OUTPUT_WDL,
        "network": NETWORK_ATTENTIONBODY_WITH_HEADFORMAT,
        "policy": POLICY_ATTENTION,
        "value": VALUE_WDL,
        "moves_left": MOVES_LEFT_V1,
        "default_activation": DEFAULT_ACTIVATIONS[shape.default_activation],
        "smolgen_activation": ACTIVATIONS[shape.smolgen_activation] if shape.smolgen[0] else None,
        "ffn_activation": ACTIVATIONS[shape.ffn_activation],
        "input_embedding": INPUT_EMBEDDING_PE_MAP,
    }
    training = {"training_steps": int(training_steps), "lc0_params": description.encode()}
    training |= {name: float(value) for name, value in (figures or {}).items()}
    body = _message(
        {name: field for name, field in NET.items() if name != "magic"},
        {
            "license": LICENCE.encode(),
            "min_version": _message(ENGINE_VERSION, {"major": 0, "minor": 30, "patch": 0}),
            "format": _message(
                FORMAT,
                {"weights_encoding": LINEAR16, "network_format": _message(NETWORK_FORMAT, network_format)},
            ),
            "training_params": _message(TRAINING_PARAMS, training),
            "weights": _message(WEIGHTS, weights),
        },
    )
    return _varint(NET["magic"] << 3 | 5) + struct.pack("<I", MAGIC) + body


def compress(data):
    """Compresses with gzip, without a name or a time in the header."""
    out = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=out, mtime=0) as file:
        file.write(data)
    return out.getvalue()


def write(path, network, **header):
    """Writes a .pb.gz; returns its size in bytes."""
    data = compress(encode(network, **header))
    with open(path, "wb") as file:
        file.write(data)
    return len(data)


def _load_dense(reader, prefix, layer):
    layer.weight.copy_(reader.layer(f"{prefix}_w", *layer.weight.shape))
    if layer.bias is not None:
        layer.bias.copy_(reader.layer(f"{prefix}_b", *layer.bias.shape))


def _load_norm(reader, prefix, layer):
    layer.weight.copy_(reader.layer(f"{prefix}_gammas", *layer.weight.shape))
    layer.bias.copy_(reader.layer(f"{prefix}_betas", *layer.bias.shape))


def _read_shape(format_, weights, encoders):
    mha = _Reader(encoders[0].get("mha"), MHA)
    ffn = _Reader(encoders[0].get("ffn"), FFN)
    width, heads = weights.size("ip_emb_b"), weights.get("headcount")
    smolgen = (0, 0, 0)
    if mha.get("smolgen") is not None:
        layers = _Reader(mha.get("smolgen"), SMOLGEN)
        smolgen = (
            layers.size("compress") // width,
            layers.size("dense1_b"),
            layers.size("dense2_b") // heads,
        )
    names = {number: name for name, number in ACTIVATIONS.items()}
    default = {number: name for name, number in DEFAULT_ACTIVATIONS.items()}[format_.get("default_activation", 0)]
    return Shape(
        width=width,
        layers=len(encoders),
        heads=heads,
        ffn=ffn.size("dense1_b"),
        smolgen=smolgen,
        policy=weights.size("ip2_pol_b"),
        value=(weights.size("ip_val_b"), weights.size("ip1_val_b")),
        moves_left=(weights.size("ip_mov_b"), weights.size("ip1_mov_b")),
        default_activation=default,
        ffn_activation=names.get(format_.get("ffn_activation", 0), default),
        smolgen_activation=names.get(format_.get("smolgen_activation", 0), default) if smolgen[0] else "swish",
    )


def read_header(path):
    """What `write` takes besides the network, as the file has it."""
    with gzip.open(path) as file:
        training = _Reader(_Reader(file.read(), NET).get("training_params", b""), TRAINING_PARAMS)
    figures = {name: training.get(name) for name in ("learning_rate", "mse_loss", "policy_loss", "accuracy")}
    return {
        "training_steps": training.get("training_steps", 0),
        "description": training.get("lc0_params", b"").decode(errors="replace"),
        "figures": {name: struct.unpack("<f", value)[0] for name, value in figures.items() if value is not None},
    }


def read(path):
    """Reads a network that `write` has written, with its weights rounded to 16 bits."""
    with gzip.open(path) as file:
        net = _Reader(file.read(), NET)
    format_ = _Reader(_Reader(net.get("format"), FORMAT).get("network_format"), NETWORK_FORMAT)
    kinds = [format_.get(name) for name in ("input", "network", "policy", "value", "moves_left", "input_embedding")]
    if kinds != [INPUT_112_WITH_CASTLING_PLANE, NETWORK_ATTENTIONBODY_WITH_HEADFORMAT, POLICY_ATTENTION, VALUE_WDL,
                 MOVES_LEFT_V1, INPUT_EMBEDDING_PE_MAP]:  # fmt: skip
        raise ValueError(f"{path} has an architecture that train.py does not make: {kinds}")
    weights = _Reader(net.get("weights"), WEIGHTS)
    encoders = [_Reader(data, ENCODER) for data in weights.all("encoder")]
    network = Network(_read_shape(format_, weights, encoders))
    with torch.no_grad():
        embedding = weights.layer("ip_emb_w", network.shape.width, INPUT_PLANES + 64)
        embedding[:, 109] *= RULE50_SCALE
        network.ip_emb.weight.copy_(embedding[:, PLANES])
        network.ip_emb_position.weight.copy_(embedding[:, INPUT_PLANES:])
        network.ip_emb.bias.copy_(weights.layer("ip_emb_b", network.shape.width))
        for gate in ("ip_mult_gate", "ip_add_gate"):
            getattr(network, gate).copy_(weights.layer(gate, network.shape.width, 64).T)
        if network.smolgen_w is not None:
            network.smolgen_w.weight.copy_(weights.layer("smolgen_w", *network.smolgen_w.weight.shape))
        for encoder, reader in zip(network.encoder, encoders, strict=True):
            mha = _Reader(reader.get("mha"), MHA)
            for name in ("q", "k", "v", "dense"):
                _load_dense(mha, name, getattr(encoder, name))
            if encoder.smolgen is not None:
                layers = _Reader(mha.get("smolgen"), SMOLGEN)
                compress_ = encoder.smolgen.compress.weight
                compress_.copy_(layers.layer("compress", *compress_.shape))
                for number in (1, 2):
                    _load_dense(layers, f"dense{number}", getattr(encoder.smolgen, f"dense{number}"))
                    _load_norm(layers, f"ln{number}", getattr(encoder.smolgen, f"ln{number}"))
            ffn = _Reader(reader.get("ffn"), FFN)
            _load_dense(ffn, "dense1", encoder.ffn1)
            _load_dense(ffn, "dense2", encoder.ffn2)
            _load_norm(reader, "ln1", encoder.ln1)
            _load_norm(reader, "ln2", encoder.ln2)
        for name in ("ip_pol", "ip2_pol", "ip3_pol", "ip4_pol"):
            _load_dense(weights, name, getattr(network.policy, name))
        for suffix, head in (("val", network.value), ("mov", network.moves_left)):
            for name in ("ip", "ip1", "ip2"):
                _load_dense(weights, f"{name}_{suffix}", getattr(head, name))
        network.moves_left.ip2.weight /= MOVES_LEFT_UNIT
        network.moves_left.ip2.bias /= MOVES_LEFT_UNIT
    return network
