//! Network files that cannot be loaded, and the line that tells the user why.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder};
use rukh_net::file::proto::{EncoderLayer, EngineVersion, Layer, Mha, Residual, Weights};
use rukh_net::{HeadSelection, Network};

use crate::goldens::{edited_network, edited_weights, network_file, network_message};

/// The error message for these bytes.
fn refusal(bytes: &[u8]) -> String {
    match Network::load_bytes(bytes, &HeadSelection::default()) {
        Ok(network) => panic!("loaded {:?}", network.architecture),
        Err(error) => error.to_string(),
    }
}

/// Asserts that the error is `reason` after the name of the file.
#[track_caller]
fn refused(bytes: &[u8], reason: &str) {
    assert_eq!(refusal(bytes), format!("cannot load network <memory>: {reason}"));
}

/// Asserts that the error is one line and that `beginning` follows the name of the file.
#[track_caller]
fn refused_with(bytes: &[u8], beginning: &str) {
    let text = refusal(bytes);
    assert!(text.starts_with(&format!("cannot load network <memory>: {beginning}")), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory can be written to")
}

fn first_encoder(weights: &mut Weights) -> &mut EncoderLayer {
    weights.encoder.first_mut().expect("it has encoders")
}

fn first_attention(weights: &mut Weights) -> &mut Mha {
    first_encoder(weights).mha.as_mut().expect("an encoder has attention")
}

/// Removes the last value of a 16-bit layer.
fn shorten(layer: &mut Option<Layer>) {
    let layer = layer.as_mut().expect("the layer is there");
    layer.params.truncate(layer.params.len() - 2);
}

/// Sets the first value of a 16-bit layer to `code`.
fn overwrite(layer: &mut Option<Layer>, code: u16) {
    let layer = layer.as_mut().expect("the layer is there");
    let mut bytes = layer.params.to_vec();
    bytes[..2].copy_from_slice(&code.to_le_bytes());
    layer.params = bytes.into();
}

/// A temporary directory that is removed when the test ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("rukh-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a temporary directory can be made");
        Self(path)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, bytes).expect("a file can be written");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A leftover in the temporary directory is no reason to fail.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_error_names_the_path_that_has_no_network() {
    let scratch = Scratch::new("paths");
    let empty = scratch.file("empty.pb.gz", b"");
    let broken = scratch.file("broken.pb", b"not a network at all");
    let says = |path: &Path| {
        let error =
            Network::load(path, &HeadSelection::default()).expect_err("there is no network").to_string();
        let prefix = format!("cannot load network {}: ", path.display());
        error.strip_prefix(&prefix).expect("the error names the file").to_owned()
    };
    assert_eq!(says(&empty), "the file is empty");
    assert_eq!(says(&scratch.0), "it is a directory, not a file");
    assert_eq!(says(&scratch.0.join("nowhere.pb.gz")), "it does not exist");
    let reason = "it is not a Leela Chess Zero network (the file begins with 6e 6f 74 20 61";
    assert!(says(&broken).starts_with(reason));
    #[cfg(unix)]
    assert_eq!(says(Path::new("/dev/zero")), "it is not a regular file");
}

#[test]
fn other_files_are_not_networks() {
    refused(b"", "the file is empty");
    refused(&gzip(b""), "the file is empty");
    for text in [&b"1\n0.1 0.2"[..], b"2\n0.1 0.2"] {
        let reason = "the old text format is not supported; convert the file with lc0's tools";
        refused(text, reason);
        refused(&gzip(text), reason);
    }
    for other in [&b"\x7fELF"[..], b"PK\x03\x04", b"\x0d\xc1\x01\x00\x00", b"\x0d\xc0\x01", &[0; 100]] {
        refused_with(other, "it is not a Leela Chess Zero network (the file begins with ");
        refused_with(&gzip(other), "it is not a Leela Chess Zero network (the file begins with ");
    }
    refused(b"\x0d\xc0\x01\x00\x00", "it has no weights");
}

#[test]
fn a_truncated_or_damaged_gzip_file_is_refused() {
    let whole = network_file("micro-attn");
    for length in [2, 9, 10, 20, 1000, whole.len() / 2, whole.len() - 9, whole.len() - 1] {
        refused_with(&whole[..length], "the gzip data is damaged or truncated: ");
    }
    let mut wrong_checksum = whole.clone();
    let end = whole.len();
    wrong_checksum[end - 6] ^= 1;
    refused_with(&wrong_checksum, "the gzip data is damaged or truncated: ");
}

