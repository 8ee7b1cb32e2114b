#include "formats/peft/load_side_adapters.h"

#include "ckpt/strided_copy.h"
#include "formats/peft/adapted_source.h"
#include "formats/peft/linear_modules.h"
#include "formats/peft/peft_folder.h"
#include "model/config/model_config.h"
#include "model/layers/layer_rows.h"
#include "model/model_table.h"
#include "nn/adapter.h"
#include "ops/ops.h"
#include "tensor/host_copy.h"

namespace mt {
namespace {

// One folder's adapter, that becomes products.
class SideAdapter {
 public:
  SideAdapter(const Model& model, const PeftFolder& folder)
      : table_(model.table()),
        folder_(folder),
        config_(folder.adapted(model.config())),
        rows_(model_rows(config_)),
        names_(config_) {
    const std::string file = concat(folder.path(), "/", kAdapterConfig);
    if (config_.use_dora)
      fail(Exit::bad_config, file,
           ": use_dora: is set, whose magnitudes are multiples of whole weights; such an adapter "
           "goes with its model alone, by --load");
    if (folder.has_words())
      fail(Exit::bad_config, file,
           ": the adapter has words of its own; such an adapter goes with its model alone, by "
           "--load");
    if (folder.labels() > 0)
      fail(Exit::bad_config, file, ": the adapter has the head of a task, which continues no text");
    folder.check_all_used(names_, rows_);
  }

  ReadAdapter read() {
    made_.rank = config_.lora_rank;
    for (const Param& weight : table_.rows()) {
      const auto parts = config_.adapted_parts(weight.place.module);
      if (weight.place.layer && weight.place.param == "weight" && !parts.empty())
        made_.products[weight.index] = product(weight, parts);
    }
    return std::move(made_);
  }

 private:
  // Each part's A and scale B, at their places.
  SideAdapters::Product product(const Param& weight, const std::vector<std::string>& parts) {
    const std::int64_t rank = config_.lora_rank, width = rank * std::ssize(parts);
    const Tensor a = on_host({width, weight.shape[1]}), b = on_host({weight.shape[0], width});
    set_zero(b, host_);
    for (std::int64_t i = 0; i < std::ssize(parts); ++i) {
      const std::string& part = parts[static_cast<std::size_t>(i)];
      const Tensor of_a = read(weight, part, Adapter::kA), of_b = read(weight, part, Adapter::kB);
      spread(a, of_a, {.period = width, .first = i * rank, .count = rank}, 1, host_);
      RowBlock outputs = adapted_rows(weight, part);
      outputs.column = i * rank;
      const double multiple = adapter_multiple(config_, weight.place.module, part);
      spread(b, of_b, outputs, multiple * config_.lora_scale(), host_);
    }
    const SideAdapters::Product made{.a = beside_the_weights(a), .b = beside_the_weights(b)};
    read_.clear();
    return made;
  }

  Tensor on_host(const Shape& shape) {
    const DType dtype = table_.dtype() == DType::f64 ? DType::f64 : DType::f32;
    const auto bytes = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
    return read_.emplace_back(Device::cpu, bytes).tensor(dtype, shape);
  }

  Tensor read(const Param& weight, const std::string& part, std::string_view param) {
    const Param& row = row_at(rows_, adapter_place(weight.place, part, param));
    const Tensor tensor = on_host(row.shape);
    folder_.read(names_, row, tensor);
    return tensor;
  }

  // In the type of the table's, on its device.
  Tensor beside_the_weights(ConstTensor from) {
    const auto bytes = static_cast<std::size_t>(from.numel()) * size_of(table_.dtype());
    const Tensor to =
        made_.memory.emplace_back(table_.device(), bytes).tensor(table_.dtype(), from.shape());
    const HostCopy here = HostCopy::for_writing(to);
    const std::vector<std::int64_t> strides = row_major_strides(from.shape());
    run({.extents = from.shape(),
         .to = static_cast<std::byte*>(here.tensor().data()),
         .to_strides = strides,
         .from = static_cast<const std::byte*>(from.data()),
         .from_strides = strides,
         .to_dtype = to.dtype(),
         .from_dtype = from.dtype()});
    here.upload();
    return to;
  }

  const ParamTable& table_;
  const PeftFolder& folder_;
  ModelConfig config_;  // with the adapter
  ParamTable rows_;     // of that
  PeftNames names_;
  Stream host_{Device::cpu};
  std::vector<Buffer> read_;
  ReadAdapter made_;
};

// What adapters of this rank, of all linear layers, would be, on meta.
SideAdapters::Products products_on_meta(const Model& model, std::int64_t rank,
                                        std::vector<Buffer>& memory) {
  AdapterConfig adapter;
  adapter.lora_rank = rank;
  adapter.lora_targets = lora_targets(model.config(), {"all-linear"}, "--allow-runtime-adapters");
  SideAdapters::Products products;
  const DType dtype = model.table().dtype();
  const auto room = [&](const Shape& shape) {
    const auto bytes = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
    return memory.emplace_back(Device::meta, bytes).tensor(dtype, shape);
  };
  for (const Param& weight : model.table().rows()) {
    const auto parts = adapter.adapted_parts(weight.place.module);
    if (!weight.place.layer || weight.place.param != "weight" || parts.empty()) continue;
    const std::int64_t width = rank * std::ssize(parts);
    products[weight.index] = {.a = room({width, weight.shape[1]}),
                              .b = room({weight.shape[0], width})};
  }
  return products;
}

}  // namespace

ReadAdapter read_side_adapter(const Model& model, const std::string& load,
                              const std::string& folder) {
  const std::unique_ptr<ModelSource> base = open_model(load);
  const PeftFolder adapter(adapter_folder(folder));
  check_base(adapter, *base);
  return SideAdapter(model, adapter).read();
}

void load_side_adapters(Model& model, const std::string& load,
                        const std::vector<std::string>& folders, std::int64_t rank_of_others) {
  if (folders.empty() && rank_of_others == 0) return;
  SideAdapters adapters;
  std::vector<Buffer> of_meta;
  if (rank_of_others > 0) {
    if (model.config().family == ModelFamily::llava)
      fail(Exit::bad_config, load, ": is a LLaVA, which takes no adapters");
    adapters.reserve(products_on_meta(model, rank_of_others, of_meta));
  }
  for (const std::string& path : folders) {
    ReadAdapter read = read_side_adapter(model, load, path);
    adapters.add(std::move(read.products), std::move(read.memory));
  }
  model.set_adapters(std::move(adapters));
}

}  // namespace mt
