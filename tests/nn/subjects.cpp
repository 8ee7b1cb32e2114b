// Every module in every form, small and with all extents different.
#include "nn/bert_heads.h"
#include "nn/cross_attention.h"
#include "nn/embedding.h"
#include "nn/gated_delta_net.h"
#include "nn/latent_attention.h"
#include "nn/linear.h"
#include "nn/lm_head.h"
#include "nn/mamba.h"
#include "nn/mlp.h"
#include "nn/norm.h"
#include "nn/self_attention.h"
#include "nn/stack.h"
#include "ops/ops.h"
#include "tests/nn/module_test.h"

namespace mt {
namespace {

constexpr std::int64_t kTokens = 10, kHidden = 6, kVocab = 7;

Param weight(const std::string& name, std::int64_t out, std::int64_t in) {
  return {.place = {.module = name, .param = "weight"}, .shape = {out, in}};
}

Param bias_of(const std::string& name, std::int64_t out) {
  return {.place = {.module = name, .param = "bias"}, .shape = {out}};
}

Linear linear(ParamTable& table, const std::string& name, std::int64_t out, std::int64_t in,
              bool bias) {
  return {table, weight(name, out, in), bias};
}

// Of a weight whose rows are segments of so many, with an adapter of some.
Linear adapted(ParamTable& table, Param weight, const std::vector<Segment>& segments,
               const std::vector<std::string>& parts, double dropout = 0) {
  weight.segments = segments;
  return {table,
          std::move(weight),
          true,
          {.rank = 2,
           .scale = 1.5,
           .dropout = dropout,
           .parts = parts,
           .layer = 3,
           .purpose = parts.front().empty() ? Purpose::fc2_adapter_dropout
                                            : Purpose::fc1_adapter_dropout}};
}

Norm norm(ParamTable& table, const std::string& name, NormKind kind, std::int64_t width = kHidden,
          bool zero_centered = false) {
  return {table,
          {.place = {.module = name, .param = "weight"}, .shape = {width}},
          {.kind = kind, .zero_centered = zero_centered}};
}

// Modules with forward(s, y, x, saved) and backward(s, dx, dy, x, saved).
template <class Module>
class Plain : public Subject {
 public:
  template <class Make>
  Plain(const Make& make, std::int64_t in, std::int64_t out) : module_(make(table)) {
    x = {kTokens, in};
    y = {kTokens, out};
    allocate();
  }
  void forward(Step& s, Tensor out, ConstTensor in, bool save) override {
    module_.forward(s, out, in, save ? &saved_ : nullptr);
  }
  void backward(Step& s, Tensor dx, ConstTensor d_out, ConstTensor in) override {
    module_.backward(s, dx, d_out, in, saved_);
  }

 private:
  Module module_;
  typename Module::Saved saved_;
};

template <class Module, class Make>
NamedSubject plain(const std::string& name, std::int64_t in, std::int64_t out, const Make& make) {
  return {name, [=] { return std::make_unique<Plain<Module>>(make, in, out); }};
}

// Modules with a residual: y = residual + f(x).
template <class Module>
class WithResidual : public Subject {
 public:
  template <class Make>
  explicit WithResidual(const Make& make) : module_(make(*this)) {
    x = y = {kTokens, kHidden};
    allocate();
  }
  void forward(Step& s, Tensor out, ConstTensor in, bool save) override {
    module_.forward(s, out, residual_.view(), in, save ? &saved_ : nullptr);
  }
  void backward(Step& s, Tensor dx, ConstTensor d_out, ConstTensor in) override {
    module_.backward(s, dx, d_out, in, saved_);
  }

 private:
  const HostTensor residual_ = random_tensor(DType::f64, {kTokens, kHidden}, 3);
  Module module_;
  typename Module::Saved saved_;
};

class LinearSubject : public Subject {
 public:
  explicit LinearSubject(bool bias) : module_(linear(table, "linear", 4, kHidden, bias)) {
    x = {kTokens, kHidden};
    y = {kTokens, 4};
    allocate();
  }
  void forward(Step& s, Tensor out, ConstTensor in, bool) override { module_.forward(s, out, in); }
  void backward(Step& s, Tensor dx, ConstTensor d_out, ConstTensor in) override {
    module_.backward(s, dx, d_out, in);
  }

 private:
  Linear module_;
};

NamedSubject of_linear(const std::string& name, bool bias) {
  return {name, [=] { return std::make_unique<LinearSubject>(bias); }};
}

class AdaptedLinearSubject : public Subject {
 public:
  explicit AdaptedLinearSubject(double dropout)
      : module_(adapted(table, weight("linear", 4, kHidden), {}, {""}, dropout)) {
    x = {kTokens, kHidden};
    y = {kTokens, 4};
    allocate();
  }
  void forward(Step& s, Tensor out, ConstTensor in, bool) override { module_.forward(s, out, in); }
  void backward(Step& s, Tensor dx, ConstTensor d_out, ConstTensor in) override {
    module_.backward(s, dx, d_out, in);
  }

