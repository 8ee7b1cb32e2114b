#include "model/gpt_checkpoint.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "model/config/model_config.h"
#include "tensor/host_copy.h"

namespace mt {

// The offset of a part of a row in its item.
static Shape offset_of(const Param& row, const Cut& cut) {
  std::vector<std::int64_t> begin(static_cast<std::size_t>(row.shape.rank()), 0);
  begin[static_cast<std::size_t>(row.dimension)] = cut.global;
  const Shape offset{std::span<const std::int64_t>(begin)};
  return row.layer ? offset.with_front(*row.layer) : offset;
}

// The elements of a cut in a tensor of this rank's part of a row.
static Tensor part_of(const Param& row, const Cut& cut, const Tensor& tensor) {
  if (row.cuts.size() == 1) return tensor;
  if (row.dimension != 0)
    fail(Exit::internal, row.name, ": ", row.cuts.size(), " cuts of dimension ", row.dimension);
  return tensor.rows(cut.local, cut.local + cut.extent);
}

static Tensor as_stored(const Param& row, const Tensor& tensor) {
  return row.layer ? tensor.reshape(tensor.shape().with_front(1)) : tensor;
}

void write_row(DistWriter& writer, const Param& row, const std::string& prefix,
               const Tensor& tensor) {
  const HostCopy here = HostCopy::of(tensor);
  for (const Cut& cut : row.cuts)
    writer.add(prefix + row.key, row.key_shape(), offset_of(row, cut),
               as_stored(row, part_of(row, cut, here.tensor())));
}

Shape reformulated(const Param& row, std::int64_t layers, std::int64_t others, std::int64_t cut,
                   std::int64_t last) {
  Shape shape{last};
  for (int i = row.shape.rank(); i-- > 0;)
    shape = shape.with_front(i == row.dimension ? cut : others);
  return row.layer ? shape.with_front(layers) : shape;
}

void write_extra_states(DistWriter& writer, const ModelConfig& config) {
  const auto none = PyValue::list({PyValue()});
  std::vector<const char*> modules = {"self_attention.linear_qkv", "self_attention.linear_proj",
                                      "self_attention.core_attention", "mlp.linear_fc1",
                                      "mlp.linear_fc2"};
  if (config.qk_layernorm)
    modules.insert(modules.end(), {"self_attention.q_layernorm", "self_attention.k_layernorm"});
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer)
    for (const char* module : modules)
      writer.add_object(
          concat("decoder.layers.", module, "._extra_state/shard_", layer, "_", config.num_layers),
          none);
  writer.add_object("decoder.final_layernorm._extra_state/shard_0_1", none);
}

bool is_vocabulary(const Param& row) { return row.segments.front().name == "vocab"; }

void check_all_used(const DistReader& reader, const ParamTable& table) {
  std::set<std::string> used;
  for (const Param& row : table.rows()) used.insert(row.key);
  for (const auto& [key, tensor] : reader.tensors())
    if (key.find("optimizer.") == std::string::npos && !used.contains(key))
      fail(Exit::bad_data, reader.folder(), ": tensor ", key,
           " has no place in the model that its settings describe");
}

void read_row(const DistReader& reader, const Param& row, const std::string& prefix,
              const Tensor& to) {
  const HostCopy here = HostCopy::for_writing(to);
  const std::string key = prefix + row.key;
  const DistTensor* stored = reader.find(key);
  if (stored == nullptr) fail(Exit::bad_data, reader.folder(), ": no tensor ", key);
  const Shape expected = row.key_shape();
  Shape shape = stored->original_shape.value_or(stored->shape);
  const bool other_padding = is_vocabulary(row) && shape.rank() == 2 && shape[1] == expected[1];
  if (!(shape == expected) && !other_padding)
    fail(Exit::bad_data, reader.folder(), ": tensor ", key, " is ", shape, ", expected ", expected);
  for (const Cut& cut : row.cuts) {
    Tensor into = part_of(row, cut, here.tensor());
    if (other_padding && shape[0] < cut.global + cut.extent) {
      std::memset(into.data(), 0, into.bytes());
      into = into.rows(0, std::max<std::int64_t>(0, shape[0] - cut.global));
      if (into.numel() == 0) continue;
    }
    if (stored->original_shape)
      reader.read_original(key, offset_of(row, cut), as_stored(row, into));
    else
      reader.read_as(key, offset_of(row, cut), as_stored(row, into));
  }
  here.upload();
}

void read_rows(const DistReader& reader, ParamTable& table, const std::string& prefix) {
  for (const Param& row : table.rows()) read_row(reader, row, prefix, row.value);
}

}  // namespace mt
