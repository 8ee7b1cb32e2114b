#include "model/config/gpt_config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numbers>

namespace mt {

void GptConfig::add_to(CommandLine& cl) {
  cl.section("Model");
  cl.option("--num-layers", &num_layers, "N", "transformer layers", at_least(1));
  cl.option("--hidden-size", &hidden_size, "N", "width of the residual stream", at_least(1));
  cl.option(
      "--ffn-hidden-size", &ffn_hidden_size, "N",
      "width inside the MLP; default 4 x hidden size, with --swiglu 8/3 of it in multiples of 64",
      at_least(1));
  cl.option("--num-attention-heads", &num_attention_heads, "N", "query heads", at_least(1));
  cl.option("--kv-channels", &kv_channels, "N", "width of a head; default hidden size / heads",
            at_least(1));
  cl.flag("--group-query-attention", &group_query_attention,
          "several query heads share a key and a value head");
  cl.option("--num-query-groups", &num_query_groups, "N",
            "key and value heads under --group-query-attention", at_least(1));
  cl.option("--normalization", &normalization, "TYPE", "LayerNorm or RMSNorm",
            one_of({"LayerNorm", "RMSNorm"}));
  cl.option("--norm-epsilon", &norm_epsilon, "F", "added to a norm's variance", greater_than(0));
  cl.flag("--apply-layernorm-1p", &apply_layernorm_1p,
          "norms multiply by 1 + their weight, which begins at 0");
  cl.flag("--qk-layernorm", &qk_layernorm, "norms of each query and key head, before the rotation");
  cl.flag("--swiglu", &swiglu, "SwiGLU instead of GeLU");
  cl.flag("--squared-relu", &squared_relu, "the square of ReLU instead of GeLU");
  cl.off_switch("--no-bias-gelu-fusion", &bias_gelu_fusion, "the erf form of GeLU instead of tanh");
  cl.off_switch("--disable-bias-linear", &add_bias_linear, "linear layers without bias");
  cl.flag("--add-qkv-bias", &add_qkv_bias, "a bias in the QKV projection alone");
  cl.flag("--untie-embeddings-and-output-weights", &untie_embeddings_and_output_weights,
          "an output layer of its own instead of the transposed embedding");
  cl.option("--vocab-size", &vocab_size, "N",
            "tokens that the model knows, before padding; default the tokenizer's", at_least(1));
  cl.option("--make-vocab-size-divisible-by", &make_vocab_size_divisible_by, "N",
            "the vocabulary is padded to a multiple of this", at_least(1));
  add_positions(cl);
  cl.section("Dropout and initial weights");
  cl.option("--attention-dropout", &attention_dropout, "P", "dropout of attention probabilities",
            between(0, 0.99));
  cl.option("--hidden-dropout", &hidden_dropout, "P", "dropout of the residual branches",
            between(0, 0.99));
  cl.option("--label-smoothing", &label_smoothing, "P",
            "part of each label that training spreads over the other tokens", between(0, 0.99));
  cl.option("--init-method-std", &init_method_std, "F", "standard deviation of initial weights",
            at_least(0));
  cl.flag(
      "--init-method-xavier-uniform", &init_method_xavier_uniform,
      "initial weights are uniform, by Glorot's rule, but for those of residual branches' ends");
}

void GptConfig::add_positions(CommandLine& cl) {
  cl.section("Positions and windows");
  cl.option("--max-position-embeddings", &max_position_embeddings, "N",
            "positions that the model knows; at least --seq-length", at_least(1));
  cl.option("--position-embedding-type", &position_embedding_type, "TYPE",
            "learned_absolute, rope or none", one_of({"learned_absolute", "rope", "none"}));
  cl.flag("--use-rotary-position-embeddings", &use_rotary_position_embeddings,
          "deprecated; the same as --position-embedding-type rope");
  cl.off_switch("--no-position-embedding", &position_embedding,
                "deprecated; accepted where --position-embedding-type is rope or none");
  cl.option("--rotary-base", &rotary_base, "N", "base of the rotary frequencies", at_least(1));
  cl.option("--rotary-percent", &rotary_percent, "F", "part of a head's channels that is rotated",
            between(0, 1));
  cl.flag("--rotary-interleaved", &rotary_interleaved,
          "channels (0, 1), (2, 3), ... turn together, not those of two halves");
  cl.option("--rotary-seq-len-interpolation-factor", &rotary_interpolation, "F",
            "rotary positions are divided by this; Megatron-LM v0.12 reads it without effect",
            greater_than(0));
  cl.flag("--use-rope-scaling", &use_rope_scaling,
          "low rotary frequencies are divided by --rope-scaling-factor, as in Llama 3.1");
  cl.option("--rope-scaling-factor", &rope_scaling_factor, "F",
            "see --use-rope-scaling; Megatron-LM v0.12 always takes 8", greater_than(0));
  cl.option("--window-size", &window_size, "A,B",
            "a token sees A tokens before itself (-1: all); B, the tokens after, must be 0");
  cl.option("--window-attn-skip-freq", &window_attn_skip_freq, "N",
            "every Nth layer has no window; or a 1 (window) or 0 for each layer", at_least(0));
}

static void require_given(std::int64_t value, const char* option) {
  if (value == 0) fail(Exit::usage, option, ": required, by the option or a checkpoint");
}

// Settings of a checkpoint have passed no option's checks.  Within these bounds no extent, and no
// product of extents, overflows.
static void check_size(const char* option, std::int64_t value, std::int64_t most) {
  if (value < 1 || value > most)
    fail(Exit::bad_config, option, " ", value, ": expected 1 to ", most);
}

static void check_part(const char* option, double value, double most) {
  if (!(value >= 0 && value <= most))
    fail(Exit::bad_config, option, " ", value, ": expected 0 to ", most);
}

static void check_positive(const char* option, double value) {
  if (!(value > 0 && std::isfinite(value)))
    fail(Exit::bad_config, option, " ", value, ": expected a positive number");
}

static void check_ranges(const GptConfig& c) {
  constexpr std::int64_t kMany = 4096, kWide = 1 << 20, kIds = std::numeric_limits<int>::max();
  check_size("--num-layers", c.num_layers, kMany);
  check_size("--hidden-size", c.hidden_size, kWide);
  check_size("--ffn-hidden-size", c.ffn_hidden_size.value_or(1), kWide);
  check_size("--num-attention-heads", c.num_attention_heads, kMany);
  check_size("--num-query-groups", c.kv_heads(), kMany);
  check_size("--kv-channels", c.kv_channels.value_or(1), kMany);
  check_size("--max-position-embeddings", c.max_position_embeddings, kIds);
  check_size("--vocab-size", c.vocab_size, kIds);
  check_size("--make-vocab-size-divisible-by", c.make_vocab_size_divisible_by, kWide);
  check_size("--rotary-base", c.rotary_base, std::numeric_limits<std::int64_t>::max());
  check_part("--rotary-percent", c.rotary_percent, 1);
  check_part("--attention-dropout", c.attention_dropout, 0.99);
  check_part("--hidden-dropout", c.hidden_dropout, 0.99);
  check_part("--label-smoothing", c.label_smoothing, 0.99);
  check_part("--norm-epsilon", c.norm_epsilon, 1);
  check_positive("--rotary-seq-len-interpolation-factor", c.rotary_interpolation.value_or(1));
  check_positive("--rope-scaling-factor", c.rope_scaling_factor);
  const std::string& position = c.position_embedding_type;
  if (position != "learned_absolute" && position != "rope" && position != "none")
    fail(Exit::bad_config, "--position-embedding-type ", position,
         ": expected learned_absolute, rope or none");
  if (c.normalization != "LayerNorm" && c.normalization != "RMSNorm")
    fail(Exit::bad_config, "--normalization ", c.normalization, ": expected LayerNorm or RMSNorm");
}

// What would be without effect, or what Megatron-LM rejects.
static void check_activation_and_positions(const GptConfig& c) {
  if (c.squared_relu && c.swiglu) fail(Exit::bad_config, "--squared-relu: excludes --swiglu");
  if (c.squared_relu && c.add_bias_linear && c.bias_gelu_fusion)
    fail(Exit::bad_config,
         "--squared-relu: needs --no-bias-gelu-fusion or --disable-bias-linear, as in Megatron-LM");
  if (!c.position_embedding && c.position_embedding_type == "learned_absolute")
    fail(Exit::bad_config,
         "--no-position-embedding: is ignored by Megatron-Core's models; use "
         "--position-embedding-type none or rope");
  const bool rotary = c.rotary_interleaved || c.rotary_interpolation || c.use_rope_scaling;
  if (rotary && c.position_embedding_type != "rope")
    fail(Exit::bad_config,
         c.rotary_interleaved     ? "--rotary-interleaved"
         : c.rotary_interpolation ? "--rotary-seq-len-interpolation-factor"
                                  : "--use-rope-scaling",
         ": needs --position-embedding-type rope");
}

// A of "A,B"; B must be 0.
static std::int64_t tokens_before(const std::string& window_size) {
  std::int64_t before = 0;
  const char* const end = window_size.data() + window_size.size();
  const auto [comma, error] = std::from_chars(window_size.data(), end, before);
  if (error != std::errc() || before < -1 || std::string_view(comma, end) != ",0")
    fail(Exit::bad_config, "--window-size ", window_size,
         ": expected A,0: A tokens before, or -1 for all, and none after");
  return before;
}

static void check_window(const GptConfig& c) {
  const auto& skip = c.window_attn_skip_freq;
  if (!c.window_size.empty()) tokens_before(c.window_size);
  if (c.window_size.empty() && !skip.empty())
    fail(Exit::bad_config, "--window-attn-skip-freq: needs --window-size");
  if (skip.size() > 1 && std::ssize(skip) != c.num_layers)
    fail(Exit::bad_config, "--window-attn-skip-freq: ", skip.size(), " numbers for ", c.num_layers,
         " layers");
  if (skip.size() == 1 && skip[0] < 1)
    fail(Exit::bad_config, "--window-attn-skip-freq ", skip[0], ": expected at least 1");
}

// What tensor-parallel ranks share must be equal parts of whole heads, groups and channels.
static void check_shares(const GptConfig& c, std::int64_t ranks) {
  const auto check = [&](const char* name, std::int64_t value) {
    if (value % ranks != 0)
      fail(Exit::bad_config, name, " (", value, ") must be a multiple of ",
           "tensor_model_parallel_size (", ranks, ").");
  };
  check("--num-attention-heads: num_attention_heads", c.num_attention_heads);
  check("--num-query-groups: num_query_groups", c.kv_heads());
  check("--ffn-hidden-size: ffn_hidden_size", c.ffn());
  check("the padded vocabulary", c.padded_vocab_size);
}

void GptConfig::complete(int tensor_ranks) {
  if (use_rotary_position_embeddings) position_embedding_type = "rope";
  require_given(num_layers, "--num-layers");
  require_given(hidden_size, "--hidden-size");
  require_given(num_attention_heads, "--num-attention-heads");
  require_given(max_position_embeddings, "--max-position-embeddings");
  require_given(vocab_size, "--vocab-size");
  check_ranges(*this);
  if (!kv_channels && hidden_size % num_attention_heads != 0)
    fail(Exit::bad_config, "--hidden-size ", hidden_size,
         ": not a multiple of --num-attention-heads ", num_attention_heads, "; give --kv-channels");
  if (num_attention_heads % kv_heads() != 0)
    fail(Exit::bad_config, "--num-query-groups ", num_query_groups,
         ": does not divide --num-attention-heads ", num_attention_heads);
  if (ffn() < 1)
    fail(Exit::bad_config, "--hidden-size ", hidden_size,
         ": 8/3 of it hold no multiple of 64 for --swiglu; give --ffn-hidden-size");
  if (position_embedding_type == "rope" && (rotary_dim() == 0 || rotary_dim() % 2 != 0))
    fail(Exit::bad_config, "--rotary-percent ", rotary_percent, ": rotates ", rotary_dim(), " of ",
         head_dim(), " channels, expected an even number of them");
  check_activation_and_positions(*this);
  check_window(*this);
  if (padded_vocab_size == 0) {
    const std::int64_t m = make_vocab_size_divisible_by * tensor_ranks;
    padded_vocab_size = (vocab_size + m - 1) / m * m;
  }
  check_size("the padded vocabulary", padded_vocab_size, std::numeric_limits<int>::max());
  if (vocab_size > padded_vocab_size)
    fail(Exit::bad_config, "the vocabulary of ", vocab_size, " tokens is larger than the model's ",
         padded_vocab_size);
  check_shares(*this, tensor_ranks);
  recompute.complete(num_layers);
}

std::int64_t GptConfig::ffn() const {
  if (ffn_hidden_size) return *ffn_hidden_size;
  return swiglu ? static_cast<std::int64_t>(static_cast<double>(4 * hidden_size) * 2 / 3) / 64 * 64
                : 4 * hidden_size;
}

std::int64_t GptConfig::head_dim() const {
  return kv_channels ? *kv_channels : hidden_size / num_attention_heads;
}

// Llama 3.1's: wavelengths beyond 8192 tokens, which it had been trained with, are stretched,
// those below a quarter of it stay, and between them the change is smooth.
static double llama3_scaled(double frequency, double factor) {
  constexpr double kContext = 8192, kHigh = 4;
  const double turns = kContext * frequency / (2 * std::numbers::pi);  // within the context
  const double t = std::clamp((turns - 1) / (kHigh - 1), 0.0, 1.0);
  return (1 - t) * frequency / factor + t * frequency;
}

std::int64_t GptConfig::rotary_dim() const {
  if (position_embedding_type != "rope") return 0;
  return static_cast<std::int64_t>(static_cast<double>(head_dim()) * rotary_percent);
}

std::vector<double> GptConfig::rotary_frequencies() const {
  const std::int64_t half = rotary_dim() / 2;
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < half; ++i) {
    const double f = std::pow(static_cast<double>(rotary_base),
                              -static_cast<double>(i) / static_cast<double>(half));
    frequencies.push_back((use_rope_scaling ? llama3_scaled(f, rope_scaling_factor) : f) /
                          rotary_interpolation.value_or(1));
  }
  return frequencies;
}

