#include "formats/upcycled_source.h"

#include <algorithm>

#include "ckpt/torch_file.h"
#include "model/config/model_config.h"
#include "model/model.h"
#include "model/model_table.h"

namespace mt {

static ModelConfig with_experts(const ModelSource& dense, const UpcycleOptions& options) {
  ModelConfig config = dense.config();
  if (config.num_experts > 0)
    fail(Exit::bad_config, "--upcycle: ", dense.path(), " has experts already");
  if (config.family != ModelFamily::gpt || config.has_adapters() || config.has_task_head())
    fail(Exit::bad_config, "--upcycle: ", dense.path(), " is of a family without experts");
  config.family = ModelFamily::mixtral;
  config.num_experts = options.experts;
  config.moe_router_topk = options.chosen;
  config.complete();
  return config;
}

UpcycledSource::UpcycledSource(std::unique_ptr<ModelSource> dense, const UpcycleOptions& options)
    : dense_(std::move(dense)), rows_(model_rows(dense_->config())), seed_(options.seed) {
  path_ = dense_->path();
  format_ = dense_->format();
  *config_ = with_experts(*dense_, options);
  dtype_ = dense_->dtype();
  companions_ = dense_->companions();
  notes_ = dense_->notes();
  manifest_extra_ = dense_->manifest_extra();
}

std::unique_ptr<Tokenizer> UpcycledSource::make_tokenizer(const TokenizerOptions& others) const {
  return dense_->make_tokenizer(others);
}

const Param* UpcycledSource::dense_row(const Param& row) const {
  RowPlace place = row.place;
  if (place.module == "mlp.router") return nullptr;
  if (place.expert) {
    place.expert.reset();
    place.module = "mlp." + place.module;
  } else if (place.module == "pre_mlp_layernorm") {
    place.module = "mlp.linear_fc1";
    place.param = place.param == "weight" ? "layer_norm_weight" : "layer_norm_bias";
  }
  const auto found = std::ranges::find(rows_.rows(), place, &Param::place);
  if (found == rows_.rows().end()) fail(Exit::internal, row.name(), ": is of no row");
  return &*found;
}

DType UpcycledSource::dtype_of(const Param& row, const std::string& state) const {
  const Param* const dense = dense_row(row);
  return dense != nullptr ? dense_->dtype_of(*dense, state) : dtype_;
}

void UpcycledSource::read(const Param& row, const std::string& state, Tensor out) const {
  if (const Param* const dense = dense_row(row)) return dense_->read(*dense, state, out);
  Stream stream(Device::cpu);
  const Buffer drawn(Device::cpu, static_cast<std::size_t>(row.shape.numel()) * sizeof(float));
  initialize(row, drawn.tensor(DType::f32, row.shape), seed_, stream);
  dense(DType::f32, row.shape, {static_cast<const std::byte*>(drawn.data()), drawn.bytes()})
      .copy_to(origin_of(row.shape.rank()), out);
}

std::optional<MappedTensor> UpcycledSource::view(const Param& row, const std::string& state) const {
  const Param* const dense = dense_row(row);
  return dense != nullptr ? dense_->view(*dense, state) : std::nullopt;
}

void UpcycledSource::check_all_used(const ParamTable&) const { dense_->check_all_used(rows_); }

}  // namespace mt