 private:
  Linear module_;
};

struct AttentionForm {
  std::int64_t heads = 2, kv_heads = 2, head_dim = 4;
  std::int64_t rotary_dim = 0, window = -1;
  double dropout = 0;
  bool recompute = false;
  bool qkv_bias = true, proj_bias = true;
  bool rotary_interleaved = false;
  std::optional<NormKind> head_norms = {};
  std::int64_t buckets = 0;  // of relative positions; 0: no bias
  double softcap = 0, magnitude = 1;
  bool norms_of_all = false, norms_behind = false, norms_per_head = false;
  double clip = 0;
  bool sink = false, sink_of_zeros = false;
  bool gated = false;
};

ConstTensor inv_freq(std::int64_t rotary_dim) {
  static constexpr double kFrequencies[] = {1, 0.3};
  return rotary_dim == 0 ? ConstTensor() : ConstTensor(kFrequencies, DType::f64, {rotary_dim / 2});
}

SelfAttention::HeadNorms head_norms(ParamTable& table, const AttentionForm& f) {
  if (!f.head_norms) return {};
  const auto width = [&](std::int64_t heads) {
    return f.norms_of_all ? heads * f.head_dim : f.head_dim;
  };
  const auto head_norm = [&](const std::string& name, std::int64_t heads) {
    if (!f.norms_per_head)
      return SelfAttention::HeadNorm{norm(table, name, *f.head_norms, width(heads))};
    return SelfAttention::HeadNorm{
        Norm(table, {}, {.kind = *f.head_norms, .has_weight = false}),
        &table.add({.place = {.module = name, .param = "weight"}, .shape = {heads * f.head_dim}})};
  };
  return {.q = head_norm("q_norm", f.heads), .k = head_norm("k_norm", f.kv_heads)};
}

std::optional<RelativeBias> relative_bias(ParamTable& table, const AttentionForm& f) {
  if (f.buckets == 0) return {};
  return RelativeBias(table.add(weight("relative", f.buckets, f.heads + 1)),
                      RelativeBuckets(f.buckets, 4, f.buckets % 4 == 0), 1, f.heads);
}

HeadSink sink(ParamTable& table, const AttentionForm& f) {
  if (!f.sink) return {.is_there = f.sink_of_zeros};
  return {true, &table.add({.place = {.module = "core", .param = "offset"}, .shape = {f.heads}})};
}

SelfAttention attention(ParamTable& table, const AttentionForm& f) {
  const std::int64_t queries = (f.gated ? 2 : 1) * f.heads;
  return {linear(table, "qkv", (queries + 2 * f.kv_heads) * f.head_dim, kHidden, f.qkv_bias),
          linear(table, "proj", kHidden, f.heads * f.head_dim, f.proj_bias),
          {.core = {.layer = 3,
                    .heads = f.heads,
                    .kv_heads = f.kv_heads,
                    .head_dim = f.head_dim,
                    .dropout = f.dropout,
                    .softcap = f.softcap,
                    .sink = sink(table, f),
                    .recompute = f.recompute},
           .window = f.window,
           .hidden_dropout = f.dropout / 2,
           .inv_freq = inv_freq(f.rotary_dim),
           .rotary_interleaved = f.rotary_interleaved,
           .rotary_magnitude = f.magnitude,
           .norms_of_all = f.norms_of_all,
           .gated = f.gated,
           .norms_behind = f.norms_behind,
           .clip = f.clip,
           .bias = relative_bias(table, f)},
          head_norms(table, f)};
}

NamedSubject of_attention(const std::string& name, const AttentionForm& form,
                          std::int64_t document = 0, bool causal = true) {
  return {name, [=] {
            return std::make_unique<WithResidual<SelfAttention>>([&](Subject& subject) {
              subject.sizes.document = document;
              subject.sizes.causal = causal;
              return attention(subject.table, form);
            });
          }};
}

// x: the tokens' hidden states, and below them the memory's.
class CrossAttentionSubject : public Subject {
 public:
  explicit CrossAttentionSubject(const AttentionForm& f)
      : module_(linear(table, "q", f.heads * f.head_dim, kHidden, f.qkv_bias),
                linear(table, "kv", 2 * f.heads * f.head_dim, kHidden, f.qkv_bias),
                linear(table, "proj", kHidden, f.heads * f.head_dim, f.proj_bias),
                {.core = {.layer = 3,
                          .heads = f.heads,
                          .kv_heads = f.heads,
                          .head_dim = f.head_dim,
                          .dropout = f.dropout,
                          .purpose = Purpose::cross_attention_dropout,
                          .recompute = f.recompute},
                 .hidden_dropout = f.dropout / 2}) {
    x = {kTokens + kMemory, kHidden};
    y = {kTokens, kHidden};
    allocate();
  }
  void forward(Step& s, Tensor out, ConstTensor in, bool save) override {
    s.memory = memory(in);
    module_.forward(s, out, residual_.view(), in.rows(0, kTokens), save ? &saved_ : nullptr);
  }
  void backward(Step& s, Tensor dx, ConstTensor d_out, ConstTensor in) override {
    s.memory = memory(in);
    s.memory.gradient = dx.rows(kTokens, kTokens + kMemory);
    set_zero(s.memory.gradient, s.stream);
    module_.backward(s, dx.rows(0, kTokens), d_out, in.rows(0, kTokens), saved_);
  }

 private:
  static constexpr std::int64_t kMemory = 2 * 7;
  Memory memory(ConstTensor in) const {
    return {.tokens = {.sequences = 2, .length = 7, .positions = {}, .lengths = lengths_.view()},
            .hidden = in.rows(kTokens, kTokens + kMemory),
            .gradient = {}};
  }

