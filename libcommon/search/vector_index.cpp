#include "search/vector_index.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace mt {
namespace {

constexpr std::int64_t kAtATime = 256;  // vectors that are asked for

std::int64_t bytes_of_list(const IvfIndex& index) {
  std::int64_t bytes = 0;
  for (auto most = index.lists.size() - 1; most > 0; most >>= 8) ++bytes;
  return bytes;
}

const IvfIndex* ivf_of(const VectorIndex& index) { return std::get_if<IvfIndex>(&index.kind); }

}  // namespace

std::int64_t VectorIndex::columns() const {
  if (!rotations.empty()) return rotations.front().in;
  return ivf_of(*this) ? ivf_of(*this)->centres.columns : std::get<FlatIndex>(kind).columns;
}

std::int64_t VectorIndex::size() const {
  if (const IvfIndex* const ivf = ivf_of(*this)) return ivf->size;
  const auto& flat = std::get<FlatIndex>(kind);
  return std::ssize(flat.vectors) / flat.columns;
}

std::int64_t VectorIndex::next_id() const {
  const IvfIndex* const ivf = ivf_of(*this);
  if (!ivf) return size();
  std::int64_t next = 0;
  for (const IvfIndex::List& list : ivf->lists)
    for (const std::int64_t id : list.ids) next = std::max(next, id + 1);
  return next;
}

bool VectorIndex::trained() const {
  for (const Rotation& rotation : rotations)
    if (rotation.matrix.empty()) return false;
  return !ivf_of(*this) || ivf_of(*this)->trained;
}

std::int64_t VectorIndex::fewest_vectors() const {
  const IvfIndex* const ivf = ivf_of(*this);
  std::int64_t fewest = ivf ? std::ssize(ivf->lists) : 1;
  if (!rotations.empty() || (ivf && ivf->quantizer))
    fewest = std::max(fewest, ProductQuantizer::kCentres);
  return fewest;
}

std::vector<float> VectorIndex::rotated(std::span<const float> vectors, Products& products) const {
  std::vector<float> result(vectors.begin(), vectors.end());
  for (const Rotation& rotation : rotations) result = rotation.apply(result, products);
  return result;
}

void VectorIndex::train(std::span<const float> vectors, Products& products) {
  if (trained()) return;
  const std::int64_t count = std::ssize(vectors) / columns(), fewest = fewest_vectors();
  if (count < fewest) {
    const IvfIndex* const ivf = ivf_of(*this);
    fail(Exit::bad_config, "an index",
         ivf ? concat(" of ", ivf->lists.size(), " lists") : std::string(),
         " is trained on at least ", fewest, " vectors; there are ", count);
  }
  for (std::size_t i = 0; i < rotations.size(); ++i) {
    std::vector<float> before(vectors.begin(), vectors.end());
    for (std::size_t j = 0; j < i; ++j) before = rotations[j].apply(before, products);
    if (rotations[i].matrix.empty()) rotations[i].train(before, products);
  }
  if (auto* const ivf = std::get_if<IvfIndex>(&kind))
    ivf->train(rotated(vectors, products), products);
}

std::int64_t VectorIndex::code_size() const {
  if (const IvfIndex* const ivf = ivf_of(*this)) return bytes_of_list(*ivf) + ivf->code_size();
  return std::get<FlatIndex>(kind).columns * static_cast<std::int64_t>(sizeof(float));
}

std::vector<std::uint8_t> VectorIndex::encode(std::span<const float> vectors,
                                              Products& products) const {
  if (vectors.empty()) return {};
  const std::vector<float> numbers = rotated(vectors, products);
  const IvfIndex* const ivf = ivf_of(*this);
  std::vector<std::uint8_t> result;
  if (!ivf) {
    result.resize(numbers.size() * sizeof(float));
    std::memcpy(result.data(), numbers.data(), result.size());
    return result;
  }
  const std::int64_t size = ivf->code_size(), bytes = bytes_of_list(*ivf);
  const std::vector<std::int64_t> of = ivf->near(numbers, 1, {}, products).ids;
  const std::vector<std::uint8_t> codes = ivf->encode(numbers, of, products);
  for (std::int64_t i = 0; i < std::ssize(of); ++i) {
    for (std::int64_t byte = 0; byte < bytes; ++byte)
      result.push_back(static_cast<std::uint8_t>(of[static_cast<std::size_t>(i)] >> (8 * byte)));
    result.insert(result.end(), codes.begin() + i * size, codes.begin() + (i + 1) * size);
  }
  return result;
}

