#include "kernels/packed_few_rows.cuh"
#include "kernels/tile_numbers.h"

namespace mt::cuda {

using namespace few;

bool has_packed_few_rows() { return kMostFixed + kMostX <= most_shared_bytes(); }

template <class T, class C>
bool packed_few_rows_fit(const FewRows<T, C>& p, const PackedTiles& form) {
  if (p.k % kUnit != 0 || !aligned(p.a, p.norm.w, p.norm.shift)) return false;
  if (std::max(form.rows(), p.k) > std::numeric_limits<int>::max() / 16) return false;
  if (p.then == FewRows<T, C>::Then::swiglu &&
      (!form.is_plain() || p.n != form.rows() || p.n % (2 * kTileRows) != 0))
    return false;
  return has_packed_few_rows();
}

// Some of the rows, from `first` on.
template <class T, class C>
static FewRows<T, C> rows_of(FewRows<T, C> p, std::int64_t first) {
  const std::int64_t width = p.then == FewRows<T, C>::Then::swiglu ? p.n / 2 : p.n;
  p.m = std::min<std::int64_t>(p.m - first, kRowsTogether);
  p.a += first * p.k;
  p.c += first * width;
  if (p.at) p.at += first * p.n;
  if (p.residual) p.residual += first * p.n;
  return p;
}

template <class T, class C>
void packed_few_rows(const FewRows<T, C>& p, const std::uint8_t* tiles, const PackedTiles& form,
                     cudaStream_t stream) {
  if (p.m * p.n == 0) return;
  for (const PackedTiles::Class& of : form.classes())
    tiles::with_type(of.type, [&]<BlockType kType>() {
      for (std::int64_t first = 0; first < p.m; first += kRowsTogether)
        launch_packed<kType>(rows_of(p, first), tiles, form, of, stream);
    });
}

#define INSTANTIATE(T, C)                                                                      \
  template bool packed_few_rows_fit(const FewRows<T, C>&, const PackedTiles&);                 \
  template void packed_few_rows(const FewRows<T, C>&, const std::uint8_t*, const PackedTiles&, \
                                cudaStream_t)
INSTANTIATE(bf16, bf16);
INSTANTIATE(bf16, float);

}  // namespace mt::cuda