std::int64_t GptConfig::window(std::int64_t layer) const {
  if (window_size.empty()) return -1;
  const auto& skip = window_attn_skip_freq;
  const bool has_window = skip.empty()       ? true
                          : skip.size() == 1 ? (layer + 1) % skip[0] != 0
                                             : skip[static_cast<std::size_t>(layer)] != 0;
  return has_window ? tokens_before(window_size) : -1;
}

Activation GptConfig::activation() const {
  if (swiglu) return Activation::swiglu;
  if (squared_relu) return Activation::squared_relu;
  return bias_gelu_fusion && add_bias_linear ? Activation::gelu_tanh : Activation::gelu_erf;
}

double GptConfig::flops(std::int64_t sequences, std::int64_t seq_length) const {
  const auto h = static_cast<double>(hidden_size), s = static_cast<double>(seq_length);
  const auto layers = static_cast<double>(num_layers), f = static_cast<double>(ffn());
  const double gate = swiglu ? 1.5 : 1, groups = static_cast<double>(kv_heads());
  const auto heads = static_cast<double>(num_attention_heads);
  const double projection = heads * static_cast<double>(head_dim());
  const double attention =
      12 * layers * h * h * (1 + groups / heads + s / (2 * h)) * projection / h;
  return static_cast<double>(sequences) * s *
         (12 * layers * h * f * gate + attention + 6 * h * static_cast<double>(padded_vocab_size));
}

}  // namespace mt