  const HostTensor lengths_{{2}, {4, 7}};
  const HostTensor residual_ = random_tensor(DType::f64, {kTokens, kHidden}, 3);
  CrossAttention module_;
  CrossAttention::Saved saved_;
};

NamedSubject of_cross_attention(const std::string& name, const AttentionForm& form) {
  return {name, [=] { return std::make_unique<CrossAttentionSubject>(form); }};
}

Mlp mlp(ParamTable& table, Activation activation, bool with_bias, double dropout,
        bool recompute = false) {
  constexpr std::int64_t kFfn = 9;
  const std::int64_t rows = is_gated(activation) ? 2 * kFfn : kFfn;
  return {linear(table, "fc1", rows, kHidden, with_bias),
          linear(table, "fc2", kHidden, kFfn, with_bias),
          activation,
          3,
          dropout,
          recompute};
}

NamedSubject of_mlp(const std::string& name, Activation activation, bool with_bias,
                    double dropout) {
  return {name, [=] {
            return std::make_unique<WithResidual<Mlp>>([&](Subject& subject) {
              return mlp(subject.table, activation, with_bias, dropout);
            });
          }};
}

// Of its slopes' numbers two are learned.  The activation has a kink at eps and jumps at 0: numbers
// are drawn in an order that brings none near these.
NamedSubject of_xielu(const std::string& name, bool recompute) {
  return {name, [=] {
            static double beta = 0.4, eps = -0.01;
            static const Param kBeta{
                .place = {}, .shape = {1}, .value = Tensor(&beta, DType::f64, {1})},
                kEps{.place = {}, .shape = {1}, .value = Tensor(&eps, DType::f64, {1})};
            return std::make_unique<WithResidual<Mlp>>([&](Subject& subject) {
              const auto add = [&](const char* param) {
                return &subject.table.add(
                    {.place = {.module = "activation", .param = param}, .shape = {1}});
              };
              const Mlp::Slopes slopes{add("alpha_p"), add("alpha_n"), &kBeta, &kEps};
              constexpr std::int64_t kFfn = 9;
              const Linear fc2 = linear(subject.table, "fc2", kHidden, kFfn, false);
              const Linear fc1 = linear(subject.table, "fc1", kFfn, kHidden, false);
              return Mlp(fc1, fc2, Activation::xielu, 3, 0, recompute, slopes);
            });
          }};
}

// Its linear layers have adapters, fc1 of these parts.
NamedSubject of_adapted_mlp(const std::string& name, Activation activation,
                            const std::vector<std::string>& parts, double dropout = 0) {
  constexpr std::int64_t kFfn = 9;
  std::vector<Segment> segments{{.name = "up", .extent = kFfn}};
  if (is_gated(activation)) segments.insert(segments.begin(), {.name = "gate", .extent = kFfn});
  const std::int64_t rows = std::ssize(segments) * kFfn;
  return {name, [=] {
            return std::make_unique<WithResidual<Mlp>>([&](Subject& subject) {
              const Linear fc1 =
                  adapted(subject.table, weight("fc1", rows, kHidden), segments, parts, dropout);
              const Linear fc2 =
                  adapted(subject.table, weight("fc2", kHidden, kFfn), {}, {""}, dropout);
              return Mlp(fc1, fc2, activation, 3, dropout);
            });
          }};
}

// Of its groups' rows those of some of queries, keys and values have adapters.
NamedSubject of_adapted_attention(const std::string& name, const std::vector<std::string>& parts) {
  constexpr std::int64_t kHeads = 4, kGroups = 2, kDim = 4, kRows = (kHeads + 2 * kGroups) * kDim;
  const Segment qkv{.name = "qkv",
                    .extent = kRows,
                    .granularity = kRows / kGroups,
                    .parts = {kHeads / kGroups * kDim, kDim, kDim}};
  return {name, [=] {
            return std::make_unique<WithResidual<SelfAttention>>([&](Subject& subject) {
              const Linear in = adapted(subject.table, weight("qkv", kRows, kHidden), {qkv}, parts);
              return SelfAttention(
                  in, linear(subject.table, "proj", kHidden, kHeads * kDim, false),
                  {.core = {.layer = 3, .heads = kHeads, .kv_heads = kGroups, .head_dim = kDim},
                   .inv_freq = {}});
            });
          }};
}

struct LatentForm {
  std::int64_t q_rank = 5, values = 3;  // q_rank 0: queries are made of x
  bool normed = true, recompute = false;
  double dropout = 0;
};

LatentAttention latent_attention(ParamTable& table, const LatentForm& f) {
  constexpr std::int64_t kKvRank = 7;
  const LatentHeads heads{.heads = 2, .fixed = 3, .turning = 4, .values = f.values};
  const auto latent = [&](const std::string& name, std::int64_t rank, std::int64_t beside) {
    LatentAttention::Latent made{linear(table, name, rank + beside, kHidden, false), {}};
    if (f.normed) made.norm = norm(table, name + "_norm", NormKind::rms, rank);
    return made;
  };
  std::optional<LatentAttention::Latent> of_q;
  if (f.q_rank > 0) of_q = latent("q_down", f.q_rank, 0);
  const Linear q_up =
      linear(table, "q_up", heads.heads * heads.q_width(), of_q ? f.q_rank : kHidden, false);
  const LatentAttention::Latent of_kv = latent("kv_down", kKvRank, heads.turning);
  const Linear kv_up = linear(table, "kv_up", heads.heads * heads.kv_width(), kKvRank, false);
  return {{of_q, q_up},
          of_kv,
          kv_up,
          linear(table, "proj", kHidden, heads.heads * heads.values, true),
          {.core = {.layer = 3,
                    .heads = heads.heads,
                    .kv_heads = heads.heads,
                    .head_dim = heads.width(),
                    .dropout = f.dropout,
                    .scale = 1.3,
                    .recompute = f.recompute},
           .heads = heads,
           .hidden_dropout = f.dropout / 2,
           .inv_freq = inv_freq(heads.turning),
           .rotary_magnitude = 1.2,
           .recompute_up = f.recompute}};
}

NamedSubject of_latent_attention(const std::string& name, const LatentForm& form,
                                 std::int64_t document = 0) {
  return {name, [=] {
            return std::make_unique<WithResidual<LatentAttention>>([&](Subject& subject) {
              subject.sizes.document = document;
              return latent_attention(subject.table, form);
            });
          }};
}

// Of four heads in two groups, whose sequences are longer than a chunk.
Mamba mamba(ParamTable& table, double dropout) {
  MambaShape shape{.heads = 4, .head_dim = 3, .groups = 2, .state_dim = 2, .chunk = 3};
  const auto add = [&](const char* name, const Shape& of) {
    return &table.add({.place = {.module = name, .param = "weight"}, .shape = of});
  };
  const Linear in = linear(table, "in", shape.projected(), kHidden, false);
  return {in,
          linear(table, "out", kHidden, shape.inner(), false),
          {.conv_weight = add("conv", {shape.mixed(), 1, shape.taps}),
           .conv_bias = add("conv_bias", {shape.mixed()}),
           .dt_bias = add("dt_bias", {shape.heads}),
           .a_log = add("A_log", {shape.heads}),
           .d = add("D", {shape.heads}),
           .norm = add("norm", {shape.inner()})},
          {.shape = shape, .layer = 3, .hidden_dropout = dropout}};
}

NamedSubject of_mamba(const std::string& name, std::int64_t document, double dropout = 0) {
  return {name, [=] {
            return std::make_unique<WithResidual<Mamba>>([&](Subject& subject) {
              subject.sizes.document = document;
              return mamba(subject.table, dropout);
            });
          }};
}

// Of four value heads over two of keys.
GatedDeltaNet gated_delta_net(ParamTable& table, double dropout) {
  const DeltaShape shape{.key_heads = 2, .value_heads = 4, .key_dim = 3, .value_dim = 2, .taps = 3};
  const auto add = [&](const char* name, const Shape& of) {
    return &table.add({.place = {.module = name, .param = "weight"}, .shape = of});
  };
  const Linear in = linear(table, "in", shape.projected(), kHidden, false);
  return {in,
          linear(table, "out", kHidden, shape.values(), false),
          {.conv_weight = add("conv", {shape.mixed(), 1, shape.taps}),
           .dt_bias = add("dt_bias", {shape.value_heads}),
           .a_log = add("A_log", {shape.value_heads}),
           .norm = add("norm", {shape.value_dim})},
          {.shape = shape,
           .layer = 3,
           .norm = {.eps = 1e-5, .zero_centered = dropout > 0},
           .hidden_dropout = dropout}};
}

NamedSubject of_gated_delta_net(const std::string& name, std::int64_t document,
                                double dropout = 0) {
  return {name, [=] {
            return std::make_unique<WithResidual<GatedDeltaNet>>([&](Subject& subject) {
              subject.sizes.document = document;
              return gated_delta_net(subject.table, dropout);
            });
          }};
}

Branch branch_of(ParamTable& table, NormKind kind, const AttentionForm& form) {
  const Norm before = norm(table, "norm1", kind);
  return {before, attention(table, form), form.recompute};
}

// With biases, dropout and recomputation as that of the attention.
Branch branch_of(ParamTable& table, NormKind kind, const AttentionForm& form,
                 Activation activation) {
  const Norm before = norm(table, "norm2", kind);
  return {before, mlp(table, activation, form.qkv_bias, form.dropout, form.recompute),
          form.recompute};
}

// What it makes goes through a norm of its own, or is only multiplied, and passed over or not.
Branch branch_behind(ParamTable& table, bool norm_before, bool norm_behind, double dropout,
                     bool recompute, double drop_path) {
  std::optional<Norm> before;
  if (norm_before) before = norm(table, "norm", NormKind::rms);
  const Mlp module = mlp(table, Activation::geglu, true, norm_behind ? 0 : dropout, recompute);
  Branch::Behind behind{
      .multiplier = 0.7, .purpose = Purpose::hidden_dropout2, .layer = 3, .drop_path = drop_path};
  if (norm_behind) {
    behind.norm = norm(table, "behind", NormKind::rms);
    behind.dropout = dropout;
  }
  return {before, module, recompute, behind};
}

// Each channel of what it makes is multiplied by a number of its own.
Branch branch_of_lambdas(ParamTable& table, double dropout, bool recompute, double drop_path) {
  const Norm before = norm(table, "norm", NormKind::layer);
  const Mlp module = mlp(table, Activation::gelu_erf, true, dropout, recompute);
  const Param& lambda = table.add({.place = {.param = "ls2"}, .shape = {kHidden}});
  return {
      before,
      module,
      recompute,
      {.purpose = Purpose::hidden_dropout2, .layer = 3, .drop_path = drop_path, .lambda = &lambda}};
}

ParallelBlock parallel_block(ParamTable& table, const AttentionForm& f) {
  const SelfAttention attended = attention(table, f);
  return {attended, mlp(table, Activation::swiglu, false, f.dropout, f.recompute)};
}

// Layers of an attention and an MLP, or of either alone.
struct StackForm {
  NormKind norm = NormKind::layer;
  AttentionForm attention = {};
  Activation activation = Activation::gelu_tanh;
  std::vector<std::string> layers = {"am"};
  std::vector<LayerRun> runs = {{0, 1, false}};
};

class StackSubject : public Subject {
 public:
  explicit StackSubject(const StackForm& form) : module_(make(table, form)) {
    x = y = {kTokens, kHidden};
    allocate();
  }
  void forward(Step& s, Tensor out, ConstTensor in, bool save) override {
    Stack::Saved* const saved = save ? &saved_ : nullptr;
    const Tensor h = s.kept(saved, in.shape());
    copy(h, in, s.stream);
    copy(out, module_.forward(s, h, saved), s.stream);
  }
  void backward(Step& s, Tensor dx, ConstTensor d_out, ConstTensor) override {
    const Tensor d = s.gradient(d_out.shape());
    copy(d, d_out, s.stream);
    copy(dx, module_.backward(s, d, saved_), s.stream);
  }

