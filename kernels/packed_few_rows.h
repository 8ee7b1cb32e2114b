// kernels/packed_few_rows.h: the products of few_rows.h with packed tiles (packed_tiles.h) on a
// GPU. norm(a) is rounded to T, as there, and then times a power of two for each row, of which its
// largest is about 2^9, taken as fp16: exactly, but for what is below 2^-22 of it. The numbers of w
// are exact, or rounded to 12 bits of q6_k's largest; sums in f32.  A row's bits depend on that row
// and w alone.  As there, tiles and the norm's weights are read before the kernel ahead has ended,
// which must not be what writes them.
#pragma once

#include "kernels/few_rows.h"
#include "kernels/packed_tiles.h"

namespace mt::cuda {

// Whether this GPU's blocks have the shared memory that packed_few_rows() takes, as an H100's have.
bool has_packed_few_rows();
// Whether, besides, a and the norm lie at multiples of 16 bytes, and swiglu's rows are all of one
// type and both their halves whole tiles.
template <class T, class C>
bool packed_few_rows_fit(const FewRows<T, C>& problem, const PackedTiles& form);
// Multiplies with the first n rows of `tiles`, with all where swiglu comes then; they have k
// columns.  T is bf16, and problem.b is not looked at.
template <class T, class C>
void packed_few_rows(const FewRows<T, C>& problem, const std::uint8_t* tiles,
                     const PackedTiles& form, cudaStream_t stream);

// The numbers, [rows, cols]; those of cpu::unpack_tiles(), rounded to T.
template <class T>
void unpack_tiles(T* y, const std::uint8_t* tiles, const PackedTiles& form, cudaStream_t stream);
// embedding_forward() of such a table, whose rows are of one type.
template <class T>
void tiles_embedding(T* y, const std::int32_t* ids, const std::uint8_t* table,
                     const PackedTiles& form, std::int64_t rows, std::int64_t first_word,
                     cudaStream_t stream);

}  // namespace mt::cuda
