//! Prepares a file's network for a backend. No other code gives layers to a backend.
//!
//! This module does the work that all backends have in common. It joins queries, keys and values into one layer,
//! reorders the weights of layers that read a flattened board to `[square][channel]`, adds the row that all promotions
//! share to the rows of queen, rook and bishop, and finds the index of each of the policy's 1858 logits. The backend's
//! [`LayerStore`] takes the layers and says which layouts the backend wants.
//!
//! Each layer is dropped as soon as the backend has it, so a large network is never in memory twice.
//!
//! | module | what it holds |
//! |---|---|
//! | `lowering` | the transformations of single layers |
//! | `store` | the interface through which a backend takes layers one by one |

mod lowering;
mod store;

pub use lowering::query_scale;
pub use store::{DenseRole, LayerStore, ScoreOrder};

use super::architecture::{BodyKind, InputEmbedding};
use super::network::{
    AttentionPolicy, Body, Embedding, Encoder, EncoderStack, FeedForward, Gates, Network, PolicyHead,
    PositionLayers, ResidualBlock, ScalarHead, Smolgen, SqueezeExcitation, ValueError,
};
use super::weights::{HeadInput, LayerNorm};
use lowering::{
    head_layers, ordered_scores, policy_layout, positional_table, promotions, scaled, side_by_side,
    squares_first,
};

/// A network that consists of a backend's layers.
#[derive(Debug)]
pub struct PreparedNetwork<S: LayerStore> {
    /// The structure and the layers.
    pub network: Network<S>,
    /// The number of outputs that the policy head computes for a position.
    pub policy_width: usize,
    /// The index of each of the 1858 policy logits among these outputs.
    pub policy_places: Vec<u16>,
}

impl Network {
    /// Gives all layers to `store`: first the body, then the layer that all smolgens share, and then the heads.
    ///
    /// # Errors
    /// The first error of the store, which names the layer.
    pub fn prepare<S: LayerStore>(self, store: &mut S) -> Result<PreparedNetwork<S>, S::Error> {
        let (policy_width, policy_places) = policy_layout(&self.policy, S::SCORE_ORDER);
        let Network { architecture, body, smolgen_global, policy, value, value_error, moves_left } = self;
        let has_table =
            matches!(architecture.body, BodyKind::Attention { input_embedding: InputEmbedding::PeMap, .. });
        let network = Network {
            architecture,
            body: prepare_body(store, body, has_table)?,
            smolgen_global: smolgen_global
                .map(|layer| {
                    let layer = ordered_scores(layer, S::SCORE_ORDER);
                    store.dense("smolgen global", DenseRole::Smolgen, layer)
                })
                .transpose()?,
            policy: prepare_policy(store, policy)?,
            value: prepare_scalar_head(store, "value head", value)?,
            value_error: value_error.map(|error| prepare_value_error(store, error)).transpose()?,
            moves_left: moves_left
                .map(|head| prepare_scalar_head(store, "moves-left head", head))
                .transpose()?,
        };
        Ok(PreparedNetwork { network, policy_width, policy_places })
    }
}

fn prepare_body<S: LayerStore>(store: &mut S, body: Body, has_table: bool) -> Result<Body<S>, S::Error> {
    Ok(match body {
        Body::Convolution { input, blocks } => Body::Convolution {
            input: store.input_convolution("input convolution", input)?,
            blocks: blocks
                .into_iter()
                .enumerate()
                .map(|(index, block)| prepare_block(store, &format!("block {index}"), block))
                .collect::<Result<_, _>>()?,
        },
        Body::Attention { embedding, stack } => Body::Attention {
            embedding: Box::new(prepare_embedding(store, *embedding, has_table)?),
            stack: prepare_stack(store, "encoder", stack)?,
        },
    })
}

fn prepare_block<S: LayerStore>(
    store: &mut S,
    name: &str,
    block: ResidualBlock,
) -> Result<ResidualBlock<S>, S::Error> {
    let ResidualBlock { conv1, conv2, se } = block;
    Ok(ResidualBlock {
        conv1: store.convolution(&format!("{name} conv1"), conv1)?,
        conv2: store.convolution(&format!("{name} conv2"), conv2)?,
        se: se.map(|se| prepare_se(store, &format!("{name} SE"), se)).transpose()?,
    })
}

