#include "formats/translated_source.h"

#include <algorithm>

#include "ckpt/torch_file.h"
#include "model/config/model_config.h"
#include "model/model.h"
#include "model/model_table.h"

namespace mt {

static bool is_attention(char letter) { return letter == '*' || letter == '+'; }
static bool is_mlp(char letter) { return letter == '-' || letter == 'E'; }

// Where not all layers have a window, a number or list counts layers of the source: a list takes
// its place, with a 0 for layers that are no attention.
static void take_windows(ModelConfig& config, const ModelConfig& source) {
  if (source.window_attn_skip_freq.empty()) return;
  const bool to_hybrid = config.family == ModelFamily::mamba;
  std::vector<std::int64_t>& has_window = config.window_attn_skip_freq;
  has_window.clear();
  std::int64_t attention = 0;
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    const bool attends =
        !to_hybrid || is_attention(config.hybrid_pattern[static_cast<std::size_t>(layer)]);
    const std::int64_t of = to_hybrid ? attention : 2 * layer;
    has_window.push_back(attends && source.window(of) >= 0);
    attention += attends;
  }
  // A list of one is a number: 1 has no layer with a window, and none all of them.
  if (has_window.size() == 1) has_window.assign(has_window[0] == 0 ? 1 : 0, 1);
}

static ModelConfig hybrid_of(const ModelSource& gpt, const TranslateOptions& options) {
  ModelConfig config = gpt.config();
  constexpr const char* kOption = "--hybrid-layer-pattern ";
  if ((config.family != ModelFamily::gpt && config.family != ModelFamily::mixtral) ||
      config.has_adapters() || config.has_task_head() || config.mtp_num_layers > 0 ||
      config.may_have_linear_layers())
    fail(Exit::bad_config, kOption, options.pattern, ": ", gpt.path(),
         " is no GPT that becomes a hybrid");
  const std::string& pattern = options.pattern;
  const char attention = config.multi_latent_attention ? '+' : '*',
             mlp = config.family == ModelFamily::mixtral ? 'E' : '-';
  for (const char letter : {attention, mlp})
    if (const auto count = std::ranges::count(pattern, letter); count != config.num_layers)
      fail(Exit::bad_config, kOption, pattern, ": has ", count, " layers ", letter, ", and ",
           gpt.path(), " has ", config.num_layers);
  for (const char letter : pattern)
    if (letter != 'M' && letter != attention && letter != mlp)
      fail(Exit::bad_config, kOption, pattern, ": a GPT has no layer ", letter);
  if (mlp == 'E' && config.moe_layer_freq != "1")
    fail(Exit::bad_config, kOption, pattern, ": not all layers of ", gpt.path(), " have experts");
  static_cast<MambaConfig&>(config) = options.mixers;
  config.hybrid_pattern = pattern;
  config.family = ModelFamily::mamba;
  config.num_layers = std::ssize(pattern);
  take_windows(config, gpt.config());
  config.hf_model_type.clear();
  config.complete();
  return config;
}

static ModelConfig gpt_of(const ModelSource& hybrid) {
  ModelConfig config = hybrid.config();
  constexpr const char* kOption = "--hybrid-to-gpt: ";
  if (config.family != ModelFamily::mamba || config.has_adapters() || config.mtp_num_layers > 0)
    fail(Exit::bad_config, kOption, hybrid.path(), " is no hybrid that becomes a GPT");
  const std::string& pattern = config.hybrid_pattern;
  for (std::size_t i = 0; i < pattern.size(); ++i)
    if (pattern.size() % 2 == 1 || pattern[i] != pattern[i % 2] ||
        !(i % 2 == 0 ? is_attention(pattern[i]) : is_mlp(pattern[i])))
      fail(Exit::bad_config, kOption, hybrid.path(), " has the layers ", pattern,
           ", expected attention, and behind each an MLP or experts");
  config.family = pattern[1] == 'E' ? ModelFamily::mixtral : ModelFamily::gpt;
  config.num_layers = std::ssize(pattern) / 2;
  take_windows(config, hybrid.config());
  static_cast<MambaConfig&>(config) = {};
  config.hf_model_type.clear();
  config.complete();
  return config;
}

TranslatedSource::TranslatedSource(std::unique_ptr<ModelSource> source,
                                   const TranslateOptions& options)
    : source_(std::move(source)), rows_(model_rows(source_->config())), seed_(options.seed) {
  path_ = source_->path();
  format_ = source_->format();
  *config_ = options.pattern.empty() ? gpt_of(*source_) : hybrid_of(*source_, options);
  dtype_ = source_->dtype();
  companions_ = source_->companions();
  notes_ = source_->notes();
  manifest_extra_ = source_->manifest_extra();
}

std::unique_ptr<Tokenizer> TranslatedSource::make_tokenizer(const TokenizerOptions& others) const {
  return source_->make_tokenizer(others);
}

// Whether a row of a GPT's layer is of its attention, and not of its MLP or experts.
static bool is_of_attention(const RowPlace& place) {
  return place.module.starts_with("self_attention") || place.module == "input_layernorm";
}

const Param* TranslatedSource::row_of(const Param& row) const {
  RowPlace place = row.place;
  const bool to_hybrid = config_->family == ModelFamily::mamba;
  if (place.layer && to_hybrid) {
    const std::string before =
        config_->hybrid_pattern.substr(0, static_cast<std::size_t>(*place.layer) + 1);
    if (before.back() == 'M') return nullptr;
    place.layer = std::ranges::count(before, before.back()) - 1;
  } else if (place.layer) {
    place.layer = 2 * *place.layer + (is_of_attention(place) ? 0 : 1);
  } else if (place.stack == "decoder") {
    place.module = to_hybrid ? "final_layernorm" : "final_norm";
  }
  const auto found = std::ranges::find(rows_.rows(), place, &Param::place);
  if (found == rows_.rows().end()) fail(Exit::internal, row.name(), ": is of no row");
  return &*found;
}

DType TranslatedSource::dtype_of(const Param& row, const std::string& state) const {
  const Param* const of = row_of(row);
  return of != nullptr ? source_->dtype_of(*of, state) : dtype_;
}

void TranslatedSource::read(const Param& row, const std::string& state, Tensor out) const {
  if (const Param* const of = row_of(row)) return source_->read(*of, state, out);
  Stream stream(Device::cpu);
  const Buffer drawn(Device::cpu, static_cast<std::size_t>(row.shape.numel()) * sizeof(float));
  initialize(row, drawn.tensor(DType::f32, row.shape), seed_, stream);
  dense(DType::f32, row.shape, {static_cast<const std::byte*>(drawn.data()), drawn.bytes()})
      .copy_to(origin_of(row.shape.rank()), out);
}

std::optional<MappedTensor> TranslatedSource::view(const Param& row,
                                                   const std::string& state) const {
  const Param* const of = row_of(row);
  return of != nullptr ? source_->view(*of, state) : std::nullopt;
}

void TranslatedSource::check_all_used(const ParamTable&) const { source_->check_all_used(rows_); }

}  // namespace mt
