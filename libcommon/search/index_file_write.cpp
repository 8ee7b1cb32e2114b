// Writing of faiss's files (index_file.h).
#include "search/index_file.h"

#include "search/code_blocks.h"

namespace mt {
namespace {

constexpr std::int64_t kUnused = 1 << 20;  // what faiss writes where it no longer has numbers

class IndexWriterOf {
 public:
  explicit IndexWriterOf(const std::function<void(Bytes)>& write) : write_(write) {}

  void write(const VectorIndex& index) {
    const auto* const flat = std::get_if<FlatIndex>(&index.kind);
    const bool inner = flat != nullptr && flat->inner;
    if (index.refinement) {
      word("IxRF");
      head(index.columns(), index.size(), inner);
    }
    if (!index.rotations.empty()) {
      word("IxPT");
      head(index.columns(), index.size(), inner);
      put(static_cast<std::int32_t>(index.rotations.size()));
      for (const Rotation& rotation : index.rotations) write_rotation(rotation);
    }
    std::visit([&](const auto& kind) { write_kind(kind); }, index.kind);
    if (!index.refinement) return;
    std::visit([&](const auto& kind) { write_kind(kind); }, index.refinement->index);
    put(index.refinement->factor);
  }

 private:
  void word(std::string_view text) { write_(as_bytes(text)); }
  template <class T>
  void put(T value) {
    write_(std::as_bytes(std::span<const T, 1>(&value, 1)));
  }
  template <class T>
  void numbers(const std::vector<T>& values) {
    write_(std::as_bytes(std::span(values)));
  }
  template <class T>
  void list(const std::vector<T>& values) {
    put(static_cast<std::uint64_t>(values.size()));
    numbers(values);
  }
  void head(std::int64_t columns, std::int64_t size, bool inner) {
    put(static_cast<std::int32_t>(columns));
    put(size);
    put(kUnused);
    put(kUnused);
    put(std::uint8_t{1});  // trained
    put(std::int32_t{inner ? 0 : 1});
  }
  void write_rotation(const Rotation& rotation) {
    if (rotation.to_length_1) {
      word("VNrm");
      put(2.0F);
      put(static_cast<std::int32_t>(rotation.in));
      put(static_cast<std::int32_t>(rotation.out));
      return put(std::uint8_t{1});
    }
    word("LTra");
    put(static_cast<std::uint8_t>(!rotation.bias.empty()));
    list(rotation.matrix);
    list(rotation.bias);
    put(static_cast<std::int32_t>(rotation.in));
    put(static_cast<std::int32_t>(rotation.out));
    put(std::uint8_t{1});
  }
  void write_kind(const FlatIndex& index) {
    word(index.inner ? "IxFI" : "IxF2");
    head(index.columns, index.size(), index.inner);
    list(index.vectors);
  }
  void write_kind(const ScalarIndex& index) {
    word("IxSQ");
    head(index.quantizer.columns, index.size(), false);
    write_scalar_quantizer(index.quantizer);
    list(index.codes);
  }
  void write_scalar_quantizer(const ScalarQuantizer& quantizer) {
    put(static_cast<std::int32_t>(quantizer.kind));
    put(std::int32_t{0});  // ranges are of the smallest and the largest,
    put(0.0F);             // and no wider
    put(static_cast<std::uint64_t>(quantizer.columns));
    put(static_cast<std::uint64_t>(quantizer.code_size()));
    list(quantizer.ranges);
  }
  void write_product_quantizer(const ProductQuantizer& quantizer) {
    put(static_cast<std::uint64_t>(quantizer.columns));
    put(static_cast<std::uint64_t>(quantizer.parts));
    put(static_cast<std::uint64_t>(quantizer.bits));
    list(quantizer.centres);
  }
  void write_products(const IvfIndex& index) {
    const ProductQuantizer& quantizer = *index.product();
    word(index.fast ? "IPfs" : "IxPq");
    head(quantizer.columns, index.count, false);
    write_product_quantizer(quantizer);
    if (index.fast) {
      const std::int64_t block = index.fast->block;
      put(index.fast->way);
      put(static_cast<std::int32_t>(block));
      put(static_cast<std::int32_t>(index.fast->queries));
      put((index.count + block - 1) / block * block);
      put(2 * quantizer.code_size());
      return write_blocks(index, index.lists.front());
    }
    list(index.lists.front().codes);
    put(std::int32_t{0});  // what is asked for is found by its distances from codes,
    put(std::uint8_t{0});  // not by bits of their numbers, which this would be of
    put(static_cast<std::int32_t>(quantizer.parts * quantizer.bits + 1));
  }
  void write_kind(const IvfIndex& index) {
    if (!index.in_lists) return write_products(index);
    const std::int64_t columns = index.centres.columns;
    word(index.fast ? "IwPf" : index.product() ? "IwPQ" : index.scalar() ? "IwSq" : "IwFl");
    head(columns, index.count, false);
    put(static_cast<std::uint64_t>(index.lists.size()));
    put(static_cast<std::uint64_t>(index.default_lists));
    if (index.graph) {
      const Hnsw& g = *index.graph;
      word("IHNf");
      head(columns, std::ssize(g.levels), false);
      list(g.probabilities);
      list(g.cumulative);
      list(g.levels);
      list(g.offsets);
      list(g.neighbors);
      for (const std::int32_t number : {g.entry, g.max_level, g.ef_construction, g.ef_search, 1})
        put(number);
    }
    write_kind(index.centres);
    put(std::uint8_t{0});   // no map of numbers
    put(std::uint64_t{0});  // in it
    if (const ProductQuantizer* const product = index.product()) {
      put(std::uint8_t{!index.of_whole});  // of what is left of the centre
      put(static_cast<std::uint64_t>(product->code_size()));
      if (index.fast) {
        put(static_cast<std::int32_t>(index.fast->block));
        put(2 * product->code_size());
        put(index.fast->way);
        put(index.fast->queries);
      }
      write_product_quantizer(*product);
    }
    if (const ScalarQuantizer* const scalar = index.scalar()) {
      write_scalar_quantizer(*scalar);
      put(static_cast<std::uint64_t>(scalar->code_size()));
      put(std::uint8_t{1});
    }
    if (index.fast)
      write_lists_of_blocks(index);
    else
      write_lists(index);
  }
  void write_blocks(const IvfIndex& index, const IvfIndex::List& of) {
    list(in_blocks(of.codes, index.bytes_in_list(), index.fast->block));
  }
  void write_lists_of_blocks(const IvfIndex& index) {
    const std::int64_t size = index.bytes_in_list(), block = index.fast->block;
    word("ilbl");
    constexpr std::int64_t kUnsaid = -1;  // the size of a code, which blocks need not have
    for (const std::int64_t number : {std::ssize(index.lists), kUnsaid, block, block * size})
      put(number);
    for (const IvfIndex::List& of : index.lists) {
      list(of.ids);
      write_blocks(index, of);
    }
  }
  void write_lists(const IvfIndex& index) {
    word("ilar");
    put(static_cast<std::uint64_t>(index.lists.size()));
    put(static_cast<std::uint64_t>(index.bytes_in_list()));
    std::vector<std::uint64_t> all, some;
    for (std::size_t i = 0; i < index.lists.size(); ++i) {
      all.push_back(index.lists[i].ids.size());
      if (all.back() > 0) some.insert(some.end(), {i, all.back()});
    }
    const bool full = some.size() / 2 > index.lists.size() / 2;
    word(full ? "full" : "sprs");
    list(full ? all : some);
    for (const IvfIndex::List& of : index.lists) {
      numbers(of.codes);
      numbers(of.ids);
    }
  }

  const std::function<void(Bytes)>& write_;
};

}  // namespace

void write_index(const VectorIndex& index, const std::function<void(Bytes)>& write) {
  IndexWriterOf(write).write(index);
}

}  // namespace mt
