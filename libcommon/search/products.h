// Products: what search computes of f32 matrices, on the CPU or on a GPU, by this program's own
// products.  Rows are vectors, one behind the other.  No result depends on the number of threads.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tensor/stream.h"

namespace mt {

class Products {
 public:
  // threads: 0 is one a core.  `between` is called several times a second while nearest() works,
  // and what it throws ends that.
  explicit Products(
      int threads, std::function<void()> between = [] {}, Device device = Device::cpu);

  // Rows, [rows, columns], where products are made.  On the CPU they are the caller's own.
  struct Rows {
    ConstTensor tensor;
    Buffer memory = {};
  };
  Rows rows(std::span<const float> numbers, std::int64_t columns);

  // [m, n] = a [m, columns] times b [n, columns], transposed.
  std::vector<float> dot(std::span<const float> a, std::span<const float> b, std::int64_t columns);
  std::vector<float> dot(ConstTensor a, ConstTensor b);
  void dot(Tensor out, ConstTensor a, ConstTensor b);
  // [m, n] = a [rows, m], transposed, times b [rows, n].
  std::vector<float> sum_of_outer(ConstTensor a, ConstTensor b);
  // For each row of `a`, [m, parts width], and each part of it the row of that part of `b`, [parts,
  // n, width], that is nearest by squared distance, the first of several; found: i32 [parts, m].
  // There is at least one row in b.
  void nearest(Tensor found, ConstTensor a, ConstTensor b);

  void poll() const { between_(); }  // as nearest() does
  void run(const std::function<void()>& body) { workers_.run(body); }
  // body(i) for i in [0, count), several at a time.
  void each(std::int64_t count, const std::function<void(std::int64_t)>& body);

  int threads() const { return threads_; }

  // --- Memory where products are made. ---

  Device device() const { return stream().device(); }
  Stream& stream() { return gpu_ ? *gpu_ : workers_; }
  const Stream& stream() const { return gpu_ ? *gpu_ : workers_; }
  Buffer buffer(std::size_t bytes) const { return {device(), bytes}; }
  bool has_room(std::size_t bytes) const;  // for so many more, as far as a GPU tells
  // Exit::out_of_memory where a GPU has fewer bytes left than `what` needs.
  void expect_room(std::size_t bytes, const std::string& what) const;
  void put(Tensor to, const void* from);
  void get(void* to, ConstTensor from);
  // Values there, in memory of their own.
  struct Copy {
    Tensor tensor;
    Buffer memory;
  };
  template <class T>
  Copy copy(const std::vector<T>& all) {
    Buffer memory = buffer(all.size() * sizeof(T));
    const Tensor tensor = memory.tensor(dtype_of<T>(), {std::ssize(all)});
    put(tensor, all.data());
    return {tensor, std::move(memory)};
  }
  template <class T>
  std::vector<T> values(ConstTensor from) {
    std::vector<T> all(static_cast<std::size_t>(from.numel()));
    get(all.data(), from);
    return all;
  }
  // Room that the next call with the same use gives to another.
  enum Use {
    kProducts,
    kBest,
    kHalves,
    kPart,
    kLists,
    kAll,
    kNumbers,
    kDistances,
    kVectors,
    kMatrix,
    kFound,
    kSizes,
    kSums,
    kCentres,
    kTurned,
    kTurnedAgain,
    kListsOf,
    kListCentres,
    kResiduals,
    kCodes,
    kUses
  };
  Tensor scratch(Use use, DType dtype, const Shape& shape);
  // As rows(), in such room on a GPU.
  ConstTensor rows(Use use, std::span<const float> numbers, std::int64_t columns);

 private:
  void put_by_halves(std::byte* to, const std::byte* from, std::size_t bytes);
  void nearest_by_codes(Tensor found, ConstTensor a, ConstTensor b);
  void nearest_by_products(Tensor found, ConstTensor a, ConstTensor b);

  int threads_;
  Stream workers_;
  std::optional<Stream> gpu_;
  std::function<void()> between_;
  Buffer scratch_[kUses];
  Buffer halves_[2];  // pinned, through which put() copies
  int turn_ = 0;      // the half that was queued last
};

}  // namespace mt
