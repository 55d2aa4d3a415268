//! Opens, decompresses and decodes a network file, and builds a [`Network`] from it.
//!
//! ```text
//! path ── gzip? ─ inflate ─┐
//!    └─── plain ─ read ────┴─ first bytes ─ protobuf ─ version ─ legacy::upgrade ─► NetworkFile
//!               ONNX model in it ─ recognise ─► NetworkFile
//! NetworkFile + HeadSelection ─ assemble ─► Network
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | `recognise` | recognises a network in an ONNX model |
//! | [`wrap`] | makes a network file of an ONNX model |
//! | `assemble` | assembles the layers that the header asks for into a checked [`Network`] |
//! | `decode` | decodes a layer's bytes to fp32 and folds in batch normalisation |
//! | `legacy` | upgrades of old headers |
//! | [`proto`] | the messages of a file |
//! | [`schema`] | the numbers in the messages |
//! | `inflate` | decompression with a bounded output |
//!
//! For any sequence of bytes the result is a network or a [`NetworkError`]. [`Network::load_bytes`] runs all
//! these steps without the file system, for tests and the fuzzer. The content of a file decides whether it is
//! treated as `.pb` or as `.pb.gz`; its name does not.

mod assemble;
pub(super) mod decode;
mod inflate;
mod legacy;
pub mod proto;
mod recognise;
pub mod schema;
pub mod wrap;

pub use assemble::HeadSelection;
pub use inflate::MAXIMUM_SIZE;

use std::borrow::Cow;
use std::io::{BufRead, BufReader, Read, Seek};
use std::path::{Path, PathBuf};

use flate2::bufread::GzDecoder;
use prost::Message;
use prost::bytes::Bytes;

use crate::error::{NetworkError, Reason};
use crate::network::Network;
use inflate::{GZIP_MAGIC, HEAD_SIZE};
use legacy::Contents;
use proto::{EngineVersion, Format, Net, NetworkFormat, PolicyHead, Weights, decode_bounded};
use rukh_base::regular_file;
use schema::WeightsEncoding;

/// The newest `min_version` that this program can read.
const SUPPORTED_VERSION: (u32, u32, u32) = (0, 33, 0);

/// A `min_version` that some files have in place of a real one. lc0 accepts it whatever its own version is.
const ANY_VERSION: (u32, u32, u32) = (97, 98, 99);

/// Since this version each layer can have an encoding of its own, so the file need not name LINEAR16.
const LAYER_ENCODING_VERSION: (u32, u32, u32) = (0, 33, 0);

/// A decoded file with an upgraded header. Its layers are still in the file's encodings.
#[derive(Clone, Debug)]
pub struct NetworkFile {
    path: PathBuf,
    header: Net,
    weights: Option<Weights>,
}

impl NetworkFile {
    /// Reads a file, which may be compressed with gzip.
    pub fn open(path: &Path) -> Result<Self, NetworkError> {
        let named = |reason| NetworkError { path: path.to_owned(), reason };
        let bytes = read(path).map_err(named)?;
        Self::decode(path, bytes)
    }

    /// Does the same as [`Self::open`] for the bytes of a file. Errors call the file `name`.
    pub fn from_bytes(name: &Path, bytes: Bytes) -> Result<Self, NetworkError> {
        let named = |reason| NetworkError { path: name.to_owned(), reason };
        let bytes = match bytes.starts_with(&GZIP_MAGIC) {
            true => inflate::inflate(&bytes[..], bytes.len() as u64, check_head).map_err(named)?.into(),
            false => bytes,
        };
        Self::decode(name, bytes)
    }

    fn decode(path: &Path, bytes: Bytes) -> Result<Self, NetworkError> {
        let decoded = decode(bytes);
        let (header, weights) = decoded.map_err(|reason| NetworkError { path: path.to_owned(), reason })?;
        Ok(Self { path: path.to_owned(), header, weights })
    }

    /// Builds the network that the header describes, with the selected heads.
    pub fn network(&self, heads: &HeadSelection) -> Result<Network, NetworkError> {
        let named = |reason| NetworkError { path: self.path.clone(), reason };
        let file = self.with_layers()?;
        let weights = file.weights.as_ref().ok_or_else(|| named(Reason::NoWeights))?;
        assemble::assemble(&file.format(), weights, heads).map_err(named)
    }