 private:
  static Stack make(ParamTable& table, const StackForm& form) {
    std::vector<Stack::Layer> layers;
    for (const std::string& kinds : form.layers) {
      Stack::Layer& layer = layers.emplace_back();
      layer.number = std::ssize(layers);
      for (const char kind : kinds)
        layer.branches.push_back(
            kind == 'a' ? branch_of(table, form.norm, form.attention)
                        : branch_of(table, form.norm, form.attention, form.activation));
    }
    return {std::move(layers), form.runs};
  }

  Stack module_;
  Stack::Saved saved_;
};

NamedSubject of_stack(const std::string& name, const StackForm& form) {
  return {name, [=] { return std::make_unique<StackSubject>(form); }};
}

class EmbeddingSubject : public Subject {
 public:
  EmbeddingSubject(bool positions, bool types, double dropout, double multiplier = 1,
                   bool normed = false)
      : module_({.words = &table.add(weight("words", kVocab, kHidden)),
                 .positions = positions ? &table.add(weight("positions", 5, kHidden)) : nullptr,
                 .types = types ? &table.add(weight("types", 2, kHidden)) : nullptr},
                dropout,
                {.multiplier = multiplier,
                 .noise = 0,
                 .norm = normed ? std::optional(norm(table, "norm", NormKind::layer, kHidden))
                                : std::nullopt}) {
    x = {0};
    y = {kTokens, kHidden};
    allocate();
  }
  void forward(Step& s, Tensor out, ConstTensor, bool save) override {
    module_.forward(s, out, ids_.view(), types_.view(), save ? &saved_ : nullptr);
  }
  void backward(Step& s, Tensor, ConstTensor d_out, ConstTensor) override {
    const HostTensor overwritten = clone(d_out);
    module_.backward(s, overwritten, saved_);
  }

