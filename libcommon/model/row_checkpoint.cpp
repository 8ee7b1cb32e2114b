#include "model/row_checkpoint.h"

#include <algorithm>
#include <cstring>

#include "ckpt/dist_checkpoint.h"
#include "ckpt/te_state.h"
#include "tensor/host_copy.h"

namespace mt {

void write_row(DistWriter& writer, const Param& row, const std::string& state,
               const Tensor& tensor) {
  const HostCopy here = HostCopy::of(tensor);
  for (const KeyPart& part : key_parts(row, {.of_state = !state.empty()}))
    writer.add(state_prefix(state) + part.key, part.whole, part.offset,
               here.tensor().rows(part.begin, part.end).reshape(part.chunk));
}

void write_extra_states(DistWriter& writer, const ModelConfig& config,
                        const std::map<std::string, std::string>& states) {
  for (const std::string& key : extra_states(config)) {
    const auto state = states.find(key);
    TorchWriter tensors;
    const PyValue value =
        te_state_value(state == states.end() ? "" : state->second,
                       [&](ConstTensor tensor) { return tensors.tensor(tensor); });
    writer.add_object(key, PyValue::list({value}), tensors);
  }
}

// Where layers differ, or are said to, each has a key of its own.
std::string read_extra_state(const DistReader& reader, const Param& weight) {
  for (const bool numbered : {false, true}) {
    const std::string key = extra_state_key(weight, {.numbered = numbered});
    if (!reader.objects().contains(key)) continue;
    const TorchReader object = reader.open_object(key);
    return te_state_in(object.value(), object, concat(reader.folder(), ": ", key));
  }
  return {};
}

// Whether `stored` is `expected` but for the number of its rows.
static bool differs_in_rows(const Shape& stored, const Shape& expected) {
  return stored.rank() == expected.rank() &&
         std::ranges::equal(stored.extents().subspan(1), expected.extents().subspan(1));
}

void read_parts(const DistReader& reader, const Param& row, std::span<const KeyPart> parts,
                Tensor out) {
  for (const KeyPart& part : parts) {
    const Shape& shape = reader.at(part.key).own_shape();
    const bool other_padding = row.is_vocabulary() && differs_in_rows(shape, part.whole);
    if (!(shape == part.whole) && !other_padding)
      fail(Exit::bad_data, reader.folder(), ": tensor ", part.key, " is ", shape, ", expected ",
           part.whole);
    Tensor into = out.rows(part.begin, part.end).reshape(part.chunk);
    if (other_padding && shape[0] < part.offset[0] + part.chunk[0]) {
      std::memset(into.data(), 0, into.bytes());
      into = into.rows(0, std::max<std::int64_t>(0, shape[0] - part.offset[0]));
      if (into.numel() == 0) continue;
    }
    reader.read_original(part.key, part.offset, into);
  }
}

void read_row(const DistReader& reader, const Param& row, const std::string& state,
              const Tensor& to) {
  std::vector<KeyPart> parts = key_parts(row, {.of_state = !state.empty()});
  for (KeyPart& part : parts) part.key = state_prefix(state) + part.key;
  const HostCopy here = HostCopy::for_writing(to);
  read_parts(reader, row, parts, here.tensor());
  here.upload();
}

void check_all_used(const DistReader& reader, const std::set<std::string>& keys) {
  for (const auto& [key, tensor] : reader.tensors())
    if (key.find("optimizer.") == std::string::npos && !keys.contains(key))
      fail(Exit::bad_data, reader.folder(), ": tensor ", key,
           " has no place in the model that its settings describe");
}

void check_all_used(const DistReader& reader, const ParamTable& table) {
  std::set<std::string> keys;
  for (const Param& row : table.rows())
    for (const KeyPart& part : key_parts(row)) keys.insert(part.key);
  check_all_used(reader, keys);
}

}  // namespace mt
