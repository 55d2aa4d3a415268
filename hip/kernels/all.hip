// Every kernel, as one module.
#include "activation.hip"
#include "attention.hip"
#include "attention_any.hip"
#include "heads.hip"
#include "layer_norm.hip"
#include "planes.hip"
#include "policy.hip"
