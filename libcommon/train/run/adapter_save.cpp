#include "train/run/adapter_save.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/file.h"
#include "base/hash.h"
#include "ckpt/torch_file.h"
#include "formats/peft/peft_folder.h"
#include "nn/adapter.h"
#include "tensor/host_copy.h"

namespace mt {
namespace {

// HostTensor: a tensor in memory of its own, zero at first.
struct HostTensor {
  HostTensor(DType dtype, const Shape& shape)
      : buffer(Device::cpu, static_cast<std::size_t>(shape.numel()) * size_of(dtype)),
        tensor(buffer.tensor(dtype, shape)) {
    std::memset(tensor.data(), 0, tensor.bytes());
  }
  Buffer buffer;
  Tensor tensor;
};

// The value of another type, rounded.
HostTensor rounded(ConstTensor value, DType dtype) {
  HostTensor result(dtype, value.shape());
  dense(value.dtype(), value.shape(), {static_cast<const std::byte*>(value.data()), value.bytes()})
      .copy_to(origin_of(value.shape().rank()), result.tensor);
  return result;
}

}  // namespace

std::vector<WrittenFile> write_adapters(const std::string& folder, const ModelConfig& config,
                                        const ParamTable& whole, Optimizer& optimizer,
                                        const std::vector<bool>& mine, Group& ranks,
                                        Stream& stream) {
  // What this rank has of each, in f64, which holds all that values are of.
  std::map<std::string, HostTensor> elements;
  DType dtype = DType::f32;
  const PeftNames names(config);
  optimizer.read_values(
      [&](const Param& row) {
        if (row.packed_as == PackedAs::none) dtype = row.value.dtype();
        if (!names.has(row) || !mine[row.index] || !optimizer.counts(row)) return;
        const HostTensor part = rounded(HostCopy::of(row.value).tensor(), DType::f64);
        const HostTensor& all =
            elements.emplace(row.name(), HostTensor(DType::f64, row.shape)).first->second;
        const auto* const from = static_cast<const double*>(part.tensor.data());
        for (const ElementRun& run : row.runs())
          std::copy_n(from + run.local, run.count,
                      static_cast<double*>(all.tensor.data()) + run.global);
      },
      stream);
  std::vector<HostTensor> kept;
  std::vector<PeftTensor> tensors;
  for (const Param& row : whole.rows()) {
    if (!names.has(row)) continue;
    auto own = elements.extract(row.name());
    const HostTensor all = own ? std::move(own.mapped()) : HostTensor(DType::f64, row.shape);
    ranks.all_reduce(all.tensor).wait();
    if (ranks.rank() != 0) continue;
    const ForeignName name = names.of(row);
    const HostTensor theirs(DType::f64, transformed_shape(name.transform, row.shape));
    apply(name.transform, theirs.tensor, all.tensor);
    kept.push_back(rounded(theirs.tensor, dtype));
    tensors.push_back({name.name, kept.back().tensor});
  }
  std::vector<WrittenFile> files;
  if (ranks.rank() != 0) return files;
  write_peft_folder(folder, config, tensors);
  for (const char* const name : {kAdapterConfig, kAdapterModel}) {
    const std::string content = read_regular_file(concat(folder, "/", name));
    files.push_back({{name, content.size(), hash_hex(as_bytes(content))}, {}});
  }
  return files;
}

}  // namespace mt