#[test]
fn bytes_after_a_gzip_stream_are_ignored_and_a_second_stream_is_appended() {
    let mut padded = network_file("micro-attn");
    padded.extend([0; 512]);
    let expected =
        Network::load_bytes(&network_file("micro-attn"), &HeadSelection::default()).expect("it loads");
    let message = network_message("micro-attn");
    let (start, end) = message.split_at(message.len() / 3);
    let joined = [gzip(start), gzip(end)].concat();
    for bytes in [padded, joined] {
        let network = Network::load_bytes(&bytes, &HeadSelection::default()).expect("it loads");
        assert_eq!(network.architecture, expected.architecture);
    }
}

#[test]
fn a_truncated_message_is_refused() {
    let whole = network_message("micro-attn");
    for length in [6, 100, whole.len() / 2, whole.len() - 1] {
        refused_with(&whole[..length], "the file is damaged or truncated: ");
    }
}

/// A gzip file of ten megabytes that decompresses to `head` and ten gigabytes of zeros. The zeros are compressed in
/// blocks of 64 MiB. The second block refers back only to zeros, so it can be repeated.
fn bomb(head: &[u8]) -> Vec<u8> {
    const BLOCK: usize = 64 << 20;
    let zeros = vec![0; BLOCK];
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    let mut block = |bytes: &[u8]| {
        encoder.write_all(bytes).and_then(|()| encoder.flush()).expect("memory can be written to");
        encoder.get_ref().len()
    };
    let (first, second) = (block(&[head, &zeros].concat()), block(&zeros));
    let deflated = encoder.finish().expect("memory can be written to");
    let mut bytes = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    bytes.extend(&deflated[..second]);
    for _ in 0..(10 << 30) / BLOCK {
        bytes.extend(&deflated[first..second]);
    }
    bytes
}

#[test]
fn a_zip_bomb_is_refused_early() {
    let magic = b"\x0d\xc0\x01\x00\x00";
    let weights_of_a_gigabyte = b"\x0d\xc0\x01\x00\x00\x52\x80\x80\x80\x80\x04";
    let plain = bomb(b"");
    assert!(plain.len() < 20 << 20, "the bomb has {} bytes", plain.len());
    let start = Instant::now();
    refused_with(&plain, "it is not a Leela Chess Zero network");
    assert!(start.elapsed() < Duration::from_secs(5), "took {:?}", start.elapsed());
    for head in [&magic[..], weights_of_a_gigabyte] {
        let bytes = bomb(head);
        let start = Instant::now();
        let text = refusal(&bytes);
        assert!(start.elapsed() < Duration::from_secs(10), "took {:?}", start.elapsed());
        let limit = text
            .strip_prefix("cannot load network <memory>: the file is too large: more than ")
            .expect("the error is about the size");
        let limit =
            limit.strip_suffix(" bytes after decompression").expect("the limit is for the decompressed size");
        assert!(limit.parse::<u64>().expect("the limit is a number") < 512 << 20, "{text}");
    }
}

#[test]
fn many_small_messages_do_not_take_much_memory() {
    // A million empty encoders take three megabytes in the file, and would take gigabytes when decoded.
    let field = |number: u8, bytes: &[u8]| [&[number << 3 | 2][..], bytes].concat();
    let encoders = [0xda, 0x01, 0x00].repeat(1_000_000);
    let length = [0xc0, 0x8d, 0xb7, 0x01];
    let bytes = [&b"\x0d\xc0\x01\x00\x00\x22\x02\x08\x01"[..], &field(10, &length), &encoders].concat();
    refused(&bytes, "the file is damaged: protobuf field 27 occurs more than 512 times in one message");
}

#[test]
fn newer_versions_are_refused() {
    let with_version = |major, minor, patch| {
        edited_network("micro-attn", |net| {
            net.min_version =
                Some(EngineVersion { major: Some(major), minor: Some(minor), patch: Some(patch) });
        })
    };
    refused(
        &with_version(0, 34, 0),
        "it needs lc0 0.34.0 or newer, and this program reads files for lc0 0.33.0 or older",
    );
    refused_with(&with_version(u32::MAX, u32::MAX, u32::MAX), "it needs lc0 4294967295.");
    // Some files have 97.98.99 in place of a real version.
    for (major, minor, patch) in [(0, 33, 0), (0, 0, 0), (97, 98, 99)] {
        let bytes = with_version(major, minor, patch);
        assert!(Network::load_bytes(&bytes, &HeadSelection::default()).is_ok(), "{major}.{minor}.{patch}");
    }
}

