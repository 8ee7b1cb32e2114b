#include "kernels/row_block.h"

#include "ops/check.h"
#include "ops/ops.h"

namespace mt {

static void check_block(const char* operation, const ConstTensor& wide, const ConstTensor& narrow,
                        const RowBlock& block) {
  const Shape& shape = narrow.shape();
  if (shape[0] % block.count != 0 || block.column + shape[1] > wide.shape()[1])
    fail(Exit::internal, operation, ": a block of ", shape);
  check_shape(operation, "wide", wide, {shape[0] / block.count * block.period, wide.shape()[1]});
}

void spread(Tensor wide, ConstTensor narrow, const RowBlock& block, double factor, Stream& stream) {
  check_block("spread", wide, narrow, block);
  const std::int64_t rows = narrow.shape()[0], cols = narrow.shape()[1], of_wide = wide.shape()[1];
  dispatch(
      Family::elementwise, wide, {.bytes = 2.0 * static_cast<double>(narrow.bytes())}, stream,
      [&]<class T>() {
        cpu::spread(wide.as<T>(), of_wide, narrow.as<T>(), rows, cols, block,
                    static_cast<T>(factor));
      },
      [&]<class T>() {
        cuda::spread(wide.as<T>(), of_wide, narrow.as<T>(), rows, cols, block,
                     static_cast<float>(factor), stream.handle());
      });
}

void collect(Tensor narrow, ConstTensor wide, const RowBlock& block, double factor,
             Stream& stream) {
  check_block("collect", wide, narrow, block);
  const std::int64_t rows = narrow.shape()[0], cols = narrow.shape()[1], of_wide = wide.shape()[1];
  dispatch(
      Family::elementwise, narrow, {.bytes = 3.0 * static_cast<double>(narrow.bytes())}, stream,
      [&]<class T>() {
        cpu::collect(narrow.as<T>(), rows, cols, wide.as<T>(), of_wide, block,
                     static_cast<T>(factor));
      },
      [&]<class T>() {
        if constexpr (!std::is_same_v<T, __half>)
          cuda::collect(narrow.as<T>(), rows, cols, wide.as<float>(), of_wide, block,
                        static_cast<float>(factor), stream.handle());
      });
}

}  // namespace mt
