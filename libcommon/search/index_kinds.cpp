// What vector_index.h's kinds keep of vectors, and how they are put together.
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/threads.h"
#include "kernels/near_rows.h"
#include "search/vector_index.h"

namespace mt {

constexpr std::int64_t kTogether = 1024;  // codes that a thread takes

std::vector<std::uint8_t> FlatIndex::encode(ConstTensor vectors, Products& products) const {
  std::vector<std::uint8_t> codes(vectors.bytes());
  products.get(codes.data(), vectors);
  return codes;
}

void FlatIndex::add_codes(std::span<const std::uint8_t> codes, std::int64_t) {
  const std::size_t before = vectors.size();
  vectors.resize(before + codes.size() / sizeof(float));
  std::memcpy(vectors.data() + before, codes.data(), codes.size());
}

bool FlatIndex::merge(const FlatIndex& other) {
  if (columns != other.columns || inner != other.inner) return false;
  vectors.insert(vectors.end(), other.vectors.begin(), other.vectors.end());
  return true;
}

float FlatIndex::distance(const float* vector, std::int64_t id) const {
  const float* const other = &vectors[static_cast<std::size_t>(id * columns)];
  return inner ? cpu::inner_product(vector, other, columns)
               : cpu::squared_distance(vector, other, columns);
}

void ScalarIndex::train(std::span<const float> vectors, Products&) { quantizer.train(vectors); }

std::vector<std::uint8_t> ScalarIndex::encode(ConstTensor vectors, Products& products) const {
  return quantizer.encode(products.values<float>(vectors));
}

void ScalarIndex::add_codes(std::span<const std::uint8_t> more, std::int64_t) {
  codes.insert(codes.end(), more.begin(), more.end());
}

bool ScalarIndex::merge(const ScalarIndex& other) {
  if (quantizer != other.quantizer) return false;
  codes.insert(codes.end(), other.codes.begin(), other.codes.end());
  return true;
}

float ScalarIndex::distance(const float* vector, std::int64_t id) const {
  std::vector<float> other(static_cast<std::size_t>(quantizer.columns));
  quantizer.decode(&codes[static_cast<std::size_t>(id * code_size())], other.data());
  return cpu::squared_distance(vector, other.data(), quantizer.columns);
}

std::int64_t IvfIndex::next_id() const {
  std::int64_t next = 0;
  for (const List& list : lists)
    for (const std::int64_t id : list.ids) next = std::max(next, id + 1);
  return next;
}

std::int64_t IvfIndex::fewest_vectors() const {
  return std::max(wanted, product() ? product()->part_centres() : 1);
}

std::int64_t IvfIndex::bytes_in_list() const {
  if (product()) return product()->code_size();
  return scalar() ? scalar()->code_size() : centres.code_size();
}

// Of the number of a list.
static std::int64_t bytes_of_list(const IvfIndex& index) {
  std::int64_t bytes = 0;
  for (auto most = index.wanted - 1; most > 0; most >>= 8) ++bytes;
  return bytes;
}

std::int64_t IvfIndex::code_size() const { return bytes_of_list(*this) + bytes_in_list(); }

std::vector<std::uint8_t> IvfIndex::encode(ConstTensor vectors, Products& products) const {
  const std::int64_t size = bytes_in_list(), bytes = bytes_of_list(*this);
  const Assigned of = assign(vectors, quantizer.index() != 0 && !of_whole, products);
  std::vector<std::uint8_t> codes;
  if (product())
    codes = product()->encode(of_whole ? vectors : ConstTensor(of.residuals), products);
  else if (scalar())
    codes = scalar()->encode(products.values<float>(of.residuals));
  else
    codes = centres.encode(vectors, products);
  const std::int64_t rows = std::ssize(of.lists);
  std::vector<std::uint8_t> result(static_cast<std::size_t>(rows * (bytes + size)));
  products.each((rows + kTogether - 1) / kTogether, [&](std::int64_t block) {
    auto to = result.begin() + block * kTogether * (bytes + size);
    for (std::int64_t i = block * kTogether; i < std::min(rows, (block + 1) * kTogether); ++i) {
      for (std::int64_t byte = 0; byte < bytes; ++byte)
        *to++ = static_cast<std::uint8_t>(of.lists[static_cast<std::size_t>(i)] >> (8 * byte));
      to = std::copy_n(codes.begin() + i * size, size, to);
    }
  });
  return result;
}

void IvfIndex::add_codes(std::span<const std::uint8_t> codes, std::int64_t first) {
  const std::int64_t bytes = bytes_of_list(*this), each = code_size(),
                     more = std::ssize(codes) / each;
  std::vector<std::uint64_t> list_of(static_cast<std::size_t>(more));
  parallel_for_ordered_errors((more + kTogether - 1) / kTogether, [&](std::int64_t block) {
    for (std::int64_t i = block * kTogether; i < std::min(more, (block + 1) * kTogether); ++i) {
      std::uint64_t& list = list_of[static_cast<std::size_t>(i)];
      for (std::int64_t byte = 0; byte < bytes; ++byte)
        list |= static_cast<std::uint64_t>(codes[static_cast<std::size_t>(i * each + byte)])
                << (8 * byte);
      if (list >= lists.size())
        fail(Exit::bad_data, "code of vector ", first + i, ": list ", list, " of ", lists.size());
    }
  });
  constexpr std::size_t kShares = 64;  // of the lists, each of which a thread adds to
  parallel_for(static_cast<std::int64_t>(std::min(kShares, lists.size())), [&](std::int64_t share) {
    for (std::int64_t i = 0; i < more; ++i) {
      const std::uint64_t number = list_of[static_cast<std::size_t>(i)];
      if (number % kShares != static_cast<std::uint64_t>(share)) continue;
      List& list = lists[number];
      list.by_parts.clear();
      const auto code = codes.begin() + i * each;
      list.codes.insert(list.codes.end(), code + bytes, code + each);
      list.ids.push_back((in_lists ? first : count) + i);
    }
  });
  count += more;
}

bool IvfIndex::merge(const IvfIndex& other) {
  const auto same_codes = [&] {
    if (quantizer.index() != other.quantizer.index()) return false;
    if (product())
      return *product() == *other.product() && of_whole == other.of_whole && fast == other.fast;
    return !scalar() || *scalar() == *other.scalar();
  };
  if (centres.columns != other.centres.columns || centres.vectors != other.centres.vectors ||
      graph.has_value() != other.graph.has_value() || in_lists != other.in_lists || !same_codes())
    return false;
  const std::int64_t next = next_id();
  for (std::size_t i = 0; i < lists.size(); ++i) {
    List& to = lists[i];
    const List& more = other.lists[i];
    to.by_parts.clear();
    to.codes.insert(to.codes.end(), more.codes.begin(), more.codes.end());
    for (const std::int64_t id : more.ids) to.ids.push_back(next + id);
  }
  count += other.count;
  return true;
}

}  // namespace mt
