#include "formats/peft/adapted_source.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>

#include "base/hash.h"
#include "ckpt/megatron_checkpoint.h"
#include "ckpt/torch_file.h"
#include "formats/hugging_face/hugging_face_source.h"
#include "model/config/model_config.h"
#include "model/layers/layer_rows.h"
#include "model/model_table.h"
#include "nn/adapter.h"
#include "nn/packed_weight.h"
#include "ops/ops.h"
#include "text/hf/hf_from_files.h"

namespace mt {

AdaptedSource::AdaptedSource(std::unique_ptr<ModelSource> base, const std::string& folder,
                             bool merged)
    : base_(std::move(base)),
      folder_(folder),
      adapted_(std::make_unique<ModelConfig>(folder_.adapted(base_->config()))),
      rows_(model_rows(*adapted_)),
      names_(*adapted_) {
  adapted_->lora_base = std::filesystem::absolute(base_->path()).lexically_normal().string();
  path_ = base_->path();
  format_ = base_->format();
  *config_ = *adapted_;
  if (merged) static_cast<AdapterConfig&>(*config_) = base_->config();
  dtype_ = base_->dtype();
  companions_ = base_->companions();
  notes_ = base_->notes();
  manifest_extra_ = base_->manifest_extra();
  if (folder_.has_words()) take_tokenizer_in(folder);
}

// What transformers saves beside an adapter with words of its own names these.
void AdaptedSource::take_tokenizer_in(const std::string& folder) {
  has_tokenizer_ = !hf_vocabulary_files(folder).empty();
  if (!has_tokenizer_) return;
  const auto is_of_tokenizer = [](const Companion& file) { return is_tokenizer_file(file.name); };
  std::erase_if(companions_, is_of_tokenizer);
  std::ranges::copy_if(companions_in(folder), std::back_inserter(companions_), is_of_tokenizer);
  take_tokenizer(read_tokenizer_in(folder));
}

std::unique_ptr<Tokenizer> AdaptedSource::make_tokenizer(const TokenizerOptions& others) const {
  return has_tokenizer_ ? ModelSource::make_tokenizer(others) : base_->make_tokenizer(others);
}

DType AdaptedSource::dtype_of(const Param& row, const std::string& state) const {
  return is_learnt(row) ? folder_.dtype_of(names_, row) : base_->dtype_of(row, state);
}

bool AdaptedSource::is_learnt(const Param& row) const {
  return is_adapter(row.place) || (row.place.stack == kScoreHead && folder_.labels() > 0);
}

void AdaptedSource::read(const Param& row, const std::string& state, Tensor out) const {
  if (folder_.words(row) != nullptr) return folder_.read_words(row, config_->vocab_size, out);
  if (is_learnt(row)) return folder_.read(names_, row, out);
  is_merged(row) ? merge(row, out) : base_->read(row, state, out);
}

bool AdaptedSource::is_merged(const Param& row) const {
  if (config_->has_adapters() || !row.place.layer || row.place.param != "weight") return false;
  const std::vector<std::string> parts = adapted_->adapted_parts(row.place.module);
  if (parts.empty()) return false;
  // An adapter may have been learnt without the layers that predict further tokens.
  return row.place.stack != kFurtherStack ||
         folder_.has(names_, row_at(rows_, adapter_place(row.place, parts.front(), Adapter::kA)));
}

// A tensor on the host, with what it lies in.
namespace {
struct Whole {
  explicit Whole(const Shape& shape)
      : buffer(Device::cpu, static_cast<std::size_t>(shape.numel()) * sizeof(float)),
        tensor(buffer.tensor(DType::f32, shape)) {}
  Buffer buffer;
  Tensor tensor;
};

double norm_of(const float* numbers, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += double{numbers[i]} * numbers[i];
  return std::sqrt(sum);
}
}  // namespace

void AdaptedSource::merge(const Param& row, Tensor out) const {
  const Whole weight(row.shape);
  base_->read(row, "", weight.tensor);
  auto* const numbers = weight.tensor.as<float>();
  const std::int64_t in = row.shape[1];
  Stream stream(Device::cpu);
  for (const std::string& part : adapted_->adapted_parts(row.place.module)) {
    const auto read_factor = [&](std::string_view param) {
      const Param& factor = row_at(rows_, adapter_place(row.place, part, param));
      Whole whole(factor.shape);
      folder_.read(names_, factor, whole.tensor);
      return whole;
    };
    const double multiple = adapter_multiple(*adapted_, row.place.module, part);
    const auto scale = static_cast<float>(multiple * adapted_->lora_scale());
    const Whole a = read_factor(Adapter::kA), b = read_factor(Adapter::kB);
    const Whole product({b.tensor.shape()[0], in});
    matmul({.out = product.tensor, .a = b.tensor, .b = a.tensor}, stream);
    const RowBlock block = adapted_rows(row, part);
    const auto* const added = product.tensor.as<float>();
    for (std::int64_t i = 0; i < product.tensor.shape()[0]; ++i) {
      float* const to = numbers + block.place(i * in, in, in);
      for (std::int64_t c = 0; c < in; ++c) to[c] += scale * added[i * in + c];
    }
    if (!adapted_->use_dora) continue;
    const Whole m = read_factor(Adapter::kMagnitude);
    for (std::int64_t i = 0; i < m.tensor.numel(); ++i) {
      float* const of_row = numbers + block.place(i * in, in, in);
      const auto factor =
          static_cast<float>(multiple * m.tensor.as<float>()[i] / norm_of(of_row, in));
      for (std::int64_t c = 0; c < in; ++c) of_row[c] *= factor;
    }
  }
  dense(DType::f32, row.shape,
        {static_cast<const std::byte*>(weight.tensor.data()), weight.tensor.bytes()})
      .copy_to(origin_of(row.shape.rank()), out);
}

std::optional<MappedTensor> AdaptedSource::view(const Param& row, const std::string& state) const {
  const bool is_own = is_learnt(row) || is_merged(row) || folder_.words(row) != nullptr;
  return is_own ? std::nullopt : base_->view(row, state);
}

const Param& row_at(const ParamTable& table, const RowPlace& place) {
  const auto found = std::ranges::find(table.rows(), place, &Param::place);
  if (found == table.rows().end()) fail(Exit::internal, place.name(), ": is no row of the model");
  return *found;
}

void check_base(const PeftFolder& folder, const ModelSource& base) {
  if (!std::filesystem::exists(folder.path() + "/common.pt")) return;
  const MegatronCheckpoint checkpoint(folder.path(), {.index = 1, .count = 1});
  const PyValue* const hash = checkpoint.common().at("args", folder.path()).find("lora_base_hash");
  if (hash && hash->as_string(folder.path() + ": args.lora_base_hash") != base_hash(base))
    fail(Exit::bad_config, base.path(), ": is another model than the one whose adapters go on");
}

void AdaptedSource::check_all_used(const ParamTable&) const {
  check_base(folder_, *base_);
  base_->check_all_used(model_rows(base_->config()));
  folder_.check_all_used(names_, rows_);
}

void read_magnitudes(const ModelSource& base, const ModelConfig& config, const Param& row,
                     Tensor out) {
  const ParamTable table = model_rows(base.config());
  for (const Param& weight : table.rows())
    for (const std::string& part : config.adapted_parts(weight.place.module)) {
      if (!(adapter_place(weight.place, part, Adapter::kMagnitude) == row.place) ||
          weight.place.param != "weight")
        continue;
      const Whole whole(weight.shape), norms(row.shape);
      base.read(weight, "", whole.tensor);
      if (!config.quantize_base.empty()) round_packed(weight, whole.tensor);
      const RowBlock block = adapted_rows(weight, part);
      const std::int64_t in = weight.shape[1];
      const double multiple = adapter_multiple(config, weight.place.module, part);
      for (std::int64_t i = 0; i < row.shape[0]; ++i)
        norms.tensor.as<float>()[i] = static_cast<float>(
            norm_of(whole.tensor.as<float>() + block.place(i * in, in, in), in) / multiple);
      for (const ElementRun& run : row.runs())
        dense(DType::f32, {run.count},
              {reinterpret_cast<const std::byte*>(norms.tensor.as<float>() + run.global),
               static_cast<std::size_t>(run.count) * sizeof(float)})
            .copy_to({0}, out.rows(run.local, run.local + run.count));
      return;
    }
  fail(Exit::internal, row.name(), ": is of no weight");
}

std::string base_hash(const ModelSource& source) {
  Hasher hasher;
  const ParamTable table = model_rows(source.config());
  for (const Param& row : table.rows()) {
    const RowPlace& place = row.place;
    const bool is_hashed =
        place.layer ? *place.layer == 0 && (place.module == "self_attention.linear_proj" ||
                                            place.module == "mixer.out_proj")
                    : place.module == "final_layernorm" || place.module == "final_norm";
    if (place.param != "weight" || place.stack == kFurtherStack || !is_hashed) continue;
    const Buffer rounded(Device::cpu,
                         static_cast<std::size_t>(row.shape.numel()) * size_of(DType::bf16));
    const Tensor numbers = rounded.tensor(DType::bf16, row.shape);
    source.read(row, "", numbers);
    hasher.update({static_cast<const std::byte*>(numbers.data()), numbers.bytes()});
  }
  return hasher.hex();
}

std::string adapter_folder(const std::string& path) {
  std::error_code none;
  if (is_peft_folder(path)) return path;
  if (std::filesystem::is_directory(path, none))
    if (const auto place = find_checkpoint(path); place && is_peft_folder(place->folder))
      return place->folder;
  fail(Exit::no_input, path, ": no adapter there: expected a folder with ", kAdapterConfig,
       ", or a run's that trains one");
}

std::string base_of_adapter(const std::string& folder) {
  std::string base = PeftFolder(folder).base();
  std::error_code none;
  if (const auto beside = std::filesystem::path(folder) / base;
      !base.empty() && !std::filesystem::exists(base, none) &&
      std::filesystem::exists(beside, none))
    base = beside.lexically_normal().string();
  if (base.empty() || !std::filesystem::exists(base, none))
    fail(Exit::no_input, folder, ": is an adapter of ",
         base.empty() ? "a base that it does not name" : base,
         ", which is no path here; name the base, --load BASE --adapter ", folder,
         ", of which mt-finetune merge makes one model for mt-convert");
  if (is_peft_folder(base))
    fail(Exit::bad_config, folder, ": is an adapter of another, ", base, ", which is to be merged");
  return base;
}

}  // namespace mt
