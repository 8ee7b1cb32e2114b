// WeightCodes: codes of eight bits of some rows of a table, which ranks that share the rows' values
// make of their parts and gather instead of the values.
#pragma once

#include <span>
#include <vector>

#include "comm/group.h"
#include "tensor/param.h"

namespace mt {

class WeightCodes {
 public:
  // A rank's part of a row: its elements from `begin` on, and the place of their codes.
  struct Part {
    const Param* row = nullptr;
    std::int64_t begin = 0;
    ConstTensor values = {};
    Tensor codes = {};  // u8
  };

  virtual ~WeightCodes() = default;
  virtual bool has(const Param& row) const = 0;
  // Where a row's codes will be gathered: u8, a row's elements.
  virtual void put_at(const Param& row, const Tensor& codes) = 0;
  // Makes codes of this rank's parts of these rows, of which `ranks` have the others.
  virtual void cast(std::span<const Param* const> rows, std::span<const Part> parts, Group& ranks,
                    Stream& stream) = 0;
  // All values have been set: until they are cast again there are no codes.
  virtual void forget() = 0;
};

}  // namespace mt