#[test]
fn unknown_numbers_in_the_header_are_refused() {
    let with = |edit: fn(&mut rukh_net::file::proto::NetworkFormat)| {
        edited_network("micro-attn", |net| {
            let format = net.format.as_mut().and_then(|format| format.network_format.as_mut());
            edit(format.expect("it has a format"));
        })
    };
    refused(&with(|format| format.input = Some(6)), "it has an unknown or unsupported input format: 6");
    refused(&with(|format| format.input = None), "it has an unknown or unsupported input format: 0");
    refused(
        &with(|format| format.network = Some(9)),
        "it has an unknown or unsupported network structure: 9",
    );
    refused(&with(|format| format.policy = Some(-1)), "it has an unknown or unsupported policy format: -1");
    refused(&with(|format| format.value = Some(3)), "it has an unknown or unsupported value format: 3");
    refused(
        &with(|format| format.moves_left = Some(2)),
        "it has an unknown or unsupported moves-left format: 2",
    );
    refused(
        &with(|format| format.default_activation = Some(2)),
        "it has an unknown or unsupported default activation: 2",
    );
    refused(
        &with(|format| format.ffn_activation = Some(10)),
        "it has an unknown or unsupported FFN activation: 10",
    );
    refused(
        &with(|format| format.input_embedding = Some(3)),
        "it has an unknown or unsupported input embedding: 3",
    );
    refused(
        &with(|format| format.policy = Some(2)),
        "it has POLICY_CONVOLUTION on an attention body; only POLICY_ATTENTION is supported there",
    );
    let old_encoding =
        edited_network("micro-attn", |net| net.format.as_mut().expect("a format").weights_encoding = None);
    refused(&old_encoding, "it has unknown weights encoding 0");
}

#[test]
fn unsupported_kinds_of_network_are_refused() {
    let relative =
        edited_weights("micro-attn", |weights| first_attention(weights).rpe_k = Some(Layer::default()));
    refused(&relative, "it has relative position encoding (RPE), which is not supported");
    let hybrid = edited_weights("micro-attn", |weights| weights.residual.push(Residual::default()));
    refused(&hybrid, "it has both a residual tower and an attention body, which is not supported");
    let no_heads = edited_weights("micro-attn", |weights| weights.headcount = None);
    refused(&no_heads, "it does not say how many attention heads it has (headcount)");
    let odd_heads = edited_weights("micro-attn", |weights| weights.headcount = Some(3));
    refused(
        &odd_heads,
        "it has an attention width of 32 in encoder[0], which is not divisible by its 3 heads",
    );
    let onnx = edited_network("micro-attn", |net| {
        net.weights = None;
        net.onnx_model.get_or_insert_default();
    });
    refused(&onnx, "it has no weights");
}

#[test]
fn an_error_names_the_layer_of_the_wrong_size() {
    type Edit = fn(&mut Weights);
    let cases: [(&str, Edit, &str); 13] = [
        ("micro-attn", |w| shorten(&mut w.ip_emb_w), "ip_emb_w has 5631 values, expected 32 x 176 = 5632"),
        // The biases of the embedding decide its width, so the error is about the weights.
        ("micro-attn", |w| shorten(&mut w.ip_emb_b), "ip_emb_w has 5632 values, expected 31 x 176 = 5456"),
        (
            "micro-attn",
            |w| shorten(&mut w.ip_add_gate),
            "ip_add_gate has 2047 values, expected 32 x 64 = 2048",
        ),
        (
            "micro-attn",
            |w| shorten(&mut first_attention(w).k_b),
            "encoder[0].mha.k_b has 31 values, expected 32",
        ),
        (
            "micro-attn",
            |w| shorten(&mut first_encoder(w).ffn.as_mut().expect("it exists").dense2_w),
            "encoder[0].ffn.dense2_w has 1535 values, expected 32 x 48 = 1536",
        ),
        (
            "micro-attn",
            |w| shorten(&mut first_encoder(w).ln2_betas),
            "encoder[0].ln2_betas has 31 values, expected 32",
        ),
        ("micro-attn", |w| shorten(&mut w.ip4_pol_w), "ip4_pol_w has 127 values, expected 4 x 32 = 128"),
        ("micro-attn", |w| shorten(&mut w.ip2_val_b), "ip2_val_b has 2 values, expected 3"),
        (
            "micro-smolgen",
            |w| shorten(&mut first_attention(w).smolgen.as_mut().expect("it exists").dense2_b),
            "encoder[0].mha.smolgen.dense2_b has 63 values, expected 64",
        ),
        (
            "micro-smolgen",
            |w| shorten(&mut w.smolgen_w),
            "smolgen_w has 65535 values, expected a multiple of 4096",
        ),
        (
            "micro-se-conv",
            |w| shorten(&mut w.residual[1].conv2.as_mut().expect("it exists").bn_gammas),
            "residual[1].conv2.bn_gammas has 15 values, expected 16",
        ),
        (
            "micro-se-conv",
            |w| shorten(&mut w.residual[0].se.as_mut().expect("it exists").w2),
            "residual[0].se.w2 has 255 values, expected 32 x 8 = 256",
        ),
        ("micro-se-old", |w| shorten(&mut w.ip_pol_b), "ip_pol_b has 1857 values, expected 1858"),
    ];
    for (network, edit, reason) in cases {
        refused(&edited_weights(network, edit), &format!("layer {reason}"));
    }
}