fn prepare_se<S: LayerStore>(
    store: &mut S,
    name: &str,
    se: SqueezeExcitation,
) -> Result<SqueezeExcitation<S>, S::Error> {
    Ok(SqueezeExcitation {
        squeeze: store.dense(name, DenseRole::Squeeze, se.squeeze)?,
        excite: store.dense(name, DenseRole::Excite, se.excite)?,
    })
}

fn prepare_embedding<S: LayerStore>(
    store: &mut S,
    embedding: Embedding,
    has_table: bool,
) -> Result<Embedding<S>, S::Error> {
    let Embedding { planes, position, ln, gates, ffn, width } = embedding;
    store.check_width("embedding", width)?;
    Ok(Embedding {
        planes: store.plane_embedding("embedding", planes, has_table.then(positional_table))?,
        position: position.map(|layers| prepare_position(store, layers)).transpose()?,
        ln: ln.map(|ln| store.layer_norm("embedding", ln)).transpose()?,
        gates: gates.map(|gates| prepare_gates(store, &gates)).transpose()?,
        ffn: ffn.map(|(ffn, ln)| prepare_embedding_ffn(store, ffn, ln)).transpose()?,
        width,
    })
}

fn prepare_position<S: LayerStore>(
    store: &mut S,
    layers: PositionLayers,
) -> Result<PositionLayers<S>, S::Error> {
    Ok(PositionLayers {
        board: store.board_embedding("positional layer", layers.board)?,
        reader: store.dense("positional embedding", DenseRole::Product, layers.reader)?,
    })
}

fn prepare_gates<S: LayerStore>(store: &mut S, gates: &Gates) -> Result<Gates<S>, S::Error> {
    let turned = |gate: &Vec<f32>| squares_first(gate, gate.len());
    Ok(Gates {
        multiply: store.gate("multiplying gate", turned(&gates.multiply))?,
        add: store.gate("adding gate", turned(&gates.add))?,
    })
}

fn prepare_embedding_ffn<S: LayerStore>(
    store: &mut S,
    ffn: FeedForward,
    ln: LayerNorm,
) -> Result<(FeedForward<S>, S::LayerNorm), S::Error> {
    let name = "embedding feed-forward";
    Ok((prepare_feed_forward(store, name, ffn)?, store.layer_norm(name, ln)?))
}

fn prepare_feed_forward<S: LayerStore>(
    store: &mut S,
    name: &str,
    ffn: FeedForward,
) -> Result<FeedForward<S>, S::Error> {
    store.check_width(&format!("{name} hidden layer"), ffn.dense1.outputs)?;
    Ok(FeedForward {
        dense1: store.dense(&format!("{name} dense1"), DenseRole::Encoder, ffn.dense1)?,
        dense2: store.dense(&format!("{name} dense2"), DenseRole::Encoder, ffn.dense2)?,
    })
}

fn prepare_stack<S: LayerStore>(
    store: &mut S,
    name: &str,
    stack: EncoderStack,
) -> Result<EncoderStack<S>, S::Error> {
    let EncoderStack { encoders, heads, alpha, ffn_activation, smolgen_activation } = stack;
    let encoders = encoders
        .into_iter()
        .enumerate()
        .map(|(index, encoder)| prepare_encoder(store, &format!("{name} {index}"), encoder, heads))
        .collect::<Result<_, _>>()?;
    Ok(EncoderStack { encoders, heads, alpha, ffn_activation, smolgen_activation })
}

fn prepare_encoder<S: LayerStore>(
    store: &mut S,
    name: &str,
    encoder: Encoder,
    heads: usize,
) -> Result<Encoder<S>, S::Error> {
    let Encoder { qkv: [query, key, value], output, smolgen, ln1, ffn, ln2 } = encoder;
    store.check_attention(name, query.outputs, heads)?;
    let depth = query.outputs / heads;
    let query = if S::SCALES_QUERIES { scaled(query, query_scale(depth)) } else { query };
    let qkv = side_by_side([query, key, value]);
    Ok(Encoder {
        qkv: store.dense(&format!("{name} QKV"), DenseRole::Encoder, qkv)?,
        output: store.dense(&format!("{name} output"), DenseRole::Encoder, output)?,
        smolgen: smolgen
            .map(|smolgen| prepare_smolgen(store, &format!("{name} smolgen"), smolgen))
            .transpose()?,
        ln1: store.layer_norm(&format!("{name} LayerNorm 1"), ln1)?,
        ffn: prepare_feed_forward(store, &format!("{name} feed-forward"), ffn)?,
        ln2: store.layer_norm(&format!("{name} LayerNorm 2"), ln2)?,
    })
}

