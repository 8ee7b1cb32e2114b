// faiss's index strings (vector_index.h).
#include <charconv>
#include <string_view>

#include "base/error.h"
#include "search/vector_index.h"

namespace mt {
namespace {

class Reader {
 public:
  Reader(const std::string& option, const std::string& text, std::int64_t columns)
      : option_(option), text_(text), rest_(text), columns_(columns) {}

  VectorIndex read() {
    VectorIndex index;
    if (take("OPQ")) {
      Rotation rotation{.in = columns_, .out = columns_, .parts = number()};
      if (take("_")) rotation.out = number();
      if (rotation.in > 0 && rotation.out > rotation.in)
        refuse("expected at most the ", rotation.in, " columns of its vectors behind OPQ");
      columns_ = rotation.out;
      divides(rotation.parts);
      index.rotations.push_back(rotation);
      expect(",");
    }
    if (take("IVF")) {
      IvfIndex ivf;
      ivf.lists.resize(static_cast<std::size_t>(number()));
      ivf.centres.columns = columns_;
      if (take("_HNSW")) {
        const std::int64_t links = number();
        if (links < 2) refuse("expected HNSW with at least 2 links");
        ivf.graph.emplace(links);
      }
      expect(",");
      if (take("PQ")) {
        ivf.quantizer = {.columns = columns_, .parts = number()};
        divides(ivf.quantizer->parts);
        if (take("x") && number() != ProductQuantizer::kBits)
          refuse("expected codes of ", ProductQuantizer::kBits, " bits");
      } else {
        expect("Flat");
      }
      index.kind = std::move(ivf);
    } else {
      expect("Flat");
      index.kind = FlatIndex{.columns = columns_};
    }
    if (!rest_.empty()) expect("nothing");
    return index;
  }

 private:
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
    if (!take(word))
      refuse("expected [OPQm[_d],]Flat or [OPQm[_d],]IVFn[_HNSWm],Flat or ...,PQm, not \"", rest_,
             '"');
  }
  std::int64_t number() {
    constexpr std::int64_t kMost = 1 << 26;
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
