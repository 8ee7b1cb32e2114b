#include "tensor/arena.h"

namespace mt {

static constexpr std::size_t kAlignment = 256;  // a cache line everywhere, and what GPUs like

Tensor Arena::alloc(DType dtype, const Shape& shape, End end) {
  const std::size_t bytes = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
  const std::size_t room = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  const std::size_t needed = used_[0] + used_[1] + room;
  const std::size_t capacity = storage_.bytes() / kAlignment * kAlignment;
  if (needed > capacity && storage_.device() == Device::meta)
    fail(Exit::out_of_memory, "a step needs more than ", storage_.bytes(), " bytes at once");
  if (needed > capacity)
    fail(Exit::internal, "an arena of ", storage_.bytes(), " bytes is full: ", needed,
         " needed with a tensor of ", shape, " ", name_of(dtype));
  const std::size_t begin = end == End::front ? used_[0] : capacity - used_[1] - room;
  const Tensor tensor = storage_.tensor(dtype, shape, begin);
  if (device() == Device::meta) {
    held_[index(end)].push_back({tensor, used_[index(end)]});
    at_peak_now_ = at_peak_now_ || needed > peak_;
  }
  used_[index(end)] += room;
  peak_ = std::max(peak_, needed);
  return tensor;
}

std::vector<ConstTensor> Arena::held() const {
  std::vector<ConstTensor> all;
  for (const std::vector<Held>& end : held_)
    for (const Held& held : end) all.push_back(held.tensor);
  return all;
}

std::vector<ConstTensor> Arena::at_peak() const { return at_peak_now_ ? held() : at_peak_; }

void Arena::forget(std::size_t mark, End end) {
  std::vector<Held>& held = held_[index(end)];
  if (held.empty() || held.back().mark < mark) return;
  if (std::exchange(at_peak_now_, false)) at_peak_ = this->held();
  while (!held.empty() && held.back().mark >= mark) held.pop_back();
}

}  // namespace mt