fn prepare_smolgen<S: LayerStore>(
    store: &mut S,
    name: &str,
    smolgen: Smolgen,
) -> Result<Smolgen<S>, S::Error> {
    let Smolgen { compress, dense1, ln1, dense2, ln2 } = smolgen;
    store.check_width(name, dense1.outputs)?;
    store.check_width(name, dense2.outputs)?;
    Ok(Smolgen {
        compress: store.dense(&format!("{name} compress"), DenseRole::Smolgen, compress)?,
        dense1: store.dense(&format!("{name} dense1"), DenseRole::Smolgen, dense1)?,
        ln1: store.layer_norm(&format!("{name} LayerNorm 1"), ln1)?,
        dense2: store.dense(&format!("{name} dense2"), DenseRole::Smolgen, dense2)?,
        ln2: store.layer_norm(&format!("{name} LayerNorm 2"), ln2)?,
    })
}

fn prepare_policy<S: LayerStore>(store: &mut S, policy: PolicyHead) -> Result<PolicyHead<S>, S::Error> {
    Ok(match policy {
        PolicyHead::Classical { input, dense } => {
            let (input, dense) = head_layers(input, dense);
            PolicyHead::Classical {
                input: store.dense("policy convolution", DenseRole::Product, input)?,
                dense: store.dense("policy dense", DenseRole::Product, dense)?,
            }
        }
        PolicyHead::Convolution { first, last } => PolicyHead::Convolution {
            first: store.convolution("policy convolution 1", first)?,
            last: store.convolution("policy convolution 2", last)?,
        },
        PolicyHead::Attention(head) => {
            PolicyHead::Attention(Box::new(prepare_attention_policy(store, *head)?))
        }
    })
}

fn prepare_attention_policy<S: LayerStore>(
    store: &mut S,
    head: AttentionPolicy,
) -> Result<AttentionPolicy<S>, S::Error> {
    let AttentionPolicy { embedding, embedding_activation, stack, query_key, depth, promotion } = head;
    store.check_width("policy embedding", embedding.outputs)?;
    store.check_width("policy queries", depth)?;
    let [query, key] = query_key;
    let query = if S::SCALES_QUERIES { scaled(query, query_scale(depth)) } else { query };
    let query_key = side_by_side([query, key]);
    Ok(AttentionPolicy {
        embedding: store.dense("policy embedding", DenseRole::Product, embedding)?,
        embedding_activation,
        stack: prepare_stack(store, "policy encoder", stack)?,
        query_key: store.dense("policy queries and keys", DenseRole::Product, query_key)?,
        depth,
        promotion: store.dense("promotions", DenseRole::Promotion, promotions(&promotion))?,
    })
}

fn prepare_scalar_head<S: LayerStore>(
    store: &mut S,
    name: &str,
    head: ScalarHead,
) -> Result<ScalarHead<S>, S::Error> {
    store.check_width(&format!("{name} hidden layer"), head.hidden.outputs)?;
    let input_name = match head.input {
        HeadInput::Convolution(_) => format!("{name} convolution"),
        HeadInput::Dense(_) => format!("{name} embedding"),
    };
    let (input, hidden) = head_layers(head.input, head.hidden);
    Ok(ScalarHead {
        input: store.dense(&input_name, DenseRole::ScalarHead, input)?,
        hidden: store.dense(&format!("{name} hidden layer"), DenseRole::ScalarHead, hidden)?,
        output: store.dense(&format!("{name} output"), DenseRole::ScalarOutput, head.output)?,
    })
}

fn prepare_value_error<S: LayerStore>(store: &mut S, error: ValueError) -> Result<ValueError<S>, S::Error> {
    let name = "value-error head";
    Ok(match error {
        ValueError::ValueHead { output } => ValueError::ValueHead {
            output: store.dense(&format!("{name} output"), DenseRole::ScalarOutput, output)?,
        },
        ValueError::Own(head) => ValueError::Own(prepare_scalar_head(store, name, head)?),
    })
}
