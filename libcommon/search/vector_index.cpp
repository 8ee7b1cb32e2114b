#include "search/vector_index.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"

namespace mt {
namespace {

constexpr std::int64_t kAtATime = 2048;  // vectors that are asked for, at most
constexpr std::int64_t kAtATimeOnGpu = 16384;
constexpr std::int64_t kFound = 1LL << 22;  // neighbours that are found at a time, but for one's

}  // namespace

std::int64_t VectorIndex::columns() const {
  if (!rotations.empty()) return rotations.front().in;
  return std::visit([](const auto& index) { return index.width(); }, kind);
}

std::int64_t VectorIndex::size() const {
  return std::visit([](const auto& index) { return index.size(); }, kind);
}

std::int64_t VectorIndex::next_id() const {
  return std::visit([](const auto& index) { return index.next_id(); }, kind);
}

bool VectorIndex::has_gaps() const {
  const auto* const ivf = std::get_if<IvfIndex>(&kind);
  return ivf != nullptr && ivf->in_lists && !refinement;
}

bool VectorIndex::trained() const {
  const auto is_trained = [](const auto& index) { return index.is_trained(); };
  return std::ranges::all_of(rotations, [](const Rotation& r) { return r.trained(); }) &&
         std::visit(is_trained, kind) && (!refinement || std::visit(is_trained, refinement->index));
}

std::int64_t VectorIndex::fewest_vectors() const {
  std::int64_t fewest = std::visit([](const auto& index) { return index.fewest_vectors(); }, kind);
  for (const Rotation& rotation : rotations) fewest = std::max(fewest, rotation.fewest_vectors());
  return fewest;
}

std::size_t VectorIndex::training_bytes(std::int64_t vectors) const {
  const auto* const ivf = std::get_if<IvfIndex>(&kind);
  std::int64_t most = ivf ? ivf->training_numbers(vectors) : 0;
  for (const Rotation& rotation : rotations)
    most = std::max(most, rotation.training_numbers(vectors));
  return static_cast<std::size_t>(most) * sizeof(float);
}

std::span<const float> VectorIndex::rotated(std::span<const float> vectors, std::size_t count,
                                            std::vector<float>& memory, Products& products) const {
  for (std::size_t i = 0; i < count; ++i) {
    memory = rotations[i].apply(vectors, products);
    vectors = memory;
  }
  return vectors;
}

void VectorIndex::train(std::span<const float> vectors, Products& products) {
  if (trained()) return;
  const std::int64_t count = std::ssize(vectors) / columns(), fewest = fewest_vectors();
  if (count < fewest) {
    const auto* const ivf = std::get_if<IvfIndex>(&kind);
    fail(Exit::bad_config, "an index",
         ivf && ivf->in_lists ? concat(" of ", ivf->wanted, " lists") : std::string(),
         " is trained on at least ", fewest, " vectors; there are ", count);
  }
  products.expect_room(training_bytes(count), concat("training on ", count, " vectors"));
  for (std::size_t i = 0; i < rotations.size(); ++i) {
    std::vector<float> before;
    if (!rotations[i].trained())
      rotations[i].train(rotated(vectors, i, before, products), products);
  }
  std::vector<float> memory;
  const std::span<const float> numbers = rotated(vectors, rotations.size(), memory, products);
  std::visit([&](auto& index) { index.train(numbers, products); }, kind);
  if (refinement)
    std::visit([&](auto& index) { index.train(vectors, products); }, refinement->index);
}

std::int64_t VectorIndex::code_size() const {
  const auto size = [](const auto& index) { return index.code_size(); };
  return std::visit(size, kind) + (refinement ? std::visit(size, refinement->index) : 0);
}

std::vector<std::uint8_t> VectorIndex::encode(std::span<const float> vectors,
                                              Products& products) const {
  if (vectors.empty()) return {};
  const std::int64_t count = std::ssize(vectors) / columns();
  const ConstTensor here(vectors.data(), DType::f32, {count, columns()});
  const bool goes_there = !rotations.empty() || std::holds_alternative<IvfIndex>(kind);
  std::vector<std::uint8_t> codes =
      encode(goes_there ? products.rows(Products::kVectors, vectors, columns()) : here, products);
  if (!refinement) return codes;
  const std::vector<std::uint8_t> finer = std::visit(
      [&](const auto& index) { return index.encode(here, products); }, refinement->index);
  std::vector<std::uint8_t> both;
  for (std::int64_t i = 0; i < count; ++i)
    for (const auto* const part : {&std::as_const(codes), &finer}) {
      const std::int64_t size = std::ssize(*part) / count;
      both.insert(both.end(), part->begin() + i * size, part->begin() + (i + 1) * size);
    }
  return both;
}

bool VectorIndex::encodes_there() const {
  return !refinement && (!rotations.empty() || std::holds_alternative<IvfIndex>(kind));
}

std::vector<std::uint8_t> VectorIndex::encode(ConstTensor vectors, Products& products) const {
  Products::Use use = Products::kTurned;  // by turns
  for (const Rotation& rotation : rotations) {
    const Tensor turned = products.scratch(use, DType::f32, {vectors.shape()[0], rotation.out});
    rotation.apply(turned, vectors, products);
    vectors = turned;
    use = use == Products::kTurned ? Products::kTurnedAgain : Products::kTurned;
  }
  return std::visit([&](const auto& index) { return index.encode(vectors, products); }, kind);
}

void VectorIndex::add_codes(std::span<const std::uint8_t> codes, std::int64_t first) {
  if (codes.empty()) return;
  const auto add = [&](auto& to, std::span<const std::uint8_t> some) {
    std::visit([&](auto& index) { index.add_codes(some, first); }, to);
  };
  if (!refinement) return add(kind, codes);
  const std::int64_t each = code_size(),
                     coarse = std::visit([](const auto&index) { return index.code_size(); }, kind);
  std::vector<std::uint8_t> parts[2];
  for (std::int64_t i = 0; i < std::ssize(codes); ++i)
    parts[i % each < coarse ? 0 : 1].push_back(codes[static_cast<std::size_t>(i)]);
  add(kind, parts[0]);
  add(refinement->index, parts[1]);
}

// Whether both are of one kind and were trained as one; then `to` has the vectors of `other`, too.
static bool merge_kinds(auto& to, const auto& other) {
  return std::visit(
      [&]<class T>(T& index) {
        const T* const more = std::get_if<T>(&other);
        return more != nullptr && index.merge(*more);
      },
      to);
}

bool VectorIndex::merge(const VectorIndex& other) {
  const auto same = [](const Rotation& a, const Rotation& b) {
    return a.in == b.in && a.to_length_1 == b.to_length_1 && a.matrix == b.matrix &&
           a.bias == b.bias;
  };
  if (!std::ranges::equal(rotations, other.rotations, same) ||
      refinement.has_value() != other.refinement.has_value())
    return false;
  std::optional<Refinement> finer = refinement;
  if (finer && !merge_kinds(finer->index, other.refinement->index)) return false;
  if (!merge_kinds(kind, other.kind)) return false;
  refinement = std::move(finer);
  return true;
}

// The `count` nearest of what was found, by the refinement.
FoundVectors VectorIndex::refined(std::span<const float> of, const FoundVectors& found,
                                  std::int64_t count, Products& products) const {
  const std::int64_t rows = std::ssize(of) / columns(), each = std::ssize(found.ids) / rows;
  const auto* const flat = std::get_if<FlatIndex>(&refinement->index);
  const float sign = flat != nullptr && flat->inner ? -1.0F : 1.0F;
  FoundVectors result = {std::vector<std::int64_t>(static_cast<std::size_t>(rows * count), -1),
                         std::vector<float>(static_cast<std::size_t>(rows * count),
                                            std::numeric_limits<float>::max())};
  products.each(rows, [&](std::int64_t row) {
    const float* const vector = &of[static_cast<std::size_t>(row * columns())];
    std::vector<std::pair<float, std::int64_t>> ones;
    for (std::int64_t i = 0; i < each; ++i) {
      const std::int64_t id = found.ids[static_cast<std::size_t>(row * each + i)];
      if (id < 0) break;
      const float distance =
          sign * std::visit([&](const auto& index) { return index.distance(vector, id); },
                            refinement->index);
      // What is no number is farthest.
      ones.emplace_back(std::isnan(distance) ? std::numeric_limits<float>::infinity() : distance,
                        id);
    }
    std::ranges::sort(ones);
    for (std::size_t i = 0; i < std::min(ones.size(), static_cast<std::size_t>(count)); ++i) {
      const std::size_t at = static_cast<std::size_t>(row * count) + i;
      result.ids[at] = ones[i].second;
      result.distances[at] = sign * ones[i].first;
    }
  });
  return result;
}

FoundVectors VectorIndex::search(std::span<const float> of, const IndexSearch& options,
                                 Products& products) {
  return search_by(of, options, products,
                   [&](std::span<const float> vectors, const IndexSearch& first) {
                     return std::visit(
                         [&](auto& index) { return index.search(vectors, first, products); }, kind);
                   });
}

FoundVectors VectorIndex::search_by(std::span<const float> of, const IndexSearch& options,
                                    Products& products, const KindSearch& search) const {
  FoundVectors found;
  IndexSearch first = options;
  if (refinement) {
    const double factor = options.refine.value_or(static_cast<double>(refinement->factor));
    first.count =
        static_cast<std::int64_t>(std::clamp(static_cast<double>(options.count) * factor, 1.0,
                                             std::max(1.0, static_cast<double>(size()))));
  }
  const std::int64_t at_a_time =
      std::clamp<std::int64_t>(kFound / std::max<std::int64_t>(1, first.count), 1,
                               products.device() == Device::cpu ? kAtATime : kAtATimeOnGpu);
  for (std::int64_t begin = 0; begin < std::ssize(of) / columns(); begin += at_a_time) {
    products.poll();
    const auto rest = of.subspan(static_cast<std::size_t>(begin * columns()));
    const auto some =
        rest.first(std::min(rest.size(), static_cast<std::size_t>(at_a_time * columns())));
    std::vector<float> memory;
    const std::span<const float> numbers = rotated(some, rotations.size(), memory, products);
    FoundVectors here = search(numbers, first);
    if (refinement) here = refined(some, here, options.count, products);
    found.ids.insert(found.ids.end(), here.ids.begin(), here.ids.end());
    found.distances.insert(found.distances.end(), here.distances.begin(), here.distances.end());
  }
  return found;
}

}  // namespace mt
