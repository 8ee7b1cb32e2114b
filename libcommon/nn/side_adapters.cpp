#include "nn/side_adapters.h"

#include <algorithm>
#include <utility>

#include "nn/step.h"
#include "ops/ops.h"

namespace mt {

void add_sequence(AdaptedRuns& runs, std::int64_t adapter) {
  if (runs.empty() || runs.back().adapter != adapter) runs.push_back({.adapter = adapter});
  ++runs.back().sequences;
}

void SideAdapters::reserve(const Products& products) {
  for (const auto& [weight, product] : products) {
    Product& widest = widest_[weight];
    if (!widest.a || widest.a.shape()[0] < product.a.shape()[0]) widest = product;
  }
}

bool SideAdapters::fits(const Products& products) const {
  return std::ranges::all_of(products, [&](const auto& one) {
    const auto widest = widest_.find(one.first);
    return widest != widest_.end() && one.second.a.shape()[0] <= widest->second.a.shape()[0];
  });
}

void SideAdapters::add(Products products, std::vector<Buffer> memory) {
  reserve(products);
  all_.push_back({std::move(products), std::move(memory)});
}

void SideAdapters::remove(std::int64_t adapter) {
  all_.at(static_cast<std::size_t>(adapter - 1)) = {};
}

void SideAdapters::forward(Step& s, const Param& weight, Tensor y, ConstTensor x) const {
  const std::int64_t of_each = x.shape()[0] / s.tokens.sequences;
  std::int64_t begin = 0;
  for (const auto& [adapter, sequences] : s.adapted) {
    const std::int64_t end = begin + sequences * of_each;
    const Held* const held =
        adapter > 0 ? &all_.at(static_cast<std::size_t>(adapter - 1)) : nullptr;
    if (held != nullptr && held->products.contains(weight.index)) {
      const auto& [a, b] = held->products.at(weight.index);
      const ArenaScope scope(s.layer);
      const Tensor low = s.scratch({end - begin, a.shape()[0]});
      Matmul product{.out = low,
                     .a = x.rows(begin, end),
                     .b = a,
                     .transpose_b = true,
                     .rows_alone = s.rows_alone()};
      matmul(product, s.stream);
      product.out = y.rows(begin, end);
      product.a = low;
      product.b = b;
      product.accumulate = true;
      matmul(product, s.stream);
    }
    begin = end;
  }
}

SideAdapters SideAdapters::on_meta() const {
  Products products;
  std::vector<Buffer> memory;
  const auto like = [&](const Tensor& tensor) {
    const Buffer& buffer = memory.emplace_back(Device::meta, tensor.bytes());
    return buffer.tensor(tensor.dtype(), tensor.shape());
  };
  for (const auto& [weight, product] : widest_)
    products[weight] = {.a = like(product.a), .b = like(product.b)};
  SideAdapters made;
  made.add(std::move(products), std::move(memory));
  return made;
}

}  // namespace mt
