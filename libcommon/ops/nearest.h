// What vectors are near: the nearest centres (kernels/nearest_rows.h), groups around them
// (kernels/row_groups.h), the smallest of distances (kernels/smallest.h), and distances from what
// lists keep codes of (kernels/list_scan.h).  Numbers are f32; on the CPU and on GPUs.
#pragma once

#include "kernels/list_scan.h"
#include "kernels/nearest_rows.h"
#include "kernels/smallest.h"
#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace mt {

// half: [count];  c: [count, columns].
void half_squares(Tensor half, ConstTensor c, Stream& stream);
// found: i32 [rows];  best: [rows];  products: [rows, count] with the centres from `first` on;
// half: [count].
void nearest_of_products(Tensor found, Tensor best, ConstTensor products, ConstTensor half,
                         std::int64_t first, Stream& stream);
// found: i32 [parts, all rows], of which those of x are the rows from `first` on;  x: [rows, parts
// width];  centres: [parts, count, width], with a width of at most kNearestPartColumns.
void nearest_parts(Tensor found, std::int64_t first, ConstTensor x, ConstTensor centres,
                   Stream& stream);

// centres, f64 sums: [parts, groups, width];  sizes: i32 [parts, groups];  found: i32 [parts,
// rows];  x: [rows, parts width].
void add_to_groups(Tensor sums, Tensor sizes, ConstTensor found, ConstTensor x, Stream& stream);
void group_means(Tensor centres, ConstTensor sums, ConstTensor sizes, Stream& stream);
// y, x: [rows, columns];  centres: [groups, columns];  found: i32 [rows].
void row_residuals(Tensor y, ConstTensor x, ConstTensor centres, ConstTensor found, Stream& stream);
// y: [rows, parts width];  centres: [parts, groups, width];  found: i32 [parts, rows].
void rows_of_centres(Tensor y, ConstTensor centres, ConstTensor found, Stream& stream);
// y: u8 [rows, parts];  found: i32 [parts, rows], each below 256.
void row_codes(Tensor y, ConstTensor found, Stream& stream);

// numbers: i32 [rows, count];  distances: [rows, count].  Pointers are of the tensors' device.
void smallest(Tensor numbers, Tensor distances, const SmallestOf& problem, Stream& stream);
// terms: [vectors].
void code_terms(Tensor terms, const CodeLists& lists, Stream& stream);
// distances: [places];  numbers: i32 [places].
void scan_lists(Tensor distances, Tensor numbers, const ListScan& scan, Stream& stream);

}  // namespace mt