 private:
  const HostTensor ids_{{kTokens}, {3, 0, 3, 6, 1, 1, 5, 3, 0, 2}};
  const HostTensor types_{{kTokens}, {0, 0, 1, 1, 1, 0, 1, 1, 0, 0}};
  Embedding module_;
  Embedding::Saved saved_;
};

// y: the losses.  Its backward knows one dy, the weights of the rows.
class HeadSubject : public Subject {
 public:
  explicit HeadSubject(std::int64_t seq_length, double smoothing = 0, bool bias = false)
      : labels_(DType::i32, {2 * seq_length}),
        row_weight_(random_tensor(DType::f64, {2 * seq_length}, 4, 0, 0.1)),
        module_(table.add(weight("words", kVocab, kHidden)), kWords, smoothing,
                bias ? &table.add(bias_of("words", kVocab)) : nullptr) {
    begin(seq_length);
  }
  HeadSubject(std::int64_t seq_length, const LmHead::Scaling& scaling)
      : labels_(DType::i32, {2 * seq_length}),
        row_weight_(random_tensor(DType::f64, {2 * seq_length}, 4, 0, 0.1)),
        module_(table.add(weight("words", kVocab, kHidden)), kWords, 0, scaling) {
    begin(seq_length);
  }
  void begin(std::int64_t seq_length) {
    sizes.seq_length = seq_length;
    x = {2 * seq_length, kHidden};
    y = {2 * seq_length};
    dy = row_weight_.view();
    for (std::int64_t i = 0; i < 2 * seq_length; ++i)
      labels_.view().as<std::int32_t>()[i] = static_cast<std::int32_t>(i * i % kWords);
    allocate();
  }
  // The gradient of the weight is added in forward; it counts as backward's.
  void forward(Step& s, Tensor out, ConstTensor in, bool save) override {
    module_.loss(s, out, in, labels_.view(), row_weight_.view(), save ? &saved_ : nullptr);
  }
  void backward(Step&, Tensor dx, ConstTensor, ConstTensor) override {
    std::memcpy(dx.data(), saved_.dx.data(), dx.bytes());
  }

 private:
  static constexpr std::int64_t kWords = kVocab - 2;  // the others pad the vocabulary
  HostTensor labels_, row_weight_;
  LmHead module_;
  LmHead::Saved saved_;
};

// y: distances from a teacher, cross-entropies, and distances of hidden states.  As of HeadSubject.
class TaughtHeadSubject : public Subject {
 public:
  explicit TaughtHeadSubject(const LmHead::Scaling& scaling)
      : hidden_(random_tensor(DType::f64, {kTokens, kHidden}, 5, -1, 1)),
        row_weight_(random_tensor(DType::f64, {3 * kTokens}, 4, 0, 0.1)),
        module_(table.add(weight("words", kVocab, kHidden)), kVocab - 2, 0, scaling),
        teacher_(teachers_.add(weight("taught", kVocab, kHidden)), kVocab - 2) {
    teachers_.allocate(Device::cpu, DType::f64, false);
    fill_uniform(teachers_.rows()[0].value, 7, -0.5, 0.5);
    sizes.seq_length = kTokens / 2;
    x = {kTokens, kHidden};
    y = {3 * kTokens};
    dy = row_weight_.view();
    allocate();
  }
  void forward(Step& s, Tensor out, ConstTensor in, bool save) override {
    module_.distill(s, out, in, labels_.view(), row_weight_.view(),
                    {.head = &teacher_,
                     .hidden = hidden_.view(),
                     .distance = {.temperature = 1.5, .beta = 0.4},
                     .of_hidden = HiddenLoss::squared},
                    save ? &saved_ : nullptr);
  }
  void backward(Step&, Tensor dx, ConstTensor, ConstTensor) override {
    std::memcpy(dx.data(), saved_.dx.data(), dx.bytes());
  }

