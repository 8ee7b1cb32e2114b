// SideAdapters: adapters that the linear layers of a model have beside their weights, and of which
// each sequence of a Step says which one it has, or none.  What an adapter adds to a layer is
//   y += B A x
// A: [rank, in], B: [out, rank], times the adapter's scale; of a weight that other libraries have
// as several, the A of each part one below the other (nn/adapter.h).  Nothing is cut here, nor has
// it gradients.  Sequences that have the same adapter and lie beside each other are multiplied
// together.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <vector>

#include "tensor/buffer.h"
#include "tensor/param.h"
#include "tensor/tensor.h"

namespace mt {

struct Step;

// So many sequences, one behind the other, have this adapter, counted from 1; 0: none.
struct AdaptedRun {
  std::int64_t adapter = 0, sequences = 0;
  auto operator<=>(const AdaptedRun&) const = default;
};
using AdaptedRuns = std::vector<AdaptedRun>;  // of a Step; empty: no sequence has one
void add_sequence(AdaptedRuns& runs, std::int64_t adapter);

class SideAdapters {
 public:
  struct Product {
    Tensor a, b;
  };
  using Products = std::map<std::size_t, Product>;  // by the weights' numbers in their table

  std::int64_t count() const { return std::ssize(all_); }
  // The next adapter, whose tensors lie in these buffers.  Once the memory of passes is measured
  // (on_meta()), it must be one that fits().
  void add(Products products, std::vector<Buffer> memory);
  // Room for adapters that come later: of the shapes of these, or of fewer rows of A.
  void reserve(const Products& widest);
  bool fits(const Products& products) const;
  // Gives back the memory of one that no sequence has any more; no other gets its number.
  void remove(std::int64_t adapter);

  // Whether one of them adds to what this weight makes.  Such a layer's products are made in one
  // way, whichever adapters the sequences of a Step have.
  bool adapt(const Param& weight) const { return widest_.contains(weight.index); }
  // y: [rows, out], to which the products are added, and x: [rows, in], as many of each of the
  // Step's sequences.
  void forward(Step& s, const Param& weight, Tensor y, ConstTensor x) const;

  // One adapter, on meta, which takes the memory of any of these.
  SideAdapters on_meta() const;

 private:
  struct Held {
    Products products;
    std::vector<Buffer> memory;
  };
  std::vector<Held> all_;
  Products widest_;  // of each weight, of those that it has or had: the shapes alone
};

}  // namespace mt