void VectorIndex::add_codes(std::span<const std::uint8_t> codes, std::int64_t first) {
  if (codes.empty()) return;
  auto* const ivf = std::get_if<IvfIndex>(&kind);
  if (!ivf) {
    std::vector<float>& vectors = std::get<FlatIndex>(kind).vectors;
    const std::size_t before = vectors.size();
    vectors.resize(before + codes.size() / sizeof(float));
    std::memcpy(vectors.data() + before, codes.data(), codes.size());
    return;
  }
  const std::int64_t bytes = bytes_of_list(*ivf), each = code_size();
  for (std::int64_t i = 0; i < std::ssize(codes) / each; ++i) {
    const auto code = codes.begin() + i * each;
    std::uint64_t list = 0;
    for (std::int64_t byte = 0; byte < bytes; ++byte)
      list |= static_cast<std::uint64_t>(code[byte]) << (8 * byte);
    if (list >= ivf->lists.size())
      fail(Exit::bad_data, "code of vector ", first + i, ": list ", list, " of ",
           ivf->lists.size());
    IvfIndex::List& to = ivf->lists[list];
    to.codes.insert(to.codes.end(), code + bytes, code + each);
    to.ids.push_back(first + i);
    ++ivf->size;
  }
}

bool VectorIndex::merge(VectorIndex other) {
  const auto same = [](const Rotation& a, const Rotation& b) {
    return a.in == b.in && a.matrix == b.matrix && a.bias == b.bias;
  };
  if (!std::ranges::equal(rotations, other.rotations, same) || kind.index() != other.kind.index())
    return false;
  if (auto* const flat = std::get_if<FlatIndex>(&kind)) {
    const auto& more = std::get<FlatIndex>(other.kind);
    if (flat->columns != more.columns || flat->inner != more.inner) return false;
    flat->vectors.insert(flat->vectors.end(), more.vectors.begin(), more.vectors.end());
    return true;
  }
  auto& ivf = std::get<IvfIndex>(kind);
  auto& more = std::get<IvfIndex>(other.kind);
  const auto codes_of = [](const IvfIndex& index) {
    return index.quantizer ? index.quantizer->centres : std::vector<float>();
  };
  if (ivf.centres.columns != more.centres.columns || ivf.centres.vectors != more.centres.vectors ||
      ivf.graph.has_value() != more.graph.has_value() || ivf.code_size() != more.code_size() ||
      codes_of(ivf) != codes_of(more))
    return false;
  const std::int64_t next = next_id();
  for (std::size_t i = 0; i < ivf.lists.size(); ++i) {
    IvfIndex::List& to = ivf.lists[i];
    to.codes.insert(to.codes.end(), more.lists[i].codes.begin(), more.lists[i].codes.end());
    for (const std::int64_t id : more.lists[i].ids) to.ids.push_back(next + id);
  }
  ivf.size += more.size;
  return true;
}

FoundVectors VectorIndex::search(std::span<const float> of, const IndexSearch& options,
                                 Products& products) {
  FoundVectors found;
  for (std::int64_t begin = 0; begin < std::ssize(of) / columns(); begin += kAtATime) {
    products.poll();
    const auto some = of.subspan(static_cast<std::size_t>(begin * columns()));
    const std::vector<float> numbers =
        rotated(some.first(std::min(some.size(), static_cast<std::size_t>(kAtATime * columns()))),
                products);
    auto* const ivf = std::get_if<IvfIndex>(&kind);
    const FoundVectors here =
        ivf ? ivf->search(numbers, options, products)
            : std::get<FlatIndex>(kind).search(numbers, options.count, products);
    found.ids.insert(found.ids.end(), here.ids.begin(), here.ids.end());
    found.distances.insert(found.distances.end(), here.distances.begin(), here.distances.end());
  }
  return found;
}

}  // namespace mt
