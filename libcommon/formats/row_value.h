// Rows of a ModelSource in memory, as a conversion takes them: no more at a time than fit, however
// many threads ask for them.
#pragma once

#include <condition_variable>
#include <mutex>
#include <vector>

#include "formats/model_source.h"

namespace mt {

// Rows wait here until there is place for them.  Buffers go from row to row, since the first touch
// of fresh memory takes longer than what is then copied there.
class RowMemory {
 public:
  // One row may be of any size; several are `most` bytes together.
  explicit RowMemory(std::uint64_t most) : most_(most) {}

  class Place {  // given back when destroyed
   public:
    Place(RowMemory& memory, std::uint64_t bytes);
    Place(const Place&) = delete;
    ~Place();

   private:
    RowMemory& memory_;
    std::uint64_t bytes_;
  };
  // Gives a buffer of at least so many bytes, which a Place stands for, with any values.
  Buffer take_buffer(std::size_t bytes);
  void give_buffer(Buffer buffer);
  void make_room();  // for a row whose Place needs no buffer

 private:
  void drop_buffers();  // that nobody has, as many as are too much

  std::uint64_t most_, used_ = 0;
  std::mutex mutex_;
  std::condition_variable given_back_;
  std::vector<Buffer> free_;
};

// A row's elements: as they lie in their file, if that has them just so, else a copy.
class RowValue {
 public:
  RowValue(const ModelSource& source, const Param& row, const std::string& state, DType dtype,
           RowMemory& memory);
  RowValue(const RowValue&) = delete;
  ~RowValue();
  const ConstTensor& tensor() const { return tensor_; }
  bool is_copy() const { return !view_; }

 private:
  RowMemory& memory_;
  std::optional<MappedTensor> view_;
  Buffer copy_;
  ConstTensor tensor_;
};

}  // namespace mt
