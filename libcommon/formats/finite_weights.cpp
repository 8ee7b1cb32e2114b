#include "formats/finite_weights.h"

#include "base/error.h"
#include "ckpt/tensor_numbers.h"

namespace mt {

std::string non_finite_text(const std::string& path, const Param& row, ConstTensor value) {
  if (is_finite(value)) return {};
  const TensorNumbers numbers = numbers_of(value);
  return concat(path, ": ", row.name(), ": of ", numbers.count, " numbers ", numbers.nans,
                " are NaN and ", numbers.infinities, " infinite; take an earlier checkpoint, or ",
                "the model anew from where it is from; mt-convert verify ", path,
                " names all such tensors");
}

void check_finite(const std::string& path, const Param& row, ConstTensor value) {
  if (const std::string text = non_finite_text(path, row, value); !text.empty())
    fail(Exit::bad_data, text);
}

}  // namespace mt
