#include "formats/smoothed_source.h"

#include "base/error.h"
#include "ckpt/tensor_numbers.h"
#include "ckpt/torch_file.h"
#include "model/config/model_config.h"

namespace mt {

SmoothedSource::SmoothedSource(std::unique_ptr<ModelSource> source, RowFactorsByName factors)
    : source_(std::move(source)), factors_(std::move(factors)) {
  path_ = source_->path();
  format_ = source_->format();
  *config_ = source_->config();
  dtype_ = source_->dtype();
  companions_ = source_->companions();
  notes_ = source_->notes();
  manifest_extra_ = source_->manifest_extra();
}

std::unique_ptr<Tokenizer> SmoothedSource::make_tokenizer(const TokenizerOptions& others) const {
  return source_->make_tokenizer(others);
}

DType SmoothedSource::dtype_of(const Param& row, const std::string& state) const {
  return source_->dtype_of(row, state);
}

void SmoothedSource::read(const Param& row, const std::string& state, Tensor out) const {
  const auto found = factors_.find(row.name());
  if (found == factors_.end()) return source_->read(row, state, out);
  const RowFactors& by = found->second;
  const Buffer made(Device::cpu, static_cast<std::size_t>(row.shape.numel()) * sizeof(float));
  const Tensor numbers = made.tensor(DType::f32, row.shape);
  source_->read(row, state, numbers);
  const std::int64_t count = row.shape[0], columns = row.shape.numel() / count;
  for (std::int64_t r = 0; r < count; ++r)
    for (std::int64_t c = 0; c < columns; ++c) {
      float& x = numbers.as<float>()[r * columns + c];
      x += by.shift;
      if (!by.rows.empty()) x *= by.rows[static_cast<std::size_t>(r)];
      if (!by.columns.empty()) x *= by.columns[static_cast<std::size_t>(c)];
      x -= by.shift;
    }
  dense(DType::f32, row.shape, {static_cast<const std::byte*>(made.data()), made.bytes()})
      .copy_to(origin_of(row.shape.rank()), out);
  if (!is_finite(out))
    fail(Exit::bad_config, path_, ": ", row.name(), ": scales of columns make numbers of it that ",
         name_of(out.dtype()), " does not hold; see --dtype");
}

std::optional<MappedTensor> SmoothedSource::view(const Param& row, const std::string& state) const {
  return factors_.contains(row.name()) ? std::nullopt : source_->view(row, state);
}

}  // namespace mt