    /// The network as a file of layers. This is the file itself, unless it contains an ONNX model instead of layers.
    ///
    /// # Errors
    /// The file has no layers, and either no ONNX model or one that is not recognised.
    pub fn with_layers(&self) -> Result<Cow<'_, Self>, NetworkError> {
        let named = |reason| NetworkError { path: self.path.clone(), reason };
        if self.weights.is_some() {
            return Ok(Cow::Borrowed(self));
        }
        let onnx = self.header.onnx_model.as_ref().ok_or_else(|| named(Reason::NoWeights))?;
        let (format, weights) = recognise::recognise(onnx, &self.format()).map_err(named)?;
        let mut header = self.header.clone();
        header.onnx_model = None;
        let (major, minor, patch) = LAYER_ENCODING_VERSION;
        header.min_version =
            Some(EngineVersion { major: Some(major), minor: Some(minor), patch: Some(patch) });
        header.format = Some(Format { weights_encoding: None, network_format: Some(format) });
        Ok(Cow::Owned(Self { path: self.path.clone(), header, weights: Some(weights) }))
    }

    /// The message of the file, without compression.
    pub fn to_message(&self) -> Vec<u8> {
        let weights = self.weights.as_ref().map(|weights| weights.encode_to_vec().into());
        Net { weights, ..self.header.clone() }.encode_to_vec()
    }

    /// The names of the policy heads in the file, for [`HeadSelection::policy`].
    pub fn policy_heads(&self) -> Vec<&'static str> {
        self.weights
            .as_ref()
            .and_then(|weights| assemble::policy_head_names(weights).ok())
            .unwrap_or_default()
    }

    /// The names of the value heads in the file, for [`HeadSelection::value`].
    pub fn value_heads(&self) -> Vec<&'static str> {
        self.weights.as_ref().map(assemble::value_head_names).unwrap_or_default()
    }

    /// The layers of the first head of [`Self::policy_heads`].
    pub(super) fn first_policy_head(&self) -> Option<PolicyHead> {
        let name = self.policy_heads().into_iter().next()?;
        assemble::policy_layers(self.weights.as_ref()?, name).ok().map(|(_, layers)| layers)
    }

    /// The path of the file, or the name that [`Self::from_bytes`] was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file without its weights. Its format is upgraded to that of a current file.
    pub fn header(&self) -> &Net {
        &self.header
    }

    /// The layers of the file; `None` for a file that contains an ONNX model instead.
    pub fn weights(&self) -> Option<&Weights> {
        self.weights.as_ref()
    }

    /// Whether the network was trained to move as people do, and not to win: a Maia network by its name, or by its
    /// description (the networks of <https://github.com/CSSLab/maia-chess> have 6 blocks with squeeze and excitation,
    /// trained in 400,000 steps, and no other mark).
    pub fn imitates_people(&self) -> bool {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let steps = self.header.training_params.as_ref().and_then(|training| training.training_steps);
        let has_shape = self.weights.as_ref().is_some_and(|weights| {
            weights.residual.len() == 6 && weights.residual.iter().all(|block| block.se.is_some())
        });
        name.contains("maia") || (steps == Some(400_000) && has_shape)
    }

    /// The network format, upgraded to that of a current file.
    pub fn format(&self) -> NetworkFormat {
        self.header.format.as_ref().and_then(|format| format.network_format).unwrap_or_default()
    }
}

impl Network {
    /// Reads a file and builds its network with the selected heads.
    pub fn load(path: &Path, heads: &HeadSelection) -> Result<Self, NetworkError> {
        NetworkFile::open(path)?.network(heads)
    }

    /// Does the same as [`Self::load`] for the bytes of a file. The fuzz target calls this function.
    pub fn load_bytes(bytes: &[u8], heads: &HeadSelection) -> Result<Self, NetworkError> {
        NetworkFile::from_bytes(Path::new("<memory>"), Bytes::copy_from_slice(bytes))?.network(heads)
    }
}

/// Reads and, where necessary, decompresses a file.
fn read(path: &Path) -> Result<Bytes, Reason> {
    let (mut file, metadata) = regular_file::open(path)?;
    if metadata.len() == 0 {
        return Err(Reason::Empty);
    }
    let mut head = Vec::with_capacity(HEAD_SIZE);
    (&mut file).take(HEAD_SIZE as u64).read_to_end(&mut head)?;
    file.rewind()?;
    if head.starts_with(&GZIP_MAGIC) {
        return Ok(
            inflate::inflate(BufReader::with_capacity(1 << 16, file), metadata.len(), check_head)?.into()
        );
    }
    check_head(&head)?;
    // The file is not mapped into memory, because a mapped file that another program shortens ends the process.
    Ok(regular_file::read_open(file, &metadata, MAXIMUM_SIZE)?.into())
}