 private:
  const HostTensor labels_{{kTokens}, {3, 0, 3, 1, 1, 1, 2, 3, 0, 2}};
  HostTensor hidden_, row_weight_;
  ParamTable teachers_;
  LmHead module_, teacher_;
  LmHead::Saved saved_;
};

NamedSubject of_branch_behind(const std::string& name, bool before, bool behind, double dropout,
                              bool recompute, double drop_path = 0) {
  return plain<Branch>(name, kHidden, kHidden, [=](ParamTable& table) {
    return branch_behind(table, before, behind, dropout, recompute, drop_path);
  });
}

NamedSubject of_branch_of_lambdas(const std::string& name, double dropout, bool recompute,
                                  double drop_path) {
  return plain<Branch>(name, kHidden, kHidden, [=](ParamTable& table) {
    return branch_of_lambdas(table, dropout, recompute, drop_path);
  });
}

// y: the losses of five rows that are asked of, one of them not needed, and of the orders of two
// sequences.
class BertHeadsSubject : public Subject {
 public:
  explicit BertHeadsSubject(bool order)
      : row_weight_(DType::f64, {order ? 7 : 5}),
        module_(linear(table, "dense", kHidden, kHidden, true),
                norm(table, "norm", NormKind::layer),
                LmHead(table.add(weight("words", kVocab, kHidden)), kVocab - 2, 0,
                       &table.add(bias_of("words", kVocab))),
                make_order(table, order)) {
    x = {kTokens, kHidden};
    y = row_weight_.view().shape();
    dy = row_weight_.view();
    fill_with(row_weight_, [](std::int64_t i) { return i == 4 ? 0 : 0.02 * double(1 + i % 3); });
    allocate();
  }
  // As of HeadSubject.
  void forward(Step& s, Tensor out, ConstTensor in, bool save) override {
    const std::int64_t asked = out.numel();
    module_.forward(s, out, in,
                    {.rows = rows_.view().rows(0, asked),
                     .row_of = asked == 7 ? row_of_.view() : row_of_words_.view(),
                     .targets = targets_.view().rows(0, asked),
                     .weight = row_weight_.view(),
                     .order = asked == 7 ? 2 : 0},
                    save ? &saved_ : nullptr);
  }
  void backward(Step& s, Tensor dx, ConstTensor, ConstTensor) override {
    module_.backward(s, dx, saved_);
  }

