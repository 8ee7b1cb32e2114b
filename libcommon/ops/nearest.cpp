#include "ops/nearest.h"

#include "kernels/row_groups.h"
#include "ops/check.h"

namespace mt {
namespace {

// gpu: of a StreamHandle, but as a template, which is made in the kind with CUDA alone.
template <class Cpu, class Gpu>
void dispatch_either(const char* operation, const ConstTensor& like, const Cost& cost,
                     Stream& stream, const Cpu& cpu, const Gpu& gpu) {
  if (like.dtype() != DType::f32)
    fail(Exit::internal, operation, ": of ", name_of(like.dtype()), ", expected float32");
  dispatch(
      Family::elementwise, like, cost, stream, [&]<class T>() { cpu(); },
      [&]<class T>() { gpu(stream.handle()); });
}

}  // namespace

void half_squares(Tensor half, ConstTensor c, Stream& stream) {
  const std::int64_t count = c.shape()[0], cols = c.shape()[1];
  check_shape("half_squares", "half", half, {count});
  dispatch_either(
      "half_squares", c, moves(half, c), stream,
      [&] { cpu::half_squares(half.as<float>(), c.as<float>(), count, cols); },
      [&](auto handle) {
        cuda::half_squares(half.as<float>(), c.as<float>(), count, cols, handle);
      });
}

void nearest_of_products(Tensor found, Tensor best, ConstTensor products, ConstTensor half,
                         std::int64_t first, Stream& stream) {
  const std::int64_t rows = products.shape()[0], count = products.shape()[1];
  check_shape("nearest_of_products", "found", found, {rows});
  check_shape("nearest_of_products", "best", best, {rows});
  check_shape("nearest_of_products", "half", half, {count});
  const NearestOfProducts problem = {.products = products.as<float>(),
                                     .half_squares = half.as<float>(),
                                     .rows = rows,
                                     .count = count,
                                     .first = first};
  dispatch_either(
      "nearest_of_products", products, moves(products, half, found, best), stream,
      [&] { cpu::nearest_of_products(found.as<std::int32_t>(), best.as<float>(), problem); },
      [&](auto handle) {
        cuda::nearest_of_products(found.as<std::int32_t>(), best.as<float>(), problem, handle);
      });
}

void nearest_parts(Tensor found, std::int64_t first, ConstTensor x, ConstTensor centres,
                   Stream& stream) {
  const std::int64_t rows = x.shape()[0], parts = centres.shape()[0], width = centres.shape()[2];
  const std::int64_t all = found.shape()[1];
  check_shape("nearest_parts", "found", found, {parts, all});
  if (first + rows > all) fail(Exit::internal, "nearest_parts: ", all, " places");
  check_shape("nearest_parts", "x", x, {rows, parts * width});
  if (width > kNearestPartColumns)
    fail(Exit::internal, "nearest_parts: ", width, " columns of a part");
  const NearestParts problem = {.x = x.as<float>(),
                                .centres = centres.as<float>(),
                                .rows = rows,
                                .parts = parts,
                                .width = width,
                                .count = centres.shape()[1],
                                .stride = all};
  std::int32_t* const of_rows = found.as<std::int32_t>() + first;
  dispatch_either(
      "nearest_parts", x, moves(x, centres, found), stream,
      [&] { cpu::nearest_parts(of_rows, problem); },
      [&](auto handle) { cuda::nearest_parts(of_rows, problem, handle); });
}

void add_to_groups(Tensor sums, Tensor sizes, ConstTensor found, ConstTensor x, Stream& stream) {
  constexpr const char* kName = "add_to_groups";
  const std::int64_t rows = x.shape()[0], parts = sums.shape()[0], groups = sums.shape()[1],
                     width = sums.shape()[2];
  check_shape(kName, "sizes", sizes, {parts, groups});
  check_shape(kName, "found", found, {parts, rows});
  check_shape(kName, "x", x, {rows, parts * width});
  const RowGroups problem = {.found = found.as<std::int32_t>(),
                             .x = x.as<float>(),
                             .rows = rows,
                             .parts = parts,
                             .width = width,
                             .groups = groups};
  void* const work = gpu_work(x, stream, [&] { return cuda::add_to_groups_work(problem); });
  dispatch_either(
      kName, x, moves(x, found, sums, sizes), stream,
      [&] { cpu::add_to_groups(sums.as<double>(), sizes.as<std::int32_t>(), problem); },
      [&](auto handle) {
        cuda::add_to_groups(sums.as<double>(), sizes.as<std::int32_t>(), problem, work, handle);
      });
}

void group_means(Tensor centres, ConstTensor sums, ConstTensor sizes, Stream& stream) {
  const std::int64_t groups = sizes.numel(), width = centres.shape()[2];
  check_shape("group_means", "sums", sums, centres.shape());
  check_shape("group_means", "sizes", sizes, {centres.shape()[0], centres.shape()[1]});
  dispatch_either(
      "group_means", centres, moves(centres, sums), stream,
      [&] {
        cpu::group_means(centres.as<float>(), sums.as<double>(), sizes.as<std::int32_t>(), groups,
                         width);
      },
      [&](auto handle) {
        cuda::group_means(centres.as<float>(), sums.as<double>(), sizes.as<std::int32_t>(), groups,
                          width, handle);
      });
}

void row_residuals(Tensor y, ConstTensor x, ConstTensor centres, ConstTensor found,
                   Stream& stream) {
  const std::int64_t rows = x.shape()[0], cols = x.shape()[1];
  check_shape("row_residuals", "y", y, {rows, cols});
  check_shape("row_residuals", "centres", centres, {centres.shape()[0], cols});
  check_shape("row_residuals", "found", found, {rows});
  const RowGroups problem = {.found = found.as<std::int32_t>(),
                             .x = x.as<float>(),
                             .rows = rows,
                             .width = cols,
                             .groups = centres.shape()[0]};
  dispatch_either(
      "row_residuals", x, moves(x, y, found), stream,
      [&] { cpu::row_residuals(y.as<float>(), centres.as<float>(), problem); },
      [&](auto handle) {
        cuda::row_residuals(y.as<float>(), centres.as<float>(), problem, handle);
      });
}

void rows_of_centres(Tensor y, ConstTensor centres, ConstTensor found, Stream& stream) {
  const std::int64_t parts = centres.shape()[0], width = centres.shape()[2],
                     rows = found.shape()[1];
  check_shape("rows_of_centres", "y", y, {rows, parts * width});
  check_shape("rows_of_centres", "found", found, {parts, rows});
  const RowGroups problem = {.found = found.as<std::int32_t>(),
                             .rows = rows,
                             .parts = parts,
                             .width = width,
                             .groups = centres.shape()[1]};
  dispatch_either(
      "rows_of_centres", y, moves(y, found), stream,
      [&] { cpu::rows_of_centres(y.as<float>(), centres.as<float>(), problem); },
      [&](auto handle) {
        cuda::rows_of_centres(y.as<float>(), centres.as<float>(), problem, handle);
      });
}

void row_codes(Tensor y, ConstTensor found, Stream& stream) {
  const std::int64_t parts = found.shape()[0], rows = found.shape()[1];
  check_shape("row_codes", "y", y, {rows, parts});
  const RowGroups problem = {.found = found.as<std::int32_t>(), .rows = rows, .parts = parts};
  const ConstTensor numbers(y.data(), DType::f32, y.shape(), y.device());  // for the device alone
  dispatch_either(
      "row_codes", numbers, moves(y, found), stream,
      [&] { cpu::row_codes(y.as<std::uint8_t>(), problem); },
      [&](auto handle) { cuda::row_codes(y.as<std::uint8_t>(), problem, handle); });
}

void smallest(Tensor numbers, Tensor distances, const SmallestOf& problem, Stream& stream) {
  check_shape("smallest", "numbers", numbers, {problem.rows, problem.count});
  check_shape("smallest", "distances", distances, {problem.rows, problem.count});
  dispatch_either(
      "smallest", distances, moves(numbers, distances), stream,
      [&] { cpu::smallest(numbers.as<std::int32_t>(), distances.as<float>(), problem); },
      [&](auto handle) {
        cuda::smallest(numbers.as<std::int32_t>(), distances.as<float>(), problem, handle);
      });
}

void code_terms(Tensor terms, const CodeLists& lists, Stream& stream) {
  dispatch_either(
      "code_terms", terms, moves(terms), stream, [&] { cpu::code_terms(terms.as<float>(), lists); },
      [&](auto handle) { cuda::code_terms(terms.as<float>(), lists, handle); });
}

void scan_lists(Tensor distances, Tensor numbers, const ListScan& scan, Stream& stream) {
  dispatch_either(
      "scan_lists", distances, moves(distances, numbers), stream,
      [&] { cpu::scan_lists(distances.as<float>(), numbers.as<std::int32_t>(), scan); },
      [&](auto handle) {
        cuda::scan_lists(distances.as<float>(), numbers.as<std::int32_t>(), scan, handle);
      });
}

}  // namespace mt
