// PackedTensors: the tensors of a model of which some are stored in eight bits or fewer, as those
// that they stand for.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ckpt/tensor_source.h"

namespace mt {

enum class BlockType : std::uint8_t;

// A weight that is made of stored tensors.
struct PackedWeight {
  std::string name;
  Shape shape;
  std::vector<std::string> parts;  // the stored tensors that stand for it
  // Fills `out` with the elements [begin, end) of the first axis, row-major.
  std::function<void(std::int64_t begin, std::int64_t end, std::span<float> out)> unpack;
  // The type of the blocks that stand for a matrix's rows exactly (kernels/packed_rows.h), if there
  // is one; and what fills `out` with those of the rows [begin, end), which of several matrices are
  // counted on.  Exit::bad_data for a scale or a code that is no finite number.
  std::optional<BlockType> block = {};
  bool of_columns = false;  // these are the columns of each matrix
  std::function<void(std::int64_t begin, std::int64_t end, std::uint8_t* out)> blocks = {};
};

class PackedTensors : public TensorSource {
 public:
  // Weights are of `dtype`, to which what unpack() gives is rounded.  Neither they nor the stored
  // tensors `others` are among those that are stored.  Exit::bad_data for a weight whose name a
  // stored tensor has.
  PackedTensors(std::unique_ptr<TensorSource> stored, DType dtype,
                const std::vector<PackedWeight>& weights, const std::vector<std::string>& others);

  const std::string& path() const override { return stored_->path(); }
  const std::map<std::string, DistTensor>& tensors() const override { return tensors_; }
  void read_original(const std::string& key, const Shape& offset, Tensor out) const override;
  std::optional<MappedTensor> view(const std::string& key, const Shape& offset,
                                   const Shape& shape) const override;
  // The weight of that name; null where a stored tensor, or none, has it.
  const PackedWeight* find_packed(const std::string& key) const;

 private:
  std::unique_ptr<TensorSource> stored_;
  std::map<std::string, DistTensor> tensors_;
  std::map<std::string, PackedWeight> weights_;
};

// How many blocks of `size` elements, the last maybe of fewer, an axis of `all` has.
constexpr std::int64_t blocks_of(std::int64_t all, std::int64_t size) {
  return (all + size - 1) / size;
}

// The elements [offset, offset + shape) of a stored tensor, row-major: of i8, u8, i32 or bytes of
// f8. Exit::bad_data where it is of another type.
template <class T>
std::vector<T> stored_block(const TensorSource& stored, const std::string& key, DType dtype,
                            const Shape& offset, const Shape& shape);
// They may be of any type of floating point, f8 among them, or whole numbers, and become floats.
std::vector<float> stored_floats(const TensorSource& stored, const std::string& key,
                                 const Shape& offset, const Shape& shape);
// Exit::bad_data for a stored tensor of whole numbers.
void expect_floats(const TensorSource& stored, const std::string& key);
// A stored tensor's shape is found to be `shape`; else it is Exit::bad_data.
void expect_shape(const TensorSource& stored, const std::string& key, const Shape& shape);

}  // namespace mt