 private:
  static std::optional<BertHeads::Order> make_order(ParamTable& table, bool order) {
    if (!order) return {};
    const Linear pooler = linear(table, "pooler", kHidden, kHidden, true);
    return BertHeads::Order{pooler, linear(table, "classes", 2, kHidden, true)};
  }
  const HostTensor rows_{{7}, {3, 1, 8, 9, 0, 0, 5}}, targets_{{7}, {2, 4, 0, 3, 0, 1, 0}};
  const HostTensor row_of_{{kTokens}, {5, 1, -1, 0, -1, 6, -1, -1, 2, 3}};
  const HostTensor row_of_words_{{kTokens}, {-1, 1, -1, 0, -1, -1, -1, -1, 2, 3}};
  HostTensor row_weight_;
  BertHeads module_;
  BertHeads::Saved saved_;
};

}  // namespace

std::vector<NamedSubject> all_subjects() {
  const AttentionForm llama = {
      .heads = 4, .kv_heads = 2, .rotary_dim = 4, .qkv_bias = false, .proj_bias = false};
  const auto with_dropout = [](AttentionForm form) {
    form.dropout = 0.3;
    return form;
  };
  const auto recomputed = [](AttentionForm form) {
    form.recompute = true;
    return form;
  };
  const auto norm_of = [](NormKind kind) {
    return [=](ParamTable& table) { return norm(table, "norm", kind); };
  };
  const auto zero_centered_norm_of = [](NormKind kind) {
    return [=](ParamTable& table) { return norm(table, "norm", kind, kHidden, true); };
  };
  const auto branch_with = [](NormKind kind, const auto&... form) {
    return [=](ParamTable& table) { return branch_of(table, kind, form...); };
  };
  const StackForm of_llama = {
      .norm = NormKind::rms, .attention = llama, .activation = Activation::swiglu};
  StackForm recomputed_llama = of_llama, one_branch = of_llama;
  recomputed_llama.attention = recomputed(llama);
  one_branch.layers = {"m", "am", "a"};
  one_branch.runs = {{0, 1, false}, {1, 2, false}, {2, 3, false}};
  StackForm one_branch_again = one_branch;
  one_branch_again.runs = {{0, 2, true}, {2, 3, true}};
  return {
      of_linear("linear", false),
      of_linear("linear_with_bias", true),
      {"adapted_linear", [] { return std::make_unique<AdaptedLinearSubject>(0); }},
      {"adapted_linear_with_dropout", [] { return std::make_unique<AdaptedLinearSubject>(0.3); }},
      of_adapted_mlp("adapted_mlp_gelu_tanh", Activation::gelu_tanh, {""}),
      of_adapted_mlp("adapted_mlp_swiglu", Activation::swiglu, {"gate", "up"}),
      of_adapted_mlp("adapted_mlp_geglu", Activation::geglu, {"up"}),
      of_adapted_mlp("adapted_mlp_swiglu_with_dropout", Activation::swiglu, {"gate", "up"}, 0.3),
      of_adapted_attention("adapted_attention", {"q", "k", "v"}),
      of_adapted_attention("adapted_attention_of_queries_and_values", {"q", "v"}),
      plain<Norm>("layer_norm", kHidden, kHidden, norm_of(NormKind::layer)),
      plain<Norm>("rms_norm", kHidden, kHidden, norm_of(NormKind::rms)),
      plain<Norm>("zero_centered_layer_norm", kHidden, kHidden,
                  zero_centered_norm_of(NormKind::layer)),
      plain<Norm>("zero_centered_rms_norm", kHidden, kHidden, zero_centered_norm_of(NormKind::rms)),
      of_attention("attention", {}),
      of_attention("attention_one_kv_head", {.heads = 3, .kv_heads = 1}),
      of_attention("attention_partly_rotated", {.heads = 4, .kv_heads = 2, .rotary_dim = 2}),
      of_attention("attention_of_llama", llama),
      of_attention("attention_interleaved", {.rotary_dim = 4, .rotary_interleaved = true}),
      of_attention("attention_with_layer_normed_heads",
                   {.heads = 4, .kv_heads = 2, .rotary_dim = 4, .head_norms = NormKind::layer}),
      of_attention("attention_with_rms_normed_heads",
                   {.heads = 4, .kv_heads = 2, .rotary_dim = 4, .head_norms = NormKind::rms}),
      of_attention("recomputed_attention_with_rms_normed_heads",
                   recomputed({.rotary_dim = 4, .head_norms = NormKind::rms})),
      of_attention("attention_with_norms_of_all_heads", {.heads = 4,
                                                         .kv_heads = 2,
                                                         .rotary_dim = 4,
                                                         .head_norms = NormKind::rms,
                                                         .norms_of_all = true}),
      of_attention("attention_with_norms_per_head", {.heads = 4,
                                                     .kv_heads = 2,
                                                     .rotary_dim = 4,
                                                     .head_norms = NormKind::layer,
                                                     .norms_per_head = true}),
      // Nothing is so near the bound that it crosses it where a derivative is looked for.
      of_attention("attention_with_clip", {.heads = 4, .rotary_dim = 4, .clip = 0.6}),
      of_attention("attention_with_norms_and_clip", {.heads = 4,
                                                     .kv_heads = 2,
                                                     .head_norms = NormKind::rms,
                                                     .norms_per_head = true,
                                                     .clip = 0.6}),
      of_attention("attention_with_norms_behind_rope", {.heads = 4,
                                                        .kv_heads = 2,
                                                        .rotary_dim = 4,
                                                        .head_norms = NormKind::rms,
                                                        .norms_behind = true}),
      of_attention("attention_of_capped_scores", {.rotary_dim = 4, .softcap = 0.6}),
      of_attention("attention_with_a_magnitude",
                   {.heads = 3, .kv_heads = 1, .rotary_dim = 2, .magnitude = 1.4}),
      of_attention("attention_in_a_window", {.window = 2}),
      of_attention("attention_with_sinks",
                   {.heads = 4, .kv_heads = 2, .rotary_dim = 4, .sink = true}),
      of_attention("attention_with_sinks_of_zeros", {.sink_of_zeros = true}),
      of_attention("recomputed_attention_with_sinks_a_window_and_dropout",
                   {.window = 2, .dropout = 0.2, .recompute = true, .sink = true}),
      of_attention("attention_with_sinks_of_documents", {.sink = true}, 2),
      of_attention("attention_of_documents", {.rotary_dim = 4}, 2),
      of_attention("attention_to_both_sides", {.rotary_dim = 4}, 0, false),
      of_attention("attention_of_documents_to_both_sides", {.window = 2}, 3, false),
      of_attention("attention_with_relative_positions", {.buckets = 6}),
      of_attention("attention_with_relative_positions_to_both_sides",
                   {.heads = 4, .kv_heads = 2, .buckets = 8}, 0, false),
      of_attention("recomputed_attention_with_relative_positions_and_dropout",
                   recomputed(with_dropout({.buckets = 8})), 0, false),
      of_cross_attention("cross_attention", {.heads = 3, .head_dim = 4}),
      of_cross_attention("cross_attention_without_biases",
                         {.head_dim = 5, .qkv_bias = false, .proj_bias = false}),
      of_cross_attention("recomputed_cross_attention", recomputed({})),
      of_cross_attention("cross_attention_with_dropout", with_dropout({.head_dim = 8})),
      of_attention("attention_with_dropout", with_dropout({.rotary_dim = 4})),
      of_mlp("mlp_gelu_tanh", Activation::gelu_tanh, true, 0),
      of_mlp("mlp_gelu_erf", Activation::gelu_erf, false, 0),
      of_mlp("mlp_relu", Activation::relu, true, 0),
      of_mlp("mlp_squared_relu", Activation::squared_relu, true, 0),
      of_xielu("mlp_xielu", false),
      of_xielu("mlp_xielu_again", true),
      of_mlp("mlp_swiglu", Activation::swiglu, false, 0),
      of_mlp("mlp_swiglu_with_bias", Activation::swiglu, true, 0),
      of_mlp("mlp_geglu", Activation::geglu, false, 0),
      of_mlp("mlp_with_dropout", Activation::gelu_tanh, true, 0.3),
      of_mlp("mlp_swiglu_with_dropout", Activation::swiglu, false, 0.3),
      of_latent_attention("latent_attention", {}),
      of_latent_attention("latent_attention_with_wide_values", {.values = 9}),
      of_latent_attention("latent_attention_without_latents_of_queries", {.q_rank = 0}),
      of_latent_attention("latent_attention_without_norms", {.normed = false}),
      of_latent_attention("latent_attention_of_documents", {}, 2),
      of_latent_attention("latent_attention_with_dropout", {.dropout = 0.3}),
      of_latent_attention("recomputed_latent_attention_with_dropout",
                          {.recompute = true, .dropout = 0.3}),
      of_mamba("mamba", 0),
      of_mamba("mamba_of_documents", 2),
      of_mamba("mamba_with_dropout", 0, 0.3),
      of_gated_delta_net("gated_delta_net", 0),
      of_gated_delta_net("gated_delta_net_of_documents", 2),
      of_gated_delta_net("gated_delta_net_with_dropout", 0, 0.3),
      of_attention("gated_attention", {.heads = 4, .gated = true}),
      of_attention("recomputed_gated_attention_with_norms_and_dropout",
                   {.heads = 4,
                    .rotary_dim = 4,
                    .dropout = 0.3,
                    .recompute = true,
                    .head_norms = NormKind::rms,
                    .gated = true}),
      plain<Branch>("attention_branch_with_dropout", kHidden, kHidden,
                    branch_with(NormKind::layer, with_dropout({}))),
      plain<Branch>("mlp_branch_with_dropout", kHidden, kHidden,
                    branch_with(NormKind::layer, with_dropout({}), Activation::gelu_tanh)),
      plain<Branch>("recomputed_attention_branch", kHidden, kHidden,
                    branch_with(NormKind::rms, recomputed(llama))),
      plain<Branch>("recomputed_mlp_branch", kHidden, kHidden,
                    branch_with(NormKind::rms, recomputed(llama), Activation::swiglu)),
      plain<Norm>("layer_norm_without_bias", kHidden, kHidden,
                  [](ParamTable& table) {
                    return Norm(
                        table, {.place = {.module = "norm", .param = "weight"}, .shape = {kHidden}},
                        {.has_bias = false});
                  }),
      of_branch_behind("branch_with_a_norm_behind", true, true, 0, false),
      of_branch_behind("branch_with_a_norm_behind_alone", false, true, 0, false),
      of_branch_behind("branch_with_a_norm_behind_and_dropout", true, true, 0.3, false),
      of_branch_behind("branch_with_a_multiplier_and_dropout", true, false, 0.3, false),
      of_branch_behind("recomputed_branch_with_a_norm_behind", true, true, 0, true),
      of_branch_behind("branch_with_a_norm_behind_and_path_dropout", true, true, 0.3, false, 0.25),
      of_branch_behind("recomputed_branch_with_path_dropout", true, false, 0.3, true, 0.25),
      of_branch_of_lambdas("branch_of_lambdas", 0, false, 0),
      of_branch_of_lambdas("recomputed_branch_of_lambdas_and_dropout", 0.3, true, 0.25),
      {"parallel_block",
       [=] {
         return std::make_unique<WithResidual<ParallelBlock>>(
             [&](Subject& subject) { return parallel_block(subject.table, llama); });
       }},
      of_stack("layer_of_gpt2_with_dropout", {.attention = with_dropout({})}),
      of_stack("layer_of_llama", of_llama),
      of_stack("recomputed_layer_of_gpt2_with_dropout",
               {.attention = recomputed(with_dropout({}))}),
      of_stack("recomputed_layer_of_llama", recomputed_llama),
      of_stack("layers_of_one_branch", one_branch),
      of_stack("layers_of_one_branch_made_again", one_branch_again),
      {"embedding", [] { return std::make_unique<EmbeddingSubject>(false, false, 0.0); }},
      {"embedding_with_positions",
       [] { return std::make_unique<EmbeddingSubject>(true, false, 0.0); }},
      {"embedding_with_types", [] { return std::make_unique<EmbeddingSubject>(true, true, 0.0); }},
      {"embedding_with_a_norm_and_dropout",
       [] { return std::make_unique<EmbeddingSubject>(true, false, 0.2, 1.5, true); }},
      {"embedding_with_dropout",
       [] { return std::make_unique<EmbeddingSubject>(true, true, 0.3); }},
      {"embedding_with_a_multiplier_and_dropout",
       [] { return std::make_unique<EmbeddingSubject>(true, false, 0.3, 2.5); }},
      {"lm_head_of_scaled_and_capped_logits",
       [] {
         return std::make_unique<HeadSubject>(5, LmHead::Scaling{0.4, 0.8});
       }},
      {"taught_lm_head", [] { return std::make_unique<TaughtHeadSubject>(LmHead::Scaling{}); }},
      {"taught_lm_head_of_scaled_and_capped_logits",
       [] {
         return std::make_unique<TaughtHeadSubject>(LmHead::Scaling{0.4, 0.8});
       }},
      {"lm_head", [] { return std::make_unique<HeadSubject>(5); }},
      {"lm_head_with_smoothing", [] { return std::make_unique<HeadSubject>(5, 0.2); }},
      {"lm_head_with_bias", [] { return std::make_unique<HeadSubject>(5, 0.0, true); }},
      {"lm_head_in_several_pieces", [] { return std::make_unique<HeadSubject>(1100); }},
      {"bert_heads", [] { return std::make_unique<BertHeadsSubject>(true); }},
      {"bert_heads_without_order", [] { return std::make_unique<BertHeadsSubject>(false); }},
  };
}

}  // namespace mt
