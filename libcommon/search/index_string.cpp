// faiss's index strings (vector_index.h).
#include <charconv>
#include <string_view>

#include "base/error.h"
#include "search/vector_index.h"

namespace mt {
namespace {

constexpr const char* kGrammar =
    "[PCAd,|OPQm[_d],|L2norm,][IVFn[k|M][_HNSWm],]CODE[,RFlat|,Refine(CODE)], and for CODE Flat, "
    "SQ8, SQ6, SQ4, SQfp16, SQbf16, PQm, PQmx4 or PQmx4fs[r][_b]";

class Reader {
 public:
  Reader(const std::string& option, const std::string& text, std::int64_t columns)
      : option_(option), text_(text), rest_(text), columns_(columns) {}

  VectorIndex read() {
    VectorIndex index;
    const std::int64_t columns = columns_;
    while (rest_.starts_with("OPQ") || rest_.starts_with("PCA") || rest_.starts_with("L2norm")) {
      if (std::ssize(index.rotations) == VectorIndex::kMostRotations)
        refuse("expected at most ", VectorIndex::kMostRotations, " of PCA, OPQ and L2norm");
      index.rotations.push_back(rotation());
      expect(",");
    }
    if (take("IVF"))
      index.kind = ivf();
    else if (take("PQ"))
      index.kind = products();
    else if (const auto scalar = scalar_codes())
      index.kind = ScalarIndex{.quantizer = *scalar};
    else
      index.kind = flat();
    columns_ = columns;
    if (take(",RFlat")) {
      index.refinement.emplace(FlatIndex{.columns = columns});
    } else if (take(",Refine(")) {
      if (const auto scalar = scalar_codes())
        index.refinement.emplace(ScalarIndex{.quantizer = *scalar});
      else
        index.refinement.emplace(flat());
      expect(")");
    }
    if (!rest_.empty()) expect("nothing");
    return index;
  }

 private:
  static constexpr std::int64_t kMost = 1 << 26;  // of all numbers

  Rotation rotation() {
    Rotation rotation{.in = columns_, .out = columns_};
    if (take("L2norm")) {
      rotation.to_length_1 = true;
      return rotation;
    }
    if (take("OPQ")) {
      rotation.parts = number();
      if (take("_")) rotation.out = number();
    } else {
      take("PCA");
      if (take("W")) rotation.power = -0.5F;
      rotation.turned = take("R");
      rotation.out = number();
    }
    if (rotation.in > 0 && rotation.out > rotation.in)
      refuse("expected at most the ", rotation.in, " columns of its vectors behind ",
             rotation.parts > 0 ? "OPQ" : "PCA");
    columns_ = rotation.out;
    if (rotation.parts > 0) divides(rotation.parts);
    return rotation;
  }
  IvfIndex ivf() {
    IvfIndex ivf;
    ivf.wanted = number();
    if (take("k"))
      ivf.wanted *= 1 << 10;
    else if (take("M"))
      ivf.wanted *= 1 << 20;
    if (ivf.wanted > kMost) refuse("expected at most ", kMost, " lists");
    ivf.centres.columns = columns_;
    if (take("_HNSW")) {
      const std::int64_t links = number();
      if (links < 2) refuse("expected HNSW with at least 2 links");
      ivf.graph.emplace(links);
    }
    expect(",");
    if (take("PQ")) {
      product_codes(ivf);
    } else if (const auto scalar = scalar_codes()) {
      ivf.quantizer = *scalar;
    } else {
      expect("Flat");
    }
    return ivf;
  }
  IvfIndex products() {
    IvfIndex all{.in_lists = false};
    all.wanted = 1;
    all.centres.columns = columns_;
    product_codes(all);
    return all;
  }
  void product_codes(IvfIndex& index) {
    ProductQuantizer codes{.columns = columns_, .parts = number()};
    divides(codes.parts);
    if (take("x")) codes.bits = number();
    if (codes.bits != 8 && codes.bits != 4) refuse("expected codes of 8 or 4 bits");
    index.quantizer = codes;
    if (codes.bits != 4 || !take("fs")) return;
    index.of_whole = !index.in_lists || !take("r");
    index.fast.emplace();
    if (take("_")) index.fast->block = number();
    if (index.fast->block % FastScan::kBlock != 0 || index.fast->block > FastScan::kMostBlock)
      refuse("expected blocks of a multiple of ", FastScan::kBlock, " up to ", FastScan::kMostBlock,
             ", not ", index.fast->block);
  }
  FlatIndex flat() {
    expect("Flat");
    return {.columns = columns_};
  }
  std::optional<ScalarQuantizer> scalar_codes() {
    for (const auto& [name, kind] : ScalarQuantizer::kNames)
      if (take(name)) return ScalarQuantizer{.kind = kind, .columns = columns_};
    return {};
  }
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail(Exit::usage, option_, " ", text_, ": ", parts...);
  }
  bool take(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  void expect(std::string_view word) {
    if (!take(word)) refuse("expected ", kGrammar, ", not \"", rest_, '"');
  }
  std::int64_t number() {
    std::int64_t value = 0;
    const auto end = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (end.ec != std::errc() || value < 1 || value > kMost)
      refuse("expected a number of 1 to ", kMost, " in front of \"", rest_, '"');
    rest_.remove_prefix(static_cast<std::size_t>(end.ptr - rest_.data()));
    return value;
  }
  void divides(std::int64_t parts) const {
    if (columns_ % parts != 0) refuse(columns_, " columns have no ", parts, " equal parts");
  }

  const std::string& option_;
  const std::string& text_;
  std::string_view rest_;
  std::int64_t columns_;
};

}  // namespace

VectorIndex make_index(const std::string& option, const std::string& text, std::int64_t columns) {
  return Reader(option, text, columns).read();
}

}  // namespace mt