/// Whether the first bytes of a file, after decompression, are those of a network. `false` if the file cannot be
/// read, and for ONNX models, which may be something else than networks of lc0.
pub(super) fn looks_like_network(path: &Path) -> bool {
    let head = || -> std::io::Result<Vec<u8>> {
        let mut input = BufReader::with_capacity(1 << 12, regular_file::open(path)?.0);
        let mut head = Vec::with_capacity(HEAD_SIZE);
        match input.fill_buf()?.starts_with(&GZIP_MAGIC) {
            true => GzDecoder::new(input).take(HEAD_SIZE as u64).read_to_end(&mut head)?,
            false => input.take(HEAD_SIZE as u64).read_to_end(&mut head)?,
        };
        Ok(head)
    };
    head().is_ok_and(|head| check_head(&head).is_ok() && !wrap::is_onnx(&head))
}

/// Checks that a file whose first [`HEAD_SIZE`] bytes are `head` begins with the magic number (field 1, a fixed32), or
/// is an ONNX model.
fn check_head(head: &[u8]) -> Result<(), Reason> {
    const FIXED32_FIELD_1: u8 = 0x0d;
    if head.is_empty() {
        return Err(Reason::Empty);
    }
    if head.starts_with(b"1\n") || head.starts_with(b"2\n") {
        return Err(Reason::Text);
    }
    let mut expected = vec![FIXED32_FIELD_1];
    expected.extend(proto::MAGIC.to_le_bytes());
    if !head.starts_with(&expected) && !wrap::is_onnx(head) {
        let shown = head.iter().take(expected.len()).map(|byte| format!("{byte:02x}"));
        return Err(Reason::Magic { found: shown.collect::<Vec<_>>().join(" ") });
    }
    Ok(())
}

/// Decodes the header and the weights, and upgrades the header.
fn decode(bytes: Bytes) -> Result<(Net, Option<Weights>), Reason> {
    check_head(&bytes[..bytes.len().min(HEAD_SIZE)])?;
    if bytes.len() as u64 > MAXIMUM_SIZE {
        return Err(Reason::TooLarge { limit: MAXIMUM_SIZE, compressed: false });
    }
    let mut header = match wrap::is_onnx(&bytes) {
        true => wrap::wrap_bare(bytes)?,
        false => Net::decode(bytes)?,
    };
    let version = version(header.min_version.as_ref());
    if as_number(version) > as_number(SUPPORTED_VERSION) && version != ANY_VERSION {
        return Err(Reason::Version { needed: as_text(version), supported: as_text(SUPPORTED_VERSION) });
    }
    let weights: Option<Weights> = header.weights.take().as_ref().map(decode_bounded).transpose()?;
    let format = header.format.get_or_insert_default();
    if weights.is_some()
        && format.weights_encoding() != WeightsEncoding::Linear16 as i32
        && as_number(version) < as_number(LAYER_ENCODING_VERSION)
    {
        return Err(Reason::Unsupported(format!(
            "has unknown weights encoding {}",
            format.weights_encoding()
        )));
    }
    let contents = weights.as_ref().map_or_else(Contents::default, |weights| Contents {
        encoders: !weights.encoder.is_empty(),
        smolgen: weights.smolgen_w.is_some(),
        multihead: weights.policy_heads.is_some() && weights.value_heads.is_some(),
    });
    legacy::upgrade(format, contents);
    Ok((header, weights))
}

fn version(version: Option<&EngineVersion>) -> (u32, u32, u32) {
    version.map_or((0, 0, 0), |version| (version.major(), version.minor(), version.patch()))
}

/// A number that orders versions as lc0 does: three decimal digits for each part.
fn as_number((major, minor, patch): (u32, u32, u32)) -> u64 {
    u64::from(major) * 1_000_000 + u64::from(minor) * 1_000 + u64::from(patch)
}

fn as_text((major, minor, patch): (u32, u32, u32)) -> String {
    format!("{major}.{minor}.{patch}")
}