#[test]
fn an_error_names_the_missing_layer() {
    type Edit = fn(&mut Weights);
    let cases: [(&str, Edit, &str); 6] = [
        ("micro-attn", |w| w.ip_emb_b = None, "ip_emb_b"),
        ("micro-attn", |w| w.ip_mult_gate = None, "ip_mult_gate"),
        ("micro-attn", |w| first_attention(w).dense_w = None, "encoder[0].mha.dense_w"),
        ("micro-smolgen", |w| w.smolgen_w = None, "smolgen_w"),
        ("micro-se-conv", |w| w.moves_left = None, "moves_left"),
        ("micro-se-conv", |w| w.policy.as_mut().expect("it exists").biases = None, "policy.biases"),
    ];
    for (network, edit, layer) in cases {
        refused(&edited_weights(network, edit), &format!("layer {layer} is missing"));
    }
}

#[test]
fn values_that_are_not_finite_are_refused() {
    let half_nan = edited_weights("micro-f16", |weights| overwrite(&mut weights.ip_emb_w, 0x7e00));
    refused(&half_nan, "layer ip_emb_w contains a value that is not finite (NaN at index 0)");
    let bfloat_infinity =
        edited_weights("micro-bf16", |weights| overwrite(&mut first_attention(weights).q_b, 0xff80));
    refused(
        &bfloat_infinity,
        "layer encoder[0].mha.q_b contains a value that is not finite (-inf at index 0)",
    );
    let bound = |edit: fn(&mut Layer)| {
        edited_weights("micro-attn", |weights| edit(weights.ip2_val_w.as_mut().expect("it exists")))
    };
    let reason = "layer ip2_val_w contains a value that is not finite";
    refused(&bound(|layer| layer.min_val = Some(f32::NEG_INFINITY)), &format!("{reason} (-inf at index 0)"));
    refused(&bound(|layer| layer.max_val = Some(f32::NAN)), &format!("{reason} (NaN at index 0)"));
    let single = edited_weights("micro-attn", |weights| {
        let layer = weights.ip2_val_b.as_mut().expect("it exists");
        layer.encoding = Some(4);
        layer.params = [1.0, f32::INFINITY, 0.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    });
    refused(&single, "layer ip2_val_b contains a value that is not finite (inf at index 1)");
    let variance = edited_weights("micro-se-conv", |weights| {
        let variances =
            weights.input.as_mut().and_then(|input| input.bn_stddivs.as_mut()).expect("it exists");
        (variances.min_val, variances.max_val) = (Some(-1.0), Some(-1.0));
    });
    refused_with(
        &variance,
        "layer input (batch normalisation folded in) contains a value that is not finite (NaN",
    );
}

#[test]
fn impossible_encodings_are_refused() {
    let with = |edit: fn(&mut Layer)| {
        edited_weights("micro-attn", |weights| edit(weights.ip2_val_b.as_mut().expect("it exists")))
    };
    refused(&with(|layer| layer.encoding = Some(7)), "layer ip2_val_b has unknown encoding 7");
    refused(&with(|layer| layer.encoding = Some(0)), "layer ip2_val_b has unknown encoding 0");
    let odd = with(|layer| layer.params.truncate(5));
    refused(&odd, "layer ip2_val_b has 5 bytes, which is not a multiple of 2");
    let float = with(|layer| layer.encoding = Some(4));
    refused(&float, "layer ip2_val_b has 6 bytes, which is not a multiple of 4");
}
